"""A cable that damages packets, retrains, or came up narrower or slower than its like (R54)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from collectors.model.catalogue import infiniband as rows
from collectors.model.catalogue import rdma
from collectors.model.entities import Entity, Interface, Port, Wire, display, link
from collectors.model.metric import Metric
from collectors.model.units import quantity
from tuner.diagnosis.credits import credit_waits, is_elsewhere
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.rule import Rule, beside_the_point, found, grew, verdict
from tuner.diagnosis.view import FabricView, Telemetry

# Events per hour that are no longer chance (IBTA: 10^-12 is 120 symbol errors an hour at EDR)
_LIMITS: Final[tuple[tuple[Metric, float], ...]] = (
    (rdma.SYMBOL_ERRORS, 120),
    (rdma.RX_ERRORS, 10),
    (rdma.LINK_RECOVERY, 2),
    (rdma.LINK_DOWNED, 2),
    (rdma.LOCAL_INTEGRITY, 1),
    (rows.RX_LOCAL_PHYSICAL, 10),
    (rows.FEC_UNCORRECTED, 1),
)
MIN_EVENTS: Final = 2
RAW_BER: Final = 1e-5  # corrected bits per bit before FEC: NVIDIA's line for a link to look at
SYMBOL_BITS: Final = 10  # of RS(544,514); at least one of them was wrong


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Look at both ends of each cable that an InfiniBand sweep found."""
    if is_elsewhere(telemetry, fabric):
        return beside_the_point(rule)
    lanes = telemetry.latest_all(rows.LANES.name)
    rates = telemetry.latest_all(rows.DATA_RATE.name)
    usual = _usual(telemetry, fabric)
    roots = {root.wire: root for root in credit_waits(telemetry, fabric).blamed()}
    findings: dict[Entity, Finding] = {}
    judged = False
    for entity in lanes:
        far = fabric.peer(entity) if isinstance(entity, Wire) else None
        if not isinstance(entity, Wire) or far is None:
            continue
        subject = link(entity, far)
        if subject in findings:
            continue
        judged = True
        ends = (entity, far)
        errors = [item for end in ends for item in _errors(telemetry, end)]
        below = [item for end in ends for item in _below(telemetry, fabric, end, usual)]
        raw = [item for end in ends for item in _raw_errors(telemetry, end)]
        if errors or below or raw:
            slow = bool(below) and rates.get(entity) is not None
            victims = [w for end in ends if end in roots for w in roots[end].victims]
            findings[subject] = _finding(
                rule, subject, ends, errors, below, raw, victims, slow=slow
            )
    missing = () if judged else ("width and cables of InfiniBand ports",)
    return verdict(rule, findings.values(), judged=judged, missing=missing)


def _errors(telemetry: Telemetry, end: Wire) -> list[Evidence]:
    made = []
    for metric, limit in _LIMITS:
        growth = telemetry.growth(metric.name, end)
        if growth is None or growth.seconds <= 0:
            continue
        if growth.total >= MIN_EVENTS and growth.rate * 3600 >= limit:
            made.append(grew(metric, end, growth, f"< {limit:g}/h"))
    return made


def _raw_errors(telemetry: Telemetry, end: Wire) -> list[Evidence]:
    """Return the error rate before FEC where it is high: the link still works, but not for long."""
    symbols = telemetry.growth(rows.FEC_SYMBOLS.name, end)
    rate = telemetry.latest(rows.DATA_RATE.name, end)
    if symbols is None or rate is None or rate.value <= 0:
        return []
    bits_wrong = symbols.rate / rate.value
    if bits_wrong < RAW_BER:
        return []
    note = f"raw bit error rate {bits_wrong:.1e}, at least"
    item = grew(rows.FEC_SYMBOLS, end, symbols, f"bit error rate < {RAW_BER:g}")
    return [Evidence(*_fields(item), note=note)]


def _fields(item: Evidence) -> tuple[str, Entity, float | str, str, str, int, int]:
    return (
        item.name,
        item.entity,
        item.value,
        item.unit,
        item.threshold,
        item.since_ns,
        item.until_ns,
    )


def _group(telemetry: Telemetry, fabric: FabricView, end: Wire) -> tuple[object, object]:
    """Return what kind of cable it is: the tiers of its ends, hosts below all."""

    def tier(wire: Wire | None) -> float:
        if not isinstance(wire, Interface):
            return -1.0
        known = telemetry.attributes(wire.switch).get("ib_tier")
        return float(known.value) if known and isinstance(known.value, (int, float)) else -2.0

    low, high = sorted((tier(end), tier(fabric.peer(end))))
    return low, high


def _usual(
    telemetry: Telemetry, fabric: FabricView
) -> dict[tuple[object, object], tuple[float, float]]:
    """Return the most common (lanes, data rate) of each kind of cable, where most agree."""
    seen: dict[tuple[object, object], Counter[tuple[float, float]]] = {}
    rates = telemetry.latest_all(rows.DATA_RATE.name)
    for entity, lanes in telemetry.latest_all(rows.LANES.name).items():
        rate = rates.get(entity)
        if isinstance(entity, Wire) and rate is not None:
            group = _group(telemetry, fabric, entity)
            seen.setdefault(group, Counter())[lanes.value, rate.value] += 1
    usual = {}
    for group, counted in seen.items():
        pair, times = counted.most_common(1)[0]
        if times * 2 > counted.total() and counted.total() >= 4:
            usual[group] = pair
    return usual


def _below(
    telemetry: Telemetry,
    fabric: FabricView,
    end: Wire,
    usual: dict[tuple[object, object], tuple[float, float]],
) -> list[Evidence]:
    expected = usual.get(_group(telemetry, fabric, end))
    lanes = telemetry.latest(rows.LANES.name, end)
    rate = telemetry.latest(rows.DATA_RATE.name, end)
    if expected is None or lanes is None or rate is None:
        return []
    if lanes.value < expected[0]:
        return [
            Evidence(rows.LANES.name, end, lanes.value, "count", f"{expected[0]:g} as its like")
        ]
    if rate.value < 0.95 * expected[1]:
        text = f"{quantity(expected[1], 'bps')} as its like"
        return [Evidence(rows.DATA_RATE.name, end, rate.value, "bps", text)]
    return []


def _finding(
    rule: Rule,
    subject: Entity,
    ends: tuple[Wire, Wire],
    errors: list[Evidence],
    below: list[Evidence],
    raw: list[Evidence],
    victims: list[Wire],
    *,
    slow: bool,
) -> Finding:
    what = []
    if below:
        first = below[0]
        text = f"{first.value:g} lanes" if first.name == rows.LANES.name else "a lower speed"
        what.append(f"runs on {text} ({first.threshold})")
    if errors:
        what.append("damages what it carries or retrains")
    if raw and not errors:
        what.append("needs much error correction")
    explains: list[tuple[str, Entity]] = [("slow-link", subject)]
    for end in ends:
        explains += [("link-errors", end), ("ib-credit-loss", end), ("link-down", end)]
        if slow or errors:
            explains.append(("ib-oversubscribed-link", end))
            explains.append(("ib-routing-hot-spot", end))
        if isinstance(end, Port) and (slow or errors):
            explains.append(("ib-slow-receiver", end))
    return found(
        rule,
        subject,
        "critical" if errors or below else "warning",
        0.95 if below and errors else 0.9 if errors else 0.8,
        f"the cable {display(subject)} {' and '.join(what)}"
        + (f"; {len(victims)} ports wait for it" if victims else ""),
        [*below, *errors, *raw],
        affected=[*ends, *(wire for wire in victims if wire not in ends)],
        explains=explains,
    )


RULE: Final = Rule(
    id="ib-bad-cable",
    section="link",
    title="InfiniBand cable that is bad or degraded",
    finds="cables with errors, retraining, much error correction, fewer lanes or a lower speed "
    "than their like",
    quiet_when="errors stay under their hourly limits, and width and speed are those of most "
    "cables between the same tiers",
    cannot_tell_when="no cable's ends are known, or neither width nor errors were read",
    refutes="the cable is meant to be narrower or slower, or was being re-plugged in this window",
    judge=judge,
    answers=("R54",),
)

"""One virtual lane waits while the others go: its arbitration starves it (R52)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from collectors.model.catalogue import infiniband as rows
from collectors.model.entities import Slot, Wire, display
from tuner.diagnosis.credits import is_elsewhere
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.rule import Rule, beside_the_point, found, grew, verdict
from tuner.diagnosis.view import FabricView, Growing, Telemetry

MIN_SHARE: Final = 0.05  # of time
ONE_LANE: Final = 0.80  # of all waits of the port
UNLIMITED: Final = 255


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find ports where one lane has nearly all the waits, and say what its arbitration is."""
    if is_elsewhere(telemetry, fabric):
        return beside_the_point(rule)
    ticks = telemetry.latest_all(rows.WAIT_TICK.name)
    by_port: dict[Wire, dict[Slot, Growing]] = {}
    for entity, growth in telemetry.growth_all(rows.VL_TX_WAIT.name).items():
        if isinstance(entity, Slot) and isinstance(entity.parent, Wire):
            by_port.setdefault(entity.parent, {})[entity] = growth
    findings = []
    for wire, lanes in by_port.items():
        total = sum(growth.total for growth in lanes.values())
        worst, growth = max(lanes.items(), key=lambda item: item[1].total)
        tick = ticks.get(wire)
        if tick is None or growth.seconds <= 0 or not total:
            continue
        share = growth.total * tick.value / growth.seconds
        # 16-bit counters stop early: a lane that stands at its maximum waited at least that
        if (share >= MIN_SHARE or growth.saturated) and growth.total >= ONE_LANE * total:
            found_here = _finding(rule, telemetry, wire, worst, growth, share)
            if found_here is not None:
                findings.append(found_here)
    missing = () if by_port else ("transmit waits by virtual lane, read twice",)
    return verdict(rule, findings, judged=bool(by_port), missing=missing)


def _finding(
    rule: Rule, telemetry: Telemetry, wire: Wire, lane: Slot, growth: Growing, share: float
) -> Finding | None:
    settings = telemetry.settings(wire)

    def number(name: str) -> float | None:
        known = settings.get(name)
        return float(known.value) if known and isinstance(known.value, (int, float)) else None

    if (number("ib_operational_vls") or 2) < 2:
        return None  # one lane has all waits because there is no other
    high = _weight({n: s.value for n, s in settings.items()}, "ib_vl_arbitration_high", lane.index)
    low = _weight({n: s.value for n, s in settings.items()}, "ib_vl_arbitration_low", lane.index)
    limit = number("ib_vl_high_limit")
    why, sure = "", 0.5
    if high == 0 and low == 0:
        why, sure = "it has no weight in either arbitration table", 0.9
    elif high == 0 and limit == UNLIMITED:
        why, sure = "high-priority lanes are not limited (high limit 255) and it is not one", 0.8
    evidence = [grew(rows.VL_TX_WAIT, lane, growth, f"< {ONE_LANE:.0%} of the port's waits")]
    for name, value in (("high", high), ("low", low)):
        if value is not None:
            evidence.append(Evidence(f"ib_vl_arbitration_{name}", lane, value, "count"))
    if limit is not None:
        evidence.append(Evidence("ib_vl_high_limit", wire, limit, "count"))
    return found(
        rule,
        lane,
        "warning",
        sure,
        f"virtual lane {lane.index} of {display(wire)} waits {min(share, 1.0):.0%} of the time, "
        f"the other lanes hardly at all{': ' + why if why else ''}",
        evidence,
        affected=[wire],
    )


def _weight(settings: Mapping[str, object], name: str, index: int) -> float | None:
    weights = settings.get(name)
    if not isinstance(weights, tuple):
        return None
    return float(weights[index]) if index < len(weights) else 0.0


RULE: Final = Rule(
    id="ib-vl-starvation",
    section="config",
    title="Starved virtual lane",
    finds="ports of which one virtual lane has nearly all the transmit waits",
    quiet_when=f"no lane has {ONE_LANE:.0%} of its port's waits and waits {MIN_SHARE:.0%} of time",
    cannot_tell_when="no device counts transmit waits by virtual lane",
    refutes="that lane is the only one that carries traffic",
    judge=judge,
    answers=("R52",),
)

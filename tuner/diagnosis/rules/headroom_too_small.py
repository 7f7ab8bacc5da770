"""A lossless priority drops although its peer was told to stop: headroom too small (R14)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from collectors.model.catalogue import switch as rows
from collectors.model.entities import Interface, Slot, display
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.load import loads
from tuner.diagnosis.lossless import (
    Drops,
    are_counted,
    losses_behind,
    lossless_drops,
    usual_lossless,
)
from tuner.diagnosis.place import only_software_rdma
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.view import FabricView, Telemetry
from tuner.models.headroom import headroom_parts

MIN_DROPS: Final = 1  # a lossless priority loses nothing
ODD: Final = 0.7  # of the headroom that most ports of that speed have
USED_UP: Final = 0.98  # watermark over headroom
_XOFF: Final = "xoff_bytes"
_CABLE: Final = "pfc_cable_length_metres"


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Ask of each switch that drops a lossless priority which of its ports lack headroom."""
    lossless = usual_lossless(telemetry)
    if not lossless and only_software_rdma(telemetry, fabric):
        return beside_the_point(rule)
    missing = []
    if not lossless:
        missing.append("PFC priorities of most ports")
    if not are_counted(telemetry):
        missing.append("drops by queue or priority group of a switch")
    # Where a watchdog lets go of a pause, headroom fills up whatever its size.
    watched = bool(telemetry.growing(rows.WATCHDOG_STORMS.name))
    losing = lossless_drops(telemetry)
    short = _short(telemetry, fabric, lossless, watched=watched) if losing else {}
    findings: list[Finding] = []
    for switch, drops in losing.items():
        suspects = [place for place in short if place.switch == switch]
        sure = [place for place in drops.at_ingress if place in suspects]
        places = sure or suspects or list(drops.at_ingress)
        if drops.total < MIN_DROPS or not (suspects or (drops.at_ingress and not watched)):
            continue
        findings.append(_finding(rule, drops, places, short, sure=bool(suspects)))
    return verdict(rule, findings, judged=not missing, missing=missing)


def _finding(
    rule: Rule,
    drops: Drops,
    places: list[Interface],
    short: Mapping[Interface, list[Evidence]],
    *,
    sure: bool,
) -> Finding:
    worst = max(places, key=lambda place: drops.at_ingress.get(place, (0.0, None))[0])
    own = [item for place in places[:4] for item in short.get(place, ())]
    many = len(places) > 1
    text = f"{len(places)} ports of {display(worst.switch)}" if many else display(worst)
    return found(
        rule,
        worst.switch if many else worst,
        "critical",
        0.85 if sure and drops.at_ingress else 0.75 if sure else 0.6,
        f"{text} {'drop' if many else 'drops'} {drops.total:.0f} packets of a lossless priority "
        f"after telling {'their peers' if many else 'its peer'} to stop: headroom is too small",
        [*own, *drops.evidence],
        affected=places,
        explains=[
            *(claim for place in places for claim in losses_behind(place)),
            *(claim for place in drops.at_egress for claim in losses_behind(place)),
            ("pool-exhausted", worst.switch),
        ],
    )


def _short(
    telemetry: Telemetry, fabric: FabricView, lossless: frozenset[int], *, watched: bool
) -> dict[Interface, list[Evidence]]:
    """Return ports with less headroom than their like, than a pause takes, or used up."""
    speeds = loads(telemetry, fabric).speeds
    xoffs = {
        slot: float(setting.value)
        for slot, setting in telemetry.setting_all(_XOFF).items()
        if isinstance(slot, Slot) and isinstance(slot.parent, Interface)
        if slot.index in lossless and isinstance(setting.value, (int, float))
    }
    usual: dict[float, Counter[float]] = {}
    for slot, xoff in xoffs.items():
        usual.setdefault(speeds.get(slot.parent, 0.0), Counter())[xoff] += 1  # type: ignore[arg-type]
    found_short: dict[Interface, list[Evidence]] = {}
    for slot, xoff in xoffs.items():
        place = slot.parent
        if not isinstance(place, Interface):
            continue
        speed = speeds.get(place, 0.0)
        evidence = list(_reasons(telemetry, slot, xoff, speed, usual[speed], watched=watched))
        if evidence:
            found_short[place] = evidence
    return found_short


def _reasons(
    telemetry: Telemetry,
    slot: Slot,
    xoff: float,
    speed: float,
    usual: Counter[float],
    *,
    watched: bool,
) -> Iterable[Evidence]:
    most, times = usual.most_common(1)[0]
    if times * 2 > usual.total() and xoff < ODD * most:
        yield Evidence(_XOFF, slot, xoff, "bytes", f"{most:.0f} as most ports of its speed")
    length = telemetry.settings(slot.parent).get(_CABLE)
    metres = float(length.value) if length and isinstance(length.value, (int, float)) else 0.0
    try:
        needed = headroom_parts(speed, metres).total_bytes
    except ValueError:  # no standard delay for this speed
        needed = 0.0
    if xoff < needed:
        yield Evidence(_XOFF, slot, xoff, "bytes", f">= {needed:.0f} for {metres:g} m (802.1Qbb)")
    seen = telemetry.highest_all(rows.GROUP_HEADROOM_MAX.name).get(slot)
    if not watched and seen is not None and xoff > 0 and seen.value >= USED_UP * xoff:
        yield Evidence(rows.GROUP_HEADROOM_MAX.name, slot, seen.value, "bytes", f"< {xoff:.0f}")


RULE: Final = Rule(
    id="headroom-too-small",
    section="config",
    title="PFC headroom too small",
    finds="ports of switches that drop a lossless priority and have less headroom than most ports "
    "of their speed or than the pause takes to work, or have used all of it",
    quiet_when="no lossless priority drops at a switch, or headroom is as large as it must be",
    cannot_tell_when="drops by queue or group, or the lossless priorities, are not known",
    refutes="the shared pool was exhausted, or the peer does not obey PFC at all",
    judge=judge,
    answers=("R14",),
)

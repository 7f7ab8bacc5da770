"""The answer of a search as one recommendation: marking and rate control tuned together.

The settings were tried together and have one effect together, so they are one decision. It is
optional: nothing is broken without it, and it touches the whole fleet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from collectors.model.entities import Entity, Interface, Slot
from collectors.model.facts import Value
from tuner.advice.cure import part_of
from tuner.advice.cures.configuration import ALPHA, EXPONENT, as_knob
from tuner.advice.cures.congestion import ECN
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.norm import rate_bps, runs_dcqcn
from tuner.advice.recommendation import Effect, Part, Recommendation
from tuner.advice.search.candidate import changed_settings
from tuner.advice.search.search import Found
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.view import FabricView, Telemetry

ALIKE: Final = 0.01  # of a value: a smaller difference is none
SURE: Final = 0.8  # at most: a model of the fabric has said so, not the fabric


def joint_change(
    findings: Sequence[Finding],
    telemetry: Telemetry,
    fabric: FabricView,
    found: Found,
    line_bps: float,
    effects: Iterable[Effect],
) -> Recommendation | None:
    """Return what a search found as one change of all places, None where no place is known.

    Thresholds were found for ports of `line_bps` and scale with speed.
    """
    best = found.best.candidate
    parts: list[Part] = []
    for knob, value in changed_settings(found.current.candidate, best).items():
        groups: dict[tuple[Value | None, Value], list[Entity]] = {}
        for place, was in homes(telemetry, fabric, knob):
            wanted = value
            if knob in ECN[:2] and isinstance(value, (int, float)):
                wanted = round(value * (rate_bps(telemetry, place) or line_bps) / line_bps)
            if not _alike(was, wanted) and KNOBS[knob].unfit(wanted) == "":
                groups.setdefault((was, wanted), []).append(place)
        parts += [_part(knob, was, wanted, there) for (was, wanted), there in groups.items()]
    if not parts:
        return None
    first, lead = parts[0], found.gain
    places = {place for part in parts for place in part.places}
    queues = sum(isinstance(place, Slot) for place in places)
    made = Recommendation(
        first.knob, first.places[0], first.current, first.proposed, first.unit,
        f"tune marking, rate control and buffers ({best.name}, the best of {found.evaluations} "
        f"simulated runs: {lead.mean:+.3f} ± {2 * lead.scatter:.3f} of score)",
        tuple(finding.id for finding in findings),
        tuple(item for finding in findings for item in finding.evidence),
        tuple(effects),
        min(SURE, *(finding.confidence for finding in findings)),
        "medium",
        f"{len(places) - queues} NICs and {queues} queues are changed together: begin with one "
        "rack, and go on when its pauses and completion times are as predicted",
        "", "",
        tuple(f"the running value of {part.knob}" for part in parts if part.current is None),
        joint=tuple(parts),
        optional=True,
        name="tuning",
    )  # fmt: skip
    return made.of(parts)


def _part(knob: str, now: Value | None, wanted: Value, places: Sequence[Entity]) -> Part:
    if isinstance(wanted, float):
        wanted = float(f"{wanted:.6g}")  # of registers' units: 0.00019, not 0.00018999999999999998
    return part_of(knob, places, now, wanted)


def _alike(now: Value | None, wanted: Value) -> bool:
    numbers = isinstance(now, (int, float)) and isinstance(wanted, (int, float))
    if not numbers or isinstance(wanted, bool):
        return now == wanted
    return abs(float(now) - float(wanted)) <= ALIKE * abs(float(wanted))  # type: ignore[arg-type]


def homes(
    telemetry: Telemetry, fabric: FabricView, knob: str
) -> Iterable[tuple[Entity, Value | None]]:
    """Yield every place that a knob of the search is set at, with its value now."""
    if knob.startswith("dcqcn_"):
        for port in fabric.ports():
            setting = telemetry.settings(port).get(knob)
            if runs_dcqcn(telemetry, port):
                yield port, None if setting is None else setting.value
        return
    if knob == EXPONENT:
        for name in (EXPONENT, ALPHA):
            for place, setting in telemetry.setting_all(name).items():
                if isinstance(place, Slot) and place.kind == "priority_group":
                    yield place, as_knob(name, setting.value, setting.value)[1]
        return
    for place, enabled in telemetry.setting_all("ecn_enabled").items():
        if isinstance(place, Slot) and isinstance(place.parent, Interface):
            setting = telemetry.settings(place).get(knob)
            if enabled.value or knob == "ecn_enabled" or setting is not None:
                yield place, None if setting is None else setting.value

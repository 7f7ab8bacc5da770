"""A link is slower than its other end or than its like (R32)."""

from __future__ import annotations

from collections.abc import Hashable
from statistics import median
from typing import Final

from collectors.model.catalogue import interface as rows
from collectors.model.entities import Entity, Interface, Slot, Wire, display, link
from collectors.model.units import quantity
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.load import unequal_speeds
from tuner.diagnosis.place import interface_of
from tuner.diagnosis.rule import Rule, found, verdict
from tuner.diagnosis.tiers import tiers
from tuner.diagnosis.view import FabricView, Telemetry

SLOW: Final = 0.6  # of the median of its like
RATE: Final = "queue_rate_bps"


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Compare the speeds of both ends of each cable, then each interface with its like."""
    unequal, compared = unequal_speeds(telemetry, fabric)
    findings: dict[Entity, Finding] = {link(*ends): _ends(rule, ends) for ends in unequal}
    # Where the slowest of all is not far below the fastest, nobody is far below its like.
    groups = [] if compared and _spread(telemetry) >= SLOW else _groups(telemetry, fabric)
    for members in groups:
        usual = median(members.values())
        for slot, rate in members.items():
            if rate < SLOW * usual:
                place: Entity = interface_of(slot) or slot
                findings.setdefault(place, _odd(rule, fabric, slot, place, rate, usual))
    judged = compared or bool(groups)
    missing = () if judged else ("speed of both ends of a cable",)
    return verdict(rule, findings.values(), judged=judged, missing=missing)


def _spread(telemetry: Telemetry) -> float:
    """Return the lowest by the highest rate of all interfaces and queues."""
    _, read = telemetry.value_table(rows.SPEED.name)
    told = [v for v in telemetry.alike(RATE) if isinstance(v, (int, float)) and v]
    read = read[read != 0]
    ends = [*told, float(read.min()), float(read.max())] if len(read) else told
    return min(ends) / max(ends)


def _groups(telemetry: Telemetry, fabric: FabricView) -> list[dict[Entity, float]]:
    """Return interfaces that are alike, with their rate, three or more each.

    Those of one switch that face hosts are, and all those that lead from one tier to another.
    """
    speeds = telemetry.latest_all(rows.SPEED.name)
    rated: dict[Entity, float] = {wire: seen.value for wire, seen in speeds.items() if seen.value}
    for slot, setting in telemetry.setting_all(RATE).items():
        if isinstance(slot, Slot) and isinstance(setting.value, (int, float)):
            rated.pop(slot.parent, None)
            rated[slot] = float(setting.value)
    by_likeness: dict[Hashable, dict[Entity, float]] = {}
    level = tiers(telemetry, fabric)
    for entity, rate in rated.items():
        interface = interface_of(entity)
        if interface is None or not rate:
            continue
        far = fabric.peer(interface)
        if far is None:
            continue
        like: Hashable = interface.switch
        if isinstance(far, Interface):
            like = (level.get(interface.switch), level.get(far.switch))
        by_likeness.setdefault(like, {})[entity] = rate
    return [members for members in by_likeness.values() if len(members) >= 3]


def _ends(rule: Rule, speeds: dict[Wire, float]) -> Finding:
    cable = link(*speeds)
    slow, fast = sorted(speeds, key=speeds.__getitem__)
    return found(
        rule,
        cable,
        "critical",
        0.9,
        f"{display(slow)} runs at {quantity(speeds[slow], 'bps')}, its other end "
        f"{display(fast)} at {quantity(speeds[fast], 'bps')}",
        [Evidence(rows.SPEED.name, end, speeds[end], "bps", "equal ends") for end in (slow, fast)],
        affected=list(speeds),
        explains=_effects(cable),
    )


def _odd(
    rule: Rule, fabric: FabricView, slot: Entity, place: Entity, rate: float, usual: float
) -> Finding:
    far = fabric.peer(place) if isinstance(place, Interface) else None
    name = RATE if isinstance(slot, Slot) else rows.SPEED.name
    return found(
        rule,
        place,
        "critical",
        0.9,
        f"{display(place)} runs at {quantity(rate, 'bps')}, its like at {quantity(usual, 'bps')}",
        [
            Evidence(name, slot, rate, "bps", f">= {SLOW:.0%} of its like"),
            Evidence(name, slot, usual, "bps", note="median of its like"),
        ],
        affected=[far] if far is not None else [],
        explains=[
            *_effects(
                place if not isinstance(place, Interface) or far is None else link(place, far)
            ),
            *(
                (effect, end.switch)
                for end in (place, far)
                if isinstance(end, Interface)
                for effect in ("ecmp-imbalance", "unequal-capacity")
            ),
        ],
    )


def _effects(cable: Entity) -> list[tuple[str, Entity]]:
    """Return what the end of a slow cable suffers: it fills up like any other bottleneck."""
    return [
        (rule, cable)
        for rule in (
            "path-marks", "queue-drops", "loss-on-path", "pause-root", "incast", "slow-receiver",
            "pfc-before-ecn", "marking-saturated",
        )
    ]  # fmt: skip


RULE: Final = Rule(
    id="slow-link",
    section="link",
    title="Link slower than its other end or its like",
    finds="cables with two speeds; interfaces far below the median of those of their switch that "
    "face hosts, or of those between the same tiers",
    quiet_when="both ends agree, and no interface is under 60 % of its like",
    cannot_tell_when="no cable's speed is known at both ends and no switch has three like ports",
    refutes="the interface is meant to be slower (storage, management)",
    judge=judge,
    answers=("R32",),
)

"""A link is slower than its other end or than its like (R32)."""

from __future__ import annotations

from collections.abc import Hashable
from statistics import median
from typing import Final

from collectors.model.catalogue import interface as rows
from collectors.model.entities import Entity, Interface, Link, Slot, Wire, display, link
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.place import interface_of, unequal_ends
from tuner.diagnosis.rule import Rule, found, verdict
from tuner.diagnosis.tiers import tiers
from tuner.diagnosis.view import FabricView, Telemetry

SLOW: Final = 0.6  # of the median of its like
RATE: Final = "queue_rate_bps"


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Compare the speeds of both ends of each cable, then each interface with its like."""
    speeds = {
        wire: seen.value
        for wire, seen in telemetry.latest_all(rows.SPEED.name).items()
        if seen.value
    }
    unequal, compared = unequal_ends(fabric, speeds)
    findings: dict[Entity, Finding] = {
        cable: _ends(rule, cable, ends, speeds) for cable, ends in unequal.items()
    }
    groups, judged = _groups(telemetry, fabric, speeds)
    for members in groups:
        usual = median(members.values())
        for slot, rate in members.items():
            if rate < SLOW * usual:
                place: Entity = interface_of(slot) or slot
                findings.setdefault(place, _odd(rule, fabric, slot, place, rate, usual))
    return verdict(
        rule,
        findings.values(),
        judged=judged or compared > 0,
        missing=() if judged or compared else ("speed of both ends of a cable",),
    )


def _groups(
    telemetry: Telemetry, fabric: FabricView, speeds: dict[Entity, float]
) -> tuple[list[dict[Entity, float]], bool]:
    """Return interfaces that are alike, with their rate, three or more each.

    Those of one switch that face hosts are, and all those that lead from one tier to another.
    """
    rated: dict[Entity, float] = dict(speeds)
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
    groups = [members for members in by_likeness.values() if len(members) >= 3]
    return groups, bool(groups)


def _ends(rule: Rule, cable: Link, ends: tuple[Wire, Wire], speeds: dict[Entity, float]) -> Finding:
    slow, fast = sorted(ends, key=lambda end: speeds[end])
    return found(
        rule,
        cable,
        "critical",
        0.9,
        f"{display(slow)} runs at {_gbps(speeds[slow])}, its other end {display(fast)} at "
        f"{_gbps(speeds[fast])}",
        [Evidence(rows.SPEED.name, end, speeds[end], "bps", "equal ends") for end in (slow, fast)],
        affected=ends,
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
        f"{display(place)} runs at {_gbps(rate)}, its like at {_gbps(usual)}",
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


def _gbps(bps: float) -> str:
    return f"{bps / 1e9:g} Gbit/s" if bps >= 1e9 else f"{bps / 1e6:g} Mbit/s"


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

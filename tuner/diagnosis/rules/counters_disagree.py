"""Two ends of one cable count different things: swapped, stuck or wrong counters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from collectors.model.catalogue import interface
from collectors.model.entities import Entity, Interface, Slot, Switch, display, priority, wire_of
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.flow import pfc_swapped
from tuner.diagnosis.place import names
from tuner.diagnosis.rule import Rule, found, grew, verdict
from tuner.diagnosis.view import FabricView, Growing, Telemetry

MIN_FRAMES: Final = 100
CLOSE: Final = 0.3  # two counts of one thing, read at different moments, agree within this share
MIN_PORTS: Final = 2  # of one switch: a single port may have its own trouble


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Hold PFC frames sent at one end against PFC frames received at the other."""
    rx = telemetry.growth_all(interface.PFC_RX_FRAMES.name)
    tx = telemetry.growth_all(interface.PFC_TX_FRAMES.name)
    swapped: dict[Switch, list[Evidence]] = {}
    stuck: dict[Switch, list[Evidence]] = {}
    sound: dict[Switch, int] = {}
    for slot, peer in _both_ends(telemetry, fabric):
        near = slot.parent
        if not isinstance(near, Interface) or not all(
            end in counts for end in (slot, peer) for counts in (rx, tx)
        ):
            continue
        own = (rx[slot], tx[slot])
        other = (rx[peer], tx[peer])
        evidence = _evidence(slot, peer, own, other)
        if _agree(own[0], other[1]) and _agree(own[1], other[0]):
            sound[near.switch] = sound.get(near.switch, 0) + 1
        elif _agree(own[0], other[0]) and _agree(own[1], other[1]):
            swapped.setdefault(near.switch, []).extend(evidence)
        elif own[0].total == own[1].total == 0:
            stuck.setdefault(near.switch, []).extend(evidence)
    findings = [
        _finding(rule, switch, evidence, what, sound.get(switch, 0))
        for kinds, what in (
            (swapped, "has rx and tx of its PFC counters swapped"),
            (stuck, "counts no PFC frames although its peers do"),
        )
        for switch, evidence in kinds.items()
        if len(evidence) >= 4 * MIN_PORTS or not sound.get(switch)
        if kinds is not swapped or switch in pfc_swapped(telemetry, fabric)
    ]
    judged = any(
        slot in tx and far in rx and far in tx
        for slot in rx
        if (far := _peer(fabric, slot)) is not None
    )
    missing = () if judged else ("PFC frames, rx and tx, of both ends of a cable",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _both_ends(telemetry: Telemetry, fabric: FabricView) -> Iterator[tuple[Slot, Slot]]:
    """Yield priorities of which either end of the cable counts frames in earnest, both ways."""
    busy = {
        slot
        for metric in (interface.PFC_RX_FRAMES, interface.PFC_TX_FRAMES)
        for slot in telemetry.growing(metric.name, MIN_FRAMES)
    }
    ends = busy | {peer for slot in busy if (peer := _peer(fabric, slot)) is not None}
    for slot in telemetry.growth_all(interface.PFC_RX_FRAMES.name) if ends else ():
        peer = _peer(fabric, slot) if slot in ends else None
        if isinstance(slot, Slot) and peer is not None:
            yield slot, peer


def _peer(fabric: FabricView, slot: Entity) -> Slot | None:
    """Return the same priority at the other end of the cable."""
    near = wire_of(slot)
    far = fabric.peer(near) if near is not None else None
    return None if far is None or not isinstance(slot, Slot) else priority(far, slot.index)


def _finding(
    rule: Rule, switch: Switch, evidence: list[Evidence], what: str, sound: int
) -> Finding:
    return found(
        rule,
        switch,
        "info",  # the fabric may be sound: rules read such counters the other way round
        0.85 if not sound else 0.6,
        f"{display(switch)} {what}: do not read its pauses until its image is known "
        f"({names({item.entity for item in evidence[:4]}, 2)})",
        evidence[:12],
        affected=[switch],
    )


def _agree(one: Growing, two: Growing) -> bool:
    """Tell whether two counts can be of the same frames."""
    larger = max(one.total, two.total)
    return larger >= MIN_FRAMES and abs(one.total - two.total) <= CLOSE * larger


def _evidence(
    slot: Slot, peer: Slot, own: tuple[Growing, Growing], other: tuple[Growing, Growing]
) -> list[Evidence]:
    rx, tx = interface.PFC_RX_FRAMES, interface.PFC_TX_FRAMES
    return [
        grew(rx, slot, own[0], "= tx of the peer"),
        grew(tx, slot, own[1], "= rx of the peer"),
        grew(rx, peer, other[0]),
        grew(tx, peer, other[1]),
    ]


RULE: Final = Rule(
    id="counters-disagree",
    section="config",
    title="Counters contradict each other",
    finds="switches whose PFC counters match their peers' only if rx and tx are swapped, or not",
    quiet_when="what one end sent the other received",
    cannot_tell_when="no cable has PFC frames of both directions at both ends",
    refutes="the peer's image is the one with swapped counters",
    judge=judge,
)

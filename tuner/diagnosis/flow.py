"""Stalled shares of time by PFC priority: what the stall graph is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from collectors.model.catalogue import interface
from collectors.model.entities import Entity, Slot, Wire, priority, wire_of
from collectors.model.metric import Metric
from tuner.diagnosis.finding import Evidence
from tuner.diagnosis.rule import grew
from tuner.diagnosis.stall_graph import StallGraph, stall_graph
from tuner.diagnosis.view import FabricView, Telemetry

QUANTA_BITS: Final = 512  # IEEE 802.1Qbb: pause time counts in 512 bit times
FULL_QUANTA: Final = 65535  # what most devices ask for in each XOFF frame
_FRAMES_TO_TIME_DOUBT: Final = "estimated from frames: at most 65535 quanta each"


@dataclass(frozen=True, slots=True)
class Stall:
    """The share of time in which an egress was not allowed to send, and what it was read from."""

    wire: Wire
    share: float
    evidence: Evidence
    exact: bool


@dataclass(frozen=True)
class PriorityFlow:
    """Flow control of one priority over the whole fabric."""

    priority: int
    stalls: Mapping[Wire, Stall]
    graph: StallGraph


_made: WeakKeyDictionary[Telemetry, tuple[PriorityFlow, ...]] = WeakKeyDictionary()


def pfc_flows(telemetry: Telemetry, fabric: FabricView) -> tuple[PriorityFlow, ...]:
    """Return the flow control of each priority that has any counter, lowest first.

    Several rules ask; it is made once for each window.
    """
    known = _made.get(telemetry)
    if known is None:
        known = _made[telemetry] = _flows(telemetry, fabric)
    return known


def _flows(telemetry: Telemetry, fabric: FabricView) -> tuple[PriorityFlow, ...]:
    by_priority: dict[int, dict[Wire, Stall]] = {}
    for stall, index in _pfc_stalls(telemetry, fabric):
        known = by_priority.setdefault(index, {})
        if stall.wire not in known or (stall.exact and not known[stall.wire].exact):
            known[stall.wire] = stall
    loads = busy(telemetry)
    return tuple(
        PriorityFlow(
            index,
            stalls,
            stall_graph({w: s.share for w, s in stalls.items()}, loads, fabric),
        )
        for index, stalls in sorted(by_priority.items())
    )


def busy(telemetry: Telemetry) -> dict[Wire, float]:
    """Return the load of every egress whose bytes and speed are known, as a share of its rate."""
    speeds = telemetry.latest_all(interface.SPEED.name)
    loads: dict[Wire, float] = {}
    for entity, growth in telemetry.growth_all(interface.TX_BYTES.name).items():
        wire, speed = wire_of(entity), speeds.get(entity)
        if wire is not None and speed is not None and speed.value > 0:
            loads[wire] = min(growth.rate * 8 / speed.value, 1.0)
    return loads


def _pfc_stalls(telemetry: Telemetry, fabric: FabricView) -> Iterable[tuple[Stall, int]]:
    """Yield the stalls that counters tell of, the surest kind first.

    An egress knows how long it was paused (rx pause of its own port), else its peer knows how
    long it paused it (tx pause of the other end), else frames bound it from above.
    """
    for slot, share, evidence in _shares(telemetry, interface.PFC_RX_PAUSE):
        wire = wire_of(slot)
        if wire is not None:
            yield Stall(wire, share, evidence, exact=True), slot.index
    for slot, share, evidence in _shares(telemetry, interface.PFC_TX_PAUSE):
        own = wire_of(slot)
        wire = fabric.peer(own) if own is not None else None
        if wire is not None:
            yield Stall(wire, share, evidence, exact=True), slot.index
    speeds = telemetry.latest_all(interface.SPEED.name)
    for metric, at_peer in ((interface.PFC_RX_FRAMES, False), (interface.PFC_TX_FRAMES, True)):
        for entity, growth in telemetry.growth_all(metric.name).items():
            own = wire_of(entity)
            speed = speeds.get(own) if own is not None else None
            wire = fabric.peer(own) if at_peer and own is not None else own
            if wire is None or speed is None or not speed.value or not isinstance(entity, Slot):
                continue
            seconds = growth.total * FULL_QUANTA * QUANTA_BITS / speed.value
            share = min(seconds / growth.seconds, 1.0) if growth.seconds else 0.0
            evidence = grew(metric, entity, growth, _FRAMES_TO_TIME_DOUBT)
            yield Stall(wire, share, evidence, exact=False), entity.index


def _shares(telemetry: Telemetry, metric: Metric) -> Iterable[tuple[Slot, float, Evidence]]:
    for entity, growth in telemetry.growth_all(metric.name).items():
        if isinstance(entity, Slot) and growth.seconds > 0:
            share = min(growth.total / growth.seconds, 1.0)
            yield entity, share, grew(metric, entity, growth)


def ecn_marks(telemetry: Telemetry, wire: Entity) -> float | None:
    """Return packets marked by all queues of an interface, None where nothing counts them."""
    total = None
    for entity, growth in telemetry.growth_all(interface.QUEUE_ECN_MARKED.name).items():
        if wire_of(entity) == wire:
            total = (total or 0.0) + growth.total
    return total


def paused_by(telemetry: Telemetry, wire: Wire, index: int) -> float:
    """Return the share of time for which the peer of an egress kept it from sending."""
    growth = telemetry.growth(interface.PFC_RX_PAUSE.name, priority(wire, index))
    return min(growth.total / growth.seconds, 1.0) if growth and growth.seconds else 0.0

"""Stalled shares of time by PFC priority: what the stall graph is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from collectors.model.catalogue import interface, rdma, switch
from collectors.model.entities import Entity, Interface, Port, Slot, Switch, Wire, queue, wire_of
from collectors.model.metric import Metric
from tuner.diagnosis.finding import Evidence
from tuner.diagnosis.load import loads, swapped_switches
from tuner.diagnosis.once import once
from tuner.diagnosis.rule import grew
from tuner.diagnosis.stall_graph import StallGraph, stall_graph
from tuner.diagnosis.view import FabricView, Growing, Telemetry

QUANTA_BITS: Final = 512  # IEEE 802.1Qbb: pause time counts in 512 bit times
FULL_QUANTA: Final = 65535  # what most devices ask for in each XOFF frame
MIN_FRAMES: Final = 100  # of PFC: fewer may differ between two ends by the moment of reading
MIN_MARKS: Final = 100  # by all of a switch: fewer do not tell where its bytes pile up
_TIMES: Final = (interface.PFC_RX_PAUSE, interface.PFC_TX_PAUSE)
_FRAMES_TO_TIME_DOUBT: Final = "estimated from frames: at most 65535 quanta each"


@dataclass(frozen=True, slots=True)
class Stall:
    """The share of time in which an egress was not allowed to send, and what it was read from."""

    wire: Wire
    share: float
    metric: Metric
    counted_at: Entity
    growth: Growing
    exact: bool

    @property
    def evidence(self) -> Evidence:
        """The counter that it was read from."""
        doubt = "" if self.metric in _TIMES else _FRAMES_TO_TIME_DOUBT
        return grew(self.metric, self.counted_at, self.growth, doubt)


@dataclass(frozen=True)
class PriorityFlow:
    """Flow control of one priority over the whole fabric."""

    priority: int
    stalls: Mapping[Wire, Stall]
    graph: StallGraph


def pfc_flows(telemetry: Telemetry, fabric: FabricView) -> tuple[PriorityFlow, ...]:
    """Return the flow control of each priority that has any counter, lowest first."""
    return once(telemetry, "pfc_flows", lambda: _flows(telemetry, fabric))


def _flows(telemetry: Telemetry, fabric: FabricView) -> tuple[PriorityFlow, ...]:
    by_priority: dict[int, dict[Wire, Stall]] = {}
    for stall, index in _pfc_stalls(telemetry, fabric):
        known = by_priority.setdefault(index, {})
        if stall.wire not in known or (stall.exact and not known[stall.wire].exact):
            known[stall.wire] = stall
    busy = loads(telemetry, fabric).tx
    depth = queue_depths(telemetry, fabric)
    return tuple(
        PriorityFlow(
            index,
            stalls,
            stall_graph({w: s.share for w, s in stalls.items()}, busy, fabric, depth=depth),
        )
        for index, stalls in sorted(by_priority.items())
    )


def _pfc_stalls(telemetry: Telemetry, fabric: FabricView) -> Iterable[tuple[Stall, int]]:
    """Yield the stalls that counters tell of, the surest kind first.

    An egress knows how long it was paused (rx pause of its own port), else its peer knows how
    long it paused it (tx pause of the other end), else frames bound it from above. A switch that
    has rx and tx of PFC exchanged is read the other way round, after all others.
    """
    swapped = pfc_swapped(telemetry, fabric)
    speeds = loads(telemetry, fabric).speeds
    late: list[tuple[Stall, int]] = []
    for metric, at_peer in zip(_TIMES, (False, True), strict=True):
        for slot, share, growth in _shares(telemetry, metric):
            own = wire_of(slot)
            wrong = isinstance(own, Interface) and own.switch in swapped
            wire = fabric.peer(own) if own is not None and at_peer != wrong else own
            if wire is not None:
                stall = Stall(wire, share, metric, slot, growth, exact=not wrong)
                if wrong:
                    late.append((stall, slot.index))
                else:
                    yield stall, slot.index
    for metric, at_peer in ((interface.PFC_RX_FRAMES, False), (interface.PFC_TX_FRAMES, True)):
        for entity, growth in telemetry.growth_all(metric.name).items():
            own = wire_of(entity)
            speed = speeds.get(own) if own is not None else None
            wrong = isinstance(own, Interface) and own.switch in swapped
            wire = fabric.peer(own) if own is not None and at_peer != wrong else own
            if wire is None or speed is None or not isinstance(entity, Slot):
                continue
            seconds = growth.total * FULL_QUANTA * QUANTA_BITS / speed
            share = min(seconds / growth.seconds, 1.0) if growth.seconds else 0.0
            yield Stall(wire, share, metric, entity, growth, exact=False), entity.index
    yield from late


def pfc_swapped(telemetry: Telemetry, fabric: FabricView) -> frozenset[Switch]:
    """Return the switches whose PFC frames match their peers' only with rx and tx exchanged."""

    def found() -> frozenset[Switch]:
        frames: list[dict[Wire, float]] = []
        for metric in (interface.PFC_RX_FRAMES, interface.PFC_TX_FRAMES):
            totals: dict[Wire, float] = {}
            for slot, growth in telemetry.growth_all(metric.name).items():
                wire = wire_of(slot)
                if wire is not None:
                    totals[wire] = totals.get(wire, 0.0) + growth.total
            frames.append(totals)
        return swapped_switches(frames[0], frames[1], fabric, MIN_FRAMES)

    return once(telemetry, "pfc_swapped", found)


def _shares(telemetry: Telemetry, metric: Metric) -> Iterable[tuple[Slot, float, Growing]]:
    for entity, growth in telemetry.growth_all(metric.name).items():
        if isinstance(entity, Slot) and growth.seconds > 0:
            share = min(growth.total / growth.seconds, 1.0)
            yield entity, share, growth


def ecn_marks(telemetry: Telemetry, fabric: FabricView | None = None) -> Mapping[Entity, float]:
    """Return packets marked by all queues of each interface of which they are counted.

    With the fabric, what a host's NIC received as marked stands in for the egress towards it
    where the switch does not count: an upper bound, for others on the way may have marked.
    """

    def found() -> dict[Entity, float]:
        totals: dict[Entity, float] = {}
        for entity, growth in telemetry.growth_all(interface.QUEUE_ECN_MARKED.name).items():
            wire = wire_of(entity)
            if wire is not None:
                totals[wire] = totals.get(wire, 0.0) + growth.total
        received = telemetry.growth_all(rdma.CE_MARKED_RX.name) if fabric is not None else {}
        for port, growth in received.items():
            if fabric is not None and isinstance(port, Port):
                egress = fabric.peer(fabric.attached(port))
                if egress is not None:
                    totals.setdefault(egress, growth.total)
        return totals

    return once(telemetry, ("ecn_marks", fabric is None), found)


def marked_share(
    telemetry: Telemetry, wire: Wire, fabric: FabricView | None = None
) -> float | None:
    """Return marks for each packet that an egress sends, None where marks are not counted.

    Of the queues that mark where their packets are counted, else of the interface; 1 where no
    packets are counted and some are marked.
    """
    marks = ecn_marks(telemetry, fabric).get(wire)
    if not marks:
        return marks
    sent = most = 0.0
    for index in range(8):
        growth = telemetry.growth(interface.QUEUE_TX_PACKETS.name, queue(wire, index))
        marked = telemetry.growth(interface.QUEUE_ECN_MARKED.name, queue(wire, index))
        if growth is not None and marked is not None:
            sent += growth.total
        most = max(most, growth.total if growth is not None else 0.0)
    sent = sent or most
    for metric in (interface.TX_PACKETS, switch.TX_UNICAST):
        growth = telemetry.growth(metric.name, wire) if not sent else None
        if growth is not None:
            sent = growth.total
    return min(marks / sent, 1.0) if sent else 1.0


def queue_depths(telemetry: Telemetry, fabric: FabricView) -> Mapping[Wire, float]:
    """Return how deep the queues of an egress get against the deepest of its switch (0 to 1).

    The mean of what is known of two signs: packets marked, and the highest watermark.
    """

    def found() -> dict[Wire, float]:
        watermarks: dict[Wire, float] = {}
        for slot, seen in telemetry.highest_all(interface.QUEUE_WATERMARK.name).items():
            wire = wire_of(slot)
            if wire is not None:
                watermarks[wire] = max(watermarks.get(wire, 0.0), seen.value)
        marks = {w: n for w, n in ecn_marks(telemetry, fabric).items() if isinstance(w, Interface)}
        signs: dict[Wire, list[float]] = {}
        for values, least in ((marks, MIN_MARKS), (watermarks, 1.0)):
            most: dict[Entity, float] = {}
            for wire, value in values.items():
                if isinstance(wire, Interface):
                    most[wire.switch] = max(most.get(wire.switch, 0.0), value)
            for wire, value in values.items():
                if isinstance(wire, Interface) and most[wire.switch] >= least:
                    signs.setdefault(wire, []).append(value / most[wire.switch])
        return {wire: sum(shares) / len(shares) for wire, shares in signs.items()}

    return once(telemetry, "queue_depths", found)

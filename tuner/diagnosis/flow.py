"""Stalled shares of time by PFC priority: what the stall graph is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from collectors.model.catalogue import interface, rdma, switch
from collectors.model.entities import Interface, Switch, Wire, queue
from tuner.diagnosis.load import loads, swapped_switches
from tuner.diagnosis.once import once
from tuner.diagnosis.stall_graph import MIN_STALL, StallGraph, stall_graph
from tuner.diagnosis.stalls import Stall, stalls_by_priority
from tuner.diagnosis.view import FabricView, Telemetry
from tuner.diagnosis.wires import numbered_wires, sums

MIN_FRAMES: Final = 100  # of PFC: fewer may differ between two ends by the moment of reading
MIN_MARKS: Final = 100  # by all of a switch: fewer do not tell where its bytes pile up


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
    by_priority = stalls_by_priority(telemetry, fabric, pfc_swapped(telemetry, fabric))
    waiting = {index: stalls.shares(MIN_STALL) for index, stalls in by_priority.items()}
    stalled = any(waiting.values())
    busy = loads(telemetry, fabric).tx if stalled else {}
    depth = queue_depths(telemetry, fabric) if stalled else {}
    return tuple(
        PriorityFlow(index, stalls, stall_graph(waiting[index], busy, fabric, depth=depth))
        for index, stalls in by_priority.items()
    )


def pfc_swapped(telemetry: Telemetry, fabric: FabricView) -> frozenset[Switch]:
    """Return the switches whose PFC frames match their peers' only with rx and tx exchanged."""

    def found() -> frozenset[Switch]:
        wires = numbered_wires(telemetry, fabric)
        rx, tx = (
            sums(telemetry, wires, metric)
            for metric in (interface.PFC_RX_FRAMES, interface.PFC_TX_FRAMES)
        )
        return swapped_switches(wires, rx, tx, MIN_FRAMES)

    return once(telemetry, "pfc_swapped", found)


def ecn_marks(
    telemetry: Telemetry, fabric: FabricView, *, received: bool = False
) -> Mapping[Wire, float]:
    """Return packets marked by all queues of each interface of which they are counted.

    received: what a host's NIC received as marked stands in for the egress towards it where the
    switch does not count. An upper bound, for others on the way may have marked.
    """

    def found() -> dict[Wire, float]:
        wires = numbered_wires(telemetry, fabric)
        marked = sums(telemetry, wires, interface.QUEUE_ECN_MARKED)
        if received:
            table = telemetry.growth_table(rdma.CE_MARKED_RX.name)
            arrived = wires.firsts(wires.plugged(table.number), table.total)
            marked = np.where(np.isnan(marked), wires.at_far(arrived), marked)
        return wires.mapping(marked)

    return once(telemetry, ("ecn_marks", received), found)


def marked_share(
    telemetry: Telemetry, wire: Wire, fabric: FabricView, *, received: bool = False
) -> float | None:
    """Return marks for each packet that an egress sends, None where marks are not counted.

    Of the queues that mark where their packets are counted, else of the interface; 1 where no
    packets are counted and some are marked. received: as for `ecn_marks`.
    """
    marks = ecn_marks(telemetry, fabric, received=received).get(wire)
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
        wires = numbered_wires(telemetry, fabric)
        slots, highest = telemetry.value_table(interface.QUEUE_WATERMARK.name, highest=True)
        watermarks = wires.mapping(wires.highest(wires.of(slots), highest)[0])
        marks = ecn_marks(telemetry, fabric, received=True)
        signs: dict[Wire, list[float]] = {}
        for values, least in ((marks, MIN_MARKS), (watermarks, 1.0)):
            most: dict[Switch, float] = {}
            for wire, value in values.items():
                if isinstance(wire, Interface):
                    most[wire.switch] = max(most.get(wire.switch, 0.0), value)
            for wire, value in values.items():
                if isinstance(wire, Interface) and most[wire.switch] >= least:
                    signs.setdefault(wire, []).append(value / most[wire.switch])
        return {wire: sum(shares) / len(shares) for wire, shares in signs.items()}

    return once(telemetry, "queue_depths", found)

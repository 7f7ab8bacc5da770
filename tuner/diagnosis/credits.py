"""InfiniBand credits: the share of time in which a port had data but no credit to send it.

PortXmitWait counts ticks; how long a tick is depends on device and link, so the collector says
it beside the counter (`fabric_ib_tx_wait_tick_seconds`). A share well over 1 shows that the device
counts in another unit than it should: then only the order of ports means something.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from collectors.model.catalogue import infiniband as rows
from collectors.model.catalogue import rdma
from collectors.model.entities import Entity, Interface, Port, Wire, link, wire_of
from tuner.diagnosis.finding import Evidence
from tuner.diagnosis.once import once
from tuner.diagnosis.place import only_software_rdma
from tuner.diagnosis.rule import grew
from tuner.diagnosis.stall_graph import Root, StallGraph, stall_graph
from tuner.diagnosis.view import FabricView, Telemetry

MIN_SHARE: Final = 0.05  # of time without credit: below it is ordinary contention
FULL: Final = 0.70  # of the data rate, averaged: a link that is the bottleneck itself
MIN_BLAME: Final = 0.10
_DOUBT: Final = 1.05


@dataclass(frozen=True, slots=True)
class Waiting:
    """An egress that waited. share: of time; exact: the unit of its ticks is believable."""

    wire: Wire
    share: float
    evidence: Evidence
    exact: bool


@dataclass(frozen=True)
class Credits:
    """Credit waits and loads of the whole subnet, and who waits for whom."""

    waiting: Mapping[Wire, Waiting]
    loads: Mapping[Wire, float]
    graph: StallGraph

    def blamed(self) -> list[Root]:
        """Return the roots that matter: their victims wait long enough, their blame is enough."""
        total = sum(root.score for root in self.graph.roots)
        return [
            root
            for root in self.graph.roots
            if root.score >= MIN_BLAME * total and self.worst(root) >= MIN_SHARE
        ]

    def worst(self, root: Root) -> float:
        """Return the largest share of time that a victim of a root waits."""
        return max(self.graph.stalled[victim] for victim in root.victims)

    def victims(self, root: Root) -> list[Wire]:
        """Return the egresses that wait for a root, the longest wait first."""
        return sorted(root.victims, key=lambda wire: -self.graph.stalled[wire])


def credit_waits(telemetry: Telemetry, fabric: FabricView) -> Credits:
    """Return the credits of a window; made once, several rules ask."""
    return once(telemetry, "credits", lambda: _credits(telemetry, fabric))


def _credits(telemetry: Telemetry, fabric: FabricView) -> Credits:
    ticks = telemetry.latest_all(rows.WAIT_TICK.name)
    waiting: dict[Wire, Waiting] = {}
    for entity, growth in telemetry.growth_all(rdma.TX_WAIT.name).items():
        wire, tick = wire_of(entity), ticks.get(entity)
        if wire is None or tick is None or growth.seconds <= 0:
            continue
        share = growth.total * tick.value / growth.seconds
        evidence = grew(rdma.TX_WAIT, entity, growth, f"< {MIN_SHARE:.0%} of time")
        waiting[wire] = Waiting(wire, min(share, 1.0), evidence, share <= _DOUBT)
    loads = link_loads(telemetry)
    shares = {wire: seen.share for wire, seen in waiting.items()}
    return Credits(waiting, loads, stall_graph(shares, loads, fabric))


def link_loads(telemetry: Telemetry) -> dict[Wire, float]:
    """Return what each InfiniBand egress sends as a share of its data rate."""
    rates = telemetry.latest_all(rows.DATA_RATE.name)
    loads: dict[Wire, float] = {}
    for entity, growth in telemetry.growth_all(rdma.TX_BYTES.name).items():
        wire, rate = wire_of(entity), rates.get(entity)
        if wire is not None and rate is not None and rate.value > 0:
            loads[wire] = min(growth.rate * 8 / rate.value, 1.0)
    return loads


def is_infiniband(telemetry: Telemetry) -> bool:
    """Tell whether an InfiniBand sweep saw cables: balance there is a matter of routing."""
    return once(
        telemetry, "ib cables", lambda: any(cable.how == "ib" for cable in telemetry.neighbours())
    )


def is_elsewhere(telemetry: Telemetry, fabric: FabricView) -> bool:
    """Tell whether this is surely no InfiniBand fabric: only Ethernet or software devices."""
    return once(telemetry, "no InfiniBand", lambda: _is_elsewhere(telemetry, fabric))


def _is_elsewhere(telemetry: Telemetry, fabric: FabricView) -> bool:
    if is_infiniband(telemetry):
        return False
    if telemetry.entities(rows.WAIT_TICK.name):
        return False
    layers = [telemetry.attributes(port).get("link_layer") for port in fabric.ports()]
    if layers and all(layer is not None and layer.value == "Ethernet" for layer in layers):
        return True
    return only_software_rdma(telemetry, fabric)


def load_evidence(telemetry: Telemetry, wire: Wire, load: float) -> Evidence:
    """Return the load of an egress as evidence."""
    return Evidence(
        rdma.TX_BYTES.name,
        wire,
        load,
        "ratio",
        "share of data rate",
        telemetry.since_ns,
        telemetry.until_ns,
    )


def faces_host(fabric: FabricView, wire: Wire) -> bool:
    """Tell whether a switch's egress leads to an adapter."""
    return isinstance(wire, Interface) and isinstance(fabric.peer(wire), Port)


def cable(fabric: FabricView, wire: Wire) -> Entity:
    """Return the cable of a port, the port itself where the other end is unknown."""
    far = fabric.peer(wire)
    return wire if far is None else link(wire, far)

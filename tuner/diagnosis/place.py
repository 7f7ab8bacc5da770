"""Small questions that rules ask of telemetry and fabric: where a port ends, what is the norm."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final

from collectors.model.catalogue import ip, rdma
from collectors.model.entities import (
    Entity,
    Host,
    Interface,
    Link,
    Netdev,
    Port,
    QueuePair,
    Slot,
    Switch,
    Wire,
    display,
    link,
    queue,
)
from collectors.model.facts import Setting, Value
from tuner.diagnosis.once import once
from tuner.diagnosis.view import FabricView, HostTelemetry, Telemetry

QUORUM: Final = 3  # fewer entities have no majority
_LOSS: Final = (
    rdma.OUT_OF_SEQUENCE_RX, rdma.SEQUENCE_NAK_RX, rdma.ACK_TIMEOUTS, rdma.IMPLIED_NAK_RX,
)  # fmt: skip


def cable_of(fabric: FabricView, port: Port) -> Entity:
    """Return the cable of a port, or the port's own end of it where the other is unknown."""
    wire = fabric.attached(port)
    far = fabric.peer(wire)
    return wire if far is None else link(wire, far)


def far_end(fabric: FabricView, port: Port) -> Interface | None:
    """Return the switch interface that a port hangs on."""
    far = fabric.peer(fabric.attached(port))
    return far if isinstance(far, Interface) else None


def egress_to(fabric: FabricView, telemetry: HostTelemetry, port: Port) -> Slot | None:
    """Return the switch's egress queue towards a port, where its settings or counters are known."""
    interface = far_end(fabric, port)
    if interface is None:
        return None
    for index in range(8):
        slot = queue(interface, index)
        if telemetry.settings(slot):
            return slot
    return None


def egress_settings(telemetry: HostTelemetry, wire: Wire, index: int) -> dict[str, Setting]:
    """Return the settings that hold for a priority's egress queue: the queue's, else the port's.

    Queue and priority have one number unless the interface says otherwise; where that queue has
    no settings of its own, those of the interface's only configured queue.
    """
    own = telemetry.settings(wire)
    mapped = own.get("priority_to_queue")
    if mapped is not None and isinstance(mapped.value, tuple) and index < len(mapped.value):
        index = int(mapped.value[index])  # -1: as the priority
    of_queues = [telemetry.settings(queue(wire, number)) for number in range(8)]
    settings = of_queues[index] if 0 <= index < 8 else {}
    if not settings:
        configured = [known for known in of_queues if known]
        settings = configured[0] if len(configured) == 1 else {}
    return {**own, **settings}


def unequal_ends(
    telemetry: Telemetry,
    fabric: FabricView,
    name: str,
    read: Callable[[Value], Hashable] = lambda value: value,
) -> tuple[dict[Link, tuple[Wire, Wire]], bool]:
    """Return (the cables at whose ends a setting differs, whether any cable could be compared).

    read: what of the value is compared.
    """
    settings, alike = telemetry.setting_all(name), telemetry.alike(name)
    usual = read(max(alike, key=lambda value: len(alike[value]))) if alike else None
    odd: set[Entity] = set()
    for value, entities in alike.items():
        if read(value) == usual:
            continue  # of two that differ one is here
        for near in entities:
            far = fabric.peer(near) if isinstance(near, Wire) else None
            if far is not None and far in settings and read(settings[far].value) != read(value):
                odd |= {near, far}
    unequal: dict[Link, tuple[Wire, Wire]] = {}
    for near in settings if odd else ():
        far = fabric.peer(near) if near in odd and isinstance(near, Wire) else None
        if isinstance(near, Wire) and far is not None:
            unequal.setdefault(link(near, far), (near, far))
    compared = bool(unequal) or any(
        isinstance(near, Wire) and fabric.peer(near) in settings for near in settings
    )
    return unequal, compared


def interface_of(slot: Entity) -> Interface | None:
    """Return the switch interface that a queue belongs to."""
    if isinstance(slot, Slot) and isinstance(slot.parent, Interface):
        return slot.parent
    return slot if isinstance(slot, Interface) else None


@dataclass(frozen=True, slots=True)
class EcnShare:
    """Packets received at a port by ECN field. Of everything on its interface."""

    ce: float
    ect: float
    not_ect: float
    where: Entity

    @property
    def total(self) -> float:
        """All packets."""
        return self.ce + self.ect + self.not_ect


def ecn_received(telemetry: HostTelemetry, fabric: FabricView, port: Port) -> EcnShare | None:
    """Return what the kernel counted by ECN field on the netdev of a port, None where it did not.

    Only an interface's own counters will do: those of a whole namespace mix several ports.
    """
    netdev = fabric.netdev_of(port)
    if netdev is None:
        return None
    totals: list[float] = []
    for metric in (ip.IP_CE_RX, ip.IP_ECT0_RX, ip.IP_ECT1_RX, ip.IP_NOT_ECT_RX):
        growth = telemetry.growth(metric.name, netdev)
        if growth is None:
            return None
        totals.append(growth.total)
    ce, ect0, ect1, not_ect = totals
    return EcnShare(ce, ect0 + ect1, not_ect, netdev)


class Spots:
    """Which findings are about one place: a cable and its ends, a port and its interface."""

    def __init__(
        self, fabric: FabricView, senders: Mapping[Port, Iterable[Port]] = MappingProxyType({})
    ) -> None:
        self._fabric = fabric
        self._senders = senders

    def of(self, entity: Entity) -> set[Entity]:
        """Return the wires that an entity is or has; a switch, and what has none, stands alone."""
        match entity:
            case Link(a, b):
                return self.of(a) | self.of(b)
            case Slot(parent):
                return self.of(parent)
            case QueuePair(device):
                return self.of(device)
            case _:
                return {entity, *self._wires.get(entity, ())}

    def around(self, entity: Entity) -> set[Entity]:
        """Return the same and, of a host's wires, the switch's end: what is wrong shows there."""
        found = self.of(entity)
        if isinstance(entity, Slot | Interface | Link | Switch):
            return found
        peers = [self._fabric.peer(wire) for wire in found if isinstance(wire, Netdev | Port)]
        return found | {peer for peer in peers if peer is not None}

    def at_partners(self, entity: Entity) -> set[Entity]:
        """Return the same and the spots of all ports that exchange data with those there."""
        found = self.around(entity)
        ports: set[Entity] = set()
        for spot in found:
            ports |= self._ports_at(spot)
        partners = {partner for port in ports for partner in self._partners.get(port, ())}
        return found.union(*(self.of(port) for port in partners))

    @cached_property
    def _partners(self) -> dict[Entity, set[Port]]:
        found: dict[Entity, set[Port]] = {}
        for receiver, sending in self._senders.items():
            for sender in sending:
                found.setdefault(receiver, set()).add(sender)
                found.setdefault(sender, set()).add(receiver)
        return found

    @cached_property
    def _wires(self) -> dict[Entity, list[Entity]]:
        found: dict[Entity, list[Entity]] = {}
        for port in self._fabric.ports():
            wire = self._fabric.attached(port)
            for entity in (port, port.device, Host(port.device.host)):
                found.setdefault(entity, [port]).append(wire)
        return found

    def _ports_at(self, spot: Entity) -> set[Entity]:
        if isinstance(spot, Port):
            return {spot}
        far = self._fabric.peer(spot) if isinstance(spot, Interface) else spot
        if isinstance(far, Netdev):
            port = self._fabric.port_of(far)
            return set() if port is None else {port}
        return {far} if isinstance(far, Port) else set()


def usual_of(alike: Mapping[Value, Sequence[Entity]]) -> Value | None:
    """Return the value that more than half of at least QUORUM entities have, else None."""
    counts = {value: len(entities) for value, entities in alike.items()}
    total = sum(counts.values())
    value = max(counts, key=counts.__getitem__, default=None)
    return value if value is not None and total >= QUORUM and 2 * counts[value] > total else None


def unusual(telemetry: Telemetry, name: str) -> tuple[Value | None, list[Setting]]:
    """Return (the value of a setting that most have, those that differ from it)."""
    alike = telemetry.alike(name)
    usual = usual_of(alike)
    if usual is None or len(alike) == 1:
        return usual, []
    odd = {entity for value, held in alike.items() if value != usual for entity in held}
    settings = telemetry.setting_all(name)
    return usual, [settings[entity] for entity in settings if entity in odd]


def loss_signs(telemetry: HostTelemetry, port: Port) -> tuple[float, float]:
    """Return (as responder: requests out of order, as requester: NAKs and timeouts)."""

    def total(*metrics: str) -> float:
        grown = (telemetry.growth(metric, port) for metric in metrics)
        return sum(growth.total for growth in grown if growth is not None)

    responder, *requester = (metric.name for metric in _LOSS)
    return total(responder), total(*requester)


def hurt_ports(telemetry: Telemetry, fabric: FabricView) -> list[Port]:
    """Return the ports of the fabric that have any sign of loss."""

    def found() -> list[Port]:
        hurt = {port for metric in _LOSS for port in telemetry.growing(metric.name)}
        return [port for port in fabric.ports() if port in hurt]

    return once(telemetry, "hurt_ports", found)


def senders_to(telemetry: Telemetry, fabric: FabricView, receiver: Port) -> list[Port]:
    """Return the ports with signs of loss as requesters, other than the receiver."""
    return [
        port
        for port in hurt_ports(telemetry, fabric)
        if port != receiver and loss_signs(telemetry, port)[1] > 0
    ]


def only_software_rdma(telemetry: HostTelemetry, fabric: FabricView) -> bool:
    """Tell whether every RDMA device is Soft-RoCE or Soft-iWARP: no PFC, no reaction to marks."""
    drivers = (telemetry.attributes(port.device).get("driver") for port in fabric.ports())
    software = all(driver is not None and driver.value in ("rxe", "siw") for driver in drivers)
    return software and bool(fabric.ports())


def names(entities: Iterable[Entity], most: int = 4) -> str:
    """Return the entities for people, the first few by name."""
    shown = [display(entity) for entity in entities]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more

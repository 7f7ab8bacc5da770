"""Hosts, ports, interfaces and cables joined from facts into one graph.

Facts come from several eyes (LLDP of both ends, an InfiniBand sweep, a topology file). Where
they contradict each other, or only one end sees a cable, that is a fact, too: `conflicts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from collectors.model.entities import (
    Device,
    Entity,
    Interface,
    Link,
    Netdev,
    Port,
    Wire,
    display,
    host_of,
    link,
    wire_of,
)
from collectors.model.facts import Attribute, Neighbour
from collectors.model.topology import names_of, resolve


class Facts(Protocol):
    """The part of a window that the fabric is built from."""

    def neighbours(self) -> Sequence[Neighbour]:
        """Return the links as their ends saw them."""

    def known_entities(self) -> Iterable[Entity]:
        """Return every entity that readings or facts speak of."""

    def attributes(self, entity: Entity) -> Mapping[str, Attribute]:
        """Return identity and inventory of an entity by name."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two sources that cannot both be right about a cable."""

    wire: Wire
    claims: tuple[Neighbour, ...]

    def __str__(self) -> str:
        ends = ", ".join(f"{display(c.remote)} ({c.how})" for c in self.claims)
        return f"{display(self.wire)} is said to be cabled to {ends}"


@dataclass(frozen=True)
class Fabric:
    """The graph; built by `build_fabric`."""

    peers: Mapping[Wire, Wire]
    netdevs: Mapping[Port, Netdev]
    all_ports: tuple[Port, ...]
    wires: tuple[Wire, ...]
    conflicts: tuple[Conflict, ...]
    _port_of: Mapping[Netdev, Port] = field(default_factory=dict)

    def peer(self, wire: Wire) -> Wire | None:
        """Return the other end of the cable, None where it is unknown."""
        return self.peers.get(wire)

    def netdev_of(self, port: Port) -> Netdev | None:
        """Return the network interface of a RoCE port."""
        return self.netdevs.get(port)

    def port_of(self, netdev: Netdev) -> Port | None:
        """Return the RDMA port of a network interface."""
        return self._port_of.get(netdev)

    def ports(self) -> Sequence[Port]:
        """Return all RDMA ports."""
        return self.all_ports

    def attached(self, port: Port) -> Wire:
        """Return what the cable of a port is plugged into: its netdev where it has one."""
        return self.netdevs.get(port, port)

    def links(self) -> list[Link]:
        """Return every cable once."""
        return list(
            {str(made): made for made in (link(a, b) for a, b in self.peers.items())}.values()
        )

    def on_switch(self, interface: Interface) -> list[Interface]:
        """Return the interfaces of the same switch."""
        return [
            wire
            for wire in self.wires
            if isinstance(wire, Interface) and wire.switch == interface.switch
        ]


def build_fabric(facts: Facts, cables: Iterable[Neighbour] = ()) -> Fabric:
    """Return the fabric of a window's facts. cables: more claims, as of a topology file."""
    ports: dict[Port, None] = {}
    wires: dict[Wire, None] = {}
    entities = list(facts.known_entities())
    for entity in entities:
        wire = wire_of(entity)
        if isinstance(wire, Port):
            ports.setdefault(wire)
        if wire is not None:
            wires.setdefault(wire)
    netdevs = {port: netdev for port in ports if (netdev := _netdev(facts, port)) is not None}
    said: dict[Wire, list[Neighbour]] = {}
    for neighbour in resolved(facts, cables, entities):
        back = Neighbour(neighbour.remote, neighbour.local, neighbour.how)
        said.setdefault(neighbour.local, []).append(neighbour)
        said.setdefault(neighbour.remote, []).append(back)
    peers: dict[Wire, Wire] = {}
    conflicts = []
    for wire, claims in said.items():
        wires.setdefault(wire)
        remotes = dict.fromkeys(claim.remote for claim in claims)
        if len(remotes) == 1:
            peers[wire] = claims[0].remote
        else:
            conflicts.append(Conflict(wire, tuple(claims)))
    # A cable of which one end is in dispute is no cable to reason on.
    disputed = {conflict.wire for conflict in conflicts}
    peers = {a: b for a, b in peers.items() if b not in disputed}
    return Fabric(
        peers,
        netdevs,
        tuple(sorted(ports, key=str)),
        tuple(sorted(wires, key=str)),
        tuple(conflicts),
        {netdev: port for port, netdev in netdevs.items()},
    )


def resolved(
    facts: Facts, cables: Iterable[Neighbour] = (), entities: Sequence[Entity] | None = None
) -> Sequence[Neighbour]:
    """Return the links as their ends saw them, every end as the entity that it means."""
    known = list(facts.known_entities()) if entities is None else entities
    attributes = (row for entity in known for row in facts.attributes(entity).values())
    return resolve((*facts.neighbours(), *cables), names_of(known, attributes))


def devices_of(fabric: Fabric, host: str) -> list[Device]:
    """Return the RDMA devices of a host."""
    return list(dict.fromkeys(port.device for port in fabric.all_ports if host_of(port) == host))


def _netdev(facts: Facts, port: Port) -> Netdev | None:
    named = facts.attributes(port).get("netdev")
    return Netdev(port.device.host, str(named.value)) if named and named.value else None

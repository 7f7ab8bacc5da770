"""Hosts, ports, interfaces and cables joined from facts into one graph.

Facts come from several eyes (LLDP of both ends, an InfiniBand sweep, a topology file). Where
they contradict each other, or only one end sees a cable, that is a fact, too: `conflicts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

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
)
from collectors.model.facts import Attribute, Neighbour
from collectors.model.topology import NAMED, Names, names_of, resolve

_WIRES: Final = (Port, Netdev, Interface)


class Facts(Protocol):
    """The part of a window that the fabric is built from."""

    def neighbours(self) -> Sequence[Neighbour]:
        """Return the links as their ends saw them."""

    def known_owners(self) -> Sequence[Entity]:
        """Return every entity that readings or facts speak of; of a slot what it is part of."""

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
        return list(self._links)

    @cached_property
    def _links(self) -> tuple[Link, ...]:
        # As `link()` does, yet by the order that the wires are in: no names are written again.
        rank = {wire: place for place, wire in enumerate(self.wires)}
        once: dict[Wire, Link] = {}
        for a, b in self.peers.items():
            if b not in once:
                once[a] = Link(a, b) if rank[a] <= rank[b] else Link(b, a)
        return tuple(once.values())

    def on_switch(self, interface: Interface) -> list[Interface]:
        """Return the interfaces of the same switch."""
        return [
            wire
            for wire in self.wires
            if isinstance(wire, Interface) and wire.switch == interface.switch
        ]


def build_fabric(facts: Facts, cables: Iterable[Neighbour] = ()) -> Fabric:
    """Return the fabric of a window's facts. cables: more claims, as of a topology file."""
    owners = facts.known_owners()
    wires: dict[Wire, None] = {owner: None for owner in owners if isinstance(owner, _WIRES)}
    ports = [wire for wire in wires if isinstance(wire, Port)]
    netdevs = {port: netdev for port in ports if (netdev := _netdev(facts, port)) is not None}
    claims = resolved(facts, cables)
    peers: dict[Wire, Wire] = {}
    disputed: set[Wire] = set()
    for claim in claims:
        local, remote = claim.local, claim.remote
        for near, far in ((local, remote), (remote, local)):
            known = peers.setdefault(near, far)
            if known is not far and known != far:
                disputed.add(near)
    wires.update(dict.fromkeys(peers))
    conflicts = _conflicts(claims, disputed) if disputed else ()
    if disputed:  # a cable of which one end is in dispute is no cable to reason on
        peers = {a: b for a, b in peers.items() if a not in disputed and b not in disputed}
    ordered = tuple(sorted(wires, key=str))
    return Fabric(
        peers,
        netdevs,
        tuple(wire for wire in ordered if isinstance(wire, Port)),
        ordered,
        conflicts,
        {netdev: port for port, netdev in netdevs.items()},
    )


def _conflicts(claims: Iterable[Neighbour], disputed: set[Wire]) -> tuple[Conflict, ...]:
    said: dict[Wire, list[Neighbour]] = {}
    for claim in claims:
        if claim.local in disputed:
            said.setdefault(claim.local, []).append(claim)
        if claim.remote in disputed:
            back = Neighbour(claim.remote, claim.local, claim.how)
            said.setdefault(claim.remote, []).append(back)
    return tuple(Conflict(wire, tuple(rows)) for wire, rows in said.items())


def resolved(facts: Facts, cables: Iterable[Neighbour] = ()) -> Sequence[Neighbour]:
    """Return the links as their ends saw them, every end as the entity that it means."""
    return resolve((*facts.neighbours(), *cables), names_in(facts))


def names_in(facts: Facts) -> Names:
    """Return the names that the entities of a window go by."""
    owners = facts.known_owners()
    named = (owner for owner in owners if isinstance(owner, NAMED))
    return names_of(owners, (row for owner in named for row in facts.attributes(owner).values()))


def devices_of(fabric: Fabric, host: str) -> list[Device]:
    """Return the RDMA devices of a host."""
    return list(dict.fromkeys(port.device for port in fabric.all_ports if host_of(port) == host))


def _netdev(facts: Facts, port: Port) -> Netdev | None:
    named = facts.attributes(port).get("netdev")
    return Netdev(port.device.host, str(named.value)) if named and named.value else None

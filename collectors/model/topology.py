"""Cables from what each end says: names resolved to entities, both ends checked.

LLDP speaks in chassis ids, system names and port ids of its own choosing; inventories and
collectors speak in names. Attributes (`chassis_id`, `system_name`, `alias`, `mac`) bridge them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from collectors.model.entities import (
    Entity,
    Host,
    Interface,
    Link,
    Netdev,
    Port,
    Slot,
    Switch,
    Wire,
    display,
    host_of,
    link,
)
from collectors.model.facts import Attribute, Neighbour

_MAC = re.compile(r"(?i)[0-9a-f]{2}([:-]?[0-9a-f]{2}){5}")
_LANE = re.compile(r"(.*\d)(?:/|s)(\d)")

_WIRES = (Port, Netdev, Interface)  # quicker to ask for than their union
NAMED = (Switch, Interface, Netdev, Host)
"""Entities of which attributes tell by what names they go."""


@dataclass(frozen=True, slots=True)
class Dispute:
    """An end that is said to be cabled to several others."""

    wire: Wire
    claims: tuple[Neighbour, ...]

    def __str__(self) -> str:
        ends = ", ".join(f"{display(claim.remote)} ({claim.how})" for claim in self.claims)
        return f"{display(self.wire)} is said to be cabled to {ends}"


@dataclass(frozen=True, slots=True)
class Breakout:
    """A port that is split: its parts have cables of their own."""

    parent: Interface
    parts: tuple[Interface, ...]


@dataclass(frozen=True)
class Topology:
    """What the claims add up to.

    links: cables that nobody disputes. one_sided: cables that one end saw though the other end
    reports neighbours, too. unknown: remote ends on devices that nobody else speaks of.
    """

    links: tuple[Link, ...]
    one_sided: tuple[Neighbour, ...]
    disputes: tuple[Dispute, ...]
    breakouts: tuple[Breakout, ...]
    unknown: tuple[Wire, ...]


def _mac(text: str) -> str:
    """Return a MAC address as `00:1c:73:aa:bb:cc`, anything else in lower case as it is."""
    if not _MAC.fullmatch(text):
        return text.lower()
    digits = re.sub(r"[:-]", "", text).lower()
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


@dataclass
class Names:
    """Who is meant: by chassis id, system name, alias and MAC address."""

    switches: dict[str, Switch] = field(default_factory=dict)
    ports: dict[tuple[Switch, str], Interface] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    netdevs: dict[str, Netdev] = field(default_factory=dict)
    known: set[Wire] = field(default_factory=set)
    _met: dict[tuple[str, str], tuple[Switch | None, bool]] = field(
        default_factory=dict, repr=False
    )

    def wire(self, wire: Wire) -> Wire:
        """Return the entity that a claim means, the claim's own words where nobody knows better."""
        if not isinstance(wire, Interface):
            return wire
        said = wire.switch
        met = self._met.get((said.key, said.name))
        switch, own = met if met is not None else self._meet(said)
        if switch is not None:
            named = wire if own else Interface(switch, wire.name)
            if named in self.known:
                return named
            return self.ports.get((switch, wire.name.lower()), named)
        netdev = self.netdevs.get(_mac(wire.name))
        if netdev is not None:
            return netdev
        host = self._host(said)
        return Netdev(host, wire.name) if host is not None else wire

    def _meet(self, said: Switch) -> tuple[Switch | None, bool]:
        """Return who is meant, and whether by the same key and name; each of its cables asks."""
        words = (_mac(said.key), said.name.lower(), _short(said.name), _short(said.key))
        meant = next((self.switches[w] for w in words if w and w in self.switches), None)
        own = meant is not None and (meant.key, meant.name) == (said.key, said.name)
        self._met[said.key, said.name] = meant, own
        return meant, own

    def _host(self, said: Switch) -> str | None:
        netdev = self.netdevs.get(_mac(said.key))
        if netdev is not None:
            return netdev.host
        for word in (said.name.lower(), _short(said.name), said.key.lower()):
            if word and word in self.hosts:
                return self.hosts[word]
        return None


def _short(name: str) -> str:
    return name.lower().partition(".")[0]


def _names_of_entities(entities: Iterable[Entity]) -> Names:
    names = Names()
    wholes = [e.parent if isinstance(e, Slot) else e for e in entities]
    names.known = {whole for whole in wholes if isinstance(whole, _WIRES)}
    devices = [whole.switch if isinstance(whole, Interface) else whole for whole in wholes]
    # A switch may go by several names.
    switches = {(d.key, d.name): d for d in devices if isinstance(d, Switch)}
    others = (d for d in devices if not isinstance(d, Switch))
    hosts = dict.fromkeys(host for d in others if (host := host_of(d)) is not None)
    for host in hosts:
        names.hosts.setdefault(host.lower(), host)
        names.hosts.setdefault(_short(host), host)
    for switch in switches.values():
        for word in (_mac(switch.key), switch.name.lower(), _short(switch.key)):
            if word:
                names.switches.setdefault(word, switch)
    return names


def names_of(entities: Iterable[Entity], attributes: Iterable[Attribute]) -> Names:
    """Return the names that entities and their attributes go by."""
    names = _names_of_entities(entities)
    for row in attributes:
        text = str(row.value)
        match row.entity, row.name:
            case Switch() as switch, "chassis_id" | "system_name":
                names.switches.setdefault(_mac(text), switch)
                names.switches.setdefault(_short(text), switch)
            case Interface(switch) as port, "alias":
                names.ports.setdefault((switch, text.lower()), port)
            case Netdev() as netdev, "mac":
                names.netdevs.setdefault(_mac(text), netdev)
            case Host(name), "system_name":
                names.hosts.setdefault(text.lower(), name)
            case _:
                pass
    return names


def resolve(neighbours: Iterable[Neighbour], names: Names) -> tuple[Neighbour, ...]:
    """Return the claims with every end as the entity that it means."""
    found = []
    for claim in neighbours:
        local, remote = names.wire(claim.local), names.wire(claim.remote)
        same = local is claim.local and remote is claim.remote
        found.append(claim if same else Neighbour(local, remote, claim.how))
    return tuple(found)


def join(neighbours: Iterable[Neighbour], names: Names) -> Topology:
    """Return the cables that the claims add up to."""
    claims = resolve(neighbours, names)
    said: dict[Wire, list[Neighbour]] = {}
    for claim in claims:
        said.setdefault(claim.local, []).append(claim)
        said.setdefault(claim.remote, []).append(Neighbour(claim.remote, claim.local, claim.how))
    disputes = [
        Dispute(wire, tuple(rows))
        for wire, rows in said.items()
        if len({row.remote for row in rows}) > 1
    ]
    disputed = {dispute.wire for dispute in disputes}
    reporters = {_device(claim.local) for claim in claims if claim.how == "lldp"}
    pairs = {(claim.local, claim.remote) for claim in claims}
    one_sided = [
        claim
        for claim in claims
        if claim.how == "lldp"
        and _device(claim.remote) in reporters
        and (claim.remote, claim.local) not in pairs
    ]
    links = {
        str(made): made
        for claim in claims
        if claim.local not in disputed and claim.remote not in disputed
        for made in (link(claim.local, claim.remote),)
    }
    known = {_device(wire) for wire in names.known} | {_device(claim.local) for claim in claims}
    unknown = {claim.remote for claim in claims if _device(claim.remote) not in known}
    return Topology(
        tuple(links[name] for name in sorted(links)),
        tuple(dict.fromkeys(one_sided)),
        tuple(disputes),
        breakouts(wire for wire in said if isinstance(wire, Interface)),
        tuple(sorted(unknown, key=str)),
    )


def _device(wire: Wire) -> str:
    return str(wire.switch) if isinstance(wire, Interface) else f"host/{host_of(wire)}"


def breakouts(interfaces: Iterable[Interface]) -> tuple[Breakout, ...]:
    """Return ports whose lanes are interfaces of their own: `Ethernet1/1/1..4`, `swp1s0..3`.

    Module/port names such as `Ethernet1/1`, `Ethernet1/2` are no lanes: lanes count from the
    same parent and number at most eight.
    """
    parts: dict[Interface, list[Interface]] = {}
    for port in set(interfaces):
        match = _LANE.fullmatch(port.name)
        if match is not None and ("s" in port.name[len(match[1]) :] or match[1].count("/") >= 1):
            parts.setdefault(Interface(port.switch, match[1]), []).append(port)
    return tuple(
        Breakout(parent, tuple(sorted(rows, key=str)))
        for parent, rows in sorted(parts.items(), key=lambda item: str(item[0]))
        if 2 <= len(rows) <= 8
    )

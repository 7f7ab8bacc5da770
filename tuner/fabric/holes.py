"""What the facts leave open about the cabling: a hole is a fact, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from collectors.model.entities import Entity, Host, Port, display
from collectors.model.topology import join
from tuner.fabric.graph import Fabric, Facts, names_in

Kind: TypeAlias = Literal["one end", "unknown device", "uncabled port", "host without links"]


@dataclass(frozen=True, slots=True)
class Hole:
    """kind: a cable that one end saw though the other end reports neighbours, too; a far end on
    a device that nobody else speaks of; a port without a known cable; a host without any.
    """

    kind: Kind
    place: Entity
    text: str

    def __str__(self) -> str:
        return f"{display(self.place)}: {self.text}"


def holes_of(facts: Facts, fabric: Fabric) -> list[Hole]:
    """Return the holes of a window's facts, by kind."""
    topology = join(facts.neighbours(), names_in(facts))
    found = [
        Hole("one end", claim.local, f"sees {display(claim.remote)}, which does not see it")
        for claim in topology.one_sided
    ]
    found += [
        Hole("unknown device", wire, "its device is known as a neighbour only")
        for wire in topology.unknown
    ]
    return [*found, *_without_cable(fabric.ports(), fabric)]


def _without_cable(ports: Sequence[Port], fabric: Fabric) -> list[Hole]:
    disputed = {conflict.wire for conflict in fabric.conflicts}
    loose: dict[str, list[Port]] = {}
    cabled: set[str] = set()
    for port in ports:
        wire = fabric.attached(port)
        if fabric.peer(wire) is not None or wire in disputed:
            cabled.add(port.device.host)
        else:
            loose.setdefault(port.device.host, []).append(port)
    found: list[Hole] = []
    for host, of_host in loose.items():
        if host in cabled:
            found += [Hole("uncabled port", port, "no source knows its cable") for port in of_host]
        else:
            why = f"no source knows the cable of any of its {len(of_host)} ports"
            found.append(Hole("host without links", Host(host), why))
    return found

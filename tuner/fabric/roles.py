"""What part a switch, an interface or a NIC plays: its like is what it can be compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from collectors.model.entities import Entity, Interface, Link, Netdev, Port, Slot, Switch, Wire
from collectors.model.facts import Attribute
from tuner.fabric.steps import steps_from

TIER_NAMES = ("leaf", "spine", "core")


class Cabling(Protocol):
    """The part of a fabric that roles are read from."""

    def links(self) -> Iterable[Link]:
        """Return every cable once."""

    def peer(self, wire: Wire) -> Wire | None:
        """Return the other end of the cable, None where it is unknown."""

    def port_of(self, netdev: Netdev) -> Port | None:
        """Return the RDMA port of a network interface."""


class Inventory(Protocol):
    """What entities say of themselves."""

    def attributes(self, entity: Entity) -> Mapping[str, Attribute]:
        """Return identity and inventory of an entity by name."""


def tiers(fabric: Cabling) -> dict[Switch, int]:
    """Return the tier of each switch: 0 where hosts hang, else hops to the nearest such switch.

    Switches that no host can be reached from are left out.
    """
    beside: dict[Switch, list[Switch]] = {}
    edge: dict[Switch, None] = {}
    for cable in fabric.links():
        a, b = cable.a, cable.b
        if isinstance(a, Interface) and isinstance(b, Interface):
            beside.setdefault(a.switch, []).append(b.switch)
            beside.setdefault(b.switch, []).append(a.switch)
        elif isinstance(a, Interface) or isinstance(b, Interface):
            end = a if isinstance(a, Interface) else b
            edge.setdefault(end.switch)  # type: ignore[union-attr]  # one of both is one
    return steps_from(edge, beside)


def tier_name(tier: int) -> str:
    """Return `leaf`, `spine`, `core`, and above them `tier 4`..."""
    return TIER_NAMES[tier] if tier < len(TIER_NAMES) else f"tier {tier + 1}"


class Roles:
    """Roles of the entities of one fabric, as text: two of one role should be set alike."""

    def __init__(self, facts: Inventory, fabric: Cabling) -> None:
        self._facts = facts
        self._fabric = fabric
        self.tiers = tiers(fabric)

    def of(self, entity: Entity) -> str | None:
        """Return the role: kind of box by vendor and model, tier, direction, slot.

        None for what is not compared: queue pairs, cables, hosts as a whole.
        """
        match entity:
            case Slot(parent, kind, index):
                owner = self.of(parent)
                return None if owner is None else f"{kind} {index} of {owner}"
            case Switch():
                return self._switch(entity)
            case Interface(switch):
                far = self._fabric.peer(entity)
                if far is None:
                    return None  # an unused port may be set as it likes
                return f"{self._direction(switch, far)} port of {self._switch(switch)}"
            case Netdev():
                port = self._fabric.port_of(entity)
                return None if port is None else f"interface of {self._model(port)}"
            case Port():
                return f"port of {self._model(entity)}"
            case _:
                return None

    def _direction(self, switch: Switch, far: Wire) -> str:
        if not isinstance(far, Interface):
            return "host-facing"
        mine, other = self.tiers.get(switch), self.tiers.get(far.switch)
        if mine is None or other is None or mine == other:
            return "fabric"
        return "up-facing" if other > mine else "down-facing"

    def _switch(self, switch: Switch) -> str:
        known = self._facts.attributes(switch).get("platform")
        tier = self.tiers.get(switch)
        name = "switch" if tier is None else tier_name(tier)
        return name if known is None else f"{name} {known.value}"

    def _model(self, port: Port) -> str:
        known = self._facts.attributes(port.device)
        words = [
            str(known[name].value)
            for name in ("driver", "hca_type", "board_id")
            if name in known and known[name].value
        ]
        return " ".join(words) or "an RDMA device"

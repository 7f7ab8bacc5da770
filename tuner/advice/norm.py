"""What is usual: a setting's value at the like of a place, or what it should be without any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from collectors.model.catalogue import interface
from collectors.model.entities import (
    Entity,
    Host,
    Interface,
    Link,
    Netdev,
    Port,
    Slot,
    Switch,
    host_of,
    kind_of,
    wire_of,
)
from collectors.model.facts import Setting, Value
from tuner.diagnosis.once import once
from tuner.diagnosis.view import FabricView, Telemetry

ROCE_DSCP: Final = 26
CNP_DSCP: Final = 48

SENSIBLE: Final[Mapping[str, Value]] = MappingProxyType(
    {
        "trust": "dscp",
        "ecn_enabled": True,
        "pause_rx_enabled": False,
        "pause_tx_enabled": False,
        "roce_ecn_codepoint": 2,
        "roce_dscp": ROCE_DSCP,
        "cnp_dscp": CNP_DSCP,
        "cnp_priority": CNP_DSCP >> 3,
        "dcqcn_rp_enabled": (True,) * 8,
        "dcqcn_np_enabled": (True,) * 8,
        "adaptive_retransmission": True,
        "slow_restart": False,
        "load_balancing": "static",
        "ecn_average_weight": 0,
        "admin_enabled": True,
    }
)
"""What a RoCE fabric needs where no majority tells (NVIDIA, SONiC and Juniper guides agree)."""


def held(telemetry: Telemetry, name: str, places: Iterable[Entity]) -> dict[Entity, Setting]:
    """Return a setting at each of some places and at all their parts that have it."""
    within: set[Entity] = set()
    for place in places:
        within |= {place, place.a, place.b} if isinstance(place, Link) else {place}
    found: dict[Entity, Setting] = {}
    inside: dict[Entity, bool] = {}
    named = telemetry.setting_all(name)
    for entity in named:
        owner = entity.parent if isinstance(entity, Slot) else entity
        if owner not in inside:
            inside[owner] = not within.isdisjoint(_wholes(owner))
        if inside[owner] or entity in within:
            found[entity] = named[entity]
    return found


def _wholes(entity: Entity) -> tuple[Entity, ...]:
    """Return what an entity, no slot, is and is a part of."""
    if isinstance(entity, Interface):
        return entity, entity.switch
    host = host_of(entity)
    if host is None:
        return (entity,)
    if isinstance(entity, Port):
        return entity, entity.device, Host(host)
    return entity, Host(host)


def usual(
    telemetry: Telemetry, fabric: FabricView, name: str, place: Entity
) -> tuple[Value, str] | None:
    """Return the value that most of the like of a place have, and how many of how many.

    The like are of the same kind, number, speed and far end (host or switch); where two of them
    have no majority, those of the same kind and number, then of the same number. Other devices
    are asked first: a whole switch may be wrong.
    """
    index = once(telemetry, ("usual", name), lambda: _Index(telemetry, fabric, name))
    return index.usual(place)


class _Index:
    """How often each value of a setting stands, by likeness and device: many places ask."""

    def __init__(self, telemetry: Telemetry, fabric: FabricView, name: str) -> None:
        self._fabric = fabric
        self._speeds: dict[Entity, Value] = {}
        for speed, wires in telemetry.alike("speed_bps").items():
            self._speeds |= dict.fromkeys(wires, speed)
        self._settings = telemetry.setting_all(name)
        self._counts: dict[object, Counter[Value]] = {}
        for value, entities in telemetry.alike(name).items():
            alike = Counter((self._likeness(entity), _device(entity)) for entity in entities)
            for (likeness, device), times in alike.items():
                for like in _likes(likeness):
                    for key in (like, (like, device)):
                        self._counts.setdefault(key, Counter())[value] += times
        self._known: dict[tuple[object, ...], tuple[Value, str] | None] = {}

    def _likeness(self, entity: Entity) -> tuple[object, ...]:
        """Return kind, number, speed and whether the far end is a switch."""
        number = entity.index if isinstance(entity, Slot) else None
        wire = wire_of(entity)
        if wire is None:
            return kind_of(entity), number, None, False
        far = isinstance(self._fabric.peer(wire), Interface)
        return kind_of(entity), number, self._speeds.get(wire), far

    def usual(self, place: Entity) -> tuple[Value, str] | None:
        """Return the majority of the like of a place, that of other devices first."""
        own = self._settings.get(place)
        key = self._likeness(place), _device(place), None if own is None else own.value
        if key not in self._known:
            self._known[key] = self._majority(*key)
        return self._known[key]

    def _majority(
        self, likeness: tuple[object, ...], device: object, value: Value | None
    ) -> tuple[Value, str] | None:
        empty: Counter[Value] = Counter()
        own = Counter([] if value is None else [value])
        for like in _likes(likeness):
            alike = self._counts.get(like, empty)
            here = self._counts.get((like, device), empty)
            for group in (alike - here, alike - own):
                total = group.total()
                if total < 2:
                    continue
                most, times = group.most_common(1)[0]
                if times * 2 > total:
                    return most, f"{times} of {total} of its like have it"
        return None


def _likes(likeness: tuple[object, ...]) -> tuple[object, ...]:
    """Return what an entity is compared by, closest first."""
    kind = likeness[:2]
    return ("close", likeness), ("kind", kind), ("number", kind[1])


def _device(entity: Entity) -> object:
    if isinstance(entity, Switch):
        return entity
    wire = wire_of(entity)
    return wire.switch if isinstance(wire, Interface) else host_of(entity)


def wanted(
    telemetry: Telemetry, fabric: FabricView, name: str, place: Entity, current: Value | None
) -> tuple[Value, str] | None:
    """Return what a setting should be at a place, and why; None where nothing better is known."""
    found = usual(telemetry, fabric, name, place)
    if found is not None and found[0] != current:
        return found
    sensible = SENSIBLE.get(name)
    if sensible is not None and sensible != current:
        return sensible, "a RoCE fabric needs it so"
    return None


def around(fabric: FabricView, places: Iterable[Entity]) -> list[Entity]:
    """Return places and what belongs to them: a port's netdev, a netdev's port, its device."""
    found: dict[Entity, None] = {}
    for place in places:
        found.setdefault(place)
        if isinstance(place, Port):
            found.setdefault(fabric.attached(place))
        if isinstance(place, Netdev):
            port = fabric.port_of(place)
            if port is not None:
                found.setdefault(port)
    return list(found)


def rate_bps(telemetry: Telemetry, place: Entity) -> float | None:
    """Return the rate of the wire that a place is part of."""
    wire = wire_of(place)
    if wire is None:
        return None
    seen = telemetry.latest(interface.SPEED.name, wire)
    if seen is not None and seen.value > 0:
        return seen.value
    setting = telemetry.settings(wire).get("speed_bps")
    known = setting is not None and isinstance(setting.value, (int, float))
    return float(setting.value) if setting is not None and known else None  # type: ignore[arg-type]


def runs_dcqcn(telemetry: Telemetry, port: Entity) -> bool:
    """Tell whether a NIC is known to run DCQCN, which is what its parameters need."""
    setting = telemetry.settings(port).get("congestion_control")
    return setting is not None and setting.value == "dcqcn"

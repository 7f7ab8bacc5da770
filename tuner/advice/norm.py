"""What is usual: a setting's value at the like of a place, or what it should be without any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from collectors.model.catalogue import interface
from collectors.model.entities import (
    Entity,
    Interface,
    Netdev,
    Port,
    Slot,
    Switch,
    host_of,
    kind_of,
    wire_of,
)
from collectors.model.facts import Setting, Value
from tuner.advice.twin.change import Assignment
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
    within = [Assignment(name, 0, place) for place in places]
    return {
        entity: setting
        for entity, setting in telemetry.setting_all(name).items()
        if any(one.holds_for(entity) for one in within)
    }


def usual(
    telemetry: Telemetry, fabric: FabricView, name: str, place: Entity
) -> tuple[Value, str] | None:
    """Return the value that most of the like of a place have, and how many of how many.

    The like are of the same kind, number, speed and far end (host or switch); where two of them
    have no majority, those of the same kind and number, then of the same number. Other devices
    are asked first: a whole switch may be wrong.
    """
    everywhere = telemetry.setting_all(name)
    speeds = telemetry.setting_all("speed_bps")

    def trait(entity: Entity) -> tuple[object, ...]:
        wire = wire_of(entity)
        speed = speeds.get(wire) if wire is not None else None
        far = fabric.peer(wire) if wire is not None else None
        return (*_kind(entity), speed.value if speed else None, isinstance(far, Interface))

    own = _device(place)
    others = [(entity, s.value) for entity, s in everywhere.items() if entity != place]
    for like in (trait, _kind, _number):
        alike = [(entity, value) for entity, value in others if like(entity) == like(place)]
        elsewhere = [(entity, value) for entity, value in alike if _device(entity) != own]
        for group in (elsewhere, alike):
            if len(group) < 2:
                continue
            value, times = Counter(value for _, value in group).most_common(1)[0]
            if times * 2 > len(group):
                return value, f"{times} of {len(group)} of its like have it"
    return None


def _device(entity: Entity) -> object:
    if isinstance(entity, Switch):
        return entity
    wire = wire_of(entity)
    return wire.switch if isinstance(wire, Interface) else host_of(entity)


def _number(entity: Entity) -> object:
    return entity.index if isinstance(entity, Slot) else None


def _kind(entity: Entity) -> tuple[object, ...]:
    return kind_of(entity), entity.index if isinstance(entity, Slot) else None


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

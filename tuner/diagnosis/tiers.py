"""Tiers of switches and the groups of uplinks over which ECMP spreads."""

from __future__ import annotations

from collections.abc import Mapping

from collectors.model.entities import Interface, Switch, Wire
from tuner.diagnosis.load import loads
from tuner.diagnosis.once import once
from tuner.diagnosis.view import FabricView, Telemetry
from tuner.fabric import roles


def tiers(telemetry: Telemetry, fabric: FabricView) -> Mapping[Switch, int]:
    """Return the tier of each switch: 0 where hosts hang, one more for each step from there."""
    return once(telemetry, "tiers", lambda: roles.tiers(fabric))


def uplinks(telemetry: Telemetry, fabric: FabricView) -> Mapping[Switch, tuple[Interface, ...]]:
    """Return for each switch its interfaces that lead to a higher tier."""

    def found() -> dict[Switch, tuple[Interface, ...]]:
        level = tiers(telemetry, fabric)
        groups: dict[Switch, list[Interface]] = {}
        for wire in _wires(telemetry, fabric):
            far = fabric.peer(wire)
            if not isinstance(far, Interface) or wire.switch not in level:
                continue
            if level.get(far.switch, -1) > level[wire.switch]:
                groups.setdefault(wire.switch, []).append(wire)
        return {switch: tuple(sorted(wires, key=str)) for switch, wires in groups.items()}

    return once(telemetry, "uplinks", found)


def capacity_down(telemetry: Telemetry, fabric: FabricView) -> Mapping[Switch, float]:
    """Return what the hosts of each switch can send together, in bit/s."""
    speeds = loads(telemetry, fabric).speeds
    total: dict[Switch, float] = {}
    for wire in _wires(telemetry, fabric):
        far: Wire | None = fabric.peer(wire)
        if far is not None and not isinstance(far, Interface):
            total[wire.switch] = total.get(wire.switch, 0.0) + speeds.get(wire, 0.0)
    return total


def _wires(telemetry: Telemetry, fabric: FabricView) -> list[Interface]:
    """Return the switches' ends of cables whose speed is known."""
    return [wire for wire in loads(telemetry, fabric).speeds if isinstance(wire, Interface)]

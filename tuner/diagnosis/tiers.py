"""Tiers of switches and the groups of uplinks over which ECMP spreads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from collectors.model.entities import Interface, Switch
from tuner.diagnosis.load import loads
from tuner.diagnosis.once import once
from tuner.diagnosis.view import FabricView, Telemetry
from tuner.diagnosis.wires import Ints, numbered_wires


def tiers(telemetry: Telemetry, fabric: FabricView) -> Mapping[Switch, int]:
    """Return the tier of each switch: 0 where hosts hang, one more for each step from there.

    Switches that no host can be reached from are left out.
    """

    def found() -> dict[Switch, int]:
        switches = numbered_wires(telemetry, fabric).switches
        levels = _levels(telemetry, fabric).tolist()
        return {s: level for s, level in zip(switches, levels, strict=True) if level >= 0}

    return once(telemetry, "tiers", found)


def uplinks(telemetry: Telemetry, fabric: FabricView) -> Mapping[Switch, tuple[Interface, ...]]:
    """Return for each switch its interfaces of known speed that lead to a higher tier."""

    def found() -> dict[Switch, tuple[Interface, ...]]:
        wires, level = numbered_wires(telemetry, fabric), _levels(telemetry, fabric)
        near, below, above = _between(telemetry, fabric)
        up = near[(level[below] >= 0) & (level[above] > level[below])]
        up = up[~np.isnan(loads(telemetry, fabric).by_number[up])]
        groups: dict[Switch, list[Interface]] = {}
        for number in up.tolist():
            wire = wires[number]
            if isinstance(wire, Interface):
                groups.setdefault(wire.switch, []).append(wire)
        return {switch: tuple(sorted(ends, key=str)) for switch, ends in groups.items()}

    return once(telemetry, "uplinks", found)


def capacity_down(telemetry: Telemetry, fabric: FabricView) -> Mapping[Switch, float]:
    """Return what the hosts of each switch can send together, in bit/s."""
    wires, speeds = numbered_wires(telemetry, fabric), loads(telemetry, fabric).by_number
    there = np.append(wires.switch, -1)[wires.far]
    down = np.flatnonzero((wires.switch >= 0) & (wires.far >= 0) & (there < 0) & ~np.isnan(speeds))
    total = np.bincount(wires.switch[down], speeds[down], len(wires.switches))
    return {wires.switches[n]: float(total[n]) for n in np.unique(wires.switch[down]).tolist()}


def _levels(telemetry: Telemetry, fabric: FabricView) -> Ints:
    """Return the tier of each switch by its number, -1 where there is none."""

    def found() -> Ints:
        wires = numbered_wires(telemetry, fabric)
        cabled = np.flatnonzero((wires.switch >= 0) & (wires.far >= 0))
        hosted = cabled[wires.switch[wires.far[cabled]] < 0]
        level: Ints = np.full(len(wires.switches), -1, np.int64)
        level[wires.switch[hosted]] = 0
        _, one, other = _between(telemetry, fabric)
        for step in range(len(level)):
            reached = other[(level[one] == step) & (level[other] < 0)]
            if not len(reached):
                break
            level[reached] = step + 1
        return level

    return once(telemetry, "levels", found)


def _between(telemetry: Telemetry, fabric: FabricView) -> tuple[Ints, Ints, Ints]:
    """Return (interface, its switch, the switch at its other end) of cables between switches."""
    wires = numbered_wires(telemetry, fabric)
    there = np.append(wires.switch, -1)[wires.far]
    near = np.flatnonzero((wires.switch >= 0) & (there >= 0))
    return near, wires.switch[near], there[near]

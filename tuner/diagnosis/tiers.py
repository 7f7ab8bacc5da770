"""Tiers of switches and the groups of uplinks over which ECMP spreads."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from collectors.model.entities import Entity, Interface, Switch
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


def capacity_between(
    telemetry: Telemetry, fabric: FabricView, down: Collection[Entity]
) -> Mapping[Switch, float]:
    """Return what the links of each switch to other switches carry together, in bit/s.

    down: ends of links that carry nothing. Links of unknown speed are left out.
    """
    wires, speeds = numbered_wires(telemetry, fabric), loads(telemetry, fabric).by_number
    near, here, _ = _between(telemetry, fabric)
    known = ~np.isnan(speeds[near])
    near, here = near[known], here[known]
    dead = np.array([number for end in down if (number := wires.find(end)) is not None], np.int64)
    alive = ~np.isin(near, dead) & ~np.isin(wires.far[near], dead)
    total = np.bincount(here, np.where(alive, speeds[near], 0.0), len(wires.switches))
    numbers, first = np.unique(here, return_index=True)
    return {wires.switches[n]: float(total[n]) for n in numbers[np.argsort(first)].tolist()}


def links_to_switches(telemetry: Telemetry, fabric: FabricView, switch: Switch) -> list[Interface]:
    """Return the interfaces of known speed of a switch that lead to other switches."""
    wires, speeds = numbered_wires(telemetry, fabric), loads(telemetry, fabric).by_number
    near, here, _ = _between(telemetry, fabric)
    own = near[(here == wires.switches.index(switch)) & ~np.isnan(speeds[near])]
    return [end for n in own.tolist() if isinstance(end := wires[n], Interface)]


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

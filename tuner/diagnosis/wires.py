"""The ends of cables by number, so that what a whole fabric counts can be compared as arrays.

Rules do not index arrays: they ask the modules beside this one (load, flow, lossy cables).
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from collectors.model.entities import Entity, Interface, Netdev, Port, Switch, Wire
from collectors.model.metric import Metric
from tuner.diagnosis.once import once
from tuner.diagnosis.view import FabricView, Telemetry

Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

_WIRES: Final = (Port, Netdev, Interface)  # quicker to ask for than their union


def numbered_wires(telemetry: Telemetry, fabric: FabricView) -> Wires:
    """Return the numbering of a window's wires."""
    return once(telemetry, "wires", lambda: Wires(telemetry, fabric))


class Wires:
    """Every wire of which anything is known by a number from 0.

    Values of wires are arrays with one place for each, NaN where nothing is known. far: the other
    end of each wire's cable, -1 where it is unknown.
    """

    def __init__(self, telemetry: Telemetry, fabric: FabricView) -> None:
        layout = telemetry.layout()
        is_wire = np.array([isinstance(owner, _WIRES) for owner in layout.owners], np.bool_)
        of_owner = np.where(is_wire, np.cumsum(is_wire) - 1, -1)
        self._of: Ints = of_owner[layout.owner]  # entity -> its wire
        self._slot = layout.slot
        read = [owner for owner in layout.owners if isinstance(owner, _WIRES)]
        self._numbers: dict[Wire, int] = {wire: n for n, wire in enumerate(read)}
        met = {id(wire): n for n, wire in enumerate(read)}  # most of one name are one object

        def number(wire: Wire) -> int:
            found = met[id(wire)] = self._numbers.setdefault(wire, len(self._numbers))
            return found

        cables = [
            (
                near_number if (near_number := met.get(id(near))) is not None else number(near),
                far_number if (far_number := met.get(id(far))) is not None else number(far),
            )
            for near, far in fabric.peers.items()
        ]
        plugs = [(number(port), number(fabric.attached(port))) for port in fabric.ports()]
        self._wires = list(self._numbers)
        self.far: Ints = np.full(len(self._wires), -1, np.int64)
        self._plug: Ints = np.arange(len(self._wires))
        for pairs, array in ((cables, self.far), (plugs, self._plug)):
            ends: Ints = np.array(pairs, np.int64).reshape(-1, 2)
            array[ends[:, 0]] = ends[:, 1]

    def __len__(self) -> int:
        return len(self._wires)

    def __getitem__(self, number: int) -> Wire:
        return self._wires[number]

    def find(self, entity: Entity) -> int | None:
        """Return the number of a wire, None where nothing is known of it and for what is none."""
        return self._numbers.get(entity) if isinstance(entity, _WIRES) else None

    def of(self, entities: Ints) -> Ints:
        """Return the wire that each entity is or is part of, -1 for none.

        entities: by number, as tables have them.
        """
        return self._of[entities]

    def slots(self, entities: Ints) -> Ints:
        """Return the index of each entity that is a slot, -1 for others."""
        return self._slot[entities]

    def plugged(self, entities: Ints) -> Ints:
        """Return the same as `of`, for RoCE ports what their cable is plugged into."""
        wires = self._of[entities]
        whole = (wires >= 0) & (self._slot[entities] < 0)
        return np.where(whole, np.append(self._plug, -1)[wires], wires)

    def at_far(self, values: Floats) -> Floats:
        """Return the values of the other ends, NaN where there is none."""
        return at(self.far, values)

    @cached_property
    def switch(self) -> Ints:
        """The number in `switches` of the switch of each interface, -1 of what is none."""
        numbers: dict[Switch, int] = {}
        return np.array(
            [
                numbers.setdefault(wire.switch, len(numbers)) if isinstance(wire, Interface) else -1
                for wire in self._wires
            ],
            np.int64,
        )

    @cached_property
    def switches(self) -> list[Switch]:
        """The switches that any interface belongs to."""
        return list(
            dict.fromkeys(wire.switch for wire in self._wires if isinstance(wire, Interface))
        )

    def on(self, switches: frozenset[Switch]) -> Bools:
        """Tell of each wire whether it is an interface of one of these switches."""
        if not switches:
            return np.zeros(len(self), np.bool_)
        named = np.array([switch in switches for switch in self.switches] + [False], np.bool_)
        return np.asarray(named[self.switch], np.bool_)

    def sums(self, wires: Ints, values: Floats) -> Floats:
        """Return the sum of the values at each wire."""
        known = wires >= 0
        total = np.bincount(wires[known], values[known], len(self)).astype(np.float64)
        total[np.bincount(wires[known], minlength=len(self)) == 0] = np.nan
        return total

    def firsts(self, wires: Ints, values: Floats) -> Floats:
        """Return the first value of each wire."""
        known = np.flatnonzero(wires >= 0)[::-1]
        first: Floats = np.full(len(self), np.nan)
        first[wires[known]] = values[known]
        return first

    def highest(self, wires: Ints, values: Floats) -> tuple[Floats, Ints]:
        """Return (the highest value at each wire, the place of its first occurrence or -1)."""
        known = np.flatnonzero(wires >= 0)
        top: Floats = np.full(len(self), -np.inf)
        np.maximum.at(top, wires[known], values[known])
        # The last one that is written stays: of the highest values the first.
        highest = known[values[known] == top[wires[known]]][::-1]
        place: Ints = np.full(len(self), -1, np.int64)
        place[wires[highest]] = highest
        return np.where(place < 0, np.nan, top), place

    def mapping(self, values: Floats) -> dict[Wire, float]:
        """Return what is known of `values` by wire."""
        known = np.flatnonzero(~np.isnan(values))
        return dict(zip([self._wires[n] for n in known], values[known].tolist(), strict=True))


def at(places: Ints, values: Floats) -> Floats:
    """Return the value at each place, NaN at -1."""
    return np.append(values, np.nan)[places]


def sums(telemetry: Telemetry, wires: Wires, metric: Metric) -> Floats:
    """Return what a counter grew by in all slots of each wire together."""
    table = telemetry.growth_table(metric.name)
    return wires.sums(wires.of(table.number), table.total)

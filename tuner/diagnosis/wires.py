"""The ends of cables by number, so that what a whole fabric counts can be compared as arrays.

Rules do not index arrays: they ask the modules beside this one (load, flow, lossy cables).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from collectors.model.entities import Interface, Port, Switch, Wire, wire_of
from collectors.model.metric import Metric
from tuner.diagnosis.once import once
from tuner.diagnosis.view import FabricView, Telemetry

Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]


def numbered_wires(telemetry: Telemetry, fabric: FabricView) -> Wires:
    """Return the numbering of a window's wires."""
    return once(telemetry, "wires", lambda: Wires(telemetry, fabric))


class Wires:
    """Every wire of which anything is known by a number from 0.

    Values of wires are arrays with one place for each, NaN where nothing is known. far: the other
    end of each wire's cable, -1 where it is unknown.
    """

    def __init__(self, telemetry: Telemetry, fabric: FabricView) -> None:
        self._wires: list[Wire] = []
        self._numbers: dict[Wire, int] = {}
        layout = telemetry.layout()
        of_owner = [self._number(o) if isinstance(o, Wire) else -1 for o in layout.owners]
        self._of: Ints = np.array(of_owner, np.int64)[layout.owner]  # entity -> its wire
        self._slot = layout.slot
        for entity in telemetry.setting_all("speed_bps"):
            told = wire_of(entity)
            if told is not None:
                self._number(told)
        far: list[int] = []
        plug: list[int] = []
        back: dict[int, int] = {}
        for number, end in enumerate(self._wires):  # grows on the way
            plug.append(self._number(fabric.attached(end)) if isinstance(end, Port) else number)
            other = back.get(number)
            if other is None:
                peer = fabric.peer(end)
                other = -1 if peer is None else self._number(peer)
                back[other] = number
            far.append(other)
        self.far: Ints = np.array(far, np.int64)
        self._plug: Ints = np.array(plug, np.int64)

    def __len__(self) -> int:
        return len(self._wires)

    def __getitem__(self, number: int) -> Wire:
        return self._wires[number]

    def find(self, wire: Wire) -> int | None:
        """Return the number of a wire, None where nothing is known of it."""
        return self._numbers.get(wire)

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

    def on(self, switches: frozenset[Switch]) -> Bools:
        """Tell of each wire whether it is an interface of one of these switches."""
        if not switches:
            return np.zeros(len(self), np.bool_)
        return np.array(
            [isinstance(wire, Interface) and wire.switch in switches for wire in self._wires],
            np.bool_,
        )

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
        # The last one that is written stays: of the highest values the first.
        order = np.lexsort((-np.arange(len(values)), values))
        order = order[wires[order] >= 0]
        place: Ints = np.full(len(self), -1, np.int64)
        place[wires[order]] = order
        top: Floats = np.full(len(self), np.nan)
        top[place >= 0] = values[place[place >= 0]]
        return top, place

    def mapping(self, values: Floats) -> dict[Wire, float]:
        """Return what is known of `values` by wire."""
        known = np.flatnonzero(~np.isnan(values))
        return dict(zip([self._wires[n] for n in known], values[known].tolist(), strict=True))

    def _number(self, wire: Wire) -> int:
        found = self._numbers.setdefault(wire, len(self._wires))
        if found == len(self._wires):
            self._wires.append(wire)
        return found


def at(places: Ints, values: Floats) -> Floats:
    """Return the value at each place, NaN at -1."""
    return np.append(values, np.nan)[places]


def sums(telemetry: Telemetry, wires: Wires, metric: Metric) -> Floats:
    """Return what a counter grew by in all slots of each wire together."""
    table = telemetry.growth_table(metric.name)
    return wires.sums(wires.of(table.number), table.total)

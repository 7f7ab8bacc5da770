"""How long egresses were stopped by PFC, read from whatever counts it: pause times or frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from collectors.model.catalogue import interface
from collectors.model.entities import Entity, Switch, Wire
from collectors.model.metric import Metric
from tuner.diagnosis.finding import Evidence
from tuner.diagnosis.load import loads
from tuner.diagnosis.rule import grew
from tuner.diagnosis.view import FabricView, Growing, Table, Telemetry
from tuner.diagnosis.wires import Bools, Floats, Ints, Wires, at, numbered_wires

QUANTA_BITS: Final = 512  # IEEE 802.1Qbb: pause time counts in 512 bit times
FULL_QUANTA: Final = 65535  # what most devices ask for in each XOFF frame
_TIMES: Final = (interface.PFC_RX_PAUSE, interface.PFC_TX_PAUSE)
_FRAMES: Final = (interface.PFC_RX_FRAMES, interface.PFC_TX_FRAMES)
_AT_PEER: Final = (interface.PFC_TX_PAUSE, interface.PFC_TX_FRAMES)  # it stops the other end
_FRAMES_TO_TIME_DOUBT: Final = "estimated from frames: at most 65535 quanta each"


@dataclass(frozen=True, slots=True)
class Stall:
    """The share of time in which an egress was not allowed to send, and what it was read from."""

    wire: Wire
    share: float
    metric: Metric
    counted_at: Entity
    growth: Growing
    exact: bool

    @property
    def evidence(self) -> Evidence:
        """The counter that it was read from."""
        doubt = "" if self.metric in _TIMES else _FRAMES_TO_TIME_DOUBT
        return grew(self.metric, self.counted_at, self.growth, doubt)


@dataclass(frozen=True)
class _Counts:
    """Rows of one counter. wire: the egress that was stalled, -1 for none. entity: who counted."""

    metric: Metric
    exact: bool
    wire: Ints
    priority: Ints
    share: Floats
    entity: Ints

    def only(self, rows: Bools) -> _Counts:
        """Return some of the rows."""
        ints = self.wire[rows], self.priority[rows]
        return _Counts(self.metric, self.exact, *ints, self.share[rows], self.entity[rows])


class Stalls(Mapping[Wire, Stall]):
    """The stalls of one priority by wire, made when they are looked at."""

    def __init__(self, telemetry: Telemetry, wires: Wires, counts: Sequence[_Counts]) -> None:
        self._telemetry = telemetry
        self._wires = wires
        self._counts = counts
        self._starts = np.cumsum([0, *(len(part.wire) for part in counts)])
        wire = np.concatenate([part.wire for part in counts])
        self._share: Floats = np.concatenate([part.share for part in counts])
        self._place: Ints = np.full(len(wires), -1, np.int64)
        self._place[wire[::-1]] = np.arange(len(wire))[::-1]  # the first of each wire stays

    def __getitem__(self, wire: Wire) -> Stall:
        number = self._wires.find(wire)
        place = -1 if number is None or number >= len(self._place) else int(self._place[number])
        if place < 0:
            raise KeyError(wire)
        part = int(np.searchsorted(self._starts, place, "right")) - 1
        counts, row = self._counts[part], place - int(self._starts[part])
        slot = self._telemetry.everything()[counts.entity[row]]
        growth = self._telemetry.growth(counts.metric.name, slot)
        if growth is None:
            raise KeyError(wire)
        share = float(self._share[place])
        return Stall(wire, share, counts.metric, slot, growth, counts.exact)

    def __iter__(self) -> Iterator[Wire]:
        return iter(self.shares(0.0))

    def __len__(self) -> int:
        return int(np.count_nonzero(self._place >= 0))

    def shares(self, least: float) -> dict[Wire, float]:
        """Return the share of time of every wire that was stalled for `least` or more of it."""
        stalled = np.flatnonzero((self._place >= 0) & (at(self._place, self._share) >= least))
        ordered = stalled[np.argsort(self._place[stalled])]
        return {self._wires[n]: float(self._share[self._place[n]]) for n in ordered.tolist()}


def stalls_by_priority(
    telemetry: Telemetry, fabric: FabricView, swapped: frozenset[Switch]
) -> dict[int, Stalls]:
    """Return the stalls of each priority that has any counter, lowest first.

    The surest counter of an egress is taken. It knows how long it was paused (rx pause of its own
    port), else its peer knows how long it paused it (tx pause of the other end), else frames
    bound it from above. A switch that has rx and tx of PFC exchanged is read the other way round,
    after all others.
    """
    wires = numbered_wires(telemetry, fabric)
    speeds = loads(telemetry, fabric).by_number
    sure: list[_Counts] = []
    late: list[_Counts] = []
    for metric in (*_TIMES, *_FRAMES):
        table = telemetry.growth_table(metric.name)
        own, priority = wires.of(table.number), wires.slots(table.number)
        wrong = np.append(wires.on(swapped), False)[own]
        wire = np.where(wrong != (metric in _AT_PEER), np.append(wires.far, -1)[own], own)
        share = _shares(metric, table, at(own, speeds))
        counts = _Counts(metric, metric in _TIMES, wire, priority, share, table.number)
        known = (wire >= 0) & (priority >= 0) & ~np.isnan(share)
        wrong &= metric in _TIMES
        sure.append(counts.only(known & ~wrong))
        late.append(replace(counts.only(known & wrong), exact=False))
    counted = [counts for counts in (*sure, *late) if len(counts.wire)]
    priorities = {index for counts in counted for index in np.unique(counts.priority).tolist()}
    return {
        index: Stalls(telemetry, wires, [c.only(c.priority == index) for c in counted])
        for index in sorted(priorities)
    }


def _shares(metric: Metric, table: Table, bps: Floats) -> Floats:
    """Return the share of time that each row tells of, of frames at most. bps: of its wire."""
    if metric in _TIMES:
        return np.minimum(table.total / table.seconds, 1.0)
    seconds = table.total * FULL_QUANTA * QUANTA_BITS / bps
    return np.minimum(seconds / table.seconds, 1.0)

"""Blocks: where batches of one shape are appended, one row of a matrix each.

A block belongs to one agent, collector and set of entities. It holds the cells (entity, column)
that its batches ever had; a batch that lacks some is stored with a mask, one that has others
closes the block and opens a wider one. A stable schema thus costs eight bytes a value and no
Python per cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from collectors.model.metric import Column
from tuner.store.arithmetic import Bools, Ints, Values
from tuner.store.panel import Half, Panel, in_order

FIRST_SAMPLES: Final = 4  # samples of a new block

Fill: TypeAlias = Callable[[Values, bool], None]
"""Writes numbers into an array of samples by cells: at once, or any time before they are asked."""


@dataclass(frozen=True, eq=False)
class Placement:
    """Where the packed numbers of a batch belong: cell keys (row << 16 | column), packed order."""

    int_keys: Ints
    float_keys: Ints


@dataclass
class Part:
    """The integer or float matrix of a block, with room to grow."""

    keys: Ints  # ascending
    values: Values
    present: Bools | None = None

    def put(self, sample: int, places: Ints | None, numbers: Values) -> None:
        """Write the numbers of one sample; places None: all cells, in order."""
        if not len(self.keys):
            return
        if places is None:
            self.values[sample] = numbers
            if self.present is not None:
                self.present[sample] = True
            return
        if len(places) == len(self.keys):  # all are there, in another order
            self.values[sample, places] = numbers
            if self.present is not None:
                self.present[sample] = True
            return
        if self.present is None:
            self.present = np.ones(self.values.shape, np.bool_)
        self.values[sample] = 0
        self.values[sample, places] = numbers
        self.present[sample] = False
        self.present[sample, places] = True

    def put_all(self, samples: slice, places: Ints | None, fill: Fill) -> None:
        """Write the numbers of several samples; see `put`. fill: writes them, sample by sample."""
        if not len(self.keys):
            return
        if places is None:
            fill(self.values[samples], False)
            if self.present is not None:
                self.present[samples] = True
            return
        numbers = np.empty((samples.stop - samples.start, len(places)), self.values.dtype)
        fill(numbers, True)
        for sample, row in zip(range(samples.start, samples.stop), numbers, strict=True):
            self.put(sample, places, row)

    def move(self, live: slice, capacity: int) -> None:
        """Copy the living samples to new arrays of another capacity."""
        self.values = _moved(self.values, live, capacity)
        if self.present is not None:
            self.present = _moved(self.present, live, capacity)

    def half(self, live: slice) -> Half:
        """Return the living samples as half of a panel, without copying."""
        present = None if self.present is None else self.present[live]
        if present is not None and present.all():
            present = None
        return Half(self.keys >> 16, self.keys & 0xFFFF, self.values[live], present)

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample."""
        return len(self.keys) * (8 if self.present is None else 9)


@dataclass(eq=False)
class Block:
    """Samples of one cell set; living ones are start..end. Arrays are never changed in the part
    that is living, so that a view taken earlier stays true while the block goes on.

    at, mono: one column while all rows share the times. incarnation: one row while all samples do.
    """

    rows: int
    ints: Part
    floats: Part
    start: int = 0
    end: int = 0
    capacity: int = FIRST_SAMPLES
    boot: Ints = field(init=False)
    arrival: Ints = field(init=False)
    at: Ints = field(init=False)
    mono: Ints = field(init=False)
    incarnation: Ints = field(init=False)
    _places: dict[Placement, tuple[Ints | None, Ints | None] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Allocate the time arrays."""
        self.boot, self.arrival = (np.empty(self.capacity, np.int64) for _ in range(2))
        narrow = min(self.rows, 1)
        self.at, self.mono = (np.empty((self.capacity, narrow), np.int64) for _ in range(2))
        self.incarnation = np.empty((0, self.rows), np.int64)

    def places(self, placement: Placement) -> tuple[Ints | None, Ints | None] | None:
        """Return the columns of the matrices for a batch; None where it has cells of its own."""
        if placement not in self._places:
            if len(self._places) > 256:
                self._places.clear()
            ints = _find(self.ints.keys, placement.int_keys)
            floats = _find(self.floats.keys, placement.float_keys)
            fits = ints is not False and floats is not False
            self._places[placement] = (ints, floats) if fits else None  # type: ignore[assignment]
        return self._places[placement]

    def append(
        self,
        places: tuple[Ints | None, Ints | None],
        times: tuple[int, int, Ints | int, Ints | int, Ints],
        ints: Values,
        floats: Values,
    ) -> None:
        """Append a batch. times: rank of boot, arrival; by row: wall, monotonic, incarnation."""
        if self.end == self.capacity:
            self._make_room()
        here, boot, arrival, at, mono, incarnation = self.end, *times
        self.boot[here], self.arrival[here] = boot, arrival
        self._fit(np.size(at), incarnation)
        self.at[here], self.mono[here] = at, mono
        if len(self.incarnation) > 1:
            self.incarnation[here] = incarnation
        self.ints.put(here, places[0], ints)
        self.floats.put(here, places[1], floats)
        self.end += 1

    def extend(
        self,
        places: tuple[Ints | None, Ints | None],
        times: tuple[int, Ints, Ints, Ints, Ints],
        ints: Fill,
        floats: Fill,
    ) -> None:
        """Append batches of one shape and boot. times: as for `append`, by sample (and row)."""
        boot, arrival, at, mono, incarnation = times
        self.reserve(len(arrival))
        here = slice(self.end, self.end + len(arrival))
        self.boot[here], self.arrival[here] = boot, arrival
        self._fit(max(at.shape[1], mono.shape[1]), incarnation)
        self.at[here], self.mono[here] = at, mono
        if len(self.incarnation) > 1:
            self.incarnation[here] = incarnation
        self.ints.put_all(here, places[0], ints)
        self.floats.put_all(here, places[1], floats)
        self.end = here.stop

    def reserve(self, samples: int) -> None:
        """Make room for so many more samples; where that is much, for no others."""
        if self.end + samples > self.capacity:
            self._make_room(samples)

    def drop_before(self, at_ns: int) -> None:
        """Forget the leading samples that are older."""
        old: Bools = np.asarray(self.at[self.start : self.end].max(axis=1, initial=0) < at_ns)
        self.start += len(old) if old.all() else int(np.argmin(old))
        if self.samples < self.capacity // 2 and self.capacity > FIRST_SAMPLES:
            self._make_room()

    @property
    def samples(self) -> int:
        """Number of living samples."""
        return self.end - self.start

    @property
    def nbytes(self) -> int:
        """Bytes of the living samples; the arrays have up to as much again for growth."""
        times: int = 16 + 8 * (self.at.shape[1] + self.mono.shape[1])
        if len(self.incarnation) > 1:
            times += 8 * self.rows
        return self.samples * (times + self.ints.sample_bytes + self.floats.sample_bytes)

    @property
    def oldest_ns(self) -> int:
        """Wall clock of the first living sample."""
        return int(self.at[self.start].min()) if self.samples and self.rows else 0

    def panel(
        self, agent: str, collector: str, rows: Ints, columns: Sequence[Column], since: int,
        until: int,
    ) -> Panel | None:  # fmt: skip
        """Return the samples of a span of wall-clock time; None where there are none."""
        live = slice(self.start, self.end)
        at = self.at[live]
        inside: Bools = np.asarray(((at >= since) & (at <= until)).any(axis=1))
        if not inside.any():
            return None
        first, count = int(np.argmax(inside)), int(np.count_nonzero(inside))
        last = len(inside) - int(np.argmax(inside[::-1]))
        live = slice(self.start + first, self.start + last)
        same = self.incarnation if len(self.incarnation) == 1 else self.incarnation[live]
        panel = Panel(
            agent, collector, rows, columns, self.boot[live], self.arrival[live],
            self._wide(self.at[live]), self._wide(self.mono[live]),
            np.broadcast_to(same, (last - first, self.rows)),
            self.ints.half(live), self.floats.half(live),
        )  # fmt: skip
        if count != last - first:  # the wall clock went back and forth
            panel = panel.take(np.flatnonzero(inside[first:last]))
        return in_order(panel)

    def _fit(self, times: int, incarnation: Ints) -> None:
        """Make room for times of so many rows, and for an incarnation unlike that of before."""
        if times > 1 and self.at.shape[1] == 1 < self.rows:
            self.at, self.mono = (np.repeat(a, self.rows, axis=1) for a in (self.at, self.mono))
        if not self.end:
            self.incarnation = incarnation[None]
        elif len(self.incarnation) == 1 and not (self.incarnation[0] == incarnation).all():
            self.incarnation = np.repeat(self.incarnation, self.capacity, axis=0)

    def _wide(self, times: Ints) -> Ints:
        """Return the times of all rows."""
        return np.broadcast_to(times, (len(times), self.rows))

    def _make_room(self, more: int = 0) -> None:
        live = slice(self.start, self.end)
        samples = self.samples
        doubled = samples * 2 if samples < 64 else samples + samples // 2
        self.capacity = max(FIRST_SAMPLES, samples + more if more > samples // 8 else doubled)
        self.ints.move(live, self.capacity)
        self.floats.move(live, self.capacity)
        self.boot, self.arrival, self.at, self.mono = (
            _moved(array, live, self.capacity)
            for array in (self.boot, self.arrival, self.at, self.mono)
        )
        if len(self.incarnation) > 1:
            self.incarnation = _moved(self.incarnation, live, self.capacity)
        self.start, self.end = 0, samples


def new_block(
    rows: int, placement: Placement, wider_than: Block | None, capacity: int = FIRST_SAMPLES
) -> Block:
    """Return an empty block for the cells of a batch and of a former block."""
    ints, floats = placement.int_keys, placement.float_keys
    if wider_than is not None:
        ints = np.concatenate([ints, wider_than.ints.keys])
        floats = np.concatenate([floats, wider_than.floats.keys])
    ints, floats = _ascending(ints), _ascending(floats)
    return Block(
        rows,
        Part(ints, np.empty((capacity, len(ints)), np.uint64)),
        Part(floats, np.empty((capacity, len(floats)), np.float64)),
        capacity=capacity,
    )


def _ascending(keys: Ints) -> Ints:
    return keys if (keys[1:] > keys[:-1]).all() else np.unique(keys)


def _find(keys: Ints, wanted: Ints) -> Ints | bool | None:
    """Return places of keys; None where they are all, in order; False where one is not there."""
    if keys is wanted or np.array_equal(keys, wanted):
        return None
    if not len(keys):
        return np.zeros(0, np.int64) if not len(wanted) else False
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return places if np.array_equal(keys[places], wanted) else False


def _moved(array: Values, live: slice, capacity: int) -> Values:
    bigger = np.empty((capacity, *array.shape[1:]), array.dtype)
    living = array[live]
    bigger[: len(living)] = living
    return bigger

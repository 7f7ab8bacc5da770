"""A panel: the readings of one set of entities by one collector, as arrays over time.

A sample is one pass (one batch), a row is an entity, a cell is an (entity, column) pair that
was ever present. Integer and float cells lie in two matrices of samples by cells; a mask says
what is absent, and is missing where nothing is. Samples are ordered by (boot, monotonic time).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from collectors.model.metric import Column
from tuner.store.arithmetic import Bools, Ints, Values


@dataclass(frozen=True)
class Half:
    """The integer or the float cells of a panel. row, column: of each cell, shape (n,)."""

    row: Ints
    column: Ints
    values: Values  # (samples, n)
    present: Bools | None  # (samples, n); None where nothing is absent

    @cached_property
    def counts(self) -> Ints:
        """Readings of each cell."""
        if self.present is None:
            return np.full(self.values.shape[1], len(self.values), np.int64)
        return np.asarray(np.count_nonzero(self.present, axis=0), np.int64)

    @cached_property
    def last(self) -> Ints:
        """The last sample in which each cell is present; undefined where none is."""
        samples, cells = self.values.shape
        if self.present is None:
            return np.full(cells, samples - 1, np.int64)
        return np.asarray(samples - 1 - np.argmax(self.present[::-1], axis=0), np.int64)


@dataclass(frozen=True)
class Panel:
    """Arrays of one collector of one agent; see the module.

    rows: key of each row, entity id << 8 | how many rows of that entity came before (a collector
    may read one entity twice in a pass). at, mono, incarnation: (samples, rows). boot, arrival:
    of each sample, the rank of its boot and its number in the store.
    """

    agent: str
    collector: str
    rows: Ints
    columns: Sequence[Column]
    boot: Ints
    arrival: Ints
    at: Ints
    mono: Ints
    incarnation: Ints
    ints: Half
    floats: Half

    @cached_property
    def entity(self) -> Ints:
        """Entity id of each row."""
        ids: Ints = self.rows >> 8
        return ids

    def take(self, samples: Ints) -> Panel:
        """Return the panel of some of the samples."""
        return replace(
            self,
            boot=self.boot[samples],
            arrival=self.arrival[samples],
            at=self.at[samples],
            mono=self.mono[samples],
            incarnation=self.incarnation[samples],
            ints=_take(self.ints, samples),
            floats=_take(self.floats, samples),
        )


def in_order(panel: Panel) -> Panel:
    """Return the panel with every row ordered by (boot, monotonic time)."""
    samples, rows = panel.mono.shape
    if samples < 2:
        return panel
    boot = panel.boot[:, None]
    step = boot[1:] > boot[:-1]
    step = step | ((boot[1:] == boot[:-1]) & (panel.mono[1:] >= panel.mono[:-1]))
    if step.all():
        return panel
    base = np.argsort(panel.boot, kind="stable")  # boots first, so that they stay one array
    mono = panel.mono[base]
    order = base[np.lexsort((mono, np.broadcast_to(panel.boot[base, None], mono.shape)), axis=0)]
    every = np.arange(rows)[None, :]

    def sort(half: Half) -> Half:
        cells = np.arange(len(half.row))[None, :]
        by_cell = order[:, half.row]
        present = None if half.present is None else half.present[by_cell, cells]
        return Half(half.row, half.column, half.values[by_cell, cells], present)

    return replace(
        panel,
        boot=panel.boot[base],
        arrival=panel.arrival[base],
        at=panel.at[order, every],
        mono=panel.mono[order, every],
        incarnation=panel.incarnation[order, every],
        ints=sort(panel.ints),
        floats=sort(panel.floats),
    )


def merge(panels: Sequence[Panel]) -> Panel:
    """Return one panel of several of one agent and collector: all samples, all cells."""
    if len(panels) == 1:
        return panels[0]
    every_row = np.unique(np.concatenate([panel.rows for panel in panels]))
    columns = list(dict.fromkeys(column for panel in panels for column in panel.columns))
    place = {column: number for number, column in enumerate(columns)}
    starts = np.cumsum([0, *(len(panel.boot) for panel in panels)])
    total = int(starts[-1])
    shape = (total, len(every_row))
    at, mono = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    incarnation = np.zeros(shape, np.int64)
    boot = np.concatenate([panel.boot for panel in panels])
    arrival = np.concatenate([panel.arrival for panel in panels])
    rows_of, columns_of = [], []
    for panel, start in zip(panels, starts, strict=False):
        rows = np.searchsorted(every_row, panel.rows)
        here = slice(start, start + len(panel.boot))
        # Rows that a sample does not speak of get its time, so that ordering stays possible.
        at[here], mono[here] = panel.at[:, :1], panel.mono[:, :1]
        at[here, rows], mono[here, rows] = panel.at, panel.mono
        incarnation[here, rows] = panel.incarnation
        rows_of.append(rows)
        columns_of.append(np.array([place[column] for column in panel.columns], np.int64))

    def halves(halves_of: list[Half]) -> Half:
        keys = [
            rows[half.row] << 16 | cols[half.column]
            for half, rows, cols in zip(halves_of, rows_of, columns_of, strict=True)
        ]
        union = np.unique(np.concatenate(keys))
        values = np.zeros((total, len(union)), halves_of[0].values.dtype)
        present = np.zeros(values.shape, np.bool_)
        for half, key, start in zip(halves_of, keys, starts, strict=False):
            cells = np.searchsorted(union, key)
            here = slice(start, start + len(half.values))
            values[here, cells] = half.values
            present[here, cells] = True if half.present is None else half.present
        return Half(union >> 16, union & 0xFFFF, values, None if present.all() else present)

    order = np.lexsort((arrival, mono[:, 0], boot))
    ints, floats = halves([p.ints for p in panels]), halves([p.floats for p in panels])
    return in_order(
        Panel(
            panels[0].agent,
            panels[0].collector,
            every_row,
            columns,
            boot[order],
            arrival[order],
            at[order],
            mono[order],
            incarnation[order],
            _take(ints, order),
            _take(floats, order),
        )
    )


def _take(half: Half, order: Ints) -> Half:
    present = None if half.present is None else half.present[order]
    return Half(half.row, half.column, half.values[order], present)

"""All cells of a window in one table: a question about a metric is a slice, not a walk.

Panels are put in the order of preference of their collectors, cells of integers and of floats
apart; each is sorted by column once. Growth is formed for all cells when it is first asked for,
newest and highest values for the cells that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from collectors.model.metric import Column
from tuner.store.arithmetic import Bools, Floats, Ints, Values
from tuner.store.growth import HalfGrowth, growth_of
from tuner.store.panel import Half, Panel

_FEW: Final = 128  # look-ups one by one, before a table of all is made


class Cells:
    """The integer or the float cells of all panels. Arrays of shape (n,) unless said."""

    def __init__(self, panels: Sequence[Panel], half: Callable[[Panel], Half]) -> None:
        self.panels = panels
        self._halves = [half(panel) for panel in panels]
        sizes = [len(found.row) for found in self._halves]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.columns: list[Column] = []
        number: dict[Column, int] = {}
        known: dict[tuple[int, ...], Ints] = {}  # most panels have the columns of another one
        parts = []
        for panel, found in zip(panels, self._halves, strict=True):
            same = tuple(map(id, panel.columns))
            of_panel = known.get(same)
            if of_panel is None:
                for column in panel.columns:
                    if column not in number:
                        number[column] = len(self.columns)
                        self.columns.append(column)
                numbers = [number[column] for column in panel.columns]
                of_panel = known[same] = np.array(numbers, np.int64)
            parts.append(of_panel[found.column] if len(of_panel) else found.column)
        self._column = _joined(parts)  # number of each cell's column in `columns`
        self.of_metric: dict[str, list[int]] = {}
        for place, column in enumerate(self.columns):
            self.of_metric.setdefault(column.metric, []).append(place)

    @cached_property
    def entity(self) -> Ints:
        """Entity id."""
        return _joined([p.entity[h.row] for p, h in zip(self.panels, self._halves, strict=True)])

    @cached_property
    def panel(self) -> Ints:
        """Number of the panel: the smaller, the more preferred."""
        sizes = np.diff(self._starts)
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def counts(self) -> Ints:
        """Readings."""
        return _joined([half.counts for half in self._halves])

    @cached_property
    def growth(self) -> HalfGrowth:
        """Growth of every cell."""
        return growth_of(self.panels, self._halves, self.columns, self._column)

    def newest(self, cells: Ints) -> tuple[Values, Ints]:
        """Return newest native value and its wall clock of cells that have a reading."""
        values, times = self._nothing(cells)
        for panel, half, places, own in self._by_panel(cells):
            dense = half.present is None
            last = np.full(len(own), -1) if dense else half.last[own]
            values[places] = half.values[last, own]
            times[places] = panel.at[last, half.row[own]]
        return values, times

    def highest(self, cells: Ints) -> tuple[Values, Ints]:
        """Return highest native value and its wall clock of cells that have a reading."""
        values, times = self._nothing(cells)
        for panel, half, places, own in self._by_panel(cells):
            held = half.values[:, own]
            if half.present is not None:
                held = np.where(half.present[:, own], held, held.min(axis=0))
            top = held.argmax(axis=0)
            values[places] = held[top, np.arange(len(own))]
            times[places] = panel.at[top, half.row[own]]
        return values, times

    def _nothing(self, cells: Ints) -> tuple[Values, Ints]:
        dtype = self._halves[0].values.dtype if self._halves else np.float64
        return np.zeros(len(cells), dtype), np.zeros(len(cells), np.int64)

    def _by_panel(self, cells: Ints) -> Iterator[tuple[Panel, Half, Ints, Ints]]:
        """Yield (panel, half, places in `cells`, the same cells within the half)."""
        order = np.argsort(cells)
        edges = np.searchsorted(cells[order], self._starts)
        for owner in np.flatnonzero(np.diff(edges)).tolist():
            places = order[edges[owner] : edges[owner + 1]]
            own = cells[places] - self._starts[owner]
            yield self.panels[owner], self._halves[owner], places, own

    @cached_property
    def _by_column(self) -> tuple[Ints, Ints]:
        few = len(self.columns) <= 1 << 16  # then the sort is one by digits
        column = self._column.astype(np.uint16) if few else self._column
        order = np.argsort(column, kind="stable")
        return order, np.searchsorted(self._column[order], np.arange(len(self.columns) + 1))

    def of_column(self, column: int) -> Ints:
        """Return the cells of a column, in order of panels."""
        order, starts = self._by_column
        return order[starts[column] : starts[column + 1]]

    def panel_of(self, cell: int) -> tuple[Panel, Half, int]:
        """Return panel, half and place within it of a cell."""
        place = int(np.searchsorted(self._starts, cell, "right")) - 1
        return self.panels[place], self._halves[place], cell - int(self._starts[place])


@dataclass(eq=False)
class Chosen:
    """The cells that answer for one metric, one for each entity. Arrays of shape (n,).

    is_float: whether `cell` counts in the float cells. column: of each cell, in `columns`.
    """

    entity: Ints
    is_float: Bools
    cell: Ints
    column: Ints
    columns: tuple[Column, ...]
    _asked: int = 0

    def find(self, entity: int) -> int | None:
        """Return the place of an entity by its id, None where it has no cell."""
        if self.crowded:
            return self._places.get(entity)
        self._asked += 1
        place = int(np.searchsorted(self.entity, entity))
        there = place < len(self.entity) and self.entity[place] == entity
        return place if there else None

    @property
    def crowded(self) -> bool:
        """So many entities were looked for that tables of all pay."""
        return self._asked >= _FEW

    @cached_property
    def _places(self) -> dict[int, int]:
        return {entity: place for place, entity in enumerate(self.entity.tolist())}

    @cached_property
    def numerator(self) -> Floats:
        """What native values are multiplied by, and then divided, to be in the metric's unit."""
        return np.array([float(column.scale.numerator) for column in self.columns])[self.column]

    @cached_property
    def denominator(self) -> Floats:
        """See `numerator`."""
        return np.array([float(column.scale.denominator) for column in self.columns])[self.column]

    def only(self, places: Bools) -> Chosen:
        """Return some of the cells."""
        return Chosen(
            self.entity[places],
            self.is_float[places],
            self.cell[places],
            self.column[places],
            self.columns,
        )


def choose(ints: Cells, floats: Cells, metric: str, rank: Callable[[Column], int]) -> Chosen:
    """Return one cell for each entity: the first in order with two readings, else with one.

    Order: rank of the column, then the order of panels. In order of the entities' ids.
    """
    columns: list[Column] = []
    cells, is_float, number, ranks = [], [], [], []
    for kind, table in enumerate((ints, floats)):
        for place in table.of_metric.get(metric, ()):
            column = table.columns[place]
            if (column.number == "float") != bool(kind):
                continue
            found = table.of_column(place)
            cells.append(found)
            is_float.append(np.full(len(found), bool(kind)))
            number.append(np.full(len(found), len(columns), np.int64))
            ranks.append(np.full(len(found), rank(column), np.int64))
            columns.append(column)
    cell, of_float = _joined(cells), np.asarray(_joined(is_float), np.bool_)
    column_of, rank_of = _joined(number), _joined(ranks)

    def ask(of: Callable[[Cells], Ints]) -> Ints:
        if not of_float.any():
            return of(ints)[cell]
        out = np.zeros(len(cell), np.int64)
        out[~of_float], out[of_float] = of(ints)[cell[~of_float]], of(floats)[cell[of_float]]
        return out

    entity, counts = ask(lambda table: table.entity), ask(lambda table: table.counts)
    thin = np.where(counts > 1, 0, np.where(counts == 1, 1, 2))
    order = np.argsort(entity, kind="stable")
    first = np.ones(len(order), np.bool_)
    first[1:] = entity[order][1:] != entity[order][:-1]
    if not first.all():  # several sources have it
        panel = ask(lambda table: table.panel)
        order = np.lexsort((cell, panel, rank_of, thin, entity))
        first[1:] = entity[order][1:] != entity[order][:-1]
    kept = order[first & (thin[order] < 2)]
    return Chosen(entity[kept], of_float[kept], cell[kept], column_of[kept], tuple(columns))


def _joined(parts: Sequence[Values]) -> Values:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)

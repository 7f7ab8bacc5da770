"""All cells of a window in one table: a question about a metric is a slice, not a walk.

Panels are put in the order of preference of their collectors, cells of integers and of floats
apart; each is sorted by column once. What is asked of every cell (growth, newest value) is
formed for all of them when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from collectors.model.metric import Column
from tuner.store.arithmetic import Bools, Floats, Ints, Values
from tuner.store.growth import HalfGrowth, growth_of
from tuner.store.panel import Half, Panel


class Cells:
    """The integer or the float cells of all panels. Arrays of shape (n,) unless said."""

    def __init__(self, panels: Sequence[Panel], half: Callable[[Panel], Half]) -> None:
        self.panels = panels
        self._halves = [half(panel) for panel in panels]
        sizes = [len(found.row) for found in self._halves]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.columns: list[Column] = []
        number: dict[Column, int] = {}
        parts = []
        for panel, found in zip(panels, self._halves, strict=True):
            for column in panel.columns:
                if column not in number:
                    number[column] = len(self.columns)
                    self.columns.append(column)
            of_panel = np.array([number[column] for column in panel.columns], np.int64)
            parts.append(of_panel[found.column] if len(of_panel) else found.column)
        self._column = _joined(parts)  # number of each cell's column in `columns`

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
        grown = [growth_of(p, h) for p, h in zip(self.panels, self._halves, strict=True)]
        names = HalfGrowth.__dataclass_fields__
        return HalfGrowth(**{n: _joined([getattr(part, n) for part in grown]) for n in names})

    @cached_property
    def newest(self) -> tuple[Values, Ints]:
        """Newest native value and its wall clock; undefined where there is no reading."""
        values, times = [], []
        for panel, half in zip(self.panels, self._halves, strict=True):
            last = half.last
            values.append(half.values[last, np.arange(len(last))])
            times.append(panel.at[last, half.row])
        return _joined(values), _joined(times)

    @cached_property
    def highest(self) -> tuple[Values, Ints]:
        """Highest native value and its wall clock; undefined where there is no reading."""
        values, times = [], []
        for panel, half in zip(self.panels, self._halves, strict=True):
            held = half.values
            if half.present is not None:
                held = np.where(half.present, held, held.min(axis=0, initial=0))
            cells = np.arange(len(half.row))
            top = held.argmax(axis=0) if len(held) else np.zeros(len(cells), np.int64)
            values.append(held[top, cells])
            times.append(panel.at[top, half.row])
        return _joined(values), _joined(times)

    @cached_property
    def _by_column(self) -> tuple[Ints, Ints]:
        order = np.argsort(self._column, kind="stable")
        return order, np.searchsorted(self._column[order], np.arange(len(self.columns) + 1))

    def of_column(self, column: int) -> Ints:
        """Return the cells of a column, in order of panels."""
        order, starts = self._by_column
        return order[starts[column] : starts[column + 1]]

    def panel_of(self, cell: int) -> tuple[Panel, Half, int]:
        """Return panel, half and place within it of a cell."""
        place = int(np.searchsorted(self._starts, cell, "right")) - 1
        return self.panels[place], self._halves[place], cell - int(self._starts[place])


@dataclass(frozen=True)
class Chosen:
    """The cells that answer for one metric, one for each entity. Arrays of shape (n,).

    is_float: whether `cell` counts in the float cells. column: of each cell, in `columns`.
    """

    entity: Ints
    is_float: Bools
    cell: Ints
    column: Ints
    columns: tuple[Column, ...]

    @cached_property
    def place(self) -> dict[int, int]:
        """Entity id -> place in the arrays."""
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


def choose(
    ints: Cells, floats: Cells, wanted: Callable[[Column], bool], rank: Callable[[Column], int]
) -> Chosen:
    """Return one cell for each entity: the first in order with two readings, else with one.

    Order: rank of the column, then the order of panels.
    """
    columns: list[Column] = []
    cells, is_float, number, ranks = [], [], [], []
    for kind, table in enumerate((ints, floats)):
        for place, column in enumerate(table.columns):
            if not wanted(column) or (column.number == "float") != bool(kind):
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
        out = np.zeros(len(cell), np.int64)
        out[~of_float], out[of_float] = of(ints)[cell[~of_float]], of(floats)[cell[of_float]]
        return out

    entity, counts = ask(lambda table: table.entity), ask(lambda table: table.counts)
    panel = ask(lambda table: table.panel)
    thin = np.where(counts > 1, 0, np.where(counts == 1, 1, 2))
    order = np.lexsort((cell, panel, rank_of, thin, entity))
    first = np.ones(len(order), np.bool_)
    first[1:] = entity[order][1:] != entity[order][:-1]
    kept = order[first & (thin[order] < 2)]
    return Chosen(entity[kept], of_float[kept], cell[kept], column_of[kept], tuple(columns))


def _joined(parts: Sequence[Values]) -> Values:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)

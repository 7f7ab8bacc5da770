"""A window: what is known of a span of time, asked by metric and entity.

One metric of one entity may reach the tuner twice (sysfs and netlink both give the hardware
counters). They are never added up: the window takes one source for the whole span, the first
with two readings in the order of `PREFERENCE`, then by collector and agent name; where none has
two readings, the first with one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from collectors.model.entities import Entity
from collectors.model.facts import Facts
from collectors.model.metric import Column
from tuner.store.arithmetic import Bools, Floats, Ints, Values, deltas, rules_of
from tuner.store.factbook import FactChange
from tuner.store.factview import FactView
from tuner.store.growth import GrownPanel, spans_of
from tuner.store.panel import Panel, merge

# Sources that see the wire itself before those that see what reached the kernel.
PREFERENCE: Final = (
    "hw_counters", "sysfs_counters", "mad", "ethtool_nl", "ethtool", "netdev", "gnmi", "sonic_db",
    "snmp", "otlp",
)  # fmt: skip
_RANK: Final = {via: rank for rank, via in enumerate(PREFERENCE)}


@dataclass(frozen=True)
class Series:
    """All readings of one column of one entity, in order of (boot, monotonic time).

    values: native and exact. incarnation: an id that changes with the entity's incarnation or
    the boot of its host: then the counter began anew.
    """

    entity: Entity
    column: Column
    at_ns: Ints
    mono_ns: Ints
    values: Values
    incarnation: Ints
    boot: Ints


@dataclass(frozen=True, slots=True)
class Growth:
    """How a counter grew between the first and the last reading of the span, in metric units.

    total: after a reset what was counted since, so growth before it may be missing; with
    `saturated` a lower bound. seconds: measured time, monotonic (wall clock across boots).
    rate: total by seconds. samples: readings. resets, wraps: times that it happened.
    """

    entity: Entity
    metric: str
    total: float
    seconds: float
    rate: float
    samples: int
    first_at_ns: int
    last_at_ns: int
    resets: int
    wraps: int
    saturated: bool


@dataclass(frozen=True, slots=True)
class Sample:
    """The newest reading. value: in the metric's unit."""

    value: float
    at_ns: int


@dataclass(frozen=True)
class GrowthTable:
    """Growth of one metric at many entities as arrays, in metric units, for statistics."""

    entities: tuple[Entity, ...]
    total: Floats
    seconds: Floats
    rate: Floats
    saturated: Bools


@dataclass(frozen=True, slots=True)
class _Cell:
    """Where one (metric, entity) lies: a cell of the integer or float half of a panel."""

    grown: GrownPanel
    column: int
    cell: int

    @property
    def panel(self) -> Panel:
        """The panel that the cell lies in."""
        return self.grown.panel


class Window(FactView):
    """See the module. Cheap to make: arrays are views, and sums are formed when asked for."""

    def __init__(
        self,
        since_ns: int,
        until_ns: int,
        panels: Sequence[Panel],
        entities: Sequence[Entity],
        current: Sequence[tuple[str, str, Facts]],
        changes: Sequence[FactChange],
        last_at_ns: Mapping[str, int],
    ) -> None:
        super().__init__(current, changes)
        self.since_ns = since_ns
        self.until_ns = until_ns
        self._entities = entities
        self._parts = panels
        self._last_at = last_at_ns
        self._chosen: dict[str, dict[Entity, _Cell]] = {}

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents that anything came from, sorted."""
        return tuple(sorted(self._last_at))

    def age_seconds(self, agent: str, now_ns: int) -> float:
        """Return how old the newest item of an agent is. Raises KeyError."""
        return max(now_ns - self._last_at[agent], 0) / 1e9

    def last_at_ns(self, agent: str) -> int:
        """Return the wall clock of the newest item of an agent. Raises KeyError."""
        return self._last_at[agent]

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """All metrics that were read, sorted."""
        return tuple(sorted({column.metric for panel in self._panels for column in panel.columns}))

    def entities(self, metric: str) -> Sequence[Entity]:
        """Return the entities that this metric was read of."""
        return tuple(self._cells(metric))

    def known_entities(self) -> Sequence[Entity]:
        """Return every entity that readings or facts of the window speak of."""
        seen: dict[Entity, None] = {}
        for panel in self._panels:
            for place in panel.entity:
                seen.setdefault(self._entities[place])
        for entity in self.fact_entities():
            seen.setdefault(entity)
        return tuple(seen)

    def agent_of(self, entity: Entity) -> str | None:
        """Return the agent that reads an entity, None where only facts or nobody speaks of it."""
        return self._agents_of.get(entity) or self.agent_of_facts(entity)

    def series(self, metric: str, entity: Entity) -> Series | None:
        """Return all readings of a metric of an entity, None where there are none."""
        found = self._cells(metric).get(entity)
        return None if found is None else _series(entity, found)

    def growth(self, metric: str, entity: Entity) -> Growth | None:
        """Return how a counter grew; None where it is absent or was read less than twice."""
        found = self._cells(metric).get(entity)
        return None if found is None else _growth(metric, entity, found)

    def growth_all(self, metric: str) -> Mapping[Entity, Growth]:
        """Return how a counter grew at every entity that has two readings of it."""
        return GrowthMap(metric, {e: c for e, c in self._cells(metric).items() if _grows(c)})

    def growth_table(self, metric: str) -> GrowthTable:
        """Return the same as arrays."""
        grown = list(self.growth_all(metric).values())
        return GrowthTable(
            tuple(growth.entity for growth in grown),
            np.array([growth.total for growth in grown], np.float64),
            np.array([growth.seconds for growth in grown], np.float64),
            np.array([growth.rate for growth in grown], np.float64),
            np.array([growth.saturated for growth in grown], np.bool_),
        )

    def latest(self, metric: str, entity: Entity) -> Sample | None:
        """Return the newest value of a metric of an entity."""
        found = self._cells(metric).get(entity)
        return None if found is None else _latest(found)

    def latest_all(self, metric: str) -> Mapping[Entity, Sample]:
        """Return the newest value of a metric at every entity that has it."""
        return {entity: _latest(found) for entity, found in self._cells(metric).items()}

    def rates(self, metric: str, entity: Entity) -> tuple[Ints, Floats] | None:
        """Return growth per second between readings: (wall clock of the later one, rate).

        None where there are less than two readings. Steps without measured time are left out.
        """
        series = self.series(metric, entity)
        if series is None or len(series.values) < 2 or series.column.kind != "counter":
            return None
        grown, seconds = steps(series)
        known = seconds > 0
        return series.at_ns[1:][known], grown[known] / seconds[known]

    @cached_property
    def _panels(self) -> list[Panel]:
        """The panels, those that share entities joined, so that a series lies in one."""
        by_source: dict[tuple[str, str], list[Panel]] = {}
        for panel in self._parts:
            by_source.setdefault((panel.agent, panel.collector), []).append(panel)
        return [
            merge(joined)
            for panels in by_source.values()
            for joined in (_sharing(panels) if len(panels) > 1 else [panels])
        ]

    @cached_property
    def _by_metric(self) -> dict[str, list[tuple[GrownPanel, int]]]:
        found: dict[str, list[tuple[GrownPanel, int]]] = {}
        for panel in self._panels:
            grown = GrownPanel(panel)
            for place, column in enumerate(panel.columns):
                found.setdefault(column.metric, []).append((grown, place))
        return found

    @cached_property
    def _agents_of(self) -> dict[Entity, str]:
        found: dict[Entity, str] = {}
        for panel in self._panels:
            for place in panel.entity:
                found.setdefault(self._entities[place], panel.agent)
        return found

    def _cells(self, metric: str) -> dict[Entity, _Cell]:
        chosen = self._chosen.get(metric)
        if chosen is None:
            chosen = self._chosen[metric] = self._choose(metric)
        return chosen

    def _choose(self, metric: str) -> dict[Entity, _Cell]:
        chosen: dict[Entity, _Cell] = {}
        thin: dict[Entity, _Cell] = {}
        for grown, column in sorted(self._by_metric.get(metric, ()), key=_preference):
            panel = grown.panel
            half = panel.half(column)
            cells = panel.cells_of(column)
            counts = half.counts[cells].tolist()
            entities = panel.entity[half.row[cells]].tolist()
            for cell, count, place in zip(cells.tolist(), counts, entities, strict=True):
                if count > 1:
                    chosen.setdefault(self._entities[place], _Cell(grown, column, cell))
                elif count:
                    thin.setdefault(self._entities[place], _Cell(grown, column, cell))
        return thin | chosen


class GrowthMap(Mapping[Entity, Growth]):
    """Entity -> growth; each one is formed when it is asked for."""

    def __init__(self, metric: str, cells: Mapping[Entity, _Cell]) -> None:
        self._metric = metric
        self._cells = cells

    def __getitem__(self, entity: Entity) -> Growth:
        found = _growth(self._metric, entity, self._cells[entity])
        if found is None:
            raise KeyError(entity)
        return found

    def __iter__(self) -> Iterator[Entity]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)


def steps(series: Series) -> tuple[Floats, Floats]:
    """Return (growth in metric units, seconds) between the readings of a counter's series."""
    values, column = series.values, series.column
    same = series.incarnation[1:] == series.incarnation[:-1]
    grown, _ = deltas(values[:-1, None], values[1:, None], same[:, None], rules_of([column]))
    seconds = spans_of(
        series.boot[1:] == series.boot[:-1], np.diff(series.mono_ns), np.diff(series.at_ns)
    )
    return grown[:, 0].astype(np.float64) * float(column.scale), seconds


def _preference(found: tuple[GrownPanel, int]) -> tuple[int, str, str, int]:
    panel, column = found[0].panel, found[1]
    via = panel.columns[column].via
    return (_RANK.get(via, len(_RANK)), panel.collector, panel.agent, column)


def _sharing(panels: Sequence[Panel]) -> list[list[Panel]]:
    """Return the panels in sets that share rows, directly or through others."""
    owner: dict[int, int] = {}
    parent = list(range(len(panels)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = place = parent[parent[place]]
        return place

    for place, panel in enumerate(panels):
        for row in panel.rows.tolist():
            parent[root(place)] = root(owner.setdefault(row, place))
    sets: dict[int, list[Panel]] = {}
    for place, panel in enumerate(panels):
        sets.setdefault(root(place), []).append(panel)
    return list(sets.values())


def _series(entity: Entity, found: _Cell) -> Series:
    panel, half = found.panel, found.panel.half(found.column)
    row = int(half.row[found.cell])
    there = slice(None) if half.present is None else half.present[:, found.cell]
    return Series(
        entity,
        panel.columns[found.column],
        panel.at[there, row],
        panel.mono[there, row],
        half.values[there, found.cell],
        panel.incarnation[there, row],
        panel.boot[there],
    )


def _grows(found: _Cell) -> bool:
    if found.panel.columns[found.column].kind != "counter":
        return False
    growth = found.grown.half(found.column)
    return bool(growth.samples[found.cell] > 1 and growth.seconds[found.cell] > 0)


def _growth(metric: str, entity: Entity, found: _Cell) -> Growth | None:
    if not _grows(found):
        return None
    all_growth, cell = found.grown.half(found.column), found.cell
    column = found.panel.columns[found.column]
    rough = float(all_growth.rough[cell])
    native = rough if rough >= 2.0**63 else all_growth.total[cell].item()
    total = column.to_unit(native)
    seconds = float(all_growth.seconds[cell])
    return Growth(
        entity,
        metric,
        total,
        seconds,
        total / seconds,
        int(all_growth.samples[cell]),
        int(all_growth.first_at[cell]),
        int(all_growth.last_at[cell]),
        int(all_growth.resets[cell]),
        int(all_growth.wraps[cell]),
        bool(all_growth.saturated[cell]),
    )


def _latest(found: _Cell) -> Sample:
    panel, half = found.panel, found.panel.half(found.column)
    sample = int(half.last[found.cell])
    value = half.values[sample, found.cell].item()
    return Sample(
        panel.columns[found.column].to_unit(value), int(panel.at[sample, half.row[found.cell]])
    )

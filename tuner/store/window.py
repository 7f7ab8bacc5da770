"""A window: what is known of a span of time, asked by metric and entity.

One metric of one entity may reach the tuner twice (sysfs and netlink both give the hardware
counters). They are never added up: the window takes one source for the whole span, the first
with two readings in the order of `PREFERENCE`, then by collector and agent name; where none has
two readings, the first with one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import msgspec
import numpy as np

from collectors.model.entities import Entity, Slot
from collectors.model.facts import Facts
from collectors.model.metric import Column
from tuner.store.arithmetic import Floats, Ints, Values, deltas, rules_of
from tuner.store.cells import Cells, Chosen, choose
from tuner.store.factbook import FactChange
from tuner.store.factview import FactView
from tuner.store.growth import spans_of
from tuner.store.growths import Growth, GrowthMap, GrowthTable
from tuner.store.layout import Layout, owners_among
from tuner.store.panel import Panel, merge

__all__ = ["PREFERENCE", "Growth", "GrowthMap", "GrowthTable", "Sample", "Series", "Window"]

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


Read: TypeAlias = Callable[[Cells, Ints], tuple[Values, Ints]]
"""Returns native values and wall clocks of cells."""


class Sample(msgspec.Struct, frozen=True, gc=False):
    """The newest reading. value: in the metric's unit."""

    value: float
    at_ns: int


class Window(FactView):
    """See the module. Cheap to make: arrays are views, and sums are formed when asked for."""

    def __init__(
        self,
        since_ns: int,
        until_ns: int,
        panels: Sequence[Panel],
        entities: Sequence[Entity],
        current: Sequence[tuple[str, str, Facts]],
        changes: Callable[[], Sequence[FactChange]],
        last_at_ns: Mapping[str, int],
    ) -> None:
        super().__init__(current, changes)
        self.since_ns = since_ns
        self.until_ns = until_ns
        self._entities = entities
        self._parts = panels
        self._last_at = last_at_ns
        self._chosen: dict[str, Chosen] = {}
        self._growths: dict[str, GrowthMap] = {}
        self._newest: dict[str, Mapping[Entity, Sample]] = {}
        self._highest: dict[str, Mapping[Entity, Sample]] = {}

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
        return tuple(self._entities[number] for number in self._choice(metric).entity.tolist())

    def known_entities(self) -> Sequence[Entity]:
        """Return every entity that readings or facts of the window speak of."""
        return self._known

    def known_owners(self) -> Sequence[Entity]:
        """Return the same with what a slot is part of in its place: hosts, ports, switches..."""
        return self._owners

    def parts_of(self, owners: Iterable[Entity]) -> Sequence[Entity]:
        """Return those of some entities that are known, and all their known slots, each once."""
        wanted = set(owners)
        read = map(self._entities.__getitem__, self._read.tolist())
        known = itertools.chain(read, self.fact_entities())
        parts = (e for e in known if (e.parent if isinstance(e, Slot) else e) in wanted)
        return tuple(dict.fromkeys(parts))

    def agent_of(self, entity: Entity) -> str | None:
        """Return the agent that reads an entity, None where only facts or nobody speaks of it."""
        return self._agents_of.get(entity) or self.agent_of_facts(entity)

    def series(self, metric: str, entity: Entity) -> Series | None:
        """Return all readings of a metric of an entity, None where there are none."""
        chosen = self._choice(metric)
        place = self._place(chosen, entity)
        if place is None:
            return None
        panel, half, cell = self._table(chosen, place).panel_of(int(chosen.cell[place]))
        row = int(half.row[cell])
        there = slice(None) if half.present is None else half.present[:, cell]
        return Series(
            entity,
            panel.columns[int(half.column[cell])],
            panel.at[there, row],
            panel.mono[there, row],
            half.values[there, cell],
            panel.incarnation[there, row],
            panel.boot[there],
        )

    def growth(self, metric: str, entity: Entity) -> Growth | None:
        """Return how a counter grew; None where it is absent or was read less than twice."""
        return self._growth_map(metric).find(entity)

    def growth_all(self, metric: str) -> Mapping[Entity, Growth]:
        """Return how a counter grew at every entity that has two readings of it."""
        return self._growth_map(metric)

    def counted(self, metric: str) -> bool:
        """Tell whether it is known of any entity how this counter grew."""
        return len(self._growth_map(metric)) > 0

    def growing(
        self, metric: str, least: float | None = None, *, or_saturated: bool = False
    ) -> Mapping[Entity, Growth]:
        """Return the growth only where it is `least` or more; without `least`, more than nothing.

        or_saturated: counters that stand at their maximum, too, for their growth is a lower bound.
        """
        return self._growth_map(metric).growing(least, or_saturated=or_saturated)

    def totals(self, metric: str, entities: Iterable[Entity]) -> list[float | None]:
        """Return what a counter grew by at each of many entities, None where it is unknown."""
        return self._growth_map(metric).totals(entities)

    def growth_table(self, metric: str) -> GrowthTable:
        """Return how a counter grew at every entity that has two readings of it, as arrays."""
        return self._growth_map(metric).table()

    def everything(self) -> Sequence[Entity]:
        """Return the entities by number, as tables count them."""
        return self._entities

    def layout(self) -> Layout:
        """Return what the entities of tables are part of."""
        return self._layout

    def latest(self, metric: str, entity: Entity) -> Sample | None:
        """Return the newest value of a metric of an entity."""
        chosen = self._choice(metric)
        place = self._place(chosen, entity)
        return None if place is None else self._sample(chosen, place)

    def latest_all(self, metric: str) -> Mapping[Entity, Sample]:
        """Return the newest value of a metric at every entity that has it."""
        found = self._newest.get(metric)
        if found is None:
            chosen = self._choice(metric)
            found = self._newest[metric] = self._samples(chosen, Cells.newest)
        return found

    def unlike(self, metric: str, value: float) -> Mapping[Entity, Sample]:
        """Return the newest values only where they are not this one."""
        chosen = self._choice(metric)
        return self._samples(chosen.only(self._values(chosen, Cells.newest) != value), Cells.newest)

    def value_table(self, metric: str, *, highest: bool = False) -> tuple[Ints, Floats]:
        """Return (number of each entity, its newest or highest value) as arrays."""
        chosen = self._choice(metric)
        return chosen.entity, self._values(chosen, Cells.highest if highest else Cells.newest)

    def highest_all(self, metric: str) -> Mapping[Entity, Sample]:
        """Return the highest value of a metric within the window, at every entity that has it."""
        found = self._highest.get(metric)
        if found is None:
            chosen = self._choice(metric)
            found = self._highest[metric] = self._samples(chosen, Cells.highest)
        return found

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
    def _known(self) -> tuple[Entity, ...]:
        read = map(self._entities.__getitem__, self._read.tolist())
        return tuple(dict.fromkeys((*read, *self.fact_entities())))

    @cached_property
    def _owners(self) -> tuple[Entity, ...]:
        read = self._layout.owners_of(self._read)
        return tuple(dict.fromkeys(read) | owners_among(self.fact_entities()))

    @cached_property
    def _read(self) -> Ints:
        """The numbers of the entities that readings speak of, each once."""
        read = np.zeros(len(self._entities), np.bool_)
        for panel in self._panels:
            read[panel.entity] = True
        return np.flatnonzero(read)

    @cached_property
    def _panels(self) -> list[Panel]:
        """The panels in order of preference, those that share entities joined."""
        by_source: dict[tuple[str, str], list[Panel]] = {}
        for panel in self._parts:
            by_source.setdefault((panel.collector, panel.agent), []).append(panel)
        return [
            merge(joined)
            for _, panels in sorted(by_source.items(), key=lambda item: item[0])
            for joined in (_sharing(panels) if len(panels) > 1 else [panels])
        ]

    @cached_property
    def _tables(self) -> tuple[Cells, Cells]:
        return (
            Cells(self._panels, lambda panel: panel.ints),
            Cells(self._panels, lambda panel: panel.floats),
        )

    @cached_property
    def _layout(self) -> Layout:
        return Layout(self._entities)

    @cached_property
    def _agents_of(self) -> dict[Entity, str]:
        found: dict[Entity, str] = {}
        for panel in self._panels:
            for number in panel.entity.tolist():
                found.setdefault(self._entities[number], panel.agent)
        return found

    def _choice(self, metric: str) -> Chosen:
        chosen = self._chosen.get(metric)
        if chosen is None:
            chosen = self._chosen[metric] = choose(
                *self._tables,
                metric,
                lambda column: _RANK.get(column.via, len(_RANK)),
            )
        return chosen

    def _growth_map(self, metric: str) -> GrowthMap:
        found = self._growths.get(metric)
        if found is None:
            found = self._growths[metric] = GrowthMap(
                metric, self._choice(metric), self._tables, self._entities, self._layout.find
            )
        return found

    def _place(self, chosen: Chosen, entity: Entity) -> int | None:
        number = self._layout.find(entity)
        return None if number is None else chosen.find(number)

    def _table(self, chosen: Chosen, place: int) -> Cells:
        return self._tables[int(chosen.is_float[place])]

    def _values(self, chosen: Chosen, read: Read) -> Floats:
        values = np.zeros(len(chosen.cell))
        for table, places in zip(self._tables, (~chosen.is_float, chosen.is_float), strict=True):
            values[places], _ = read(table, chosen.cell[places])
        return values * chosen.numerator / chosen.denominator

    def _sample(self, chosen: Chosen, place: int) -> Sample:
        panel, half, cell = self._table(chosen, place).panel_of(int(chosen.cell[place]))
        last, column = half.last[cell], chosen.columns[chosen.column[place]]
        at_ns = int(panel.at[last, half.row[cell]])
        return Sample(column.to_unit(half.values[last, cell].item()), at_ns)

    def _samples(self, chosen: Chosen, read: Read) -> dict[Entity, Sample]:
        """Return what is read of each cell, in the metric's unit."""
        native, times = np.empty(len(chosen.cell), object), np.zeros(len(chosen.cell), np.int64)
        for table, places in zip(self._tables, (~chosen.is_float, chosen.is_float), strict=True):
            of_table, times[places] = read(table, chosen.cell[places])
            native[places] = of_table.astype(object)
        values: list[float] = native.tolist()
        if not all(column.native for column in chosen.columns):
            columns = map(chosen.columns.__getitem__, chosen.column.tolist())
            values = [column.to_unit(value) for column, value in zip(columns, values, strict=True)]
        entities = map(self._entities.__getitem__, chosen.entity.tolist())
        return dict(zip(entities, map(Sample, values, times.tolist()), strict=True))


def steps(series: Series) -> tuple[Floats, Floats]:
    """Return (growth in metric units, seconds) between the readings of a counter's series."""
    values, column = series.values, series.column
    same = series.incarnation[1:] == series.incarnation[:-1]
    grown, _ = deltas(values[:-1, None], values[1:, None], same[:, None], rules_of([column]))
    seconds = spans_of(
        series.boot[1:] == series.boot[:-1], np.diff(series.mono_ns), np.diff(series.at_ns)
    )
    return grown[:, 0].astype(np.float64) * float(column.scale), seconds


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

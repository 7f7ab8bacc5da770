"""How one metric grew at all entities: a mapping whose values are formed when asked for."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from collectors.model.entities import Entity
from tuner.store.arithmetic import Bools, Floats, Values
from tuner.store.cells import Cells, Chosen


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


@dataclass(frozen=True)
class GrowthTable:
    """Growth of one metric at many entities as arrays, in metric units, for statistics."""

    entities: tuple[Entity, ...]
    total: Floats
    seconds: Floats
    rate: Floats
    saturated: Bools


class GrowthMap(Mapping[Entity, Growth]):
    """Entity -> growth of one metric, of every counter that was read twice at different times.

    entities: by id. id_of: returns the id of an entity.
    """

    def __init__(
        self,
        metric: str,
        chosen: Chosen,
        tables: tuple[Cells, Cells],
        entities: Sequence[Entity],
        id_of: Callable[[Entity], int | None],
    ) -> None:
        counters = np.array([column.kind == "counter" for column in chosen.columns], np.bool_)
        self._metric = metric
        self._tables = tables
        self._entities = entities
        self._id_of = id_of
        self._chosen = chosen.only(counters[chosen.column]) if len(counters) else chosen
        grows = (self._ask("samples") > 1) & (self._ask("seconds") > 0)
        self._chosen = self._chosen.only(grows)

    def __getitem__(self, entity: Entity) -> Growth:
        number = self._id_of(entity)
        place = None if number is None else self._chosen.place.get(number)
        if place is None:
            raise KeyError(entity)
        return self._growth(place)

    def __iter__(self) -> Iterator[Entity]:
        return (self._entities[number] for number in self._chosen.entity.tolist())

    def __len__(self) -> int:
        return len(self._chosen.entity)

    def items(self) -> ItemsView[Entity, Growth]:
        """Return pairs, without looking each entity up."""
        return _Items(self)

    def values(self) -> ValuesView[Growth]:
        """Return the growths, without looking each entity up."""
        return _Values(self)

    def table(self) -> GrowthTable:
        """Return all of it as arrays."""
        seconds = self._rows["seconds"]
        total = self._rows["rough"] * self._chosen.scale
        return GrowthTable(tuple(self), total, seconds, total / seconds, self._rows["saturated"])

    def every(self) -> Iterator[Growth]:
        """Yield all growths, in the order of the entities."""
        return map(self._growth, range(len(self)))

    @cached_property
    def _rows(self) -> dict[str, Values]:
        names = (
            "rough", "seconds", "samples", "first_at", "last_at", "resets", "wraps", "saturated",
        )  # fmt: skip
        return {name: self._ask(name) for name in names}

    def _ask(self, name: str) -> Values:
        chosen, (ints, floats) = self._chosen, self._tables
        of_ints: Values = getattr(ints.growth, name)
        if not chosen.is_float.any():
            return of_ints[chosen.cell]
        of_floats: Values = getattr(floats.growth, name)
        out = np.zeros(len(chosen.cell), of_floats.dtype)
        out[~chosen.is_float] = of_ints[chosen.cell[~chosen.is_float]]
        out[chosen.is_float] = of_floats[chosen.cell[chosen.is_float]]
        return out

    def _growth(self, place: int) -> Growth:
        chosen, rows = self._chosen, self._rows
        rough = float(rows["rough"][place])
        native: float = rough
        if not chosen.is_float[place] and rough < 2.0**63:  # else the exact sum did not fit
            native = int(self._tables[0].growth.total[chosen.cell[place]])
        total = chosen.columns[chosen.column[place]].to_unit(native)
        seconds = float(rows["seconds"][place])
        return Growth(
            self._entities[chosen.entity[place]],
            self._metric,
            total,
            seconds,
            total / seconds,
            int(rows["samples"][place]),
            int(rows["first_at"][place]),
            int(rows["last_at"][place]),
            int(rows["resets"][place]),
            int(rows["wraps"][place]),
            bool(rows["saturated"][place]),
        )


class _Items(ItemsView[Entity, Growth]):
    _mapping: GrowthMap

    def __iter__(self) -> Iterator[tuple[Entity, Growth]]:
        return ((growth.entity, growth) for growth in self._mapping.every())


class _Values(ValuesView[Growth]):
    _mapping: GrowthMap

    def __iter__(self) -> Iterator[Growth]:
        return self._mapping.every()

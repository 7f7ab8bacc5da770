"""How one metric grew at all entities: a mapping whose values are formed when asked for."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np

from collectors.model.entities import Entity
from tuner.store.arithmetic import Floats, Ints, Values
from tuner.store.cells import Cells, Chosen

_EXACT: Final = 2.0**63  # from here on a sum of integers may not have fitted


class Growth(msgspec.Struct, frozen=True, gc=False):
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
    """Growth of one metric at many entities as arrays of shape (n,), formed when asked for.

    number: of the entity, as `Window.everything` counts. total: in the metric's unit.
    """

    number: Ints
    total: Floats
    _ask: Callable[[str], Values]

    @cached_property
    def seconds(self) -> Floats:
        """Measured time, more than 0."""
        return self._ask("seconds")

    @cached_property
    def rate(self) -> Floats:
        """Growth per second."""
        return self.total / self.seconds

    @cached_property
    def first_at_ns(self) -> Ints:
        """Wall clock of the first reading."""
        return self._ask("first_at")

    @cached_property
    def last_at_ns(self) -> Ints:
        """Wall clock of the last reading."""
        return self._ask("last_at")

    @cached_property
    def resets(self) -> Ints:
        """Times that it began anew."""
        return self._ask("resets")


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
        self._numbers: list[int] = self._chosen.entity.tolist()

    def __getitem__(self, entity: Entity) -> Growth:
        found = self.find(entity)
        if found is None:
            raise KeyError(entity)
        return found

    def find(self, entity: Entity) -> Growth | None:
        """Return the growth at an entity, None where there is none."""
        number = self._id_of(entity)
        place = None if number is None else self._chosen.find(number)
        if place is None:
            return None
        return self._growth(place) if self._chosen.crowded else self._single(place)

    def __iter__(self) -> Iterator[Entity]:
        return (self._entities[number] for number in self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def items(self) -> ItemsView[Entity, Growth]:
        """Return pairs, without looking each entity up."""
        return _Items(self)

    def values(self) -> ValuesView[Growth]:
        """Return the growths, without looking each entity up."""
        return _Values(self)

    def table(self) -> GrowthTable:
        """Return all of it as arrays."""
        return GrowthTable(self._chosen.entity, self._rough_totals(), self._ask)

    def growing(self, least: float | None, *, or_saturated: bool) -> dict[Entity, Growth]:
        """Return those that grew by `least` or more (None: at all), or stand at their maximum."""
        rough = self._rough_totals()
        # A total in floats may err by its last digits; which ones count, the exact totals say.
        places = rough > 0 if least is None else rough >= least - abs(least) * 1e-9
        if or_saturated:
            places |= self._ask("saturated")
        if not places.any():
            return {}
        few = GrowthMap(
            self._metric, self._chosen.only(places), self._tables, self._entities, self._id_of
        )
        return {
            entity: growth
            for entity, growth in few.items()
            if (growth.total > 0 if least is None else growth.total >= least)
            or (or_saturated and growth.saturated)
        }

    def totals(self, entities: Iterable[Entity]) -> list[float | None]:
        """Return the total at each entity as a float, None where there is none."""
        found = map(self._id_of, entities)
        numbers = np.array([-1 if number is None else number for number in found], np.int64)
        places = np.searchsorted(self._chosen.entity, numbers)
        known = np.append(self._chosen.entity, -2)[places] == numbers
        totals = np.append(self._rough_totals(), np.nan)[places].tolist()
        return [t if there else None for t, there in zip(totals, known.tolist(), strict=True)]

    def _rough_totals(self) -> Floats:
        chosen = self._chosen
        return self._ask("rough") * chosen.numerator / chosen.denominator

    def every(self) -> Iterator[Growth]:
        """Yield all growths, in the order of the entities."""
        return iter(self._all)

    @cached_property
    def _all(self) -> list[Growth]:
        """All growths: several rules ask for them."""
        return list(map(self._growth, range(len(self))))

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

    @cached_property
    def _lists(self) -> tuple[list[Any], ...]:
        """Total in the unit and the other rows, as Python's numbers: quick to pick from."""
        names = ("seconds", "samples", "first_at", "last_at", "resets", "wraps", "saturated")
        return (self._totals(), *(self._rows[name].tolist() for name in names))

    def _totals(self) -> list[float]:
        chosen, rough = self._chosen, self._rows["rough"]
        plain = all(column.scale == 1 for column in chosen.columns)
        exact = rough < _EXACT
        if not chosen.is_float.any() and exact.all():
            native: list[float] = self._tables[0].growth.total[chosen.cell].tolist()
        else:
            words = self._tables[0].growth.total
            native = [
                rough_total if is_float or not fits else int(words[cell])
                for rough_total, is_float, fits, cell in zip(
                    rough.tolist(),
                    chosen.is_float.tolist(),
                    exact.tolist(),
                    chosen.cell.tolist(),
                    strict=True,
                )
            ]
        if plain:
            return native
        columns = chosen.columns
        return [
            columns[column].to_unit(total)
            for column, total in zip(chosen.column.tolist(), native, strict=True)
        ]

    def _single(self, place: int) -> Growth:
        """Return one growth as `_growth` does, without making lists of all."""
        cell, is_float = self._chosen.cell[place], bool(self._chosen.is_float[place])
        grown = self._tables[is_float].growth
        rough = grown.rough[cell].item()
        native = grown.total[cell].item() if not is_float and rough < _EXACT else rough
        total = self._chosen.columns[self._chosen.column[place]].to_unit(native)
        span = grown.seconds[cell].item()
        return Growth(
            self._entities[self._numbers[place]],
            self._metric,
            total,
            span,
            total / span,
            grown.samples[cell].item(),
            grown.first_at[cell].item(),
            grown.last_at[cell].item(),
            grown.resets[cell].item(),
            grown.wraps[cell].item(),
            grown.saturated[cell].item(),
        )

    def _growth(self, place: int) -> Growth:
        totals, seconds, samples, first_at, last_at, resets, wraps, saturated = self._lists
        total, span = totals[place], seconds[place]
        return Growth(
            self._entities[self._numbers[place]],
            self._metric,
            total,
            span,
            total / span,
            samples[place],
            first_at[place],
            last_at[place],
            resets[place],
            wraps[place],
            saturated[place],
        )


class _Items(ItemsView[Entity, Growth]):
    _mapping: GrowthMap

    def __iter__(self) -> Iterator[tuple[Entity, Growth]]:
        return ((growth.entity, growth) for growth in self._mapping.every())


class _Values(ValuesView[Growth]):
    _mapping: GrowthMap

    def __iter__(self) -> Iterator[Growth]:
        return self._mapping.every()

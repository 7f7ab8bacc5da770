"""Settings of many entities that are mostly alike: what is common is held once.

The ports of a fleet are configured alike. A sheet is what one entity's settings say, without the
entity; thousands of entities share it, and a `Setting` is made when somebody looks at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, overload

from collectors.model.entities import Entity
from collectors.model.facts import Applies, Setting, Value


class Row(NamedTuple):
    """A setting without its entity."""

    name: str
    value: Value
    where: str
    applies: Applies


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """The rows of one entity, in order. Compared by identity."""

    rows: tuple[Row, ...]


class Sheets(Sequence[Setting]):
    """Settings in order, as (entity, sheet); equal to the tuple of the same settings."""

    __slots__ = ("runs",)

    def __init__(self, runs: Sequence[tuple[Entity, Sheet]]) -> None:
        self.runs = runs

    def __iter__(self) -> Iterator[Setting]:
        return (Setting(entity, *row) for entity, sheet in self.runs for row in sheet.rows)

    def __len__(self) -> int:
        return sum(len(sheet.rows) for _, sheet in self.runs)

    @overload
    def __getitem__(self, place: int) -> Setting: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Setting]: ...
    def __getitem__(self, place: int | slice) -> Setting | Sequence[Setting]:
        """Return a setting or several; slow, for few."""
        return tuple(self)[place]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (Sheets, tuple)):
            return tuple(self) == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


def runs_of(settings: Iterable[Setting]) -> Sequence[tuple[Entity, Sheet]]:
    """Return settings as (entity, sheet), in order."""
    if isinstance(settings, Sheets):
        return settings.runs
    return [
        (entity, Sheet(tuple(Row(s.name, s.value, s.where, s.applies) for s in of_entity)))
        for entity, of_entity in groupby(settings, attrgetter("entity"))
    ]

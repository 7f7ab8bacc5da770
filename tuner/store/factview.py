"""The facts of a window, by entity and by name. The newest collector's word holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, ItemsView, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from types import MappingProxyType

from collectors.model.catalogue.settings import fits
from collectors.model.entities import Entity, Port
from collectors.model.facts import (
    Applies,
    Attribute,
    Facts,
    Gap,
    Gid,
    Neighbour,
    QueuePairFact,
    Setting,
    Value,
)
from collectors.model.sheets import Row, Sheet, runs_of
from tuner.store.factbook import FactChange


class SettingsOf(Mapping[str, Setting]):
    """The settings of one entity by name, made when they are looked at."""

    __slots__ = ("_entity", "_rows")

    def __init__(self, entity: Entity, rows: Mapping[str, Row]) -> None:
        self._entity = entity
        self._rows = rows

    def __getitem__(self, name: str) -> Setting:
        return Setting(self._entity, *self._rows[name])

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class SettingsNamed(Mapping[Entity, Setting]):
    """One setting of many entities, made when it is looked at.

    runs: entities, each once, and the sheets that hold for them, in order.
    rows: what each sheet says. sheets: of every entity.
    """

    def __init__(
        self,
        runs: Sequence[tuple[Entity, Sheet]],
        rows: Mapping[Sheet, Row],
        sheets: Mapping[Entity, Sheet | list[Sheet]],
    ) -> None:
        self._rows = rows
        self._sheets = sheets
        self._runs = runs

    def __getitem__(self, entity: Entity) -> Setting:
        sheets = self._sheets[entity]
        if isinstance(sheets, Sheet):
            return Setting(entity, *self._rows[sheets])
        told = [self._rows[sheet] for sheet in sheets if sheet in self._rows]
        if not told:
            raise KeyError(entity)
        return Setting(entity, *told[-1])

    def __iter__(self) -> Iterator[Entity]:
        return (entity for entity, _ in self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def items(self) -> ItemsView[Entity, Setting]:
        """Return pairs, without looking each entity up."""
        return _Items(self)

    def told(self) -> Iterator[tuple[Entity, Setting]]:
        """Yield pairs."""
        return ((entity, Setting(entity, *self._rows[sheet])) for entity, sheet in self._runs)

    @cached_property
    def by_value(self) -> Mapping[Value, Sequence[Entity]]:
        """The entities of each value, the most frequent value first."""
        found: dict[Value, list[Entity]] = {}
        of_sheet = {sheet: found.setdefault(row.value, []) for sheet, row in self._rows.items()}
        for entity, sheet in self._runs:
            of_sheet[sheet].append(entity)
        told = [(value, entities) for value, entities in found.items() if entities]
        return dict(sorted(told, key=lambda item: -len(item[1])))


class _Items(ItemsView[Entity, Setting]):
    _mapping: SettingsNamed

    def __iter__(self) -> Iterator[tuple[Entity, Setting]]:
        return self._mapping.told()


class FactView:
    """Facts as they held at the end of the window, and when they changed."""

    def __init__(
        self,
        current: Sequence[tuple[str, str, Facts]],
        changes: Callable[[], Sequence[FactChange]],
    ) -> None:
        self._current = current
        self._changes = changes
        self._named: dict[tuple[str, Applies], SettingsNamed] = {}

    def settings(self, entity: Entity, applies: Applies = "running") -> Mapping[str, Setting]:
        """Return the settings of an entity by name: those that run, or of the next boot."""
        found = self._sheets.get(entity)
        if found is None:
            return MappingProxyType({})
        if isinstance(found, Sheet):
            return SettingsOf(entity, _rows(found, applies))
        return SettingsOf(
            entity, {name: row for sheet in found for name, row in _rows(sheet, applies).items()}
        )

    def setting_all(self, name: str, applies: Applies = "running") -> Mapping[Entity, Setting]:
        """Return one setting of every entity that has it."""
        return self._all(name, applies)

    def alike(self, name: str) -> Mapping[Value, Sequence[Entity]]:
        """Return the entities of which a running setting is known by its value."""
        return self._all(name, "running").by_value

    def likeness(self, entity: Entity) -> Hashable:
        """Return what is equal for two entities only if all their settings are."""
        sheets = self._sheets.get(entity)
        return tuple(sheets) if isinstance(sheets, list) else sheets

    def attributes(self, entity: Entity) -> Mapping[str, Attribute]:
        """Return identity and inventory of an entity by name."""
        return self._attributes.get(entity, MappingProxyType({}))

    def gids(self, port: Port) -> Sequence[Gid]:
        """Return the GID table of a port, in order of index."""
        return self._gids.get(port, ())

    def neighbours(self) -> Sequence[Neighbour]:
        """Return the links as their ends saw them."""
        return self._neighbours

    def queue_pairs(self) -> Sequence[QueuePairFact]:
        """Return the queue pairs that exist."""
        return self._queue_pairs

    def gaps(self, agent: str | None = None) -> Sequence[Gap]:
        """Return what could not be read, of all agents or of one."""
        return self._gaps if agent is None else self._gaps_by_agent.get(agent, ())

    def versions(self) -> Sequence[tuple[str, str, str]]:
        """Return (agent, what, version)."""
        return tuple((a, what, text) for a, _, f in self._current for what, text in f.versions)

    def fact_history(self) -> Sequence[FactChange]:
        """Return when the facts of each collector changed within the window, oldest first."""
        return self._history

    def fact_entities(self) -> Iterator[Entity]:
        """Return every entity that the facts speak of, some more than once."""
        return chain.from_iterable(_entities(facts) for _, _, facts in self._current)

    def agent_of_facts(self, entity: Entity) -> str | None:
        """Return the agent whose facts speak of an entity."""
        return self._speakers.get(entity)

    @cached_property
    def _history(self) -> Sequence[FactChange]:
        return self._changes()

    @cached_property
    def _neighbours(self) -> tuple[Neighbour, ...]:
        return tuple(dict.fromkeys(n for _, _, facts in self._current for n in facts.neighbours))

    @cached_property
    def _queue_pairs(self) -> tuple[QueuePairFact, ...]:
        return tuple(dict.fromkeys(q for _, _, facts in self._current for q in facts.queue_pairs))

    @cached_property
    def _gaps(self) -> tuple[Gap, ...]:
        return tuple(gap for _, _, facts in self._current for gap in facts.gaps)

    @cached_property
    def _gaps_by_agent(self) -> dict[str, tuple[Gap, ...]]:
        found: dict[str, tuple[Gap, ...]] = {}
        for agent, _, facts in self._current:
            found[agent] = (*found.get(agent, ()), *facts.gaps)
        return found

    @cached_property
    def _speakers(self) -> dict[Entity, str]:
        found: dict[Entity, str] = {}
        for agent, _, facts in self._current:
            # What lies at the far end of a cable is not this agent's to read.
            for entity in (
                *(entity for entity, _ in runs_of(facts.settings)),
                *(a.entity for a in facts.attributes),
            ):
                found.setdefault(entity, agent)
        return found

    @cached_property
    def _runs(self) -> list[tuple[Entity, Sheet]]:
        """All settings, sheet by sheet, in order of the facts."""
        return [run for _, _, facts in self._current for run in runs_of(facts.settings)]

    @cached_property
    def _sheets(self) -> dict[Entity, Sheet | list[Sheet]]:
        """What each entity's settings say: nearly always one sheet."""
        found: dict[Entity, Sheet | list[Sheet]] = dict(self._runs)
        if len(found) == len(self._runs):
            return found
        found = {}
        for entity, sheet in self._runs:
            before = found.setdefault(entity, sheet)
            if isinstance(before, list):
                before.append(sheet)
            elif before is not sheet:
                found[entity] = [before, sheet]
        return found

    @cached_property
    def _by_sheet(self) -> dict[Sheet, list[int]]:
        """The runs of each sheet, by their place in `_runs`."""
        found: dict[Sheet, list[int]] = defaultdict(list)
        for place, (_, sheet) in enumerate(self._runs):
            found[sheet].append(place)
        return found

    def _all(self, name: str, applies: Applies) -> SettingsNamed:
        known = self._named.get((name, applies))
        if known is None:
            rows = {
                sheet: row
                for sheet in self._by_sheet
                if (row := _rows(sheet, applies).get(name)) is not None
            }
            places = sorted(place for sheet in rows for place in self._by_sheet[sheet])
            runs = [self._runs[place] for place in places]
            if len(self._sheets) < len(self._runs):  # of several of one entity the last holds
                runs = list(dict(runs).items())
            known = self._named[name, applies] = SettingsNamed(runs, rows, self._sheets)
        return known

    @cached_property
    def _attributes(self) -> dict[Entity, dict[str, Attribute]]:
        found: dict[Entity, dict[str, Attribute]] = {}
        for _, _, facts in self._current:
            for attribute in facts.attributes:
                found.setdefault(attribute.entity, {})[attribute.name] = attribute
        return found

    @cached_property
    def _gids(self) -> dict[Port, list[Gid]]:
        found: dict[Port, dict[Gid, None]] = {}
        for _, _, facts in self._current:
            for gid in facts.gids:
                found.setdefault(gid.port, {}).setdefault(gid)
        return {port: sorted(gids, key=lambda g: g.index) for port, gids in found.items()}


@lru_cache(maxsize=1 << 15)
def _rows(sheet: Sheet, applies: Applies) -> Mapping[str, Row]:
    """Return the rows of a sheet by name; nonsense is unknown, and costs no rule its judgement."""
    return {row.name: row for row in sheet.rows if row.applies == applies and fits(*row[:2])}


def _entities(facts: Facts) -> list[Entity]:
    found: list[Entity] = [entity for entity, _ in runs_of(facts.settings)]
    found += [attribute.entity for attribute in facts.attributes]
    found += [gid.port for gid in facts.gids]
    found += [end for row in facts.neighbours for end in (row.local, row.remote)]
    found += [pair.device for pair in facts.queue_pairs]
    return found

"""The facts of a window, by entity and by name. The newest collector's word holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
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
)
from tuner.store.factbook import FactChange


class FactView:
    """Facts as they held at the end of the window, and when they changed."""

    def __init__(
        self,
        current: Sequence[tuple[str, str, Facts]],
        changes: Callable[[], Sequence[FactChange]],
    ) -> None:
        self._current = current
        self._changes = changes

    def settings(self, entity: Entity, applies: Applies = "running") -> Mapping[str, Setting]:
        """Return the settings of an entity by name: those that run, or of the next boot."""
        return self._settings[applies].get(entity, MappingProxyType({}))

    def setting_all(self, name: str, applies: Applies = "running") -> Mapping[Entity, Setting]:
        """Return one setting of every entity that has it."""
        return self._settings_by_name[applies].get(name, MappingProxyType({}))

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
        """Yield every entity that the facts speak of, some more than once."""
        for _, _, facts in self._current:
            yield from _entities(facts)

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
                *(s.entity for s in facts.settings),
                *(a.entity for a in facts.attributes),
            ):
                found.setdefault(entity, agent)
        return found

    @cached_property
    def _settings(self) -> dict[Applies, dict[Entity, dict[str, Setting]]]:
        found: dict[Applies, dict[Entity, dict[str, Setting]]] = {"running": {}, "next_boot": {}}
        for _, _, facts in self._current:
            last: tuple[Entity, Applies] | None = None
            settings: dict[str, Setting] = {}
            for setting in facts.settings:
                if not fits(setting.name, setting.value):
                    continue  # nonsense is unknown, and costs no rule its judgement
                entity, applies = setting.entity, setting.applies
                if last is None or entity is not last[0] or applies != last[1]:
                    last = entity, applies  # most come in runs of one entity
                    settings = found[applies].setdefault(entity, {})
                settings[setting.name] = setting
        return found

    @cached_property
    def _settings_by_name(self) -> dict[Applies, dict[str, dict[Entity, Setting]]]:
        found: dict[Applies, dict[str, dict[Entity, Setting]]] = {"running": {}, "next_boot": {}}
        for applies, by_entity in self._settings.items():
            by_name: dict[str, dict[Entity, Setting]] = defaultdict(dict)
            for entity, settings in by_entity.items():
                for name, setting in settings.items():
                    by_name[name][entity] = setting
            found[applies] = dict(by_name)
        return found

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


def _entities(facts: Facts) -> Iterator[Entity]:
    last: Entity | None = None
    for setting in facts.settings:
        if setting.entity is not last:
            last = setting.entity
            yield last
    for attribute in facts.attributes:
        yield attribute.entity
    for gid in facts.gids:
        yield gid.port
    for neighbour in facts.neighbours:
        yield neighbour.local
        yield neighbour.remote
    for pair in facts.queue_pairs:
        yield pair.device

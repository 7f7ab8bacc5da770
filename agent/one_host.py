"""What one host knows of itself after a few passes: telemetry in the form that host rules take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from collectors.model.counters import delta
from collectors.model.entities import Entity, Port
from collectors.model.facts import Attribute, Facts, Gap, Gid, QueuePairFact, Setting
from collectors.model.metric import Column
from collectors.model.reading import Pass


@dataclass(frozen=True, slots=True)
class Growth:
    """How a counter grew between the first and the last pass, in its metric's unit."""

    total: float
    seconds: float
    samples: int
    first_at_ns: int
    last_at_ns: int
    resets: int = 0
    saturated: bool = False

    @property
    def rate(self) -> float:
        """Growth per second."""
        return self.total / self.seconds


@dataclass(frozen=True, slots=True)
class Sample:
    """A value as it was read. value: in the metric's unit."""

    value: float
    at_ns: int


@dataclass(frozen=True, slots=True)
class _Raw:
    column: Column
    value: float
    at_ns: int
    mono_ns: int
    incarnation: str


@dataclass(eq=False)
class OneHost:
    """Passes of several collectors, joined. Satisfies tuner.diagnosis.view.HostTelemetry."""

    since_ns: int = 0
    until_ns: int = 0
    _raw: dict[tuple[str, Entity], list[_Raw]] = field(default_factory=dict)
    _facts: dict[str, Facts] = field(default_factory=dict)
    _gaps: dict[str, tuple[Gap, ...]] = field(default_factory=dict)
    _values: dict[str, int] = field(default_factory=dict)

    def add(self, collector: str, seen: Pass) -> None:
        """Take a pass; facts replace those of the collector's earlier pass."""
        for reading in seen.readings:
            at_ns = reading.when.at_ns
            self.since_ns = min(self.since_ns or at_ns, at_ns)
            self.until_ns = max(self.until_ns, at_ns)
            for column, value in reading.values.items():
                held = self._raw.setdefault((column.metric, reading.entity), [])
                if held and held[0].column.via != column.via:
                    continue  # a second source of the same metric
                raw = _Raw(column, value, at_ns, reading.when.mono_ns, reading.incarnation)
                held.append(raw)
        if seen.facts is not None:
            self._facts[collector] = seen.facts
        self._gaps[collector] = seen.gaps
        told = 0
        if seen.facts is not None:
            facts = seen.facts
            told += len(facts.settings) + len(facts.attributes) + len(facts.gids)
            told += len(facts.neighbours) + len(facts.queue_pairs)
        told += sum(len(reading.values) for reading in seen.readings)
        self._values[collector] = max(told, self._values.get(collector, 0))

    def values_of(self, collector: str) -> int:
        """Return how many values and settings a collector told in its best pass."""
        return self._values.get(collector, 0)

    def entities(self, metric: str) -> Sequence[Entity]:
        """Return the entities that this metric was read of."""
        return [entity for name, entity in self._raw if name == metric]

    def growth(self, metric: str, entity: Entity) -> Growth | None:
        """Return how a counter grew, None where it was not read twice at different times."""
        samples = self._raw.get((metric, entity), [])
        if len(samples) < 2:
            return None
        total, resets, saturated = 0.0, 0, False
        for before, after in pairwise(samples):
            same = before.incarnation == after.incarnation
            step = delta(after.column, before.value, after.value, same_incarnation=same)
            total += after.column.to_unit(step.value)
            resets += step.event == "reset"
            saturated = saturated or step.event == "saturated"
        first, last = samples[0], samples[-1]
        seconds = (last.mono_ns - first.mono_ns) / 1e9
        if seconds <= 0:
            return None
        return Growth(total, seconds, len(samples), first.at_ns, last.at_ns, resets, saturated)

    def counted(self, metric: str) -> bool:
        """Tell whether it is known of any entity how this counter grew."""
        return any(self.growth(metric, entity) for entity in self.entities(metric))

    def growing(
        self, metric: str, least: float | None = None, *, or_saturated: bool = False
    ) -> Mapping[Entity, Growth]:
        """Return the growth only where it is `least` or more; without `least`, more than nothing.

        or_saturated: counters that stand at their maximum, too.
        """
        return {
            entity: growth
            for entity in self.entities(metric)
            if (growth := self.growth(metric, entity)) is not None
            and (
                (growth.total > 0 if least is None else growth.total >= least)
                or (or_saturated and growth.saturated)
            )
        }

    def totals(self, metric: str, entities: Iterable[Entity]) -> list[float | None]:
        """Return what a counter grew by at each of many entities, None where it is unknown."""
        grown = [self.growth(metric, entity) for entity in entities]
        return [None if growth is None else growth.total for growth in grown]

    def unlike(self, metric: str, value: float) -> Mapping[Entity, Sample]:
        """Return the newest values only where they are not this one."""
        return {
            entity: seen
            for entity in self.entities(metric)
            if (seen := self.latest(metric, entity)) is not None and seen.value != value
        }

    def latest(self, metric: str, entity: Entity) -> Sample | None:
        """Return the newest value."""
        samples = self._raw.get((metric, entity))
        if not samples:
            return None
        return Sample(samples[-1].column.to_unit(samples[-1].value), samples[-1].at_ns)

    def settings(self, entity: Entity) -> Mapping[str, Setting]:
        """Return the running settings of an entity by name."""
        return {
            setting.name: setting
            for facts in self._facts.values()
            for setting in facts.settings
            if setting.entity == entity and setting.applies == "running"
        }

    def setting_all(self, name: str) -> Mapping[Entity, Setting]:
        """Return one running setting of every entity that has it."""
        return {
            setting.entity: setting
            for facts in self._facts.values()
            for setting in facts.settings
            if setting.name == name and setting.applies == "running"
        }

    def likeness(self, entity: Entity) -> Entity:
        """Return what is equal for two entities only if all their settings are."""
        return entity

    def attributes(self, entity: Entity) -> Mapping[str, Attribute]:
        """Return identity and inventory of an entity by name."""
        return {
            attribute.name: attribute
            for facts in self._facts.values()
            for attribute in facts.attributes
            if attribute.entity == entity
        }

    def gids(self, port: Port) -> Sequence[Gid]:
        """Return the GID table of a port; one source of it is enough."""
        for facts in self._facts.values():
            found = [gid for gid in facts.gids if gid.port == port]
            if found:
                return found
        return []

    def queue_pairs(self) -> Sequence[QueuePairFact]:
        """Return the queue pairs that are known."""
        return [pair for facts in self._facts.values() for pair in facts.queue_pairs]

    def gaps(self) -> Sequence[Gap]:
        """Return what could not be read."""
        return [gap for gaps in self._gaps.values() for gap in gaps]

"""Facts over time: the whole of each collector, kept whenever it changed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from collectors.model.facts import Facts


@dataclass(frozen=True, slots=True)
class FactChange:
    """At this time a collector's facts became `after`; before is None for the first ones."""

    at_ns: int
    agent: str
    collector: str
    before: Facts | None
    after: Facts


@dataclass
class _Page:
    times: list[int] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    facts: list[Facts] = field(default_factory=list)


@dataclass
class FactBook:
    """All facts of all agents, by collector, in order of time."""

    _pages: dict[tuple[str, str], _Page] = field(default_factory=dict)

    def add(self, agent: str, collector: str, at_ns: int, raw: bytes, facts: Facts) -> None:
        """Note facts; the same facts again are no change."""
        page = self._pages.setdefault((agent, collector), _Page())
        place = bisect_right(page.times, at_ns)
        if place and page.raw[place - 1] == raw:
            return
        page.times.insert(place, at_ns)
        page.raw.insert(place, raw)
        page.facts.insert(place, facts)

    def drop_before(self, at_ns: int) -> None:
        """Forget what has been replaced before this time."""
        for page in self._pages.values():
            keep = max(bisect_right(page.times, at_ns) - 1, 0)
            del page.times[:keep], page.raw[:keep], page.facts[:keep]

    def current(self, until_ns: int) -> Iterator[tuple[str, str, Facts]]:
        """Yield (agent, collector, facts) as they held at a time."""
        for (agent, collector), page in self._pages.items():
            place = bisect_right(page.times, until_ns)
            if place:
                yield agent, collector, page.facts[place - 1]

    def changes(self, since_ns: int, until_ns: int) -> list[FactChange]:
        """Return what changed in a span, oldest first."""
        found = [
            FactChange(at, agent, collector, page.facts[n - 1] if n else None, page.facts[n])
            for (agent, collector), page in self._pages.items()
            for n, at in enumerate(page.times)
            if since_ns <= at <= until_ns
        ]
        return sorted(found, key=lambda change: change.at_ns)

"""Facts over time: the whole of each collector, kept whenever it changed.

Hosts with many queue pairs change their facts often, so only the newest version lies there
parsed; former ones are compressed, and not more than `_VERSIONS` of a collector are kept.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from collectors.model.facts import Facts
from collectors.wire.facts import pack_facts, parse_facts

_VERSIONS: Final = 64


@dataclass(frozen=True, slots=True)
class FactChange:
    """At this time a collector's facts became `after`; before is None for the first ones."""

    at_ns: int
    agent: str
    collector: str
    before: Facts | None
    after: Facts


class FactsKey(NamedTuple):
    """What tells facts from others. digest: of their text, by the keyed hash of this process."""

    agent: str
    collector: str
    at_ns: int
    digest: int


@dataclass(slots=True, eq=False)
class _Version:
    at_ns: int
    digest: int
    parsed: Facts | None
    packed: bytes = b""

    def facts(self) -> Facts:
        return self.parsed or parse_facts(zlib.decompress(self.packed))

    def shelve(self) -> None:
        """Keep the facts compressed only."""
        if self.parsed is not None:
            self.packed, self.parsed = zlib.compress(pack_facts(self.parsed), 1), None


@dataclass(eq=False)
class _Page:
    """Versions of one collector's facts by time. first: the oldest one is the first ever."""

    versions: list[_Version] = field(default_factory=list)
    first: bool = True

    def held(self, at_ns: int) -> int:
        """Return the place after the version that held at a time."""
        return bisect_right(self.versions, at_ns, key=lambda version: version.at_ns)


@dataclass
class FactBook:
    """All facts of all agents."""

    _pages: dict[tuple[str, str], _Page] = field(default_factory=dict)

    def add(self, agent: str, collector: str, at_ns: int, json: bytes) -> FactsKey:
        """Note facts; the same facts again are no change. Raises Malformed."""
        key = FactsKey(agent, collector, at_ns, hash(json))
        if self.holds(key):
            return key
        parsed = parse_facts(json)
        page = self._pages.setdefault((agent, collector), _Page())
        place = page.held(at_ns)
        # New lists: whoever looks at the former one keeps what it saw.
        versions = page.versions.copy()
        versions.insert(place, _Version(at_ns, key.digest, parsed))
        for version in versions[:-1][-2:]:
            version.shelve()
        if len(versions) > _VERSIONS:
            del versions[0]
            page.first = False
        page.versions = versions
        return key

    def holds(self, key: FactsKey) -> bool:
        """Tell whether these facts held at their time: adding them again would change nothing."""
        page = self._pages.get((key.agent, key.collector))
        place = page.held(key.at_ns) if page is not None else 0
        return page is not None and place > 0 and page.versions[place - 1].digest == key.digest

    def drop_before(self, at_ns: int) -> None:
        """Forget what has been replaced before this time."""
        for page in self._pages.values():
            replaced = max(page.held(at_ns) - 1, 0)
            if replaced:
                page.versions = page.versions[replaced:]
                page.first = False

    def current(self, until_ns: int) -> Iterator[tuple[str, str, Facts]]:
        """Yield (agent, collector, facts) as they held at a time."""
        for (agent, collector), page in self._pages.items():
            place = page.held(until_ns)
            if place:
                yield agent, collector, page.versions[place - 1].facts()

    def changes(self, since_ns: int, until_ns: int) -> Callable[[], list[FactChange]]:
        """Return a function that tells what changed in a span, oldest first, as known now."""
        seen = [
            (agent, collector, page.versions, page.first)
            for (agent, collector), page in self._pages.items()
            if page.versions and page.versions[-1].at_ns >= since_ns
        ]

        def told() -> list[FactChange]:
            found = []
            for agent, collector, versions, first in seen:
                before: Facts | None = None
                for place, version in enumerate(versions):
                    after = version.facts()
                    known = place or first
                    if known and since_ns <= version.at_ns <= until_ns:
                        found.append(FactChange(version.at_ns, agent, collector, before, after))
                    before = after
            return sorted(found, key=lambda change: change.at_ns)

        return told

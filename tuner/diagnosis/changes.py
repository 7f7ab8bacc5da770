"""When the evidence of a finding changed its level, and which event it followed.

Events are what the fleet told of itself: a changed setting, cable, job or version of some
agent's facts, and a link that went down. An event counts as followed when so many changes do not
come right after events by chance (`statistics.coincidence`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from collectors.model.catalogue import interface
from collectors.model.entities import Entity, display, wire_of
from collectors.model.facts import Facts
from tuner.diagnosis.finding import Evidence
from tuner.diagnosis.statistics import change_points, coincidence
from tuner.store.factbook import FactChange

WITHIN_S: Final = 30.0  # after an event: a poll of counters, one of facts, and its effect
UNLIKELY: Final = 0.1
_MOST: Final = 16


class History(Protocol):
    """The part of a window that tells of time."""

    @property
    def since_ns(self) -> int:
        """Begin of the span."""

    @property
    def until_ns(self) -> int:
        """End of the span."""

    def rates(self, metric: str, entity: Entity) -> tuple[Iterable[int], Iterable[float]] | None:
        """Return growth per second from reading to reading: (wall clock of the later, rate)."""

    def fact_history(self) -> Sequence[FactChange]:
        """Return when the facts of each collector changed."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at a wall-clock time."""

    at_ns: int
    what: str


@dataclass(frozen=True, slots=True)
class Change:
    """The level of a counter's rate changed. follows: the event shortly before, if any."""

    at_ns: int
    metric: str
    entity: Entity
    before: float
    after: float
    follows: Event | None


@dataclass(frozen=True)
class Changes:
    """Changes in order of time. by_chance: chance that as many follow events by accident."""

    changes: tuple[Change, ...]
    by_chance: float

    @property
    def linked(self) -> bool:
        """They follow events more often than chance has it."""
        return any(change.follows for change in self.changes) and self.by_chance <= UNLIKELY


def changes_of(history: History, evidence: Sequence[Evidence]) -> Changes:
    """Return the changes of level in the counters of some evidence."""
    events = events_of(history, [item.entity for item in evidence])
    found: list[Change] = []
    spans: list[int] = [event.at_ns for event in events]
    for name, entity in dict.fromkeys((item.name, item.entity) for item in evidence):
        rates = history.rates(name, entity)
        if rates is None:
            continue
        at_ns, values = np.array(rates[0], np.int64), np.array(rates[1], np.float64)
        spans += [int(at_ns[0]), int(at_ns[-1])] if len(at_ns) else []
        for point in change_points(values):
            # The change lies between two readings: no event after the later one caused it.
            at = int(at_ns[point.place])
            follows = _last_before(events, at)
            found.append(Change(at, name, entity, point.before, point.after, follows))
    found.sort(key=lambda change: change.at_ns)
    if not found or not events or max(spans) == min(spans):
        return Changes(tuple(found[:_MOST]), 1.0)
    seen = coincidence(
        _seconds([change.at_ns for change in found], min(spans)),
        _seconds([event.at_ns for event in events], min(spans)),
        WITHIN_S,
        (0.0, (max(spans) - min(spans)) / 1e9),
    )
    return Changes(tuple(found[:_MOST]), seen.p_value)


def events_of(history: History, places: Sequence[Entity]) -> list[Event]:
    """Return what happened: changed facts of any agent, links of some places that went down."""
    found = [
        Event(change.at_ns, f"{change.agent}: {what}")
        for change in history.fact_history()
        if change.before is not None and (what := _difference(change.before, change.after))
    ]
    for wire in dict.fromkeys(wire_of(place) for place in places):
        rates = None if wire is None else history.rates(interface.CARRIER_CHANGES.name, wire)
        if wire is not None and rates is not None:
            found += [
                Event(int(at_ns), f"{display(wire)}: link went down or up")
                for at_ns, rate in zip(*rates, strict=True)
                if rate > 0
            ]
    return sorted(found, key=lambda event: event.at_ns)


def _difference(before: Facts, after: Facts) -> str:
    """Return what differs between two versions of facts, in words; '' for queue pairs and gaps."""
    was = {(s.entity, s.name, s.applies): s.value for s in before.settings}
    now = {(s.entity, s.name, s.applies): s.value for s in after.settings}
    changed = [key for key in now if key in was and was[key] != now[key]]
    if changed:
        entity, name, _ = changed[0]
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return f"{name} of {display(entity)} changed{more}"
    if set(before.neighbours) != set(after.neighbours):
        return "cables changed"
    if before.versions != after.versions:
        return "a version changed"
    return ""


def _last_before(events: Sequence[Event], at_ns: int) -> Event | None:
    near = [event for event in events if 0 <= at_ns - event.at_ns <= WITHIN_S * 1e9]
    return near[-1] if near else None


def _seconds(
    times_ns: Sequence[int], begin_ns: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return (np.array(times_ns, np.int64) - begin_ns) / 1e9

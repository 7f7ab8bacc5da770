"""What a collector returns from one pass: readings, gaps and facts.

Absent is not zero: a value that could not be read is in no reading, and a `Gap` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from collectors.model.entities import Entity
from collectors.model.facts import Facts, Gap
from collectors.model.metric import Column

_SKEW_NS: Final = 2 * 10**9


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment. at_ns: wall clock since 1970. mono_ns: monotonic clock of the reading machine."""

    at_ns: int
    mono_ns: int

    def corrected(self, device_ns: int) -> Instant:
        """Return the device's own time of what was received now, where it can be believed.

        Devices send 0, times before 1970 or a clock that nobody set; then it is this moment.
        """
        behind = self.at_ns - device_ns
        if abs(behind) > _SKEW_NS:
            return self
        return Instant(device_ns, self.mono_ns - behind)


Clock: TypeAlias = Callable[[], Instant]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one collector saw of one entity in one pass.

    values: column -> native value; integers 0..2^64-1 in `int` columns, finite floats in
    `float` columns. incarnation: changes when the entity's counters start anew (boot id, driver
    load, sysUpTime discontinuity); '' where the source cannot tell.
    """

    entity: Entity
    values: Mapping[Column, int | float]
    when: Instant
    incarnation: str = ""


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of one collector. facts: whole, or None where this pass did not look at them."""

    readings: tuple[Reading, ...] = ()
    gaps: tuple[Gap, ...] = ()
    facts: Facts | None = None


class Collector(Protocol):
    """Reads one source. It gets its I/O handle when it is built and the clock when it is asked."""

    @property
    def name(self) -> str:
        """Word for this source in metrics, gaps and config: `sysfs`, `netlink`..."""

    def read(self, clock: Clock) -> Pass:
        """Read everything once.

        Raises FabricError only where nothing at all could be read; what is partial is a Gap.
        """


@dataclass
class GapLog:
    """Gaps of one pass while it is under way: counts repeats instead of listing them."""

    collector: str
    _seen: dict[tuple[str, str, str], Gap] = field(default_factory=dict)

    def add(self, subject: Entity | str, what: str, reason: str, detail: str = "") -> None:
        """Note that `what` of a subject could not be read, for a short countable reason."""
        key = (str(subject), what, reason)
        seen = self._seen.get(key)
        count = seen.count + 1 if seen else 1
        self._seen[key] = Gap(str(subject), self.collector, what, reason, detail, count)

    def gaps(self) -> tuple[Gap, ...]:
        """Return what was noted so far."""
        return tuple(self._seen.values())

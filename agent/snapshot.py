"""The last that is known of each collector; workers write it, /metrics and `once` read it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from collectors.model.facts import Facts, Gap
from collectors.model.reading import Pass, Reading

_NO_COUNTS: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one collector did last, and what it did in all.

    readings, facts: of the last pass that gave any; read_mono_ns: end of the last pass that
    succeeded, None before the first. error: why the last pass failed, '' where it did not;
    reason: the same as one countable word. overrun: a pass is past its deadline right now.
    """

    collector: str
    interval_s: float
    readings: tuple[Reading, ...] = ()
    facts: Facts | None = None
    gaps: tuple[Gap, ...] = ()
    read_mono_ns: int | None = None
    duration_s: float = 0.0
    error: str = ""
    reason: str = ""
    overrun: bool = False
    passes: int = 0
    overruns: int = 0
    failures: Mapping[str, int] = field(default_factory=lambda: _NO_COUNTS)
    gap_counts: Mapping[str, int] = field(default_factory=lambda: _NO_COUNTS)

    @property
    def success(self) -> bool:
        """True where the last pass succeeded and none is late."""
        return self.read_mono_ns is not None and not self.error and not self.overrun


class Snapshot:
    """Outcomes by collector. Each change replaces one frozen record, so readers never wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outcomes: dict[str, Outcome] = {}

    def register(self, collector: str, interval_s: float) -> None:
        """Make a collector known before its first pass; the order here is that of outcomes()."""
        with self._lock:
            self._outcomes[collector] = Outcome(collector, interval_s)

    def outcomes(self) -> tuple[Outcome, ...]:
        """Return all outcomes as they are now."""
        with self._lock:
            return tuple(self._outcomes.values())

    def succeeded(self, collector: str, seen: Pass, mono_ns: int, duration_s: float) -> None:
        """Note a pass that succeeded; facts that it did not look at stay."""
        with self._lock:
            last = self._outcomes[collector]
            self._outcomes[collector] = replace(
                last,
                readings=seen.readings,
                facts=last.facts if seen.facts is None else seen.facts,
                gaps=seen.gaps,
                read_mono_ns=mono_ns,
                duration_s=duration_s,
                error="",
                reason="",
                overrun=False,
                passes=last.passes + 1,
                gap_counts=_plus(last.gap_counts, seen.gaps),
            )

    def failed(self, collector: str, reason: str, error: str, duration_s: float) -> None:
        """Note a pass that failed; the last good readings stay, and grow old."""
        with self._lock:
            last = self._outcomes[collector]
            self._outcomes[collector] = replace(
                last,
                gaps=(),
                duration_s=duration_s,
                error=error,
                reason=reason,
                overrun=False,
                passes=last.passes + 1,
                failures={**last.failures, reason: last.failures.get(reason, 0) + 1},
            )

    def late(self, collector: str) -> None:
        """Note, once for a pass, that it is past its deadline."""
        with self._lock:
            last = self._outcomes[collector]
            self._outcomes[collector] = replace(last, overrun=True, overruns=last.overruns + 1)


def _plus(counts: Mapping[str, int], gaps: tuple[Gap, ...]) -> Mapping[str, int]:
    if not gaps:
        return counts
    total = Counter(counts)
    for gap in gaps:
        total[gap.reason] += gap.count
    return dict(total)

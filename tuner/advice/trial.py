"""A trial of changes on a twin: what was accepted so far, what runs cost, what a change does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from collectors.model.entities import Entity, Port
from collectors.model.facts import Value
from tuner.advice.cures.configuration import ALPHA, EXPONENT, as_knob
from tuner.advice.norm import usual
from tuner.advice.recommendation import Recommendation
from tuner.advice.search.search import Tried
from tuner.advice.twin.budget import Budget, price_s
from tuner.advice.twin.change import Assignment
from tuner.advice.twin.compare import VARIATIONS, Comparison
from tuner.advice.twin.replay import Replay
from tuner.advice.twin.twin import SLICE_S, Twin, build_twin
from tuner.diagnosis.view import FabricView, Telemetry

HARM: Final = 1.02  # times the job time: worse than this is not recommended
FAITHFUL: Final = 0.25  # of the time seen: a twin further off does not speak against mending
DEFECTS: Final = ("link", "config", "host")
TRIED_ON: Final = 3  # variations of N, RTT and burst
RUNS: Final = 70  # that a budget should suffice for; else the twin replays less
LEAST_SLICE_S: Final = 1e-3  # yet no less than this


@dataclass
class Trial:
    """A twin, the changes that were accepted so far, and what runs may still cost."""

    telemetry: Telemetry
    fabric: FabricView
    twin: Twin
    seed: int
    budget: Budget
    progress: Callable[[int], None] | None
    accepted: list[Assignment] = field(default_factory=list)
    cured: bool = False
    count: int = 0
    notes: list[str] = field(default_factory=list)
    searched: tuple[Tried, ...] = ()

    def __post_init__(self) -> None:
        """Tell whether the twin does what was seen: takes about as long for the same bytes."""
        self._twins: dict[tuple[Assignment, ...], Twin] = {(): self.twin}
        self._runs: dict[tuple[Assignment, ...], list[Replay]] = {}
        seen = self.twin.seen.seconds * self.twin.load.share
        [first] = self.runs((), 1)
        self.price_s = price_s(self.twin.plan, first.events)
        self.faithful = seen > 0 and abs(first.job_s / seen - 1) < FAITHFUL

    def vetoes(self, found: Comparison, section: str) -> bool:
        """Tell whether a change does harm on the twin; against a defect only a faithful one can."""
        harmful = found.job_ratios[0] > HARM
        return harmful and (self.faithful or section not in DEFECTS)

    def mends_drift(self, group: Iterable[Recommendation]) -> bool:
        """Tell whether a cure only brings places to what most of their like have."""
        return all(
            (norm := self._usual(part.knob, place)) is not None and norm == part.proposed
            for rec in group
            for part in rec.parts
            for place in part.places
        )

    def _usual(self, knob: str, place: Entity) -> Value | None:
        found = usual(self.telemetry, self.fabric, knob, place)
        if found is None and knob == EXPONENT:
            found = usual(self.telemetry, self.fabric, ALPHA, place)
            return None if found is None else as_knob(ALPHA, found[0], found[0])[2]
        return None if found is None else found[0]

    def with_all(self, changes: tuple[Assignment, ...]) -> Twin:
        """Return the twin with changes."""
        if changes not in self._twins:
            self._twins[changes] = self.twin.changed(self.telemetry, self.fabric, changes)
        return self._twins[changes]

    def runs(self, changes: tuple[Assignment, ...], count: int) -> tuple[Replay, ...]:
        """Return runs with changes on the first variations of N, RTT and burst."""
        known = self._runs.setdefault(changes, [])
        for number in range(len(known), count):
            twin = self.with_all(changes).varied(**VARIATIONS[number])
            known.append(twin.run(seed=self.seed + number))
            self.ran(twin, known[-1])
        return tuple(known[:count])

    def ran(self, twin: Twin, run: Replay) -> None:
        """Count a run."""
        self.budget.charge(twin.plan, run.events)
        self.count += 1
        if self.progress is not None:
            self.progress(self.count)

    def tried(self, changes: Sequence[Assignment]) -> Comparison | None:
        """Return what further changes do, on fewer variations or None where that is all it buys."""
        now = tuple(self.accepted)
        for count in (TRIED_ON, 1):
            if self.budget.affords((2 * count - len(self._runs.get(now, ()))) * self.price_s):
                return Comparison(self.runs(now, count), self.runs((*now, *changes), count))
        return None


def affordable(
    telemetry: Telemetry, fabric: FabricView, about: Sequence[Port], budget: Budget
) -> Twin:
    """Return the twin, of a shorter slice of traffic where the budget would buy too few runs."""
    twin = build_twin(telemetry, fabric, about=about)
    cost = price_s(twin.plan, twin.events)
    wanted = budget.seconds / RUNS
    if cost <= wanted:
        return twin
    shorter = max(LEAST_SLICE_S, SLICE_S * wanted / cost)
    return build_twin(telemetry, fabric, about=about, slice_s=shorter)

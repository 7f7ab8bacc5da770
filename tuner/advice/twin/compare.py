"""Before and after on twins: the same traffic under two sets of settings, around the estimate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tuner.advice.recommendation import Effect
from tuner.advice.twin.budget import Budget
from tuner.advice.twin.replay import Replay
from tuner.advice.twin.twin import Twin

VARIATIONS: Final[tuple[Mapping[str, float], ...]] = (
    {"flows": 1.0, "rtt": 1.0, "burst": 1.0},
    {"flows": 1.3, "rtt": 1.3, "burst": 0.7},
    {"flows": 0.7, "rtt": 0.7, "burst": 1.3},
    {"flows": 1.3, "rtt": 0.7, "burst": 1.3},
    {"flows": 0.7, "rtt": 1.3, "burst": 0.7},
)
"""N, RTT and burst ±30 % around the estimate: the estimate, then corners."""
MODEL: Final = "packet simulation of the twin"


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of a replay: its name and unit for people and documents."""

    name: str
    unit: str
    of: Callable[[Replay], float]


MEASURES: Final = (
    Measure("job time", "seconds", lambda run: run.job_s),
    Measure("goodput", "bps", lambda run: run.goodput_bps),
    Measure("completion p99", "seconds", lambda run: run.tail_s),
    Measure("queue mean", "bytes", lambda run: run.queue_mean_bytes),
    Measure("queue p99", "bytes", lambda run: run.queue_p99_bytes),
    Measure("marked packets", "ratio", lambda run: run.marked_ratio),
    Measure("paused time", "ratio", lambda run: run.paused_ratio),
    Measure("dropped or lost packets", "packets", lambda run: float(run.drops)),
)


@dataclass(frozen=True)
class Comparison:
    """Runs before and after for each variation of the estimate, the estimate first."""

    before: tuple[Replay, ...]
    after: tuple[Replay, ...]

    @property
    def job_ratios(self) -> list[float]:
        """Job time after over before, by variation."""
        return [
            new.job_s / old.job_s if old.job_s else 1.0
            for old, new in zip(self.before, self.after, strict=True)
        ]

    @property
    def differs(self) -> bool:
        """Whether any measure of any run differs: if none does, the change has no hold there."""
        return any(
            measure.of(old) != measure.of(new)
            for old, new in zip(self.before, self.after, strict=True)
            for measure in MEASURES
        )

    def effects(self, assumed: Sequence[str], *, share: float = 1.0) -> list[Effect]:
        """Return job time, marks and pauses as predicted effects; `share` scales to the span."""
        around = f"N, RTT and burst ±30 % in {len(self.after)} runs; {'; '.join(assumed[:3])}"
        found = []
        for measure in MEASURES:
            if measure.name not in ("job time", "marked packets", "paused time"):
                continue
            scale = 1 / share if measure.unit == "seconds" else 1.0
            before = measure.of(self.before[0]) * scale
            if measure.name == "job time":
                after = [before * ratio for ratio in self.job_ratios]
            else:
                after = [measure.of(run) for run in self.after]
                if not before and not any(after):
                    continue  # neither marks nor pauses, before and after: nothing to tell
            found.append(
                Effect(measure.name, measure.unit, before, min(after), max(after), MODEL, around)
            )
        return found


def compare(
    before: Twin,
    after: Twin,
    budget: Budget,
    *,
    seed: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Comparison:
    """Run both twins on as many variations as the budget buys, the estimate whatever it costs."""
    olds: list[Replay] = []
    news: list[Replay] = []
    for number, change in enumerate(VARIATIONS):
        if number and not budget.affords(budget.spent_s / number):
            break
        for twin, runs in ((before, olds), (after, news)):
            runs.append(twin.varied(**change).run(seed=seed + number))
            budget.charge(twin.plan, runs[-1].events)
        if progress is not None:
            progress(2 * number + 2)
    return Comparison(tuple(olds), tuple(news))

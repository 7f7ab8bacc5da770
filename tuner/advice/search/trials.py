"""Trials: candidates on the same variations of a twin with the same seeds, and who clearly leads.

The first trials are the estimate of N, RTT and burst and its corners; the others are drawn within
the same ±30 %. What differs between two candidates on one trial is not the trial's luck, so
differences are compared, not scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tuner.advice.search.candidate import Candidate, applied
from tuner.advice.search.objective import Score, Weights, ideal_seconds, score
from tuner.advice.twin.compare import VARIATIONS
from tuner.advice.twin.replay import Replay, replay
from tuner.advice.twin.twin import SPREAD, Twin

LEAVE: Final = "the running settings"
CLEARLY: Final = 2.0  # standard errors


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate with its scores and runs by number of the trial."""

    candidate: Candidate
    scores: Mapping[int, Score]
    runs: Mapping[int, Replay]

    @property
    def value(self) -> float:
        """Mean score of all trials that it had."""
        return sum(one.total for one in self.scores.values()) / len(self.scores)

    def on(self, trials: Iterable[int]) -> float:
        """Return the mean score of these trials."""
        totals = [self.scores[trial].total for trial in trials]
        return sum(totals) / len(totals)


@dataclass(frozen=True, slots=True)
class Lead:
    """By how much one candidate scores better than another on the same trials.

    scatter: standard error of the mean difference. worst: of the lowest scores of both.
    """

    mean: float
    scatter: float
    worst: float

    @property
    def clear(self) -> bool:
        """Whether it is more than chance, and not paid for in the worst trial."""
        return self.mean > CLEARLY * self.scatter and self.worst > -CLEARLY * self.scatter


def lead(one: Judged, other: Judged, trials: Iterable[int]) -> Lead:
    """Return the lead of a candidate over another on trials that both had."""
    pairs = [(one.scores[t].total, other.scores[t].total) for t in trials]
    differences = [mine - theirs for mine, theirs in pairs]
    count = len(differences)
    mean = sum(differences) / count
    spread = sum((value - mean) ** 2 for value in differences) / max(count - 1, 1)
    worst = min(mine for mine, _ in pairs) - min(theirs for _, theirs in pairs)
    return Lead(mean, math.sqrt(spread / count), worst)


def variation(trial: int, seed: int) -> Mapping[str, float]:
    """Return what a trial multiplies N, RTT and burst by."""
    if trial < len(VARIATIONS):
        return VARIATIONS[trial]
    chance = Random(f"{seed} {trial}")
    return {name: chance.uniform(1 - SPREAD, 1 + SPREAD) for name in ("flows", "rtt", "burst")}


@dataclass
class Trials:
    """Runs candidates on trials and remembers them. `stop`: ends it from outside, at any time."""

    twin: Twin
    weights: Weights
    seed: int
    most_runs: int
    stop: Callable[[], bool]
    ran: Callable[[Twin, Replay], None]
    runs: int = 0
    known: dict[tuple[object, ...], Judged] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Note the bottleneck's rate; variations are made when they are needed."""
        self.line_bps = self.twin.plan.topology.cables[self.twin.watch[0] // 2].rate_bps
        self._twins: dict[int, tuple[Twin, float]] = {}

    def has_room(self, runs: int = 1) -> bool:
        """Tell whether so many runs are left."""
        return self.runs + runs <= self.most_runs and not self.stop()

    def judge(self, candidate: Candidate, trials: Iterable[int]) -> Judged:
        """Return the candidate judged on these trials, and on those that it had before."""
        was = self.known.get(candidate.key) or Judged(candidate, {}, {})
        scores, runs = dict(was.scores), dict(was.runs)
        for trial in trials:
            if trial not in scores:
                runs[trial], scores[trial] = self._run(candidate, trial)
        judged = Judged(was.candidate, scores, runs)
        self.known[candidate.key] = judged
        return judged

    def _run(self, candidate: Candidate, trial: int) -> tuple[Replay, Score]:
        change = variation(trial, self.seed)
        if trial not in self._twins:
            made = self.twin.varied(**change)
            self._twins[trial] = made, ideal_seconds(made.plan)
        twin, ideal_s = self._twins[trial]
        plan = twin.plan
        if candidate.source != LEAVE:
            plan = applied(plan, candidate, self.line_bps)
        run = replay(plan, seed=self.seed + trial, watch=twin.watch)
        self.runs += 1
        self.ran(twin, run)
        rtt_s = self.twin.rtt_s.value * change["rtt"]
        return run, score(run, ideal_s, rtt_s, self.line_bps, self.weights)

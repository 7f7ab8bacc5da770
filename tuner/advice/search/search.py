"""The search for DCQCN, ECN and PFC settings on a twin: presets, fluid model, packet simulator.

Successive halving over published and proposed candidates, then an evolution (CMA-ES) from the
best, every candidate judged on the estimate of N, RTT and burst and around it. "Leave it" and
"DCQCN off" are candidates like the others. Deterministic by seed and budget: the budget is spent
in simulated work at a fixed price, and only what turns out far dearer is ended by CPU time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import cma
import numpy as np

from collectors.model.errors import NotSupported
from tuner.advice.search import fluid
from tuner.advice.search.candidate import (
    AXES,
    Candidate,
    applied,
    candidate_at,
    current_of,
    held,
    point_of,
    stepped,
)
from tuner.advice.search.objective import Score, Weights, ideal_seconds, pareto, robust, score
from tuner.advice.search.presets import PRESETS
from tuner.advice.twin.compare import VARIATIONS
from tuner.advice.twin.replay import Replay, replay
from tuner.advice.twin.twin import Twin

STEP: Final = 8.0  # no value moves further than by this factor at once
WORTH: Final = 0.01  # a change must score better than leaving it by this much
EVENT_S: Final = 5e-8  # price of an event, of a run, and of its hosts and connections (measured)
RUN_S: Final = 3e-3
HOST_S: Final = 1e-4
OVERRUN: Final = 4.0  # times the budget in CPU time, then the search ends
FLUID_SHARE: Final = 0.15
FLUID_RUN_S: Final = 3e-3
SIGMA: Final = 0.5


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate with a score and a run for each variation that it was tried on."""

    candidate: Candidate
    scores: tuple[Score, ...]
    runs: tuple[Replay, ...]

    @property
    def robust(self) -> float:
        """Mean of average and worst score."""
        return robust(self.scores)


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to: finalists best first, `current` among the judged, its cost."""

    best: Judged
    current: Judged
    table: tuple[Judged, ...]
    pareto: tuple[bool, ...]
    evaluations: int
    seconds: float
    stopped: bool

    @property
    def worth_it(self) -> bool:
        """Whether the best beats leaving it."""
        return self.best.robust > self.current.robust + WORTH


@dataclass
class _Bench:
    """Runs candidates on variations of a twin, remembers them, and counts what they cost."""

    twin: Twin
    weights: Weights
    seed: int
    budget_s: float
    progress: Callable[[int], None] | None
    spent_s: float = 0.0
    runs: int = 0
    began: float = field(default_factory=time.process_time)
    known: dict[tuple[object, ...], Judged] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.line_bps = self.twin.plan.topology.cables[self.twin.watch[0] // 2].rate_bps
        self.twins = [self.twin.varied(**change) for change in VARIATIONS]
        self.ideals = [ideal_seconds(one.plan) for one in self.twins]

    @property
    def late(self) -> bool:
        return time.process_time() - self.began > OVERRUN * self.budget_s

    @property
    def done(self) -> bool:
        return self.spent_s >= self.budget_s or self.late

    def judge(self, candidate: Candidate, variations: int) -> Judged:
        """Return the candidate judged on the first so many variations."""
        was = self.known.get(candidate.key) or Judged(candidate, (), ())
        scores, runs = list(was.scores), list(was.runs)
        for index in range(len(scores), variations):
            twin = self.twins[index]
            plan = twin.plan
            if candidate.source != LEAVE:
                plan = applied(plan, candidate, self.line_bps)
            run = replay(plan, seed=self.seed + index, watch=twin.watch)
            runs.append(run)
            rtt = self.twin.rtt_s.value * VARIATIONS[index]["rtt"]
            scores.append(score(run, self.ideals[index], rtt, self.line_bps, self.weights))
            places = plan.topology.node_count + len(plan.traffic.connections)
            self.spent_s += RUN_S + HOST_S * places + EVENT_S * run.events
            self.runs += 1
            if self.progress is not None:
                self.progress(self.runs)
        judged = Judged(candidate, tuple(scores), tuple(runs))
        self.known[candidate.key] = judged
        return judged


LEAVE: Final = "the running settings"


def search(
    twin: Twin,
    *,
    weights: Weights | None = None,
    budget_s: float = 10.0,
    seed: int = 1,
    step: float = STEP,
    pfc: bool = True,
    nics: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Found:
    """Return the best settings for a twin.

    `pfc`: whether PFC's share of the buffer may change; `nics`: whether DCQCN may, which needs
    NICs that are known to run it. `progress` is called with the number of
    runs so far. Raises NotSupported where the twin carries no traffic to a host.
    """
    if not twin.watch:
        raise NotSupported("search", "twin", "no host receives anything")
    weights = weights or Weights()
    bench = _Bench(twin, weights, seed, budget_s, progress)
    current = current_of(twin.plan, twin.watch[0])
    fit = _Fit(current, step, pfc, nics)
    pool = [fit(one) for one in _published(bench.line_bps, current.alpha)]
    pool += [fit(one) for one in _proposed(bench, current)]
    pool += [fit(one) for one in _around(current, seed)]
    bench.judge(current, 1)
    bench.began = time.process_time()  # what came before may have had to compile the engines
    ahead = _halve(bench, list({one.key: one for one in pool if one is not None}.values()))
    _evolve(bench, ahead, fit)
    order = sorted(bench.known.values(), key=lambda one: -one.robust)
    chosen = order[:FINALISTS]
    for kind in (_is_preset, _is_off):  # shown beside the best, however they do
        chosen += [one for one in order if kind(one.candidate)][:1]
    finals = [bench.judge(one.candidate, len(VARIATIONS)) for one in chosen]
    leave = bench.judge(current, len(VARIATIONS))
    table = sorted({one.candidate.key: one for one in (*finals, leave)}.values(), key=_rank)
    return Found(
        table[0],
        leave,
        tuple(table),
        tuple(pareto([_average(one.scores) for one in table])),
        bench.runs,
        time.process_time() - bench.began,
        bench.late,
    )


FINALISTS: Final = 6
RUNGS: Final = ((1, 1.0), (3, 0.5), (5, 0.2))
"""Successive halving: on how many variations, and which share of the pool gets there."""


def _is_preset(candidate: Candidate) -> bool:
    return any(candidate.source == preset.source for preset in PRESETS)


def _is_off(candidate: Candidate) -> bool:
    return candidate.dcqcn is None


def _rank(judged: Judged) -> float:
    return -judged.robust


def _average(scores: Sequence[Score]) -> Score:
    parts = [(s.total, s.throughput, s.tail, s.queue, s.pauses) for s in scores]
    return Score(*(float(value) for value in np.mean(parts, axis=0)))


def _published(line_bps: float, alpha: float) -> Iterable[Candidate]:
    for preset in PRESETS:
        yield Candidate(
            preset.name, preset.ecn(line_bps), preset.parameters(line_bps), alpha, preset.source
        )


def _proposed(bench: _Bench, current: Candidate) -> list[Candidate]:
    """Return candidates of the fluid model, for its share of the budget."""
    cost = FLUID_RUN_S * 3
    evaluations = int(bench.budget_s * FLUID_SHARE / cost)
    if evaluations < 8:
        return []
    flows, rtt = bench.twin.flows, bench.twin.rtt_s
    bench.spent_s += evaluations * cost
    return fluid.propose(
        (flows.low, flows.value, flows.high),
        (rtt.low, rtt.value, rtt.high),
        bench.line_bps,
        weights=bench.weights,
        alpha=current.alpha,
        seed=bench.seed,
        evaluations=evaluations,
    )


def _around(current: Candidate, seed: int, count: int = 16) -> Iterable[Candidate]:
    """Yield random candidates in the published ranges, one a stratum of every axis."""
    base = current.dcqcn
    if base is None:
        return
    rng = np.random.default_rng(seed)
    low, high = (np.log([getattr(axis, side) for axis in AXES]) for side in ("low", "high"))
    strata = np.array([rng.permutation(count) for _ in AXES]).T
    for row in (strata + rng.random(strata.shape)) / count:
        made = candidate_at(low + row * (high - low), base, "random")
        if made is not None:
            yield made


@dataclass(frozen=True, slots=True)
class _Fit:
    """Keeps candidates within a step of the current settings, in the NIC's units."""

    current: Candidate
    step: float
    pfc: bool
    nics: bool

    def __call__(self, one: Candidate) -> Candidate | None:
        """Return what may be tried of a candidate, None where registers cannot hold it."""
        made = stepped(one, self.current, self.step)
        if not self.pfc:
            made = replace(made, alpha=self.current.alpha)
        if not self.nics:
            return replace(made, dcqcn=self.current.dcqcn)
        if made.dcqcn is None:
            return made
        kept = held(made.dcqcn)
        return None if kept is None else replace(made, dcqcn=kept)


def _halve(bench: _Bench, pool: list[Candidate]) -> list[Judged]:
    ahead: list[Judged] = []
    for variations, share in RUNGS:
        if ahead:
            kept = max(4, round(len(pool) * share))
            candidates = [one.candidate for one in sorted(ahead, key=_rank)[:kept]]
        else:
            candidates = pool
        ahead = []
        for candidate in candidates:
            if bench.done and ahead:
                break
            ahead.append(bench.judge(candidate, variations))
    return sorted(ahead, key=_rank)


def _evolve(bench: _Bench, ahead: Sequence[Judged], fit: _Fit) -> None:
    """Spend what is left of the budget on evolutions from the best that has all parts on."""
    starts = [(point, one) for one in ahead if (point := point_of(one.candidate)) is not None]
    for number, (point, one) in enumerate(starts):
        if bench.done or one.candidate.dcqcn is None:
            return
        options: dict[str, Any] = {
            "seed": bench.seed + 1 + number, "verbose": -9, "popsize": 8, "verb_log": 0,
            "verb_disp": 0, "maxiter": 12,
        }  # fmt: skip
        evolution = cma.CMAEvolutionStrategy(point.tolist(), SIGMA, options)
        while not evolution.stop() and not bench.done:
            points = evolution.ask()
            losses = []
            for asked in points:
                made = candidate_at(np.asarray(asked), one.candidate.dcqcn, "optimised")
                fitted = None if made is None else fit(made)
                losses.append(0.0 if fitted is None else -bench.judge(fitted, 3).robust)
            evolution.tell(points, losses)

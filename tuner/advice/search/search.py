"""The search for DCQCN, ECN and PFC settings on a twin: presets, fluid model, packet simulator.

Successive halving over published and proposed candidates, then an evolution (CMA-ES) from the
best. The best published configuration is kept unless another leads it by clearly more than the
scatter, on trials that neither was picked by. Settings that do not contribute go back to what
runs. "Leave it" and "DCQCN off" are candidates like the others.

The work is a number of runs: the same runs and seed give the same answer on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import cma
import numpy as np

from collectors.model.errors import NotSupported
from tuner.advice.search import fluid
from tuner.advice.search.candidate import (
    AXES,
    Candidate,
    candidate_at,
    current_of,
    held,
    point_of,
    reverted,
    stepped,
    unlike,
)
from tuner.advice.search.objective import Score, Weights, pareto
from tuner.advice.search.presets import PRESETS
from tuner.advice.search.trials import LEAVE, Judged, Lead, Trials, lead
from tuner.advice.twin.compare import VARIATIONS
from tuner.advice.twin.replay import Replay
from tuner.advice.twin.twin import Twin

STEP: Final = 4.0  # no value moves further than by this factor at once
WORTH: Final = 0.01  # a change must score better than leaving it by this much
LEAST_RUNS: Final = 40  # with fewer, luck would decide
SIGMA: Final = 0.5
RUNGS: Final = ((1, 1.0), (3, 0.5), (5, 0.25))
"""Successive halving: on how many trials, and which share of the pool gets there."""
FINALISTS: Final = ((2, 3, 1), (1, 1, 0))
"""Published ones, own ones, those without DCQCN; and of each where runs are few."""
FEW: Final = 160  # runs
HOPELESS: Final = 0.03  # behind the best on the estimate: no further trial
LOSS: Final = 0.2  # of the gain that may be given up for fewer changes
MARGIN: Final = 0.5  # and of the lead over the best published one
LESS: Final = 0.05  # of the gain that always may
PARED: Final = 6  # trials of each setting that is tried to be left as it is


@dataclass(frozen=True, slots=True)
class Tried:
    """How settings did on the final trials. undominated: none of the others is better in a part
    of the score without being worse in another (Pareto).
    """

    name: str
    score: Score
    undominated: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to. `incumbent`: the best of what is published and of what runs.

    gain: lead of the best over what runs, on the final trials. table: finalists and what runs,
    the chosen one first; tried: their scores. trials: those that best and current both had, the
    estimate first. stopped: ended from outside before its time.
    """

    best: Judged
    current: Judged
    incumbent: Judged
    gain: Lead
    table: tuple[Judged, ...]
    tried: tuple[Tried, ...]
    trials: tuple[int, ...]
    evaluations: int
    stopped: bool

    @property
    def worth_it(self) -> bool:
        """Whether the best beats leaving it, by more than chance."""
        return self.gain.clear and self.gain.mean > WORTH


@dataclass(frozen=True, slots=True)
class _Shares:
    """How runs are shared out: trials of the screening and the final, runs kept for the latter."""

    screened: tuple[int, ...]
    final: tuple[int, ...]
    finalists: tuple[int, int, int]
    reserved: int
    random: int

    @classmethod
    def of(cls, runs: int) -> _Shares:
        few = runs < FEW
        finalists = FINALISTS[few]
        screened = tuple(range(3 if few else len(VARIATIONS)))
        count = min(24, max(3, runs // (4 * sum(finalists))))
        if few:
            count = min(count, 4)
        final = tuple(range(len(VARIATIONS), len(VARIATIONS) + count))
        held_back = (1 + sum(finalists)) * count + finalists[0] * len(screened)
        pared = min(runs // 3, 16 * min(count, PARED) + count)
        return cls(screened, final, finalists, held_back + pared, 0 if few else 16)


def search(
    twin: Twin,
    *,
    runs: int,
    weights: Weights | None = None,
    proposals: int = 0,
    advised: Sequence[Candidate] = (),
    seed: int = 1,
    step: float = STEP,
    pfc: bool = True,
    nics: bool = True,
    stop: Callable[[], bool] = lambda: False,
    ran: Callable[[Twin, Replay], None] = lambda _twin, _run: None,
) -> Found:
    """Return the best settings for a twin after about so many runs, LEAST_RUNS or more.

    `proposals`: evaluations of the fluid model. `advised`: candidates by other means, tried as they
    are, and kept like published ones unless another clearly leads. `pfc`: whether PFC's share of
    the buffer may change; `nics`: whether DCQCN may, which needs NICs that are known to run it.
    `ran` is called after each run. Raises NotSupported where the twin carries no traffic to a host.
    """
    if not twin.watch:
        raise NotSupported("search", "twin", "no host receives anything")
    shares = _Shares.of(runs)
    trials = Trials(twin, weights or Weights(), seed, runs - shares.reserved, stop, ran)
    current = current_of(twin.plan, twin.watch[0])
    fit = _Fit(current, step, pfc, nics)
    pool: list[Candidate | None] = [*advised]
    pool += [fit(one) for one in _published(trials.line_bps, current.alpha)]
    pool += [fit(one) for one in _proposed(trials, current, proposals)]
    pool += [fit(one) for one in _around(current, seed, shares.random)]
    trials.judge(current, shares.screened)
    others = {one.key: one for one in pool if one is not None and one.key != current.key}
    ahead = _halve(trials, list(others.values()))
    _evolve(trials, ahead, fit)
    trials.most_runs = runs
    return _decided(trials, current, advised, fit, shares)


def _decided(
    trials: Trials,
    current: Candidate,
    advised: Sequence[Candidate],
    fit: _Fit,
    shares: _Shares,
) -> Found:
    """Hold the finalists against each other on trials that are new to them."""
    order = sorted(trials.known.values(), key=lambda one: (-len(one.scores), -one.value))
    tried = [one for one in order if len(one.scores) > 1]
    kinds = zip((_is_preset, _is_own, _is_off), shares.finalists, strict=True)
    chosen = [trials.judge(one, (0,)) for one in advised]
    chosen += [one for kind, count in kinds for one in _first(tried, kind, count)]
    sources = {*(preset.source for preset in PRESETS), *(one.source for one in advised)}
    final, every = shares.final, (*shares.screened, *shares.final)
    leave = trials.judge(current, final)
    finals: list[Judged] = []
    for one in chosen:
        if trials.stop():
            return _undecided(trials, leave, final)
        published = one.candidate.source in sources
        finals.append(trials.judge(one.candidate, every if published else final))
    known = [one for one in finals if one.candidate.source in sources]
    kept = max([*known, leave], key=lambda one: one.on(every))
    best = max(finals, key=lambda one: one.on(final), default=leave)
    if not lead(best, kept, final).clear:
        best = kept
    best = _pared(trials, best, kept, leave, fit, final)
    found = {one.candidate.key: one for one in (*finals, leave)}
    others = [one for key, one in found.items() if key != best.candidate.key]
    table = [best, *sorted(others, key=lambda one: -one.on(final))]
    return Found(
        best,
        leave,
        kept,
        lead(best, leave, final),
        tuple(table),
        _tried(table, final),
        (0, *final),
        trials.runs,
        stopped=trials.stop(),
    )


def _undecided(trials: Trials, leave: Judged, final: tuple[int, ...]) -> Found:
    """Return the answer of a search that was ended from outside: leave it."""
    nothing = Lead(0.0, 0.0, 0.0)
    return Found(leave, leave, leave, nothing, (leave,), (), final, trials.runs, stopped=True)


def _first(order: Sequence[Judged], kind: Callable[[Candidate], bool], count: int) -> list[Judged]:
    return [one for one in order if kind(one.candidate)][:count]


def _is_preset(candidate: Candidate) -> bool:
    return any(candidate.source == preset.source for preset in PRESETS)


def _is_own(candidate: Candidate) -> bool:
    return not _is_preset(candidate) and candidate.source != LEAVE


def _is_off(candidate: Candidate) -> bool:
    return candidate.dcqcn is None


def _tried(table: Sequence[Judged], trials: Sequence[int]) -> tuple[Tried, ...]:
    scores = [_average(one, trials) for one in table]
    chosen, *others = [one.candidate.name for one in table]
    if chosen in others:  # then it is one of them, pared
        chosen += ", where it matters"
    rows = zip((chosen, *others), scores, pareto(scores), strict=True)
    return tuple(Tried(name, score, best) for name, score, best in rows)


def _average(judged: Judged, trials: Sequence[int]) -> Score:
    scores = [judged.scores[trial] for trial in trials]
    parts = [(s.total, s.throughput, s.tail, s.queue, s.pauses) for s in scores]
    return Score(*(float(value) for value in np.mean(parts, axis=0)))


def _published(line_bps: float, alpha: float) -> Iterable[Candidate]:
    for preset in PRESETS:
        yield Candidate(
            preset.name, preset.ecn(line_bps), preset.parameters(line_bps), alpha, preset.source
        )


def _proposed(trials: Trials, current: Candidate, evaluations: int) -> list[Candidate]:
    if evaluations < fluid.LEAST or current.dcqcn is None:
        return []
    flows, rtt = trials.twin.flows, trials.twin.rtt_s
    return fluid.propose(
        (flows.low, flows.value, flows.high),
        (rtt.low, rtt.value, rtt.high),
        trials.line_bps,
        weights=trials.weights,
        alpha=current.alpha,
        seed=trials.seed,
        evaluations=evaluations,
    )


def _around(current: Candidate, seed: int, count: int) -> Iterable[Candidate]:
    """Yield random candidates in the published ranges, one a stratum of every axis."""
    base = current.dcqcn
    if base is None or not count:
        return
    rng = np.random.default_rng(seed)
    low, high = (np.log([getattr(axis, side) for axis in AXES]) for side in ("low", "high"))
    strata = np.array([rng.permutation(count) for _ in AXES]).T
    for row in (strata + rng.random(strata.shape)) / count:
        made = candidate_at(low + row * (high - low), base, "drawn at random")
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


def _halve(trials: Trials, pool: list[Candidate]) -> list[Judged]:
    ahead: list[Judged] = []
    for upto, share in RUNGS:
        if ahead:
            kept = max(4, round(len(pool) * share))
            candidates = [one.candidate for one in sorted(ahead, key=_rank)[:kept]]
        else:
            candidates = pool
        later = []
        for candidate in candidates:
            if not trials.has_room(upto):
                break
            later.append(trials.judge(candidate, range(upto)))
        ahead = later or ahead
    return sorted(ahead, key=_rank)


def _rank(judged: Judged) -> float:
    return -judged.value


def _evolve(trials: Trials, ahead: Sequence[Judged], fit: _Fit) -> None:
    """Spend what is left of the runs on evolutions from the best that has all parts on."""
    starts = [(point, one) for one in ahead if (point := point_of(one.candidate)) is not None]
    for number, (point, one) in enumerate(starts):
        if not trials.has_room(3) or one.candidate.dcqcn is None:
            return
        options: dict[str, Any] = {
            "seed": trials.seed + 1 + number, "verbose": -9, "popsize": 8, "verb_log": 0,
            "verb_disp": 0, "maxiter": 12,
        }  # fmt: skip
        evolution = cma.CMAEvolutionStrategy(point.tolist(), SIGMA, options)
        while not evolution.stop() and trials.has_room(3):
            points = evolution.ask()
            losses = []
            for asked in points:
                made = candidate_at(np.asarray(asked), one.candidate.dcqcn, "optimised")
                fitted = None if made is None else fit(made)
                losses.append(1.0 if fitted is None else -_against(trials, fitted, one))
            evolution.tell(points, losses)


def _against(trials: Trials, candidate: Candidate, start: Judged) -> float:
    """Return a candidate's lead over where the evolution started; one trial if it is far behind."""
    judged = trials.judge(candidate, (0,))
    behind = lead(judged, start, (0,)).mean
    if behind < -HOPELESS or not trials.has_room(2):
        return behind
    return lead(trials.judge(candidate, (0, 1, 2)), start, (0, 1, 2)).mean


def _pared(
    trials: Trials,
    best: Judged,
    kept: Judged,
    leave: Judged,
    fit: _Fit,
    final: tuple[int, ...],
) -> Judged:
    """Return the best with every setting as it is now that contributes next to nothing."""
    some = final[: min(PARED, len(final) // 2)]
    fresh = final[len(some) :]  # what was pared was picked by the others
    gain, pared = lead(best, leave, final), best
    if not gain.clear:
        return best
    margin = max(MARGIN * lead(best, kept, final).mean, LESS * gain.mean)
    loss = min(margin, LOSS * gain.mean)
    for names in unlike(best.candidate, leave.candidate):
        made = fit(reverted(pared.candidate, leave.candidate, names))
        if made is None or made.key == pared.candidate.key or not trials.has_room(len(some)):
            continue
        tried = trials.judge(made, some)
        if lead(tried, best, some).mean > -loss:
            pared = tried
    pared = trials.judge(pared.candidate, (0, *final))
    if lead(pared, best, fresh).mean > -loss and lead(pared, leave, fresh).clear:
        return pared
    return trials.judge(best.candidate, (0,))

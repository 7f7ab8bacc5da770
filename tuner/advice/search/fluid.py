"""Candidates from the fluid model: cheap, smooth, and blind to bursts and paths.

It describes the paper's reaction point (timers of tens of µs), not firmware that counts time in
single µs (measured: utilisation under 1 % where packets give 95 %), so it only proposes
candidates of the paper's family; the packet simulator judges them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import cma
import numpy as np

from collectors.model.dcqcn import PAPER
from collectors.model.ecn import KB
from tuner.advice.search.candidate import AXES, DCQCN_AXES, Candidate, candidate_at
from tuner.advice.search.objective import Weights
from tuner.models.dcqcn_fluid import FluidCase, integrate_case

DURATION_S: Final = 4e-3
MOST_FLOWS: Final = 64
LEAST: Final = 16  # evaluations: two generations
RUN_S: Final = 9e-3  # price of an evaluation: three runs
_START: Final = [getattr(PAPER, axis.name) or axis.low for axis in DCQCN_AXES]
SIGMA: Final = 0.8  # of a natural logarithm: a factor of 2.2


def propose(
    flows: Sequence[float],
    rtts_s: Sequence[float],
    line_bps: float,
    *,
    weights: Weights,
    alpha: float,
    seed: int,
    evaluations: int,
    keep: int = 4,
) -> list[Candidate]:
    """Return the best candidates of an evolution (CMA-ES) over the fluid model.

    Each is judged on all N and round trips given; the objective is the packet search's, with
    utilisation for throughput and evenness for the tail.
    """
    start = np.log([20 * KB, 380 * KB, 0.1, *_START, alpha])
    low, high = (np.log([getattr(axis, side) for axis in AXES]) for side in ("low", "high"))
    options = {
        "seed": seed + 1, "bounds": [low.tolist(), high.tolist()], "verbose": -9,
        "maxfevals": evaluations, "popsize": 8, "verb_log": 0, "verb_disp": 0,
    }  # fmt: skip
    evolution = cma.CMAEvolutionStrategy(start.tolist(), SIGMA, options)
    found: dict[tuple[object, ...], tuple[float, Candidate]] = {}
    while not evolution.stop() and evolution.countevals < evaluations:
        points = evolution.ask()
        losses = []
        for point in points:
            made = candidate_at(np.asarray(point), PAPER, "")
            value = -1.0 if made is None else _value(made, flows, rtts_s, line_bps, weights)
            if made is not None:
                found.setdefault(made.key, (value, made))
            losses.append(-value)
        evolution.tell(points, losses)
    best = sorted(found.values(), key=lambda item: -item[0])[:keep]
    return [replace(made, name=f"fluid model {i + 1}") for i, (_, made) in enumerate(best)]


def _value(
    candidate: Candidate,
    flows: Sequence[float],
    rtts_s: Sequence[float],
    line_bps: float,
    weights: Weights,
) -> float:
    values = []
    if candidate.dcqcn is None or candidate.ecn is None:
        return -1.0
    for count, rtt in zip(flows, rtts_s, strict=True):
        number = max(1, min(MOST_FLOWS, round(count)))
        case = FluidCase(candidate.dcqcn, candidate.ecn, line_bps, (rtt,) * number)
        run = integrate_case(case, DURATION_S, measure_from_s=DURATION_S / 4)
        delay = run.mean_queue_bytes * 8 / line_bps
        swing = run.std_queue_bytes / (run.mean_queue_bytes + run.std_queue_bytes + 1.0)
        total = weights.throughput + weights.tail + weights.queue + weights.pauses
        values.append(
            (
                weights.throughput * run.utilisation
                + weights.tail * run.utilisation * run.jain
                + weights.queue * rtt / (rtt + delay)
                + weights.pauses * (1 - swing)
            )
            / total
        )
    return min(values)

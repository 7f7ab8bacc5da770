"""N equal flows hashed onto M equal links: exact expectations, not a Monte-Carlo.

P(no link has more than k flows) comes from Poisson counts conditioned on their sum; everything
else follows from it. Sources of the published check: SIGCOMM'16 "ECMP achieves only 60 %".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_TAIL = 1e-12


@dataclass(frozen=True, slots=True)
class Spread:
    """What a random hash does to N flows on M links, offered exactly the links' capacity.

    `max_over_mean`: fullest link against an even spread. `carried_ratio`: throughput if full
    links pass no more than their rate. `slowest_share`: rate of the slowest flow against its
    fair one, E[mean/max].
    """

    max_over_mean: float
    carried_ratio: float
    slowest_share: float
    no_collision_ratio: float


def _power(kernel: Floats, times: int, length: int) -> Floats:
    """Return `kernel` convolved with itself `times` times, cut to `length`."""
    from scipy.signal import fftconvolve  # a second of imports, for few fabrics

    out = np.zeros(1)
    out[0] = 1.0
    square = kernel
    while times:
        if times & 1:
            out = fftconvolve(out, square)[:length]
        times >>= 1
        if times:
            square = fftconvolve(square, square)[:length]
    return np.maximum(out, 0.0)


def max_load_distribution(flows: int, links: int) -> Floats:
    """Return P(max load = k) for k = 0..K, K so large that the rest is below 1e-12.

    Raises ValueError unless both are at least 1.
    """
    if flows < 1 or links < 1:
        raise ValueError(f"needs flows and links, got {flows} and {links}")
    if links == 1:
        alone = np.zeros(flows + 1)
        alone[flows] = 1.0
        return alone
    from scipy.stats import binom, poisson

    mean = flows / links
    weights = poisson.pmf(np.arange(flows + 1), mean)
    total = poisson.pmf(flows, flows)
    at_most = [0.0]
    for most in range(1, flows + 1):
        if most < mean:
            at_most.append(0.0)
            continue
        sums = _power(weights[: most + 1], links, flows + 1)
        at_most.append(min(1.0, float(sums[flows] / total)) if len(sums) > flows else 0.0)
        if links * binom.sf(most, flows, 1 / links) < _TAIL:
            break
    cumulated = np.maximum.accumulate(np.array(at_most))
    distribution: Floats = np.diff(cumulated, prepend=0.0) / cumulated[-1]
    return distribution


def spread(flows: int, links: int) -> Spread:
    """Return the expectations for N flows on M links; ValueError unless both are at least 1."""
    from scipy.stats import binom

    distribution = max_load_distribution(flows, links)
    loads = np.arange(len(distribution))
    mean = flows / links
    counts = np.arange(flows + 1)
    on_one = binom.pmf(counts, flows, 1 / links)
    distinct = (
        math.exp(math.lgamma(links + 1) - math.lgamma(links - flows + 1) - flows * math.log(links))
        if flows <= links
        else 0.0
    )
    return Spread(
        max_over_mean=float(distribution @ loads) / mean,
        carried_ratio=float(on_one @ np.minimum(1.0, counts / mean)),
        slowest_share=float(distribution[1:] @ (mean / loads[1:])),
        no_collision_ratio=distinct,
    )


def max_over_mean_quantile(flows: int, links: int, quantile: float) -> float:
    """Return the quantile of the fullest link's load over the mean, for a balance test."""
    cumulated = np.cumsum(max_load_distribution(flows, links))
    return float(np.searchsorted(cumulated, quantile)) / (flows / links)

"""The DCQCN fluid model in time: per-flow delays and parameters, integrated with a fixed step.

Equations: CoNEXT'16 "ECN or Delay", figure "DCQCN fluid model", in packets; marking at dequeue,
one bottleneck, no PFC. Forward Euler; delays are rounded to whole steps. A queue above Kmax
marks everything, so p* > Pmax gives the limit cycle that real RED has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numba
import numpy as np
from numpy.typing import NDArray

from collectors.model.dcqcn import DcqcnParameters
from collectors.model.ecn import EcnThresholds
from tuner.models.dcqcn_fixed_point import PACKET_BYTES, FluidConstants, fixed_point

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Start = Literal["line_rate", "fair_share", "fixed_point"]
_NO_COUNTER = 1e30


@dataclass(frozen=True, slots=True)
class FluidCase:
    """One bottleneck and its flows; one delay (s) per flow, one parameter set each or for all.

    `start`: every flow at line rate with α = 1 and an empty queue, at its fair share with the
    same α and queue, or at the fixed point. `nic_bps` caps a flow (default: the link).
    """

    parameters: DcqcnParameters | tuple[DcqcnParameters, ...]
    ecn: EcnThresholds
    link_bps: float
    delays_s: tuple[float, ...]
    start: Start = "line_rate"
    nic_bps: float | None = None


@dataclass(frozen=True, slots=True)
class FluidResult:
    """Statistics of the measured part, and of the queue's peak over the whole run.

    `rates_bps`: mean per flow. `times_s`, `queue_bytes`, `flow_bps` (samples, flows) are the
    samples over the whole run.
    """

    mean_queue_bytes: float
    std_queue_bytes: float
    min_queue_bytes: float
    max_queue_bytes: float
    peak_queue_bytes: float
    utilisation: float
    rates_bps: Floats
    times_s: Floats
    queue_bytes: Floats
    flow_bps: Floats

    @property
    def oscillates(self) -> bool:
        """Whether the queue still swings: its deviation is over a tenth of its mean."""
        return self.std_queue_bytes > 0.1 * self.mean_queue_bytes

    @property
    def jain(self) -> float:
        """Jain's fairness index of the mean rates."""
        total = float(self.rates_bps.sum())
        return total**2 / (len(self.rates_bps) * float((self.rates_bps**2).sum()))


_FAST = {"nsz", "arcp", "contract", "reassoc"}  # no nnan, ninf: comparisons with inf must hold


@numba.njit(cache=True, inline="always")
def _power(base: float, exponent: int) -> float:
    out = 1.0
    for _ in range(exponent):
        out *= base
    return out


@numba.njit(cache=True, nogil=True, fastmath=_FAST, inline="always")
def _slopes(
    k: Floats, stages: Ints, state: Floats, i: int, marks: tuple[float, float], rate_d: float
) -> tuple[float, float, float]:
    """Return dα/dt, dR_T/dt, dR_C/dt of flow i; marks: p and log(1−p) as it knows them."""
    # Whole arrays and an index: a row passed to a function costs five times the arithmetic.
    tau, alpha_period, timer, counter = k[i, 0], k[i, 1], k[i, 2], k[i, 3]
    ai, g, cut_gain = k[i, 4], k[i, 5], k[i, 6]
    alpha, rate = state[i, 0], state[i, 2]
    gap = state[i, 1] - rate
    p, log_q = marks
    if p == 0.0:
        often = 1.0 / counter * rate_d + 1.0 / timer
        return -g / alpha_period * alpha, ai * often, gap / 2 * often
    if p == 1.0:
        return (
            g / alpha_period * (1 - alpha),
            -gap / tau,
            -rate * alpha * cut_gain / tau,
        )
    packets = log_q * rate_d
    hit = 1.0 - math.exp(tau * packets)
    quiet = math.exp(timer * packets)
    # The paper's T and τ' are equal: one exponential less of three.
    hit_alpha = 1.0 - (quiet if alpha_period == timer else math.exp(alpha_period * packets))
    often = p * quiet / (1.0 - quiet) if quiet < 1.0 else 1.0 / (timer * rate_d)
    past = often * _power(quiet, stages[i])
    if -counter * log_q < 40.0:  # else e^−40: the byte counter never gets through unmarked
        quiet = math.exp(counter * log_q)
        by_bytes = p * quiet / (1.0 - quiet)
        often += by_bytes
        past += by_bytes * _power(quiet, stages[i])
    return (
        g / alpha_period * (hit_alpha - alpha),
        -gap / tau * hit + ai * rate_d * past,
        -rate * alpha * cut_gain / tau * hit + gap / 2 * rate_d * often,
    )


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _marking(seen: float, red: Floats) -> float:
    kmin, kmax = red[1], red[2]
    if seen > kmax:
        return 1.0
    return (seen - kmin) / (kmax - kmin) * red[3] if seen > kmin else 0.0


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _integrate(
    k: Floats,
    recoveries: Ints,
    lag: Ints,
    state: Floats,
    limits: Floats,
    red: Floats,
    step: float,
    steps: int,
    measure_from: int,
    every: int,
    samples_q: Floats,
    samples_r: Floats,
) -> tuple[Floats, Floats]:
    """Advance one case. k: (flows, 7), recoveries: F, state: (flows, 3) of α, R_T, R_C.

    limits: (flows, 2) floor and cap in packets/s; red: C, Kmin, Kmax, Pmax in packets.
    Returns [n, Σq, Σq², min q, max q, peak q, packets sent] and Σ rate per flow, all but the
    peak over the measured part.
    """
    flows = len(lag)
    depth = lag.max() + 1
    queue = samples_q[0]
    old_q = np.full(depth, queue)
    old_r = np.zeros((depth, flows))
    link = red[0]
    sum_r = np.zeros(flows)
    sums = np.zeros(7)
    sums[3] = np.inf
    for now in range(steps):
        slot = now % depth
        old_q[slot] = queue
        total = 0.0
        for i in range(flows):
            old_r[slot, i] = state[i, 2]
            total += state[i, 2]
        if now % every == 0:
            samples_q[now // every] = queue
            samples_r[now // every] = state[:, 2]
        if now >= measure_from:
            sums[0] += 1
            sums[1] += queue
            sums[2] += queue * queue
            sums[3] = min(sums[3], queue)
            sums[4] = max(sums[4], queue)
            sums[6] += link if queue > 0 else min(link, total)
            for i in range(flows):
                sum_r[i] += state[i, 2]
        last_lag = -1
        p, log_q = 0.0, 0.0
        for i in range(flows):
            then = slot - min(lag[i], now)
            if then < 0:  # not a modulo: it would cost as much as an exponential
                then += depth
            if lag[i] != last_lag:
                last_lag = lag[i]
                p = _marking(old_q[then], red)
                log_q = math.log1p(-p) if p < 1 else 0.0
            rate_d = old_r[then, i]
            d_alpha, d_target, d_rate = _slopes(k, recoveries, state, i, (p, log_q), rate_d)
            low, high = limits[i, 0], limits[i, 1]
            state[i, 0] += step * d_alpha
            state[i, 1] = min(high, max(low, state[i, 1] + step * d_target))
            state[i, 2] = min(high, max(low, state[i, 2] + step * d_rate))
        queue = max(0.0, queue + step * (total - link))
        sums[5] = max(sums[5], queue)
    return sums, sum_r


def _initial(case: FluidCase, sets: Sequence[DcqcnParameters], cap: float) -> tuple[Floats, float]:
    flows = len(case.delays_s)
    state = np.empty((flows, 3))
    state[:, 0] = [parameters.initial_alpha for parameters in sets]
    if case.start == "line_rate":
        state[:, 1:] = cap
        return state, 0.0
    state[:, 1:] = case.link_bps / flows / (8 * PACKET_BYTES)
    if case.start == "fair_share":
        return state, 0.0
    queues = []
    for i, parameters in enumerate(sets):
        at = fixed_point(parameters, case.ecn, case.link_bps, flows)
        state[i] = at.alpha, at.target_bps / (8 * PACKET_BYTES), at.rate_bps / (8 * PACKET_BYTES)
        queues.append(at.queue_bytes)
    return state, sum(queues) / flows / PACKET_BYTES


def integrate_case(
    case: FluidCase,
    duration_s: float,
    *,
    step_s: float = 1e-6,
    measure_from_s: float | None = None,
    samples: int = 200,
) -> FluidResult:
    """Integrate one case; statistics from `measure_from_s` on (default: the second half).

    Raises ValueError for a case without flows, a negative delay or a run under two steps.
    """
    flows = len(case.delays_s)
    if flows == 0 or min(case.delays_s) < 0:
        raise ValueError("a fluid case needs flows with delays of 0 or more")
    sets = case.parameters if isinstance(case.parameters, tuple) else (case.parameters,) * flows
    if len(sets) != flows:
        raise ValueError(f"{len(sets)} parameter sets for {flows} flows")
    steps = round(duration_s / step_s)
    if steps < 2:
        raise ValueError(f"{duration_s} s is less than two steps of {step_s} s")
    bits = 8 * PACKET_BYTES
    cap = (case.nic_bps or case.link_bps) / bits
    constants = np.empty((flows, 7))
    limits = np.empty((flows, 2))
    for i, parameters in enumerate(sets):
        c = FluidConstants.of(parameters)
        counter = min(c.byte_counter, _NO_COUNTER)
        constants[i] = (
            c.cut_window, c.alpha_period, c.timer, counter, c.ai, c.g, c.cut_gain
        )  # fmt: skip
        highest = cap if parameters.max_rate_bps is None else parameters.max_rate_bps / bits
        limits[i] = max(parameters.min_rate_bps / bits, 1e-3), min(cap, highest)
    recoveries = np.array([parameters.recovery_stages for parameters in sets], dtype=np.int64)
    state, queue = _initial(case, sets, cap)
    lag = np.rint(np.array(case.delays_s) / step_s).astype(np.int64)
    every = max(1, steps // samples)
    taken = -(-steps // every)
    sampled_q, sampled_r = np.zeros(taken), np.zeros((taken, flows))
    sampled_q[0] = queue
    link = case.link_bps / bits
    kmin, kmax = case.ecn.kmin_bytes / PACKET_BYTES, case.ecn.kmax_bytes / PACKET_BYTES
    red = np.array([link, kmin, kmax, case.ecn.pmax_ratio])
    start = steps // 2 if measure_from_s is None else min(steps - 1, round(measure_from_s / step_s))
    sums, rates = _integrate(
        constants,
        recoveries,
        lag,
        state,
        limits,
        red,
        step_s,
        steps,
        start,
        every,
        sampled_q,
        sampled_r,
    )
    count, sum_q, sum_qq, least, most, peak, sent = (float(value) for value in sums)
    mean = sum_q / count
    return FluidResult(
        mean_queue_bytes=mean * PACKET_BYTES,
        std_queue_bytes=math.sqrt(max(0.0, sum_qq / count - mean**2)) * PACKET_BYTES,
        min_queue_bytes=least * PACKET_BYTES,
        max_queue_bytes=most * PACKET_BYTES,
        peak_queue_bytes=peak * PACKET_BYTES,
        utilisation=sent / count / link,
        rates_bps=rates / count * bits,
        times_s=np.arange(taken, dtype=np.float64) * (every * step_s),
        queue_bytes=sampled_q * PACKET_BYTES,
        flow_bps=sampled_r * bits,
    )


def integrate(
    cases: Sequence[FluidCase],
    duration_s: float,
    *,
    step_s: float = 1e-6,
    measure_from_s: float | None = None,
    samples: int = 200,
    threads: int = 1,
) -> list[FluidResult]:
    """Integrate many cases, in order; the kernel frees the interpreter lock for `threads`."""

    def one(case: FluidCase) -> FluidResult:
        return integrate_case(
            case, duration_s, step_s=step_s, measure_from_s=measure_from_s, samples=samples
        )

    if threads <= 1:
        return [one(case) for case in cases]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, cases))

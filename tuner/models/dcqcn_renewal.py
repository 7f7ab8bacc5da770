"""DCQCN's equilibrium cut by cut: what the fluid model averages away.

The fluid model lets increase timers run on through cuts and forgets that after a CNP the next
one is at least an interval away; packet by packet the marking that holds the rates is a quarter
to a third higher. Here one flow is followed from CNP to CNP: the gap is the interval plus an
exponential wait for the next mark, the timers restart with it (SIGCOMM'15 section 3), and the
expected target rate at the next CNP must equal the rate at this one. Within 5 % of the packet
simulator where the loop is stable.
"""

from __future__ import annotations

import math

import numba
from scipy.optimize import brentq

from collectors.model.dcqcn import DcqcnParameters
from tuner.models.dcqcn_fixed_point import PACKET_BYTES, FluidConstants, marking_closed_form

_LOG_TOLERANCE = 1e-7
_LOG_P_HIGH = -1e-6
_NEVER = 1e-10
_MOST_EVENTS = 1_000_000


@numba.njit(cache=True)
def _alpha_at_cut(lam: float, tau: float, period: float, g: float) -> float:
    """Mean α when a CNP comes: decayed by (1−g) each whole period of the gap before it."""
    decay, survive, k = 0.0, 1.0, 0
    while survive > _NEVER and k < _MOST_EVENTS:
        k += 1
        at = k * period
        later = 1.0 if at <= tau else math.exp(-lam * (at - tau))
        decay += (survive - later) * (1 - g) ** (k - 1)
        survive = later
    return decay * g / (1 - decay * (1 - g))


@numba.njit(cache=True)
def _drift(  # the whole cycle in one place: splitting it would only scatter the state
    p: float,
    rate: float,
    tau: float,
    period: float,
    timer: float,
    counter: float,
    stages: float,
    ai: float,
    g: float,
    cut_gain: float,
) -> float:
    """Expected change of the rate from one CNP to the next, packets/s."""
    lam = -math.log1p(-p) * rate
    gap = rate * _alpha_at_cut(lam, tau, period, g) * cut_gain
    raised, expected, survive = 0.0, 0.0, 1.0
    next_timer, next_bytes = timer, counter / rate
    timers, counters, events = 0, 0, 0
    while events < _MOST_EVENTS:
        events += 1
        at = min(next_timer, next_bytes)
        later = 1.0 if at <= tau else math.exp(-lam * (at - tau))
        expected += (survive - later) * (raised - gap)
        survive = later
        if survive < _NEVER:
            break
        if next_timer <= next_bytes:
            timers += 1
            next_timer += timer
        else:
            counters += 1
            next_bytes += counter / rate
        if max(timers, counters) >= stages:
            raised += ai
            gap += ai
        gap /= 2
    return expected


def _drift_at(p: float, rate_pps: float, k: FluidConstants) -> float:
    counter = min(k.byte_counter, 1e30)
    return float(
        _drift(
            p,
            rate_pps,
            k.cut_window,
            k.alpha_period,
            k.timer,
            counter,
            k.stages,
            k.ai,
            k.g,
            k.cut_gain,
        )
    )


def marking_by_renewal(rate_pps: float, k: FluidConstants) -> float:
    """Return the marking ratio that holds a flow at this rate (packets/s).

    For reaction points that set R_T to R_C on every CNP (the paper's, clamp_target). Raises
    ValueError for a rate or additive increase of 0.
    """
    if k.ai <= 0 or rate_pps <= 0:
        raise ValueError("a DCQCN equilibrium needs a positive rate and additive increase")

    def drift(log_p: float) -> float:
        return _drift_at(math.exp(log_p), rate_pps, k) / rate_pps

    # Far from the root a step costs far more events, so the search begins beside it.
    guess = min(math.log(marking_closed_form(rate_pps, k)), _LOG_P_HIGH - 1)
    low, high = guess - 0.5, min(guess + 0.5, _LOG_P_HIGH)
    while drift(low) < 0:
        low -= 1
    while drift(high) > 0:
        if high >= _LOG_P_HIGH:
            return math.exp(high)
        high = min(high + 1, _LOG_P_HIGH)
    return math.exp(brentq(drift, low, high, xtol=_LOG_TOLERANCE))


def marking_for_flows(
    parameters: DcqcnParameters, link_bps: float, flows: float, packet_bytes: float = PACKET_BYTES
) -> float:
    """Return the marking ratio of N equal flows that fill a link; N need not be whole."""
    constants = FluidConstants.of(parameters, packet_bytes)
    return marking_by_renewal(link_bps / flows / (8 * packet_bytes), constants)


def flows_for_marking(
    parameters: DcqcnParameters,
    link_bps: float,
    marking_ratio: float,
    *,
    most: float,
    packet_bytes: float = PACKET_BYTES,
) -> float:
    """Return how many equal flows fill a link at this marking ratio, within 1..most.

    The inverse of `marking_for_flows`, by root finding on log N.
    """
    k = FluidConstants.of(parameters, packet_bytes)
    whole = link_bps / (8 * packet_bytes)

    def drift(log_n: float) -> float:
        return _drift_at(marking_ratio, whole / math.exp(log_n), k) / whole

    if marking_ratio <= 0 or drift(0.0) >= 0:
        return 1.0
    if marking_ratio >= 1:
        return most
    top = math.log(most)
    high = min(1.0, top)
    while drift(high) < 0:
        if high >= top:
            return most
        high = min(high + 1, top)
    return math.exp(brentq(drift, max(0.0, high - 1), high, xtol=_LOG_TOLERANCE))

"""How long DCQCN takes: to fairness after a start, and back to line rate after congestion.

Fairness bound: CoNEXT'16, discrete model of the convergence section. Recovery: the reaction
point's increase rules (SIGCOMM'15 section 3), played event by event without CNPs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.optimize import brentq

from collectors.model.dcqcn import DcqcnParameters


@dataclass(frozen=True, slots=True)
class Convergence:
    """The AIMD cycle at its floor and the time bound that follows."""

    alpha: float
    cycle_s: float
    bound_s: float


def convergence(
    parameters: DcqcnParameters,
    kmax_bytes: float,
    link_bps: float,
    flows: int,
    *,
    within: float = 0.1,
) -> Convergence:
    """Return an upper bound on the time until N flows are within `within` of their fair share.

    All flows start up to a line rate apart and peak together; marking only at Kmax (both worst
    cases). Raises ValueError without flows or additive increase.
    """
    ai = parameters.ai_bps
    if flows < 1 or ai <= 0:
        raise ValueError("convergence needs flows and additive increase")
    period = parameters.alpha_period_s
    g = parameters.g
    filling = (math.sqrt(1 + 8 * 8 * kmax_bytes / (flows * ai * period)) - 1) / 2
    per_alpha = filling / 2 + link_bps / (2 * flows * ai)

    def surplus(alpha: float) -> float:
        return float((1 - g) ** (1 + per_alpha * alpha) * ((1 - g) * alpha + g) - alpha)

    alpha = float(brentq(surplus, 1e-15, 1.0, xtol=1e-15))
    cycle = (2 + per_alpha * alpha) * period
    shrink = math.log(within / flows) / math.log1p(-alpha / 2)
    return Convergence(alpha=alpha, cycle_s=cycle, bound_s=shrink * cycle)


def recovery_s(
    parameters: DcqcnParameters,
    line_bps: float,
    *,
    rate_bps: float,
    target_bps: float,
    reach_bps: float,
    hyper: bool = True,
    byte_counter: bool = True,
    longest_s: float = 60.0,
) -> float:
    """Return the time until R_C reaches `reach_bps` from R_C, R_T when no CNP comes any more.

    Fast recovery for F events of either kind, then additive, then (if `hyper`) hyper increase:
    by the timer alone without a byte counter, else once both counted past F. Devices differ in
    what their byte counter's unit is, so ask with and without it. Infinite after `longest_s`.
    """
    per_bytes = parameters.byte_counter_bytes if byte_counter else None
    stages = parameters.recovery_stages
    timer_events = byte_events = 0
    now, rate, target = 0.0, rate_bps, target_bps
    next_timer = parameters.increase_timer_s
    bytes_left = math.inf if per_bytes is None else per_bytes
    while rate < reach_bps:
        by_bytes = bytes_left * 8 / rate
        if now + by_bytes < next_timer:
            now += by_bytes
            byte_events += 1
            bytes_left = per_bytes or math.inf
        else:
            bytes_left -= (next_timer - now) * rate / 8
            now = next_timer
            timer_events += 1
            next_timer += parameters.increase_timer_s
        if now > longest_s:
            return math.inf
        slower = timer_events if per_bytes is None else min(timer_events, byte_events)
        if hyper and slower > stages:
            # R_HAI per event as firmware and the reference simulators do; QCN's i·R_HAI is not.
            target += parameters.hai_bps
        elif max(timer_events, byte_events) >= stages:
            target += parameters.ai_bps
        target = min(target, line_bps)
        rate = (rate + target) / 2
    return now

"""Where DCQCN settles: the exact fixed point of the fluid model, and Pmax against it.

Model: CoNEXT'16 "ECN or Delay", DCQCN fluid model and its stability section. The published
closed form overstates p* by 15-45 %; here it is only kept for comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from collectors.model.dcqcn import DcqcnParameters
from collectors.model.ecn import EcnThresholds

PACKET_BYTES = 1000.0
_BISECTIONS = 80
_LOG_P_LOW = -30.0


@dataclass(frozen=True, slots=True)
class FluidConstants:
    """DCQCN parameters as the fluid model takes them: seconds, packets and packets/s."""

    cut_window: float  # τ
    alpha_period: float  # τ'
    timer: float  # T
    byte_counter: float  # B, infinite when off
    stages: float  # F
    ai: float
    g: float
    cut_gain: float

    @classmethod
    def of(cls, parameters: DcqcnParameters, packet_bytes: float = PACKET_BYTES) -> FluidConstants:
        """Convert base units to packets of this size."""
        counter = parameters.byte_counter_bytes
        return cls(
            # The NP sends no more often than its interval, the RP cuts no more often than its
            # window: the longer of the two is the model's τ.
            cut_window=max(parameters.cut_window_s, parameters.cnp_interval_s),
            alpha_period=parameters.alpha_period_s,
            timer=parameters.increase_timer_s,
            byte_counter=math.inf if counter is None else counter / packet_bytes,
            stages=float(parameters.recovery_stages),
            ai=parameters.ai_bps / (8 * packet_bytes),
            g=parameters.g,
            cut_gain=parameters.cut_gain,
        )


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """The equilibrium of N equal flows; `saturated` when p* > Pmax, then no queue below Kmax."""

    marking_ratio: float
    queue_bytes: float
    alpha: float
    rate_bps: float
    target_bps: float
    saturated: bool


def increase_rates(p: float, rate: float, k: FluidConstants) -> tuple[float, float, float, float]:
    """Return b, c, d, e of the fixed-point equation: increase events per packet, by cause.

    b, d: byte-counter and timer increases; c, e: those past fast recovery. For p → 0 they tend
    to 1/B and 1/(T·rate).
    """
    log_q = math.log1p(-p)

    def pair(packets: float) -> tuple[float, float]:
        if math.isinf(packets):
            return 0.0, 0.0
        exponent = -packets * log_q
        if exponent > 700:
            return 0.0, 0.0
        events = p / math.expm1(exponent) if p > 0 else 1 / packets
        return events, events * math.exp(-k.stages * exponent)

    b, c = pair(k.byte_counter)
    d, e = pair(k.timer * rate)
    return b, c, d, e


def hit_probability(p: float, packets: float) -> float:
    """Return 1 − (1−p)^packets, exact for small p."""
    return -math.expm1(packets * math.log1p(-p))


def _log_imbalance(log_p: float, rate: float, k: FluidConstants) -> float:
    """Logarithm of decrease over increase at this p; rises with p, zero at the fixed point."""
    p = math.exp(log_p)
    a = hit_probability(p, k.cut_window * rate)
    alpha = hit_probability(p, k.alpha_period * rate)
    b, c, d, e = increase_rates(p, rate, k)
    up = (b + d) * (c + e) * k.cut_window**2 * k.ai * rate
    if up <= 0:
        return math.inf
    return math.log(a * a * alpha * 2 * k.cut_gain) - math.log(up)


def marking_at_equilibrium(rate_pps: float, k: FluidConstants) -> float:
    """Return the exact p* for flows of this rate (packets/s), by bisection on log p.

    p* depends on C and N only through C/N. Raises ValueError where increase never balances
    decrease (AI of 0).
    """
    if k.ai <= 0 or rate_pps <= 0:
        raise ValueError("a DCQCN fixed point needs a positive rate and additive increase")
    low, high = _LOG_P_LOW, -1e-12
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _log_imbalance(middle, rate_pps, k) < 0:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


def marking_closed_form(rate_pps: float, k: FluidConstants) -> float:
    """Return the paper's Taylor approximation of p*; 15-45 % too high, for comparison only."""
    per_packet = (0 if math.isinf(k.byte_counter) else 1 / k.byte_counter) + 1 / (
        k.timer * rate_pps
    )
    return math.cbrt(k.ai / (k.alpha_period * rate_pps**2) * per_packet**2)


def fixed_point(
    parameters: DcqcnParameters,
    ecn: EcnThresholds,
    link_bps: float,
    flows: int,
    packet_bytes: float = PACKET_BYTES,
) -> FixedPoint:
    """Return the equilibrium of `flows` equal flows on one link.

    `queue_bytes` is Kmin + p*/Pmax·(Kmax−Kmin), held at Kmax when saturated: the real queue then
    is a limit cycle around Kmax.
    """
    if flows < 1:
        raise ValueError(f"needs at least one flow, got {flows}")
    k = FluidConstants.of(parameters, packet_bytes)
    bits = 8 * packet_bytes
    rate = link_bps / flows / bits
    p = marking_at_equilibrium(rate, k)
    alpha = hit_probability(p, k.alpha_period * rate)
    b, _, d, _ = increase_rates(p, rate, k)
    gap = 2 * k.cut_gain * alpha * hit_probability(p, k.cut_window * rate)
    gap /= k.cut_window * (b + d)
    saturated = p > ecn.pmax_ratio
    span = ecn.kmax_bytes - ecn.kmin_bytes
    return FixedPoint(
        marking_ratio=p,
        queue_bytes=ecn.kmin_bytes + min(1.0, p / ecn.pmax_ratio) * span,
        alpha=alpha,
        rate_bps=rate * bits,
        target_bps=min(rate + gap, link_bps / bits) * bits,
        saturated=saturated,
    )


def most_flows_before_saturation(
    parameters: DcqcnParameters, pmax_ratio: float, link_bps: float, limit: int = 1 << 16
) -> int:
    """Return the largest N with p*(N) <= Pmax; 0 if even one flow exceeds it.

    Above it every packet is marked at times and the queue parks near Kmax.
    """
    k = FluidConstants.of(parameters)
    bits = 8 * PACKET_BYTES

    def fits(flows: int) -> bool:
        return marking_at_equilibrium(link_bps / flows / bits, k) <= pmax_ratio

    low, high = 0, 1
    while high <= limit and fits(high):
        low, high = high, 2 * high
    if high > limit:
        return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low

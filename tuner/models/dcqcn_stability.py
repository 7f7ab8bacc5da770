"""Is the DCQCN loop stable: phase margin and critical delay of the linearised fluid model.

`linearise` takes the Jacobian of the delay-differential system numerically (complex step, exact
to rounding) at its exact fixed point. `linearise_as_published` is the simplified system behind
CoNEXT'16's tables (conext2016/figures/pm_*.txt): Taylor forms for p → 0, the increase frequency
1/B + 1/(T·R) held constant, α with its pole at g·R, p* from the closed form. It reproduces
those tables to 0.05° and is kept as their oracle; where the two differ the fluid model itself
sides with the Jacobian.

The loop is opened at the delay: everything that the sender learns τ* late. The phase margin
divided by the crossover frequency is then the delay that may still be added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collectors.model.dcqcn import DcqcnParameters
from collectors.model.ecn import EcnThresholds
from tuner.models.dcqcn_fixed_point import (
    PACKET_BYTES,
    FluidConstants,
    hit_probability,
    increase_rates,
    marking_at_equilibrium,
    marking_closed_form,
)

Complex = NDArray[np.complex128]
_STEP = 1e-30
_LONG_ODDS = 300.0  # e^−300: no such run of unmarked packets ever
_GRID = np.logspace(0.5, 7.5, 1401)  # rad/s: one turn in 2 s … 0.2 µs
_REFINEMENTS = 60


@dataclass(frozen=True, slots=True)
class Linearised:
    """ẋ = now·x + (delayed_rate + marking·gain/s)·δR_C(t−τ*), x = (α, R_T, R_C) of one flow."""

    now: NDArray[np.float64]
    delayed_rate: NDArray[np.float64]
    marking: NDArray[np.float64]
    gain: float  # N · slope: marking ratio per packet of queue, times flows


@dataclass(frozen=True, slots=True)
class Stability:
    """Phase margin in degrees (negative: unstable) at the gain crossover in rad/s.

    `crossover_rad_s` is 0 where the loop gain never reaches 1: then the margin is +inf.
    """

    phase_margin_deg: float
    crossover_rad_s: float


def _derivatives(
    state: Complex, rate_delayed: complex, p: complex, k: FluidConstants
) -> tuple[complex, complex, complex]:
    """Right-hand side of the per-flow fluid model (CoNEXT'16), in packets; 0 < p < 1."""
    alpha, target, rate = state
    log_q = np.log1p(-p)
    hit = -np.expm1(k.cut_window * rate_delayed * log_q)
    hit_alpha = -np.expm1(k.alpha_period * rate_delayed * log_q)
    by_timer = p / np.expm1(-k.timer * rate_delayed * log_q)
    past_timer = by_timer * np.exp(k.stages * k.timer * rate_delayed * log_q)
    by_bytes: complex = 0.0
    past_bytes: complex = 0.0
    if k.byte_counter * abs(log_q) < _LONG_ODDS:
        by_bytes = p / np.expm1(-k.byte_counter * log_q)
        past_bytes = by_bytes * np.exp(k.stages * k.byte_counter * log_q)
    gap = target - rate
    return (
        k.g / k.alpha_period * (hit_alpha - alpha),
        -gap / k.cut_window * hit + k.ai * rate_delayed * (past_bytes + past_timer),
        -rate * alpha * k.cut_gain / k.cut_window * hit
        + gap / 2 * rate_delayed * (by_bytes + by_timer),
    )


def linearise(
    parameters: DcqcnParameters,
    ecn: EcnThresholds,
    link_bps: float,
    flows: int,
    *,
    packet_bytes: float = PACKET_BYTES,
) -> Linearised:
    """Return the linear model of one of `flows` equal flows around the fixed point.

    Uses the slope below Kmax even where p* > Pmax, as the published tables do; a plain RED queue
    then has a limit cycle around Kmax instead, which `fixed_point(...).saturated` tells.
    """
    k = FluidConstants.of(parameters, packet_bytes)
    rate = link_bps / flows / (8 * packet_bytes)
    p = marking_at_equilibrium(rate, k)
    alpha = hit_probability(p, k.alpha_period * rate)
    b, _, d, _ = increase_rates(p, rate, k)
    hit = hit_probability(p, k.cut_window * rate)
    target = rate + 2 * k.cut_gain * alpha * hit / (k.cut_window * (b + d))
    centre = np.array([alpha, target, rate], dtype=np.complex128)

    def slope(state: Complex, rate_delayed: complex, marking: complex) -> NDArray[np.float64]:
        return np.imag(np.array(_derivatives(state, rate_delayed, marking, k))) / _STEP

    now = np.empty((3, 3))
    for column in range(3):
        state = centre.copy()
        state[column] += 1j * _STEP
        now[:, column] = slope(state, rate, p)
    return Linearised(
        now=now,
        delayed_rate=slope(centre, rate + 1j * _STEP, p),
        marking=slope(centre, rate, p + 1j * _STEP),
        gain=flows * ecn.slope_per_byte * packet_bytes,
    )


def linearise_as_published(
    parameters: DcqcnParameters,
    ecn: EcnThresholds,
    link_bps: float,
    flows: int,
    *,
    packet_bytes: float = PACKET_BYTES,
) -> Linearised:
    """Return CoNEXT'16's own linear system (its appendix and published tables)."""
    k = FluidConstants.of(parameters, packet_bytes)
    rate = link_bps / flows / (8 * packet_bytes)
    p = marking_closed_form(rate, k)
    alpha = hit_probability(p, k.alpha_period * rate)
    _, c, _, e = increase_rates(p, rate, k)
    hit = hit_probability(p, k.cut_window * rate)
    gap = rate * (c + e) * k.cut_window * k.ai / hit
    often = 1 / k.byte_counter + 1 / (k.timer * rate)  # the paper's A
    lost = 0.5 + often / 4
    past = 1 + 2 * k.stages + often / 2
    cut = p * rate * alpha / 2
    now = np.array(
        [
            [-k.g * rate, 0.0, 0.0],
            [0.0, -p * rate, p * rate + often * k.ai],
            [-p * rate**2 / 2, (often / 2 - lost * p) * rate, (often / 2 - lost * p) * gap - cut],
        ]
    )
    delayed = np.array(
        [0.0, -p * gap + (often - past * p) * k.ai, -cut + (lost * p - often / 2) * rate]
    )
    marking = np.array(
        [
            k.g * rate,
            -rate * gap - past * k.ai * rate,
            -(rate**2) * alpha / 2 - lost * rate * gap,
        ]
    )
    return Linearised(now, delayed, marking, flows * ecn.slope_per_byte * packet_bytes)


def undelayed_loop(linear: Linearised, omega: NDArray[np.float64]) -> Complex:
    """Return the open loop L(jω) without its e^(−jωτ*), shape of `omega` (rad/s)."""
    s = 1j * omega
    matrix = s[:, None, None] * np.eye(3) - linear.now
    drive = linear.delayed_rate + linear.marking * (linear.gain / s)[:, None]
    return -np.linalg.solve(matrix, drive[:, :, None])[:, 2, 0].astype(np.complex128)


def _crossovers(linear: Linearised) -> list[tuple[float, float]]:
    """Return (ω, phase in rad without delay) wherever the loop gain falls through 1."""
    loop = undelayed_loop(linear, _GRID)
    size = np.abs(loop)
    phase = np.unwrap(np.angle(loop))
    phase -= 2 * math.pi * np.round((phase[0] + math.pi / 2) / (2 * math.pi))
    found = []
    for at in np.flatnonzero((size[:-1] >= 1) & (size[1:] < 1)):
        low, high = float(_GRID[at]), float(_GRID[at + 1])
        for _ in range(_REFINEMENTS):
            middle = math.sqrt(low * high)
            if abs(undelayed_loop(linear, np.array([middle]))[0]) >= 1:
                low = middle
            else:
                high = middle
        there = undelayed_loop(linear, np.array([low]))[0]
        turned = float(np.angle(there * np.exp(-1j * phase[at])))
        found.append((low, float(phase[at]) + turned))
    return found


def phase_margin(linear: Linearised, delay_s: float) -> Stability:
    """Return the smallest phase margin over all gain crossovers."""
    margins = [
        Stability(180 + math.degrees(phase - omega * delay_s), omega)
        for omega, phase in _crossovers(linear)
    ]
    return min(margins, key=lambda s: s.phase_margin_deg, default=Stability(math.inf, 0.0))


def critical_delay(linear: Linearised) -> float:
    """Return the smallest τ* in seconds at which the loop turns unstable, 0 if it always is."""
    delays = [(math.pi + phase) / omega for omega, phase in _crossovers(linear)]
    return max(0.0, min(delays, default=math.inf))


def stability(
    parameters: DcqcnParameters,
    ecn: EcnThresholds,
    link_bps: float,
    flows: int,
    delay_s: float,
) -> Stability:
    """Return the phase margin for N equal flows at control-loop delay τ*.

    τ* is propagation only, as long as the switch marks at dequeue; add the queueing delay for
    one that marks at enqueue.
    """
    return phase_margin(linearise(parameters, ecn, link_bps, flows), delay_s)


def critical_delay_s(
    parameters: DcqcnParameters, ecn: EcnThresholds, link_bps: float, flows: int
) -> float:
    """Return the smallest τ* at which N equal flows oscillate: 0 if always, inf if never."""
    return critical_delay(linearise(parameters, ecn, link_bps, flows))

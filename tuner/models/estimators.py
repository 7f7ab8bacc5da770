"""What telemetry tells of the traffic: point value, 90 % interval and what was assumed.

Inputs are plain arrays over the windows of one span: deltas, rates or ratios, evenly spaced.
Neighbouring windows are correlated; intervals of means allow for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import stdtr
from scipy.stats import beta, chi2, t

from collectors.model.dcqcn import DcqcnParameters
from tuner.models.dcqcn_fixed_point import PACKET_BYTES
from tuner.models.dcqcn_renewal import flows_for_marking

Floats = NDArray[np.float64]
LEVEL = 0.9
_TAIL = (1 - LEVEL) / 2
_MOST_FLOWS = 1e5
_NORMAL = 1.645
_RENEWAL_ERROR = 0.016  # of p, one standard error, from packet-simulator runs of 2-12 flows
# How far a sender's share of a PFC incast lies from 1/k, one standard error: packet-simulator runs
# of 2-12 senders with cables of 0-50 m and alpha 1/32-1/4 (seeds that no check or test uses).
_SHARE_ERROR = 0.0018
_CHANCE = np.geomspace(1e-3, 1e3, 31)  # variance of chance over variance of the window's edges


class TooFewWindowsError(ValueError):
    """The span has not enough windows, or none with traffic, for an interval."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 90 % interval and the assumptions that it rests on."""

    value: float
    low: float
    high: float
    assumptions: tuple[str, ...]


def _mean_half_width(values: Floats) -> tuple[float, float]:
    """Return the half-width of the mean's interval and its standard error.

    Windows are taken as AR(1): the first autocorrelation, corrected for its bias in short series
    (Kendall), says how many independent windows they are worth.
    """
    count = len(values)
    off = values - values.mean()
    spread = float(off @ off)
    if spread <= 0:
        return 0.0, 0.0
    raw = float(off[1:] @ off[:-1]) / spread
    correlation = min(max(raw + (1 + 4 * raw) / count, -0.5), 0.98)
    worth = max(2.0, count * (1 - correlation) / (1 + correlation))
    error = math.sqrt(spread / (count - 1) / worth)
    # Variance of a correlated series is underestimated by the part its mean took along.
    error *= math.sqrt(worth / (worth - 1)) if correlation > 0 else 1.0
    return float(t.ppf(1 - _TAIL, max(1.0, min(worth, count) - 1))) * error, error


def _regular_mean(values: Floats) -> tuple[float, float, float]:
    """Return the mean and its interval where service comes in turns, by chance, or in between.

    A server that takes turns fills windows evenly but for where their edges fall: what one window
    has too much its neighbour lacks, and the error of the mean shrinks with the span, not with its
    square root. So window i is μ + e(i) − e(i−1) + c(i), edges e and chance c independent and
    normal. The sine transform makes that covariance diagonal (eigenvalues 4·sin²(jπ/2(n+1)) of the
    edges); how much is chance is unknown and averaged over, weighted by its likelihood.
    """
    count = len(values)
    if np.ptp(values) <= 1e-12 * np.abs(values).max():
        return (float(values[0]),) * 3
    rank = np.arange(1, count + 1)
    sines = math.sqrt(2 / (count + 1)) * np.sin(math.pi * np.outer(rank, rank) / (count + 1))
    edges = 4 * np.sin(math.pi * rank / (2 * (count + 1))) ** 2
    ones, seen = sines.sum(axis=1), sines @ values
    variance = (_CHANCE[:, None] + edges) / (1 + _CHANCE[:, None])
    information = (ones**2 / variance).sum(axis=1)
    means = (ones * seen / variance).sum(axis=1) / information
    misfit = ((seen - means[:, None] * ones) ** 2 / variance).sum(axis=1)
    free = count - 1
    likelihood = -(np.log(variance).sum(axis=1) + np.log(information) + free * np.log(misfit)) / 2
    weights = np.exp(likelihood - likelihood.max())
    weights /= weights.sum()
    errors = np.sqrt(misfit / free / information)

    def quantile(share: float) -> float:
        def excess(mean: float) -> float:
            return float(weights @ stdtr(free, (mean - means) / errors)) - share

        far = float(t.ppf(1 - share / 2 if share < 0.5 else (1 + share) / 2, free)) * errors.max()
        return float(brentq(excess, means.min() - far, means.max() + far))

    return float(weights @ means), quantile(_TAIL), quantile(1 - _TAIL)


def _checked(values: Floats, least: int = 5) -> Floats:
    values = np.asarray(values, dtype=np.float64)
    if len(values) < least:
        raise TooFewWindowsError(f"needs at least {least} windows, got {len(values)}")
    return values


def offered_load(rates_bps: Floats, link_bps: float) -> Estimate:
    """Return the load of a link, 0..1, from its rate per window; raises TooFewWindowsError."""
    ratio = _checked(rates_bps) / link_bps
    half, _ = _mean_half_width(ratio)
    mean = float(ratio.mean())
    return Estimate(
        mean,
        max(0.0, mean - half),
        mean + half,
        ("the load is stationary over the span", "a saturated link hides what it held back"),
    )


def marking_ratio(marked: Floats, packets: Floats) -> Estimate:
    """Return the marking probability from CE-marked and all packets per window.

    Beta (Jeffreys) interval with the counts divided by their dispersion: marks in bursts do not
    pretend to be independent, and marks that a control loop spaces evenly count for more than
    chance ones. Raises TooFewWindowsError.
    """
    packets = _checked(packets)
    marked = _checked(marked)
    seen, hits = float(packets.sum()), float(marked.sum())
    if seen <= 0:
        raise TooFewWindowsError("no packet in any window")
    p = hits / seen
    dispersion = 1.0
    if 0 < p < 1:
        residual = marked - p * packets
        _, error = _mean_half_width(residual)
        dispersion = max(0.05, (error * len(packets)) ** 2 / (seen * p * (1 - p)))
    hits, missed = hits / dispersion, (seen - hits) / dispersion
    low = float(beta.ppf(_TAIL, hits + 0.5, missed + 0.5)) if hits > 0 else 0.0
    high = float(beta.ppf(1 - _TAIL, hits + 0.5, missed + 0.5))
    return Estimate(
        p, low, high, ("every packet of the queue is ECN-capable", "nothing upstream marks too")
    )


def flows_at_bottleneck(
    marking: Estimate,
    parameters: DcqcnParameters,
    link_bps: float,
    packet_bytes: float = PACKET_BYTES,
) -> Estimate:
    """Return how many DCQCN flows share a saturated link, from its marking probability.

    Inverts the cut-by-cut equilibrium (dcqcn_renewal); what the model itself may be off, against
    the packet simulator, is part of the interval. Ends outside 1..100000 flows stop there.
    """

    def flows(p: float) -> float:
        return flows_for_marking(
            parameters, link_bps, p, most=_MOST_FLOWS, packet_bytes=packet_bytes
        )

    def widened(end: float) -> float:
        if marking.value <= 0 or end <= 0:
            return end
        sampled = math.log(end / marking.value)
        both = math.copysign(math.hypot(sampled, _NORMAL * _RENEWAL_ERROR), sampled)
        return min(1.0, marking.value * math.exp(both))

    low, high = widened(marking.low), widened(marking.high)
    return Estimate(
        flows(marking.value),
        flows(min(low, marking.value)),
        flows(max(high, marking.value)),
        (
            "the link is saturated and the flows are long",
            "all flows run these DCQCN parameters, share alike and clamp R_T on every CNP",
            "the loop is stable: the queue stays between Kmin and Kmax",
            *marking.assumptions,
        ),
    )


def round_trip(in_flight_bytes: Floats, rates_bps: Floats) -> Estimate:
    """Return the mean round-trip time in seconds by Little's law.

    `in_flight_bytes`: bytes sent and not acknowledged at the sampling times; `rates_bps` of the
    same QPs over the windows around them. Raises TooFewWindowsError.
    """
    in_flight, rates = _checked(in_flight_bytes), _checked(rates_bps)
    mean_rate = float(rates.mean()) / 8
    if mean_rate <= 0:
        raise TooFewWindowsError("no traffic in any window")
    value = float(in_flight.mean()) / mean_rate
    half, _ = _mean_half_width(in_flight - value * rates / 8)
    half /= mean_rate
    return Estimate(
        value,
        max(0.0, value - half),
        value + half,
        ("sampling times do not follow the traffic", "queueing is part of the round trip"),
    )


def incast_degree(stall_ratios: Floats, sent_ratios: Floats | None = None) -> Estimate:
    """Return k of a k-to-1 incast from how much of each window a sender was held back.

    Works on pause durations (PFC) and XmitWait (InfiniBand) alike: k saturated senders are each
    stalled 1 − 1/k of the time. A paused port still finishes what its pipeline holds, so pauses
    alone overstate k by 2-3 %; with `sent_ratios` (bytes sent over what line rate carries, same
    windows) k is 1 over their mean instead, and the stalls only tell that the sender had data.
    How far real shares are from equal is part of the interval.
    Raises TooFewWindowsError, and ValueError where stalls and sending together leave the sender
    idle more than a tenth of the time.
    """
    stalled = _checked(stall_ratios)
    served = 1 - stalled
    assumptions = ["all senders always have data", "the receiver drains at line rate"]
    if sent_ratios is None:
        assumptions.append("a stalled port sends nothing")
    else:
        served = _checked(sent_ratios)
        idle = float(1 - served.mean() - stalled.mean())
        if idle > 0.1:
            raise ValueError(f"the sender was idle {idle:.0%} of the time: no saturated incast")
    mean, low, high = _regular_mean(served)
    unequal = _NORMAL * _SHARE_ERROR * mean

    def degree(ratio: float) -> float:
        return 1 / min(max(ratio, 1 / _MOST_FLOWS), 1.0)

    return Estimate(
        degree(mean),
        degree(mean + math.hypot(high - mean, unequal)),
        degree(mean - math.hypot(mean - low, unequal)),
        tuple(assumptions),
    )


def burst_size(watermarks_bytes: Floats, senders: float, cell_bytes: float = 1.0) -> Estimate:
    """Return the mean burst in bytes from queue watermarks, one burst per window.

    A burst that arrives at `senders` times the drain rate peaks at S·(1 − 1/k); watermarks are
    rounded up to cells. Raises TooFewWindowsError, and ValueError for one sender or fewer.
    """
    if senders <= 1:
        raise ValueError("a queue only builds when more than one sender's rate arrives")
    peaks = _checked(watermarks_bytes)
    peaks = peaks[peaks > 0]
    if len(peaks) < 5:
        raise TooFewWindowsError(f"needs at least 5 windows with a burst, got {len(peaks)}")
    sizes = (peaks - cell_bytes / 2) / (1 - 1 / senders)
    mean = float(sizes.mean())
    # Burst sizes are skewed; the logarithm of their mean is far less so.
    half, _ = _mean_half_width(sizes)
    factor = math.exp(half / mean) if mean > 0 else 1.0
    return Estimate(
        mean,
        mean / factor,
        mean * factor,
        ("one burst per window, from an empty queue", "no pause cut the burst short"),
    )


def effective_flows(uplink_bytes: Floats) -> Estimate:
    """Return how many equal, randomly hashed flows spread as unevenly over the up-links.

    Their counts are multinomial, so N·Σ(x−x̄)²/(x̄·Σx) is χ² with M−1 degrees of freedom. Far
    fewer than the QPs that are there means lost entropy or polarisation. Raises
    TooFewWindowsError for fewer than two up-links or none with traffic.
    """
    loads = _checked(uplink_bytes, least=2)
    total = float(loads.sum())
    if total <= 0:
        raise TooFewWindowsError("no traffic on any up-link")
    mean = total / len(loads)
    uneven = float(((loads - mean) ** 2).sum()) / (mean * total)
    free = len(loads) - 1
    low, middle, high = (float(chi2.ppf(q, free)) for q in (_TAIL, 0.5, 1 - _TAIL))
    scale = math.inf if uneven == 0 else 1 / uneven
    return Estimate(
        middle * scale,
        low * scale,
        high * scale,
        ("flows are of equal size over the window", "links are equal and all of them in the group"),
    )


def evenness_probability(uplink_bytes: Floats, flows: int) -> float:
    """Return the chance that `flows` equal, well hashed flows are at least this uneven.

    Small (under 1 %): the hash, not chance, is to blame. Raises TooFewWindowsError.
    """
    loads = _checked(uplink_bytes, least=2)
    total = float(loads.sum())
    if total <= 0:
        raise TooFewWindowsError("no traffic on any up-link")
    mean = total / len(loads)
    uneven = float(((loads - mean) ** 2).sum()) / (mean * total)
    return float(chi2.sf(flows * uneven, len(loads) - 1))

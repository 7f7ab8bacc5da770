"""Statistics that rules rest on: pure functions of arrays, no telemetry and no fabric.

Loads, rates and times are arrays; every test says how likely its observation is by chance, so
that a rule can ask for the same strength everywhere.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tuner.models.balls_in_bins import max_load_distribution, spread

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

_MOST_FLOWS: Final = 4096  # beyond it a hash spreads evenly, and the exact sum takes long
_CAUTION: Final = 3.0  # penalty of a change point, times log n: BIC has 2, correlated noise more


@dataclass(frozen=True, slots=True)
class Imbalance:
    """Loads of links that one hash chooses among.

    max_over_mean: observed. expected: of a random hash. p_value: chance that it comes out at
    least so uneven. variation: standard deviation over mean.
    """

    max_over_mean: float
    expected: float
    p_value: float
    variation: float


def imbalance(loads: Floats, flows: int) -> Imbalance:
    """Hold the loads of n links against `flows` equal flows hashed at random.

    loads: shape (n,), not negative, any unit. Unequal flows are as uneven as fewer equal ones:
    pass `effective_flows` of their sizes. Raises ValueError unless there is a load and a flow.
    """
    links, mean = len(loads), float(np.mean(loads)) if len(loads) else 0.0
    if mean <= 0 or flows < 1 or float(np.min(loads)) < 0:
        raise ValueError(f"needs loads that are not negative, and flows: {links}, {flows}")
    observed = float(np.max(loads)) / mean
    variation = float(np.std(loads)) / mean
    flows = min(flows, _MOST_FLOWS)
    chances = max_load_distribution(flows, links)
    # The fullest link holds whole flows; half a flow below still counts as that many.
    least = max(math.ceil(observed * flows / links - 0.5), 0)
    p_value = float(np.clip(chances[least:].sum(), 0.0, 1.0))
    return Imbalance(observed, spread(flows, links).max_over_mean, p_value, variation)


def effective_flows(sizes: Floats) -> float:
    """Return how many equal flows are as uneven as these: (sum x)^2 / sum x^2; 0 without any."""
    most = float(np.max(sizes, initial=0.0))
    if most <= 0:
        return 0.0
    shares = (
        np.asarray(sizes, np.float64) / most
    )  # of the largest: squares neither over- nor underflow
    return float(shares.sum() ** 2 / np.square(shares).sum())


@dataclass(frozen=True, slots=True)
class Polarisation:
    """Links of a tier that a hash left unused. p_value: chance of so few used ones or fewer."""

    used: int
    links: int
    expected: float
    p_value: float


def polarisation(loads: Floats, flows: int, *, floor: float = 0.05) -> Polarisation:
    """Tell how many links are used, and how unlikely so few are for a random hash.

    loads: shape (n,). A link is used above `floor` times the mean load of the used ones. Two
    tiers that hash alike use n / gcd(m, n) of n links behind one of m (science.md 4.2).
    """
    if not len(loads) or flows < 1:
        raise ValueError("needs links and flows")
    total = float(np.sum(loads))
    crowd = max(effective_flows(loads), 1.0)
    used = int(np.count_nonzero(loads > floor * total / crowd)) if total > 0 else 0
    chances = occupancy(min(flows, _MOST_FLOWS), len(loads))
    expected = float(chances @ np.arange(len(chances)))
    return Polarisation(used, len(loads), expected, float(min(chances[: used + 1].sum(), 1.0)))


def occupancy(flows: int, links: int) -> Floats:
    """Return P(k links are used) for k = 0..links, when flows choose at random; exact."""
    chances = np.zeros(links + 1)
    chances[0] = 1.0
    used = np.arange(links + 1)
    for _ in range(flows):
        stay = chances * used / links
        stay[1:] += chances[:-1] * (links - used[:-1]) / links
        chances = stay
    return chances


def elephants(volumes: Floats, *, share: float = 0.5, factor: float = 4.0) -> Ints:
    """Return the places of the few pairs that carry most, largest first.

    volumes: bytes of each pair, shape (n,). The smallest set that carries `share` of all, of
    which only those are kept that carry `factor` times an even share. Empty for even traffic.
    """
    total = float(np.sum(volumes))
    if total <= 0:
        return np.zeros(0, np.int64)
    order = np.argsort(-np.asarray(volumes), kind="stable").astype(np.int64)
    carried = np.cumsum(volumes[order])
    few = order[: int(np.searchsorted(carried, share * total)) + 1]
    kept: Ints = few[volumes[few] >= factor * total / len(volumes)]
    return kept


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """The mean changes at a reading: place of the first one after; score: gain over the penalty."""

    place: int
    before: float
    after: float
    score: float


def change_points(values: Floats, *, least: int = 3) -> list[ChangePoint]:
    """Return where the mean of a series shifts, in order; none for noise around one level.

    values: shape (n,). Binary segmentation on the squared error; noise by the median absolute
    difference of neighbours, which shifts and lone spikes hardly touch. Spikes shorter than `least`
    readings are no shift. Scaling or shifting the values changes no place.
    """
    values = np.asarray(values, np.float64)
    if len(values) < 2 * least:
        return []
    top = float(np.max(np.abs(values)))
    if top == 0 or not np.isfinite(top):
        return []
    scaled = values / top
    noise = float(np.median(np.abs(np.diff(scaled)))) / (0.6745 * math.sqrt(2))
    noise = max(noise, float(np.std(scaled)) * 1e-3)
    if noise < 1e-9:  # one level but for rounding
        return []
    penalty = _CAUTION * math.log(len(values))
    found: list[tuple[int, float]] = []
    spans = [(0, len(values))]
    while spans:
        begin, end = spans.pop()
        place, gain = _best_split(scaled[begin:end], least)
        score = gain / noise**2 / penalty
        if place and score > 1:
            found.append((begin + place, score))
            spans += [(begin, begin + place), (begin + place, end)]
    found.sort()
    edges = [0, *(place for place, _ in found), len(values)]
    means = [float(values[a:b].mean()) for a, b in itertools.pairwise(edges)]
    return [
        ChangePoint(place, means[n], means[n + 1], score) for n, (place, score) in enumerate(found)
    ]


def _best_split(values: Floats, least: int) -> tuple[int, float]:
    """Return (place, squared error that a split there saves); (0, 0) where it is too short."""
    count = len(values)
    if count < 2 * least:
        return 0, 0.0
    sums = np.cumsum(values)
    left = np.arange(least, count - least + 1)
    right = count - left
    means = sums[left - 1] / left - (sums[-1] - sums[left - 1]) / right
    gains = means**2 * left * right / count
    place = int(np.argmax(gains))
    return int(left[place]), float(gains[place])


@dataclass(frozen=True, slots=True)
class Coincidence:
    """Changes that follow events. lags: of each matched change, in the unit of the times.

    expected: how many would match by chance. p_value: chance of at least so many.
    """

    matched: int
    changes: int
    expected: float
    p_value: float
    lags: tuple[float, ...]


def coincidence(
    changes: Floats, events: Floats, window: float, span: tuple[float, float]
) -> Coincidence:
    """Tell whether changes follow events (link flap, route or configuration change).

    changes, events: times. A change matches that comes at an event or within `window` after it.
    By chance a change matches with the share of `span` that windows after events cover.
    """
    begin, end = span
    if end <= begin or window < 0:
        raise ValueError("needs a span of time and a window that is not negative")
    events = np.sort(np.asarray(events, np.float64))
    changes = np.asarray(changes, np.float64)
    last = np.searchsorted(events, changes, side="right") - 1
    known = last >= 0
    lags = np.where(known, changes - events[np.maximum(last, 0)] if len(events) else 0.0, np.inf)
    hits = known & (lags <= window)
    matched = int(np.count_nonzero(hits))
    share = _covered(events, window, begin, end) / (end - begin)
    return Coincidence(
        matched,
        len(changes),
        share * len(changes),
        binomial_tail(matched, len(changes), share),
        tuple(lags[hits].tolist()),
    )


def _covered(events: Floats, window: float, begin: float, end: float) -> float:
    """Return how much of a span lies within a window after some event."""
    if not len(events):
        return 0.0
    starts, ends = np.clip(events, begin, end), np.clip(events + window, begin, end)
    reached = np.concatenate([[begin], np.maximum.accumulate(ends)[:-1]])
    return float(np.maximum(ends - np.maximum(starts, reached), 0.0).sum())


def binomial_tail(least: int, trials: int, chance: float) -> float:
    """Return P(at least so many of n independent trials succeed)."""
    if least <= 0:
        return 1.0
    if chance <= 0 or least > trials:
        return 0.0
    if chance >= 1:
        return 1.0
    logs = [
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        + k * math.log(chance) + (trials - k) * math.log1p(-chance)
        for k in range(least, trials + 1)
    ]  # fmt: skip
    return min(1.0, math.fsum(map(math.exp, logs)))

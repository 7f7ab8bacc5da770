"""What a change is worth to the job: bus bandwidth, step time, GPU-hours a day.

A synchronous collective runs at the pace of its slowest flow. So a gain g in the goodput of the
harmed flows is one of the collective; the part c of a step that waits for communication shrinks
to c/g, and the step to 1 - c + c/g of what it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from tuner.advice.outcome.measured import Measured
from tuner.advice.recommendation import Effect, Recommendation

STEP_TIME: Final = "step time"
BUS_BANDWIDTH: Final = "bus bandwidth"
GPU_HOURS: Final = "GPU-hours regained per day"
MODEL: Final = "slowest flow paces the collective"
HOURS: Final = 24.0


@dataclass(frozen=True, slots=True)
class Gain:
    """By how much communication gets faster: 1 is no change. assumptions: of its prediction."""

    low: float
    high: float
    assumptions: str


def with_outcome(
    recommendations: Iterable[Recommendation], measured: Measured
) -> tuple[Recommendation, ...]:
    """Return the recommendations with what they are worth, or what is missing to tell."""
    return tuple(_valued(rec, measured) for rec in recommendations)


def gain_of(effects: Iterable[Effect]) -> Gain | None:
    """Return the gain that predicted effects imply, None where none of them tells.

    A time of the job counts before goodput, as it was predicted for the whole job; among several
    of a kind the largest low bound counts, as the slowest flow gains most.
    """
    found: dict[str, list[Gain]] = {"time": [], "goodput": []}
    for effect in effects:
        if not effect.before or effect.low <= 0 or effect.high <= 0:
            continue
        if effect.metric == "job time":
            gain = Gain(effect.before / effect.high, effect.before / effect.low, effect.assumptions)
            found["time"].append(gain)
        elif effect.metric.startswith("goodput"):
            gain = Gain(effect.low / effect.before, effect.high / effect.before, effect.assumptions)
            found["goodput"].append(gain)
    for gains in found.values():
        if gains:
            return max(gains, key=lambda gain: (gain.low, gain.high))
    return None


def _valued(rec: Recommendation, measured: Measured) -> Recommendation:
    gain = gain_of(rec.effects)
    if gain is None:
        why = "worth to the job: no throughput is predicted for this change"
        return replace(rec, missing=(*rec.missing, why))
    effects = list(rec.effects)
    lacking = []
    bandwidth = measured.bus_bandwidth_bps
    if bandwidth is None:
        lacking.append("bus bandwidth (--measured with nccl-tests output or an NCCL inspector log)")
    else:
        effects.append(_effect(BUS_BANDWIDTH, "bps", bandwidth, gain.low, gain.high, gain))
    share = measured.communication_ratio
    if share is None:
        lacking.append("share of communication (--measured with an inspector log, --communication)")
    else:
        least, most = (1 - share + share / of for of in (gain.high, gain.low))
        if measured.step_s is None:
            lacking.append("step time (--step-time)")
        else:
            step = measured.step_s
            effects.append(_effect(STEP_TIME, "seconds", step, least, most, gain, measured))
        if measured.gpus is None:
            lacking.append("number of GPUs (--gpus)")
        else:
            hours = measured.gpus * HOURS
            low, high = hours * (1 - most), hours * (1 - least)
            assumed = _assumed(gain, measured)
            effects.append(Effect(GPU_HOURS, "hours", 0.0, low, high, MODEL, assumed))
    missing = rec.missing
    if lacking:
        missing = (*missing, f"worth to the job: {'; '.join(lacking)}")
    return replace(rec, effects=tuple(effects), missing=missing)


def _effect(
    metric: str,
    unit: str,
    before: float,
    low: float,
    high: float,
    gain: Gain,
    measured: Measured | None = None,
) -> Effect:
    """Return an effect; low and high are parts of `before`."""
    return Effect(
        metric, unit, before, before * low, before * high, MODEL, _assumed(gain, measured)
    )


def _assumed(gain: Gain, measured: Measured | None) -> str:
    parts = ["the harmed flows are on the collective's critical path"]
    if measured is not None and measured.communication_is_bound:
        parts.append("all time not computing is communication: an upper bound of the gain")
    return "; ".join((*parts, gain.assumptions))

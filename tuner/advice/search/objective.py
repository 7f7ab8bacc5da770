"""The objective: throughput, tail of completion, queue and pauses, weighted (science of Paraleon).

Paraleon's utility is 0.6 throughput + 0.2 base RTT over RTT + 0.2 free of PFC; here throughput's
share is divided between the job and its slowest flows, which Azure tunes for (NSDI'23 section 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from collectors.model.errors import ConfigInvalid
from simlab.packet.config import Plan
from tuner.advice.twin.replay import Replay


@dataclass(frozen=True, slots=True)
class Weights:
    """Shares of the objective; they are scaled to sum to 1."""

    throughput: float = 0.4
    tail: float = 0.2
    queue: float = 0.2
    pauses: float = 0.2

    def __post_init__(self) -> None:
        """Raise ConfigInvalid for a negative weight or none."""
        values = [getattr(self, field.name) for field in fields(self)]
        if min(values) < 0 or not sum(values):
            raise ConfigInvalid("weights", "objective", "must be positive numbers, not all zero")


@dataclass(frozen=True, slots=True)
class Score:
    """How a run did, each part 0 (worst) to 1 (ideal), and their weighted sum."""

    total: float
    throughput: float
    tail: float
    queue: float
    pauses: float


def score(run: Replay, ideal_s: float, rtt_s: float, line_bps: float, weights: Weights) -> Score:
    """Score a run against an ideal job time, a base round trip and the bottleneck's rate."""
    delay = run.queue_mean_bytes * 8 / line_bps
    parts = (
        min(1.0, ideal_s / run.job_s) if np.isfinite(run.job_s) else 0.0,
        min(1.0, ideal_s / run.tail_s) if np.isfinite(run.tail_s) else 0.0,
        rtt_s / (rtt_s + delay),
        max(0.0, 1.0 - run.paused_ratio),
    )
    shares = [getattr(weights, field.name) for field in fields(weights)]
    total = sum(w * p for w, p in zip(shares, parts, strict=True)) / sum(shares)
    return Score(total, *parts)


def ideal_seconds(plan: Plan) -> float:
    """Return the least time that any schedule needs: the busiest host link's bytes at its rate."""
    wire = plan.model.transport
    overhead = 1 + wire.header_bytes / wire.payload_bytes
    rate: dict[int, float] = {}
    for cable in plan.topology.cables:
        for node in (cable.a, cable.b):
            rate.setdefault(node, cable.rate_bps)
    load: dict[tuple[int, str], float] = {}
    for message in plan.traffic.messages:
        one = plan.traffic.connections[message.connection]
        size = message.size_bytes * message.repeat * overhead * 8
        for place in ((one.src, "tx"), (one.dst, "rx")):
            load[place] = load.get(place, 0.0) + size
    return max(bits / rate[node] for (node, _), bits in load.items())


def pareto(rows: Sequence[Score]) -> list[bool]:
    """Tell which rows no other row beats in every part."""
    table = np.array([[r.throughput, r.tail, r.queue, r.pauses] for r in rows])
    return [
        not bool(np.any(np.all(table >= row, axis=1) & np.any(table > row, axis=1)))
        for row in table
    ]

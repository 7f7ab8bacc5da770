"""Queue pairs: how many, on which source ports, and what their timers and CNPs allow.

Sources: NCCL environment reference (QPs, timeout 20, retry 7), IBTA 9.7.5.2 (timeouts), SAI and
RTAG7 hash notes, DCQCN+ and SIGCOMM'15 section 3 (CNP interval against the number of flows).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from collectors.model.ecmp_hash import FlowKey, HashSpec, choose_member
from collectors.model.roce import (
    RNR_RETRY_INFINITE,
    SOURCE_PORT_BASE,
    SOURCE_PORT_COUNT,
    ack_timeout_code,
    ack_timeout_s,
    rnr_timer_s,
)
from tuner.models.balls_in_bins import max_over_mean_quantile, spread

MOST_QPS = 128  # NCCL_IB_QPS_PER_CONNECTION


@dataclass(frozen=True, slots=True)
class QpChoice:
    """QPs per connection and the evenness they give on a leaf's up-links."""

    qps_per_connection: int
    flows: int
    slowest_share: float
    max_over_mean: float


def evenness(connections: int, uplinks: int, qps_per_connection: int) -> QpChoice:
    """Return what so many QPs give: connections leave the leaf over its equal up-links."""
    flows = connections * qps_per_connection
    there = spread(flows, uplinks)
    return QpChoice(qps_per_connection, flows, there.slowest_share, there.max_over_mean)


def qps_for_evenness(
    connections: int,
    uplinks: int,
    wanted_max_over_mean: float,
    *,
    quantile: float | None = None,
    most: int = MOST_QPS,
) -> QpChoice | None:
    """Return the fewest QPs per connection that keep the fullest up-link so even, or None.

    The expectation of max/mean must be at most `wanted_max_over_mean`, or, with a `quantile`,
    that quantile of it. More QPs never make it less even, so the search halves.
    """

    def fits(qps: int) -> bool:
        if quantile is None:
            value = evenness(connections, uplinks, qps).max_over_mean
        else:
            value = max_over_mean_quantile(connections * qps, uplinks, quantile)
        return value <= wanted_max_over_mean

    if not fits(most):
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return evenness(connections, uplinks, high)


def plan_source_ports(
    flow: FlowKey,
    count: int,
    tiers: Sequence[tuple[HashSpec, int]],
    candidates: Iterable[int] = range(SOURCE_PORT_BASE, SOURCE_PORT_BASE + SOURCE_PORT_COUNT),
    used: Counter[tuple[int, ...]] | None = None,
) -> tuple[int, ...]:
    """Return `count` UDP source ports whose paths differ as much as they can.

    `tiers`: the hash and the group size of each switch that the flow meets on its way up. Ports
    are taken in order, each on the path (choice at every tier) used least so far; `used` has the
    flows that others put on each path, and gets these added. Valid only for a hash that was fitted
    to the device. Raises ValueError if there are too few candidates.
    """
    used = Counter() if used is None else used
    by_path: dict[tuple[int, ...], list[int]] = {}
    for port in candidates:
        keyed = replace(flow, src_port=port)
        path = tuple(choose_member(keyed, members, spec) for spec, members in tiers)
        by_path.setdefault(path, []).append(port)
    if sum(map(len, by_path.values())) < count:
        raise ValueError(f"{count} source ports wanted of fewer candidates")
    taken: Counter[tuple[int, ...]] = Counter()
    chosen: list[int] = []
    for _ in range(count):
        open_paths = [path for path, ports in by_path.items() if taken[path] < len(ports)]

        def load(path: tuple[int, ...]) -> tuple[int, ...]:
            # First tier first: evenness there matters to every flow.
            return tuple(
                sum(n for other, n in used.items() if other[: tier + 1] == path[: tier + 1])
                for tier in range(len(path))
            )

        best = min(open_paths, key=load)
        chosen.append(by_path[best][taken[best]])
        taken[best] += 1
        used[best] += 1
    return tuple(chosen)


@dataclass(frozen=True, slots=True)
class QpBudget:
    """QPs of one NIC against the contexts that it caches."""

    qps: int
    fits: bool
    most_qps_per_connection: int


def qp_budget(
    peers: int, channels: int, qps_per_connection: int, context_cache_entries: int
) -> QpBudget:
    """Return the QPs that a NIC holds: peers × channels × QPs, sending and receiving.

    The cache size is the device's; beyond it every message may fetch its context over PCIe.
    """
    per_qp = 2 * peers * channels
    qps = per_qp * qps_per_connection
    return QpBudget(
        qps=qps,
        fits=qps <= context_cache_entries,
        most_qps_per_connection=context_cache_entries // per_qp if per_qp else MOST_QPS,
    )


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How long a requester tries before its QP fails; infinite where nothing ends it."""

    timeout_s: float
    shortest_s: float
    longest_s: float


def retry_budget(timeout_code: int, retry_count: int) -> RetryBudget:
    """Return the time to failure: retries × timeout, up to four times as much (IBTA 9.7.5.2)."""
    timeout = ack_timeout_s(timeout_code)
    tries = retry_count + 1
    return RetryBudget(timeout, tries * timeout, 4 * tries * timeout)


def timeout_code_for(
    round_trip_s: float, queue_s: float, pause_s: float, hops: int, *, margin: float = 4.0
) -> int:
    """Return the smallest ACK timeout code that honest congestion does not trip.

    Each of the hops may hold a packet for a full queue and one pause; `margin` multiplies it.
    """
    return ack_timeout_code(margin * (round_trip_s + hops * (queue_s + pause_s)))


def rnr_budget_s(rnr_timer_code: int, rnr_retry: int) -> float:
    """Return how long a receiver may have no receive WQE posted before the QP fails."""
    if rnr_retry == RNR_RETRY_INFINITE:
        return math.inf
    return rnr_timer_s(rnr_timer_code) * rnr_retry


@dataclass(frozen=True, slots=True)
class CnpLimits:
    """CNPs against N flows at one bottleneck.

    `packets_per_interval`: packets of one flow per CNP interval; below 1 a flow cannot be told
    as often as the interval allows. `starved_flows`: N at which that happens. `cnp_per_s`: the
    most CNPs the receiver sends. `growth_bps_per_s`: what N flows add together per second.
    """

    packets_per_interval: float
    starved_flows: float
    cnp_per_s: float
    growth_bps_per_s: float


def cnp_limits(
    link_bps: float,
    flows: int,
    *,
    packet_bytes: int,
    cnp_interval_s: float,
    ai_bps: float,
    increase_timer_s: float,
) -> CnpLimits:
    """Return how CNP generation and additive increase scale with N; interval 0: one a packet."""
    packets_per_s = link_bps / (8 * packet_bytes)
    per_flow = packets_per_s / flows
    most = per_flow if cnp_interval_s == 0 else min(per_flow, 1 / cnp_interval_s)
    return CnpLimits(
        packets_per_interval=per_flow * cnp_interval_s,
        starved_flows=packets_per_s * cnp_interval_s,
        cnp_per_s=most * flows,
        growth_bps_per_s=flows * ai_bps / increase_timer_s,
    )


def ai_for_flows(ai_bps: float, designed_flows: int, flows: int) -> float:
    """Return the additive increase that keeps N·R_AI as it was designed (DCQCN+)."""
    return ai_bps * designed_flows / flows

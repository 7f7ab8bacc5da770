"""Point-to-point workloads: incast, permutation, Poisson arrivals from a size distribution."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from collectors.model.errors import ConfigInvalid
from collectors.model.roce import UDP_PORT, source_port
from simlab.packet.limits import MOST
from simlab.packet.traffic import DATA_PRIORITY, Connection, Message, Traffic, check_counts

FIRST_QPN = 0x100


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One message on a QP of its own; ports None: chosen by the kernel's function."""

    src: int
    dst: int
    size_bytes: int
    start_s: float = 0.0
    priority: int = DATA_PRIORITY
    sport: int | None = None
    dport: int = UDP_PORT


class QueuePairs:
    """Makes connections; the numbers of their queue pairs count up on each host."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}

    def _take(self, host: int) -> int:
        number = self._next.get(host, FIRST_QPN)
        self._next[host] = number + 1
        return number

    def connect(
        self, src: int, dst: int, priority: int, *, sport: int | None = None, dport: int = UDP_PORT
    ) -> Connection:
        """Return a new connection; a missing UDP source port is the kernel's for the two QPNs."""
        src_qp, dst_qp = self._take(src), self._take(dst)
        return Connection(
            src=src, dst=dst, dport=dport, priority=priority, src_qp=src_qp, dst_qp=dst_qp,
            sport=source_port(src_qp, dst_qp) if sport is None else sport,
        )  # fmt: skip


def traffic_of_flows(flows: Sequence[Flow], *, name: str = "flows", reuse: bool = True) -> Traffic:
    """Return traffic in which every flow has its own QP, in start order.

    With `reuse` QP slots are shared in time, without it every QP keeps its own counters.
    """
    pairs = QueuePairs()
    ordered = sorted(flows, key=lambda one: one.start_s)
    connections = (
        pairs.connect(one.src, one.dst, one.priority, sport=one.sport, dport=one.dport)
        for one in ordered
    )
    messages = (
        Message(connection=number, size_bytes=one.size_bytes, start_s=one.start_s)
        for number, one in enumerate(ordered)
    )
    return Traffic(tuple(connections), tuple(messages), flows=reuse, name=name)


def incast(
    senders: Sequence[int], receiver: int, size_bytes: int, *, qps: int = 1, gap_s: float = 0.0
) -> Traffic:
    """Return `qps` flows from every sender to one receiver; sender i starts at i·gap_s."""
    _check_flows("incast", len(senders), qps, size_bytes)
    flows = [
        Flow(src=host, dst=receiver, size_bytes=size_bytes, start_s=number * gap_s)
        for number, host in enumerate(senders)
        for _ in range(qps)
    ]
    return traffic_of_flows(flows, name=f"incast{len(senders)}", reuse=False)


def _check_flows(name: str, hosts: int, qps: int, size_bytes: int) -> None:
    for what, value in (("qps", qps), ("size_bytes", size_bytes)):
        if value < 1:
            raise ConfigInvalid(name, what, f"{value} is not at least 1")
    check_counts(name, pairs=hosts * qps, messages=hosts * qps)


def permutation(
    hosts: Sequence[int], size_bytes: int, *, qps: int = 1, shift: int | None = None, seed: int = 1
) -> Traffic:
    """Return one transfer per host, split over `qps`; to the host `shift` further, or random."""
    count = len(hosts)
    _check_flows("permutation", count, qps, size_bytes)
    if shift is None:
        order = list(range(count))
        Random(seed).shuffle(order)
        target = {order[i]: order[(i + 1) % count] for i in range(count)}
    else:
        target = {i: (i + shift) % count for i in range(count)}
    flows = [
        Flow(src=hosts[i], dst=hosts[target[i]], size_bytes=max(1, size_bytes // qps))
        for i in range(count)
        for _ in range(qps)
    ]
    return traffic_of_flows(flows, name="permutation", reuse=False)


@dataclass(frozen=True, slots=True)
class SizeDistribution:
    """A cumulative distribution of flow sizes: bytes and probability, linear in between."""

    bytes_: tuple[float, ...]
    probability: tuple[float, ...]

    def __post_init__(self) -> None:
        count, shares = len(self.bytes_), self.probability
        rising = all(a <= b for column in (self.bytes_, shares) for a, b in pairwise(column))
        few = count < 2 or len(shares) != count
        if few or not rising or shares[0] < 0 or shares[-1] != 1.0:
            raise ConfigInvalid("sizes", "distribution", "needs rising points that end at 1")
        if self.bytes_[0] < 0 or not 0 < self.mean_bytes <= MOST:
            raise ConfigInvalid(
                "sizes", "distribution", f"needs a mean above 0 and up to {MOST:g} bytes"
            )

    @property
    def mean_bytes(self) -> float:
        """Mean flow size."""
        total = self.bytes_[0] * self.probability[0]
        for i in range(1, len(self.bytes_)):
            share = self.probability[i] - self.probability[i - 1]
            total += share * (self.bytes_[i] + self.bytes_[i - 1]) / 2
        return total

    def size_at(self, probability: float) -> int:
        """Return the size whose cumulative probability this is (at least 1 byte)."""
        i = bisect_left(self.probability, probability)
        if i == 0:
            return max(1, round(self.bytes_[0]))
        low, high = self.bytes_[i - 1], self.bytes_[i]
        below, bound = self.probability[i - 1], self.probability[i]
        return max(1, round(low + (probability - below) / (bound - below) * (high - low)))


# Web search of the DCTCP paper (SIGCOMM'10 figure 4), as the reference simulators tabulate it.
WEB_SEARCH = SizeDistribution(
    (1, 10e3, 20e3, 30e3, 50e3, 80e3, 200e3, 1e6, 2e6, 5e6, 10e6, 30e6),
    (0.0, 0.15, 0.2, 0.3, 0.4, 0.53, 0.6, 0.7, 0.8, 0.9, 0.97, 1.0),
)


def poisson(
    hosts: Sequence[int],
    sizes: SizeDistribution,
    *,
    load: float,
    rate_bps: float,
    duration_s: float,
    seed: int = 1,
) -> Traffic:
    """Return flows with exponential gaps per sender so that its link is `load` busy on average."""
    if not 0 < load <= 1:
        raise ConfigInvalid("poisson", "load", f"{load} is not in (0, 1]")
    if len(hosts) < 2:
        raise ConfigInvalid("poisson", "hosts", "needs at least two: one to send, one to receive")
    rng = Random(seed)
    per_second = load * rate_bps / 8 / sizes.mean_bytes
    expected = per_second * duration_s * len(hosts)
    check_counts("poisson", pairs=expected, messages=expected)
    flows = []
    for host in hosts:
        others = [other for other in hosts if other != host]
        now = -math.log(1 - rng.random()) / per_second
        while now < duration_s:
            size = sizes.size_at(rng.random())
            flows.append(Flow(src=host, dst=rng.choice(others), size_bytes=size, start_s=now))
            now += -math.log(1 - rng.random()) / per_second
    return traffic_of_flows(flows, name=f"poisson{load:g}")


def on_priority(traffic: Traffic, priority: int) -> Traffic:
    """Return the traffic moved to another priority."""
    moved = tuple(replace(one, priority=priority) for one in traffic.connections)
    return replace(traffic, connections=moved)


def from_ports(traffic: Traffic, sports: Sequence[int]) -> Traffic:
    """Return the traffic with these UDP source ports: every host gives them to its QPs in turn."""
    if not sports or not all(0 <= one <= 0xFFFF for one in sports):
        raise ConfigInvalid("workload", "sports", "needs at least one, each 0 to 65535")
    given: dict[int, int] = {}
    moved = []
    for one in traffic.connections:
        number = given[one.src] = given.get(one.src, -1) + 1
        moved.append(replace(one, sport=sports[number % len(sports)]))
    return replace(traffic, connections=tuple(moved))

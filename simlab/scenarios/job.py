"""The jobs of a draw: what they send, in records from which traffic can be made again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from simlab.packet.collectives import Collective, Kind, collective
from simlab.packet.traffic import DATA_PRIORITY, Connection, Message, Traffic
from simlab.packet.workloads import Flow, traffic_of_flows


class Pattern(Enum):
    """Who sends to whom in an iteration."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"
    INCAST = "incast"  # all but the last rank send to the last
    PAIRS = "pairs"  # rank 0 to 1, 2 to 3, ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job of `ranks` (host nodes); each iteration begins when the one before has arrived.

    size_bytes: buffer of one rank of a collective, or what one sender sends. qps: per pair of
    ranks. paths: switch egress ports by (src, dst) that the network gives these flows instead of
    hashing.
    """

    name: str
    pattern: Pattern
    ranks: tuple[int, ...]
    size_bytes: int
    iterations: int = 1
    qps: int = 1
    compute_s: float = 0.0
    start_s: float = 0.0
    priority: int = DATA_PRIORITY
    paths: tuple[tuple[int, int, tuple[int, ...]], ...] = ()

    def bytes_sent(self) -> float:
        """Return what the busiest NIC sends or receives in one iteration."""
        n = len(self.ranks)
        share = {
            Pattern.ALL_REDUCE: 2 * (n - 1) / n,
            Pattern.ALL_GATHER: (n - 1) / n,
            Pattern.ALL_TO_ALL: (n - 1) / n,
            Pattern.INCAST: n - 1,
            Pattern.PAIRS: 1,
        }
        return share[self.pattern] * self.size_bytes

    def filling(self, seconds: float, rate_bps: float) -> Job:
        """Return the job with as many iterations as keep ideal NICs of a rate busy for so long."""
        one = self.bytes_sent() * 8 / rate_bps + self.compute_s
        return replace(self, iterations=max(1, round(seconds / one)))


_COLLECTIVES = {
    Pattern.ALL_REDUCE: Kind.ALL_REDUCE,
    Pattern.ALL_GATHER: Kind.ALL_GATHER,
    Pattern.ALL_TO_ALL: Kind.ALL_TO_ALL,
}
ALL_TO_ALL_WINDOW = 4
MAIN_JOB = "job 0 "
"""How the labels of the messages of the first job begin."""


def traffic_of(jobs: Sequence[Job], priorities: Mapping[int, int]) -> Traffic:
    """Return the traffic of all jobs; `priorities` overrides the priority of what a node sends."""
    made = merged(_one(job) for job in jobs)
    connections = tuple(
        replace(one, priority=priorities.get(one.src, one.priority)) for one in made.connections
    )
    return replace(made, connections=connections, name=" ".join(job.name for job in jobs))


def _one(job: Job) -> Traffic:
    if job.pattern in _COLLECTIVES:
        made = collective(
            Collective(
                kind=_COLLECTIVES[job.pattern], ranks=job.ranks, size_bytes=job.size_bytes,
                qps=job.qps, iterations=job.iterations, compute_s=job.compute_s,
                start_s=job.start_s, priority=job.priority, window=ALL_TO_ALL_WINDOW,
            )
        )  # fmt: skip
    else:
        made = _rounds(job)
    paths = {(src, dst): path for src, dst, path in job.paths}
    connections = tuple(
        replace(one, label=job.name, path=paths.get((one.src, one.dst))) for one in made.connections
    )
    return replace(made, connections=connections)


def _rounds(job: Job) -> Traffic:
    """Return independent transfers, repeated; each sender waits for all of the round before."""
    ranks = job.ranks
    if job.pattern is Pattern.INCAST:
        pairs = [(src, ranks[-1]) for src in ranks[:-1]]
    else:
        pairs = list(zip(ranks[::2], ranks[1::2], strict=True))
    part = max(1, job.size_bytes // job.qps)
    flows = [
        Flow(src=src, dst=dst, size_bytes=part, priority=job.priority)
        for src, dst in pairs
        for _ in range(job.qps)
    ]
    connections = traffic_of_flows(flows, reuse=False).connections
    messages: list[Message] = []
    together = job.pattern is Pattern.INCAST
    for number in range(job.iterations):
        before = range(len(messages) - len(connections), len(messages)) if number else range(0)
        for index in range(len(connections)):
            gates = tuple(before) if together else tuple(before[index : index + 1])
            messages.append(
                Message(
                    connection=index, size_bytes=part, start_s=job.start_s, gates=gates,
                    gate_delay_s=job.compute_s if number else 0.0, label=f"iteration {number}",
                )
            )  # fmt: skip
    return Traffic(connections, tuple(messages))


def merged(parts: Iterable[Traffic]) -> Traffic:
    """Return several jobs as one traffic; queue pair numbers stay unique on each host."""
    connections: list[Connection] = []
    messages: list[Message] = []
    for number, part in enumerate(parts):
        first, base = len(messages), len(connections)
        shift = number << 12  # queue pairs of further jobs are numbered further up
        connections += [
            replace(
                one, src_qp=one.src_qp + shift, dst_qp=one.dst_qp + shift,
                sport=0xC000 | (one.sport + number * 0x5A7) & 0x3FFF,
            )
            for one in part.connections
        ]  # fmt: skip
        messages += [
            replace(
                message, connection=message.connection + base,
                after=tuple(i + first for i in message.after),
                gates=tuple(i + first for i in message.gates),
                label=f"job {number} {message.label}",
            )
            for message in part.messages
        ]  # fmt: skip
    return Traffic(tuple(connections), tuple(messages))

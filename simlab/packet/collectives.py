"""Collective operations as messages that wait for each other: ring, tree, hierarchical, all-to-all.

Step s of a ring is sent when step s-1 has arrived from the neighbour, as NCCL does. `Spread` says
how a connection's QPs share the data (NCCL_IB_SPLIT_DATA_ON_QPS): each message cut into parts, or
whole messages in turn. Iterations are separated by compute time per rank, so that a run reports
job step times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from collectors.model.errors import ConfigInvalid
from simlab.packet.limits import LONGEST_S, MOST
from simlab.packet.traffic import DATA_PRIORITY, Connection, Message, Traffic, check_counts
from simlab.packet.workloads import QueuePairs


class Kind(Enum):
    """What the ranks do together."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    TREE_ALL_REDUCE = "tree_all_reduce"
    HIERARCHICAL_ALL_REDUCE = "hierarchical_all_reduce"
    ALL_TO_ALL = "all_to_all"


class QpMode(Enum):
    """How the QPs of a connection share its messages."""

    SPLIT = "split"
    ROUND_ROBIN = "round_robin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """One collective over `ranks` (host nodes in rank order), repeated `iterations` times.

    `size_bytes` is the buffer of one rank (for all_gather: of the result). `rails` is the number
    of NICs per host for the hierarchical form, whose ranks go host by host, NIC by NIC; its
    exchange inside a host takes the time that `nvlink_bps` gives. `chunks` pipelines the tree,
    `window` is how many peers an all-to-all serves at once.
    """

    kind: Kind
    ranks: tuple[int, ...]
    size_bytes: int
    channels: int = 1
    qps: int = 1
    mode: QpMode = QpMode.SPLIT
    iterations: int = 1
    compute_s: float = 0.0
    reduce_s: float = 0.0  # between the arrival of a step and the next send
    start_s: float = 0.0
    priority: int = DATA_PRIORITY
    rails: int = 1
    nvlink_bps: float = 0.0
    chunks: int = 8
    window: int = 1

    @property
    def lanes(self) -> int:
        """Queue pairs of one connection in one direction, over all channels."""
        return self.channels * self.qps


class _Builder:
    """Collects connections and messages."""

    def __init__(self, what: Collective) -> None:
        self.what = what
        self.connections: list[Connection] = []
        self.messages: list[Message] = []
        self._pairs = QueuePairs()
        self._last: dict[tuple[int, int], list[int]] = {}  # (iteration, rank) -> arrivals there

    def connect(self, src: int, dst: int) -> int:
        self.connections.append(self._pairs.connect(src, dst, self.what.priority))
        return len(self.connections) - 1

    def send(self, connection: int, iteration: int, message: Message) -> int:
        """Add a message of an iteration: it waits until its rank has finished the one before."""
        one = self.connections[connection]
        label = f"iteration {iteration}"
        gates = tuple(self._last.get((iteration - 1, one.src), ()))
        gap = self.what.compute_s if iteration else 0.0
        self.messages.append(
            replace(
                message, connection=connection, label=label, start_s=self.what.start_s,
                gates=gates, gate_delay_s=gap, delay_s=self.what.reduce_s,
            )
        )  # fmt: skip
        self._last.setdefault((iteration, one.dst), []).append(len(self.messages) - 1)
        return len(self.messages) - 1

    def traffic(self) -> Traffic:
        name = self.what.kind.value
        return Traffic(tuple(self.connections), tuple(self.messages), name=name)


def collective(what: Collective) -> Traffic:
    """Return the connections and messages of a collective; ConfigInvalid if it makes no sense."""
    count = len(what.ranks)
    if count < 2 or len(set(what.ranks)) != count:
        raise ConfigInvalid("collective", "ranks", "needs at least two different host NICs")
    for name in ("size_bytes", "channels", "qps", "iterations", "chunks", "window", "rails"):
        if getattr(what, name) < 1:
            raise ConfigInvalid("collective", name, f"{getattr(what, name)} is not at least 1")
    for name, most in (("compute_s", LONGEST_S), ("reduce_s", LONGEST_S), ("nvlink_bps", MOST)):
        if not 0 <= getattr(what, name) <= most:
            why = f"{getattr(what, name):g} is out of bounds: 0 to {most:g}"
            raise ConfigInvalid("collective", name, why)
    neighbours = count - 1 if what.kind is Kind.ALL_TO_ALL else 1
    pairs = (2 if what.kind is Kind.TREE_ALL_REDUCE else neighbours) * count * what.lanes
    check_counts(what.kind.value, pairs=pairs, messages=pairs * what.iterations)
    build = _Builder(what)
    if what.kind is Kind.ALL_TO_ALL:
        _all_to_all(build)
    elif what.kind is Kind.TREE_ALL_REDUCE:
        _tree(build)
    elif what.kind is Kind.HIERARCHICAL_ALL_REDUCE:
        return _hierarchical(what)
    else:
        steps = 2 * (count - 1) if what.kind is Kind.ALL_REDUCE else count - 1
        _ring(build, what.ranks, steps, -(-what.size_bytes // count))
    return build.traffic()


class _Share(NamedTuple):
    """What one QP of a ring connection sends; after: the upstream QPs that it waits for."""

    size_bytes: int
    repeat: int
    free: int
    after: tuple[int, ...]


def _parts(total: int, parts: int) -> list[int]:
    """Cut `total` bytes into whole parts of at least one byte."""
    return [max(1, total * (i + 1) // parts - total * i // parts) for i in range(parts)]


def _ring(build: _Builder, ranks: Sequence[int], steps: int, step_bytes: int) -> None:
    what = build.what
    count = len(ranks)
    by_channel = [
        [
            [build.connect(ranks[rank], ranks[(rank + 1) % count]) for _ in range(what.qps)]
            for rank in range(count)
        ]
        for _ in range(what.channels)
    ]
    for iteration in range(what.iterations):
        for size, qps in zip(_parts(step_bytes, what.channels), by_channel, strict=True):
            _turn(build, iteration, _qp_plan(what, steps, size), qps)


def _turn(
    build: _Builder, iteration: int, plan: Sequence[_Share], qps: Sequence[Sequence[int]]
) -> None:
    """Send data once around a ring; qps: by rank, the connections to the next one."""
    first = len(build.messages)
    for rank, own in enumerate(qps):
        upstream = first + (rank - 1) % len(qps) * len(plan)
        for share, qp in zip(plan, own, strict=False):
            message = Message(
                connection=qp, size_bytes=share.size_bytes, repeat=share.repeat, free=share.free,
                after=tuple(upstream + other for other in share.after),
            )  # fmt: skip
            build.send(qp, iteration, message)


def _qp_plan(what: Collective, steps: int, size: int) -> list[_Share]:
    """Return what every QP of a ring connection sends.

    Split: all parts of a step must be here before the next. Round robin: step s goes over QP
    s mod q after step s-1 came over the one before.
    """
    if what.mode is QpMode.SPLIT:
        everything = tuple(range(what.qps))
        return [_Share(part, steps, 1, everything) for part in _parts(size, what.qps)]
    used = min(what.qps, steps)
    return [
        _Share(size, (steps - qp + used - 1) // used, int(qp == 0), ((qp - 1) % used,))
        for qp in range(used)
    ]


def _tree(build: _Builder) -> None:
    """Binary tree: chunks go up when both children delivered theirs, then down.

    Every chunk is split over the queue pairs of all channels.
    """
    what = build.what
    ranks = what.ranks
    count = len(ranks)
    children = {i: [c for c in (2 * i + 1, 2 * i + 2) if c < count] for i in range(count)}
    lanes = range(what.lanes)
    up = {i: [build.connect(ranks[i], ranks[(i - 1) // 2]) for _ in lanes] for i in range(1, count)}
    down = {
        i: [build.connect(ranks[(i - 1) // 2], ranks[i]) for _ in lanes] for i in range(1, count)
    }
    sizes = _parts(max(1, what.size_bytes // what.chunks), what.lanes)
    for iteration in range(what.iterations):
        rising: dict[int, tuple[int, ...]] = {}
        falling: dict[int, tuple[int, ...]] = {}

        def send(qps: Sequence[int], iteration: int, after: tuple[int, ...]) -> tuple[int, ...]:
            free = 0 if after else what.chunks
            parts = (
                Message(connection=qp, size_bytes=size, repeat=what.chunks, free=free, after=after)
                for qp, size in zip(qps, sizes, strict=True)
            )
            return tuple(build.send(part.connection, iteration, part) for part in parts)

        for i in range(count - 1, 0, -1):
            waits = tuple(one for c in children[i] for one in rising[c])
            rising[i] = send(up[i], iteration, waits)
        for i in range(1, count):
            parent = (i - 1) // 2
            arrived = tuple(one for c in children[0] for one in rising[c])
            falling[i] = send(down[i], iteration, falling[parent] if parent else arrived)


def _all_to_all(build: _Builder) -> None:
    """Pairwise: in step i rank r sends to r+i, once the data of step i-window has come in.

    Every message is split over the queue pairs of its connection, of all channels.
    """
    what = build.what
    count = len(what.ranks)
    parts = _parts(max(1, what.size_bytes // count), what.lanes)
    qps = {
        (step, rank): [
            build.connect(what.ranks[rank], what.ranks[(rank + step) % count]) for _ in parts
        ]
        for step in range(1, count)
        for rank in range(count)
    }
    for iteration in range(what.iterations):
        sent: dict[tuple[int, int], tuple[int, ...]] = {}
        for step in range(1, count):
            for rank in range(count):
                before = step - what.window
                waits = sent[before, (rank - before) % count] if before >= 1 else ()
                sent[step, rank] = tuple(
                    build.send(
                        qp,
                        iteration,
                        Message(
                            connection=qp, size_bytes=part, free=0 if waits else 1, after=waits
                        ),
                    )
                    for part, qp in zip(parts, qps[step, rank], strict=True)
                )


def _hierarchical(what: Collective) -> Traffic:
    """Reduce-scatter inside each host, a ring per rail between hosts, all-gather inside."""
    rails = what.rails
    if len(what.ranks) % rails or len(what.ranks) // rails < 2:
        raise ConfigInvalid("collective", "rails", "ranks must be at least two whole hosts")
    inside = 0.0
    if what.nvlink_bps > 0:
        inside = (rails - 1) / rails * what.size_bytes * 8 / what.nvlink_bps
    shifted = replace(what, start_s=what.start_s + inside, compute_s=what.compute_s + 2 * inside)
    build = _Builder(shifted)
    hosts = len(what.ranks) // rails
    share = -(-what.size_bytes // rails)
    for rail in range(rails):
        ring = what.ranks[rail::rails]
        _ring(build, ring, 2 * (hosts - 1), -(-share // hosts))
    return build.traffic()

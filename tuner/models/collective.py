"""What collectives ask of the network and how long they take at a given bandwidth.

Connections are (sources, targets) arrays of NIC numbers. Times follow the usual α-β forms (NCCL
performance notes): S bytes per rank, bus bandwidth B in bytes/s, α seconds per step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def ring_connections(orders: Ints) -> tuple[Ints, Ints]:
    """Return the hops of rings: orders (rings, members) of NICs → rings·members connections."""
    orders = np.atleast_2d(orders)
    return orders.ravel(), np.roll(orders, -1, axis=1).ravel()


def tree_connections(order: Ints) -> tuple[Ints, Ints]:
    """Return the edges of a double binary tree, up and down, as NCCL builds it.

    The second tree is the first on ranks shifted by one, so that a leaf of one is an inner node
    of the other and every NIC sends at most to three peers per tree.
    """
    sources: list[int] = []
    targets: list[int] = []
    count = len(order)
    for shift in (0, 1):
        for rank in range(1, count):
            low = rank & -rank
            parent = (rank ^ low) | low << 1
            if parent >= count:
                parent = rank ^ low
            child, above = (int(order[(r + shift) % count]) for r in (rank, parent))
            sources += [child, above]
            targets += [above, child]
    return np.array(sources, dtype=np.int64), np.array(targets, dtype=np.int64)


def all_to_all_connections(order: Ints) -> tuple[Ints, Ints]:
    """Return every ordered pair of distinct members."""
    source, target = np.meshgrid(order, order, indexing="ij")
    apart = source != target
    return source[apart], target[apart]


def ring_allreduce_s(size: float, members: int, rate: float, alpha_s: float = 0.0) -> float:
    """Return the time of a flat ring: 2(n−1)/n·S/B + 2(n−1)·α."""
    steps = members - 1
    return 2 * steps / members * size / rate + 2 * steps * alpha_s


def half_ring_s(size: float, members: int, rate: float, alpha_s: float = 0.0) -> float:
    """Return the time of an AllGather or a ReduceScatter: half an AllReduce."""
    return ring_allreduce_s(size, members, rate, alpha_s) / 2


def tree_allreduce_s(size: float, members: int, rate: float, alpha_s: float = 0.0) -> float:
    """Return the time of a pipelined double binary tree: 2·S/B + 2·log2(n)·α."""
    return 2 * size / rate + 2 * math.log2(members) * alpha_s if members > 1 else 0.0


def all_to_all_s(size: float, members: int, rate: float, alpha_s: float = 0.0) -> float:
    """Return the time of an All-to-All: (n−1)/n·S/B + (n−1)·α, B of the fullest link's NIC."""
    steps = members - 1
    return steps / members * size / rate + steps * alpha_s


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """GPUs per node and nodes; bytes/s inside a node and per NIC; one NIC per GPU."""

    gpus: int
    nodes: int
    nvlink: float
    nic: float


def hierarchical_allreduce_s(size: float, shape: Hierarchy, alpha_s: float = 0.0) -> float:
    """Return 2(g−1)/g·S/B_nvl + 2(M−1)/M·(S/g)/B_nic + 2(M−1)·α.

    ReduceScatter in the node, a ring per rail between nodes, AllGather in the node.
    """
    inner = 2 * (shape.gpus - 1) / shape.gpus * size / shape.nvlink
    return inner + ring_allreduce_s(size / shape.gpus, shape.nodes, shape.nic, alpha_s)


def allreduce_bus_bandwidth(size: float, members: int, time_s: float) -> float:
    """Return nccl-tests' busbw in bytes/s: S/T·2(n−1)/n."""
    return size / time_s * 2 * (members - 1) / members


@dataclass(frozen=True, slots=True)
class JobCost:
    """A training job: its step in seconds, the share that is exposed communication, GPU-hours."""

    step_s: float
    communication_ratio: float
    gpu_hours: float


def job_cost(
    compute_s: float, communication_s: float, *, overlap_ratio: float, gpus: int, steps: int
) -> JobCost:
    """Return the cost of a job whose communication hides under `overlap_ratio` of the compute.

    Raises ValueError unless 0 <= overlap_ratio <= 1.
    """
    if not 0 <= overlap_ratio <= 1:
        raise ValueError(f"overlap must be 0..1, got {overlap_ratio}")
    exposed = max(0.0, communication_s - overlap_ratio * compute_s)
    step = compute_s + exposed
    return JobCost(
        step_s=step,
        communication_ratio=exposed / step if step else 0.0,
        gpu_hours=steps * step * gpus / 3600,
    )


def pinning_conflicts(
    sources: Ints, targets: Ints, nic_leaf: Ints, slices: int, slice_of_nic: Ints
) -> int:
    """Return the most flows of one rack that aim at one destination slice.

    With the up-link chosen by slice, 1 is perfect and k means a rate of 1/k; known from the rank
    order alone. Flows within a rack use no up-link.
    """
    away = nic_leaf[sources] != nic_leaf[targets]
    if not away.any():
        return 0
    cell = nic_leaf[sources[away]] * slices + slice_of_nic[targets[away]] % slices
    return int(np.bincount(cell).max())

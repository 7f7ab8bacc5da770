"""ECMP and AllReduce: balls in bins, the ring tables, path pinning, published claims V1-V9."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tests.bench.science_parts.check import Check, at_least, between, near, same
from tuner.models.balls_in_bins import spread
from tuner.models.collective import Hierarchy, hierarchical_allreduce_s
from tuner.models.ecmp_prediction import (
    Floats,
    Ints,
    Prediction,
    predict_rings,
    rail_rings,
    slice_keys,
)
from tuner.models.fabric_graph import FabricGraph, leaf_spine

SEEDS = 400
_OFF: list[float] = []
REFERENCE_TRIALS = (12, 40)  # of the tables below, as their page says

# M → max/mean for N = M, 2M … 32M, then carried and slowest share.
SPREAD = {
    8: (2.60, 2.10, 1.76, 1.53, 1.37, 1.26),
    16: (3.08, 2.42, 1.97, 1.67, 1.46, 1.32),
    32: (3.53, 2.71, 2.16, 1.80, 1.55, 1.38),
    64: (3.95, 2.98, 2.34, 1.92, 1.63, 1.44),
}
CARRIED = {
    8: ((0.66, 0.41), (0.75, 0.50), (0.82, 0.59), (0.87, 0.67), (0.91, 0.74), (0.93, 0.80)),
    16: ((0.64, 0.34), (0.74, 0.43), (0.81, 0.52), (0.87, 0.61), (0.90, 0.69), (0.93, 0.76)),
    32: ((0.64, 0.30), (0.73, 0.38), (0.81, 0.47), (0.86, 0.57), (0.90, 0.65), (0.93, 0.73)),
    64: ((0.64, 0.26), (0.73, 0.34), (0.81, 0.43), (0.86, 0.53), (0.90, 0.62), (0.93, 0.70)),
}
NO_COLLISION = {4: "0.094", 8: "0.0024", 16: "1.1e-06", 32: "1.8e-13"}

# 8 leaves x 16 GPUs x 16 spines, random order: QPs → up-link factor → round robin, split.
RING = {
    1: {1: (0.237, None), 1.125: (0.267, None), 2: (0.474, None)},
    2: {1: (0.327, 0.311), 1.125: (0.368, None), 2: (0.654, None)},
    4: {1: (0.531, 0.419), 1.125: (0.597, None), 2: (0.997, 0.837)},
    8: {1: (0.713, 0.521), 1.125: (0.812, None), 2: (1.0, 0.981)},
    16: {1: (0.857, 0.623), 1.125: (0.980, 0.701), 2: (1.0, None)},
    32: {1: (0.930, 0.708), 1.125: (1.0, 0.796), 2: (1.0, None)},
}
# 8 racks x 2 nodes x 8 rails: flows per NIC → (order, up-links) → slowest ring, mean ring.
RAILS = {
    1: {("topology", 16): (0.354, 0.434), ("topology", 32): (0.431, None),
        ("random", 16): (0.242, 0.265), ("random", 18): (0.251, None),
        ("random", 32): (0.288, None)},
    2: {("topology", 16): (0.533, 0.742), ("topology", 32): (0.708, None),
        ("random", 16): (0.350, 0.417), ("random", 18): (0.363, None),
        ("random", 32): (0.471, None)},
    4: {("topology", 16): (0.920, 0.985), ("topology", 32): (1.0, None),
        ("random", 16): (0.518, 0.608), ("random", 18): (0.559, None),
        ("random", 32): (0.818, None)},
    8: {("topology", 16): (1.0, None), ("topology", 32): (1.0, None),
        ("random", 16): (0.679, 0.753), ("random", 18): (0.744, None),
        ("random", 32): (1.0, None)},
    16: {("topology", 16): (1.0, None), ("topology", 32): (1.0, None),
         ("random", 16): (0.807, 0.865), ("random", 18): (0.939, None),
         ("random", 32): (1.0, None)},
}  # fmt: skip
# Path pinning, random order: share of half-filled racks → slowest ring (published span 0.52-0.60).
PINNED = {0.0: 0.52, 0.25: 0.53, 0.5: 0.60, 1.0: 1.0}


def checks() -> Iterator[Check]:
    """Yield every comparison of ECMP and collectives."""
    yield from hash_spread()
    yield from rings()
    mean_ring = yield from rails()
    yield from pinning()
    yield from claims(mean_ring)


def hash_spread() -> Iterator[Check]:
    """Balls in bins, exact expectations against tables of 4000 trials."""
    for links, table in SPREAD.items():
        for step, want in enumerate(table):
            got = spread(links << step, links)
            where = f"M={links} N={1 << step}M"
            carried, slowest = CARRIED[links][step]
            yield near(f"fullest/mean, {where}", got.max_over_mean, want, 0.02)
            yield near(f"carried ratio, {where}", got.carried_ratio, carried, 0.02)
            yield near(f"slowest share, {where}", got.slowest_share, slowest, 0.02)
    wrong = sum(
        f"{spread(n, n).no_collision_ratio:.2g}" != printed for n, printed in NO_COLLISION.items()
    )
    yield same("P(no collision), to the printed digits", wrong, len(NO_COLLISION))


def _compared(name: str, values: Floats, want: float) -> Check:
    """Compare a mean over seeds with a table of few trials, whose noise is part of the reason."""
    high, low = (values.std() / np.sqrt(n) / want for n in REFERENCE_TRIALS)
    reason = (
        f"the table averages {REFERENCE_TRIALS[0]}-{REFERENCE_TRIALS[1]} draws, so its own "
        f"standard error is {high:.1%}-{low:.1%}; ours of {len(values)} draws "
        f"{values.std() / np.sqrt(len(values)) / want:.1%}"
    )
    if values.std() > 0.02:  # else the table's rounding, not its draws, decides
        _OFF.append(float((values.mean() - want) / (values.std() / np.sqrt(REFERENCE_TRIALS[1]))))
    return near(name, values.mean(), want, 0.03, reason)


def noise_note() -> str:
    """Say how far all table values lie from ours in their own standard errors."""
    off = np.array(_OFF)
    return (
        f"{len(off)} table values of rings and rails: off by {np.sqrt((off**2).mean()):.2f} of "
        f"their standard errors at {REFERENCE_TRIALS[1]} draws (root mean square), "
        f"mean {off.mean():+.2f}; 1 is chance"
    )


def rings() -> Iterator[Check]:
    """Ring AllReduce over one leaf-spine, random rank order."""

    def order(draw: np.random.Generator) -> Ints:
        return draw.permutation(128)

    for qps, row in RING.items():
        for factor, (dealt, split) in row.items():
            graph = leaf_spine(8, 16, 16, uplink_bps=factor)
            name = f"ring {qps} QPs, up-links x{factor:g}"
            got = predict_rings(graph, order, qps, range(SEEDS))
            yield _compared(f"{name}, round robin", got.slowest_bps, dealt)
            if split is not None:
                got = predict_rings(graph, order, qps, range(SEEDS), mode="split")
                yield _compared(f"{name}, split", got.slowest_bps, split)


def _rail_order(kind: str) -> Callable[[np.random.Generator], Ints]:
    def order(draw: np.random.Generator) -> Ints:
        nodes = draw.permutation(16) if kind == "random" else np.arange(16)
        return rail_rings(nodes, 8)

    return order


def rails() -> Iterator[Check]:
    """Rail rings in racks; returns the mean ring by flows per NIC (random order, 16 up-links)."""
    mean_ring: dict[int, float] = {}
    for flows, row in RAILS.items():
        for (kind, uplinks), (slowest, mean) in row.items():
            got = predict_rings(leaf_spine(8, 16, uplinks), _rail_order(kind), flows, range(SEEDS))
            name = f"rails {flows} flows/NIC, {kind} order, {uplinks} up"
            yield _compared(f"{name}: slowest ring", got.slowest_bps, slowest)
            if mean is not None:
                yield _compared(f"{name}: mean ring", got.mean_bps, mean)
            if (kind, uplinks) == ("random", 16):
                mean_ring[flows] = float(got.mean_bps.mean())
    return mean_ring


def pinning() -> Iterator[Check]:
    """Up-link by destination slice; half-filled racks hold one node, in either slot."""
    graph = leaf_spine(8, 16, 16)
    aligned = predict_rings(graph, rail_rings(np.arange(16), 8), 1, [0], keys=slice_keys(16))
    yield near("V3 pinning, aligned order: slowest ring", aligned.slowest_bps[0], 1.0, 0.001)
    for half, slowest in PINNED.items():

        def order(draw: np.random.Generator, half: float = half) -> Ints:
            count = round(8 * half)
            emptied = draw.permutation(8)[:count] * 2 + draw.integers(0, 2, count)
            nodes = np.setdiff1d(np.arange(16), emptied)
            return rail_rings(draw.permutation(nodes), 8)

        got = predict_rings(graph, order, 1, range(SEEDS), keys=slice_keys(16)).slowest_bps.mean()
        name = f"V3 pinning, {half:.0%} half-filled racks: slowest ring"
        if half == 1:
            yield near(name, got, slowest, 0.001)
        else:
            yield between(name, got, 0.50, 0.62, slowest)


def claims(mean_ring: dict[int, float]) -> Iterator[Check]:
    """The published claims V1-V9; V10 is among the DCQCN checks."""
    network = [spread(m, m).carried_ratio for m in (16, 32, 64)]
    yield between("V1 ECMP utilisation, N = M", float(np.mean(network)), 0.60, 0.66, 0.60)
    gain = mean_ring[16] / mean_ring[4]
    yield near("V2 4 → 16 flows per NIC, mean ring", gain, 1.42, 0.03)
    yield between("V2 E-ECMP and QP scaling up to +40 %", gain, 1.3, 1.5, 1.4)
    loss = 1 - _pinned(leaf_spine(8, 16, 16)).slowest_bps.mean()
    yield at_least("V3 fragmented racks with pinning lose over 30 %", loss, 0.30, "share lost")
    doubled = predict_rings(leaf_spine(8, 16, 32), _rail_order("random"), 8, range(100))
    yield at_least("V4 2x up-links, 8 flows/NIC", doubled.slowest_bps.mean(), 0.95, "line rate")
    yield between("V5 2 QPs of 100G", spread(32, 16).carried_ratio, 0.65, 0.75, 0.70)
    many = max(spread(16 * k, 16).carried_ratio for k in (16, 64))
    yield at_least("V5 16-64 QPs of 100G", many, 0.90, "line rate")
    hashed = predict_rings(leaf_spine(8, 16, 16), _rail_order("random"), 1, range(100))
    less = 1 - float(
        (_pinned(leaf_spine(8, 16, 16)).most_loaded_ratio - 1).mean()
        / (hashed.most_loaded_ratio - 1).mean()
    )
    yield at_least("V6 static paths: less imbalance than ECMP", less, 0.30, "share less")
    speedup = 1 / mean_ring[4]
    comm = (1 - 1 / 1.149) / (1 - 1 / speedup)
    yield between("V7 HPN +14.9 %: communication share that explains it", comm, 0.1, 0.5, 0.33)
    spare = predict_rings(leaf_spine(8, 16, 18), _rail_order("random"), 16, range(100))
    tight, loose = 1 / mean_ring[16], 1 / spare.mean_bps.mean()
    yield between("V8 optimal paths over 16 flows/NIC at 1:1", tight, 1.05, 1.20, 1.16)
    yield between("V8 the same at 1:1.125", loose, 1.0, 1.10, 1.02)

    def time_at(ratio: float) -> float:
        return hierarchical_allreduce_s(1e9, Hierarchy(8, 64, 450e9, 50e9 / ratio))

    yield near("V9 all traffic across a 1:7 tier, slowdown", time_at(7) / time_at(1), 4.4, 0.03)
    yield near("V9 across a 1:2.8 tier, slowdown", time_at(2.8) / time_at(1), 2.0, 0.03)


def _pinned(graph: FabricGraph) -> Prediction:
    return predict_rings(graph, _rail_order("random"), 1, range(100), keys=slice_keys(16))

"""Predict a collective's bandwidth under ECMP: Monte-Carlo over hash seeds, max-min rates.

flows → paths → max-min → rate per connection → slowest hop of each ring. A message waits for
its slowest part, so splitting every message over k QPs gives k·min, dealing whole messages
round-robin gives the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tuner.models.collective import ring_connections
from tuner.models.fabric_graph import FabricGraph
from tuner.models.max_min import link_loads, max_min_rates
from tuner.models.routing import Paths, Router, random_keys

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]
Floats = NDArray[np.float64]
Mode = Literal["round_robin", "split"]
# (sources, targets, QP number within its connection, seed) of every flow → hash values.
KeyMaker = Callable[[Ints, Ints, Ints, int], Keys]
OrderMaker = Callable[[np.random.Generator], Ints]
ConnectionMaker = Callable[[np.random.Generator], tuple[Ints, Ints]]


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Per seed: the slowest ring's and the mean ring's bandwidth, and the fullest link's load.

    `slowest_bps`, `mean_bps`: (seeds,), a ring being as fast as its slowest hop.
    `most_loaded_ratio`: (seeds,) flows on the fullest fabric link over the mean of those used.
    """

    slowest_bps: Floats
    mean_bps: Floats
    most_loaded_ratio: Floats

    def quantiles(self, *, rebalanced: bool = False) -> tuple[float, float, float]:
        """Return p5, p50, p95 of the collective: of its slowest ring, or the mean if rebalanced."""
        values = self.mean_bps if rebalanced else self.slowest_bps
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
        return float(low), float(middle), float(high)


def slice_keys(nics_per_leaf: int) -> KeyMaker:
    """Return the path pinning by destination slice: the NIC's index under its leaf."""

    def keys(_sources: Ints, targets: Ints, _qps: Ints, _seed: int) -> Keys:
        return (targets % nics_per_leaf).astype(np.uint64)

    return keys


def connection_rates(rates_bps: Floats, flows_per_connection: int, mode: Mode) -> Floats:
    """Return the rate of each connection from those of its QPs, which lie side by side."""
    per_connection = rates_bps.reshape(-1, flows_per_connection)
    if mode == "split":
        return np.asarray(flows_per_connection * per_connection.min(axis=1))
    return np.asarray(per_connection.sum(axis=1))


def _imbalance(paths: Paths, graph: FabricGraph) -> float:
    loads = link_loads(paths, np.ones(paths.flows), len(graph.capacity_bps))[2 * graph.nics :]
    used = loads[loads > 0]
    return float(used.max() / used.mean()) if len(used) else 1.0


def predict_rings(
    graph: FabricGraph,
    orders: Ints | OrderMaker,
    flows_per_connection: int,
    seeds: Sequence[int],
    *,
    mode: Mode = "round_robin",
    keys: KeyMaker | None = None,
    sprayed: bool = False,
) -> Prediction:
    """Return the bandwidth of rings that run at once, one value per hash seed.

    `orders`: (rings, members) NIC numbers, or a function that draws them per seed (placement and
    hash vary together). `keys`: None for independent random hashes at every switch; else its
    values are reduced as they are, alike at every tier. Raises NoPathError.
    """
    router = Router(graph)
    capacity = graph.capacity_bps
    slowest, mean, fullest = [], [], []
    for seed in seeds:
        rings = np.atleast_2d(
            orders(np.random.default_rng([seed, 1])) if callable(orders) else orders
        )
        sources, targets = ring_connections(rings)
        if sprayed:
            paths = router.spray(sources, targets)
            hops = max_min_rates(paths, capacity)
        else:
            flow_from = np.repeat(sources, flows_per_connection)
            flow_to = np.repeat(targets, flows_per_connection)
            if keys is None:
                values = random_keys(len(flow_from), seed)
                paths = router.route(flow_from, flow_to, values, seed=seed)
            else:
                qps = np.tile(np.arange(flows_per_connection), len(sources))
                paths = router.route(flow_from, flow_to, keys(flow_from, flow_to, qps, seed))
            hops = connection_rates(max_min_rates(paths, capacity), flows_per_connection, mode)
        per_ring = hops.reshape(rings.shape).min(axis=1)
        slowest.append(per_ring.min())
        mean.append(per_ring.mean())
        fullest.append(_imbalance(paths, graph))
    return Prediction(np.array(slowest), np.array(mean), np.array(fullest))


def predict_connections(
    graph: FabricGraph,
    connections: tuple[Ints, Ints] | ConnectionMaker,
    flows_per_connection: int,
    seeds: Sequence[int],
    *,
    mode: Mode = "round_robin",
) -> list[Floats]:
    """Return per seed the rate in bit/s of every connection, all of which run at once.

    `connections`: (sources, targets) or a function that draws them per seed. A tree or an
    All-to-All goes at the pace of the slowest: take the minimum. Raises NoPathError.
    """
    router = Router(graph)
    rows = []
    for seed in seeds:
        sources, targets = (
            connections(np.random.default_rng([seed, 1])) if callable(connections) else connections
        )
        flow_from = np.repeat(sources, flows_per_connection)
        flow_to = np.repeat(targets, flows_per_connection)
        paths = router.route(flow_from, flow_to, random_keys(len(flow_from), seed), seed=seed)
        rates = max_min_rates(paths, graph.capacity_bps)
        rows.append(connection_rates(rates, flows_per_connection, mode))
    return rows


def rail_rings(order: Ints, nics_per_node: int) -> Ints:
    """Return one ring per rail over nodes in this order: (rails, nodes) NIC numbers.

    NIC r of node n is n·nics_per_node + r.
    """
    return np.asarray(order[None, :] * nics_per_node + np.arange(nics_per_node)[:, None])


def hops_across(order: Ints, group_of: Ints) -> int:
    """Return how many hops of a ring cross groups (pods, racks): its cut.

    A ring that visits groups one after another crosses as often as there are groups.
    """
    return int((group_of[order] != group_of[np.roll(order, -1)]).sum())


def oversubscribed_rate(nic_bps: float, rings_across: int, group_uplink_bps: float) -> float:
    """Return a ring's rate when so many rings leave each group through this much up-link."""
    if rings_across == 0:
        return nic_bps
    return min(nic_bps, group_uplink_bps / rings_across)

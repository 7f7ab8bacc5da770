"""A fabric as arrays: NICs on leaf switches, directed links between switches, capacities."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class FabricGraph:
    """NICs 0..H-1, switches 0..S-1, directed fabric links 0..L-1; rates in bit/s.

    Link numbers in paths and loads: 0..H-1 NIC to leaf, H..2H-1 leaf to NIC, then the fabric
    links. `tier` of a switch: 0 leaf, 1 above it, and so on. `link_weight` is the WCMP weight.
    Raises ValueError for ends that do not exist.
    """

    nic_leaf: Ints
    nic_bps: Floats
    tier: Ints
    link_from: Ints
    link_to: Ints
    link_bps: Floats
    link_weight: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        if len(self.link_weight) == 0:
            object.__setattr__(self, "link_weight", np.ones(len(self.link_from), dtype=np.int64))
        for name, ends in (
            ("nic_leaf", self.nic_leaf),
            ("link_from", self.link_from),
            ("link_to", self.link_to),
        ):
            if len(ends) and not 0 <= ends.min() <= ends.max() < len(self.tier):
                raise ValueError(f"{name} names a switch outside 0..{len(self.tier) - 1}")
        lengths = {len(self.link_from), len(self.link_to), len(self.link_bps)}
        if len(lengths | {len(self.link_weight)}) != 1 or len(self.nic_leaf) != len(self.nic_bps):
            raise ValueError("link or NIC arrays differ in length")

    @property
    def nics(self) -> int:
        """Number of NICs."""
        return len(self.nic_leaf)

    @property
    def switches(self) -> int:
        """Number of switches."""
        return len(self.tier)

    @property
    def capacity_bps(self) -> Floats:
        """Capacity by link number: NIC up, NIC down, fabric."""
        return np.concatenate([self.nic_bps, self.nic_bps, self.link_bps])

    def without_links(self, links: Ints) -> FabricGraph:
        """Return the fabric after these fabric links (0..L-1) have failed."""
        keep = np.ones(len(self.link_from), dtype=bool)
        keep[links] = False
        return replace(
            self,
            link_from=self.link_from[keep],
            link_to=self.link_to[keep],
            link_bps=self.link_bps[keep],
            link_weight=self.link_weight[keep],
        )


def _both_ways(up_from: Ints, up_to: Ints, bps: Floats) -> tuple[Ints, Ints, Floats]:
    return (
        np.concatenate([up_from, up_to]),
        np.concatenate([up_to, up_from]),
        np.concatenate([bps, bps]),
    )


def leaf_spine(
    leaves: int,
    nics_per_leaf: int,
    spines: int,
    *,
    nic_bps: float = 1.0,
    uplink_bps: float = 1.0,
    parallel: int = 1,
) -> FabricGraph:
    """Return a two-tier Clos; `parallel` links between each leaf and each spine.

    NIC numbers run leaf by leaf; up-links come first, leaf by leaf, then the down-links.
    """
    up_from = np.repeat(np.arange(leaves), spines * parallel)
    up_to = np.tile(np.repeat(leaves + np.arange(spines), parallel), leaves)
    link_from, link_to, bps = _both_ways(up_from, up_to, np.full(len(up_from), uplink_bps))
    return FabricGraph(
        nic_leaf=np.repeat(np.arange(leaves), nics_per_leaf),
        nic_bps=np.full(leaves * nics_per_leaf, nic_bps),
        tier=np.repeat([0, 1], [leaves, spines]),
        link_from=link_from,
        link_to=link_to,
        link_bps=bps,
    )


def three_tier(
    pods: int,
    leaves_per_pod: int,
    nics_per_leaf: int,
    aggregations_per_pod: int,
    cores_per_aggregation: int,
    *,
    nic_bps: float = 1.0,
    leaf_uplink_bps: float = 1.0,
    aggregation_uplink_bps: float = 1.0,
) -> FabricGraph:
    """Return a three-tier Clos in planes: aggregation a of every pod meets the cores of plane a.

    Switch numbers: leaves pod by pod, aggregations pod by pod, cores plane by plane.
    """
    leaves, aggregations = pods * leaves_per_pod, pods * aggregations_per_pod
    cores = aggregations_per_pod * cores_per_aggregation
    leaf = np.arange(leaves)
    leaf_from = np.repeat(leaf, aggregations_per_pod)
    first = leaves + leaf // leaves_per_pod * aggregations_per_pod
    leaf_to = (first[:, None] + np.arange(aggregations_per_pod)).ravel()
    aggregation = np.arange(aggregations)
    agg_from = np.repeat(leaves + aggregation, cores_per_aggregation)
    plane = aggregation % aggregations_per_pod
    agg_to = leaves + aggregations + plane[:, None] * cores_per_aggregation
    agg_to = (agg_to + np.arange(cores_per_aggregation)).ravel()
    bps = np.concatenate(
        [np.full(len(leaf_from), leaf_uplink_bps), np.full(len(agg_from), aggregation_uplink_bps)]
    )
    link_from, link_to, bps = _both_ways(
        np.concatenate([leaf_from, agg_from]), np.concatenate([leaf_to, agg_to]), bps
    )
    return FabricGraph(
        nic_leaf=np.repeat(leaf, nics_per_leaf),
        nic_bps=np.full(leaves * nics_per_leaf, nic_bps),
        tier=np.repeat([0, 1, 2], [leaves, aggregations, cores]),
        link_from=link_from,
        link_to=link_to,
        link_bps=bps,
    )

"""Which links a flow takes: shortest paths of any fabric, one hashed choice per switch.

Three ways to choose: every switch hashes on its own ("independent"), switches reduce one given
hash value per tier (real CRC values, polarisation, path pinning), or the flow is sprayed over
all equal-cost paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np
from numpy.typing import NDArray

from tuner.models.fabric_graph import FabricGraph

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]
Hops = NDArray[np.int16]
UNREACHABLE = np.int16(32767)


class NoPathError(ValueError):
    """Two NICs have no path; the text names them and their leaves."""


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Links of each flow, compressed: those of flow i are links[start[i]:start[i+1]].

    `share` is the part of the flow on each link: 1 everywhere unless sprayed.
    """

    start: Ints
    links: Ints
    share: Floats

    @property
    def flows(self) -> int:
        """Number of flows."""
        return len(self.start) - 1


@numba.njit(cache=True, nogil=True)
def _distances(leaves: Ints, into: Ints, into_start: Ints, switches: int) -> Hops:
    """Breadth-first hops from every switch to each leaf; into: senders by receiving switch."""
    out = np.full((len(leaves), switches), UNREACHABLE, dtype=np.int16)
    queue = np.empty(switches, dtype=np.int64)
    for row in range(len(leaves)):
        hops = out[row]
        hops[leaves[row]] = 0
        queue[0] = leaves[row]
        head, tail = 0, 1
        while head < tail:
            at = queue[head]
            head += 1
            for k in range(into_start[at], into_start[at + 1]):
                sender = into[k]
                if hops[sender] == UNREACHABLE:
                    hops[sender] = hops[at] + 1
                    queue[tail] = sender
                    tail += 1
    return out


@numba.njit(cache=True, inline="always")
def _mixed(value: np.uint64) -> np.uint64:
    """Finish a 64-bit value as splitmix64 does (S. Vigna, public domain algorithm)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@numba.njit(cache=True, nogil=True)
def _walk(
    sources: Ints,
    targets: Ints,
    keys: Keys,
    salts: Keys,
    tier: Ints,
    leaf: Ints,
    row_of_leaf: Ints,
    hops: Hops,
    out_start: Ints,
    out_link: Ints,
    out_to: Ints,
    weight: Ints,
    start: Ints,
    links: Ints,
) -> None:
    """Fill `links`; keys: (tiers or 1, flows), salts: per switch, empty to use keys as they are."""
    nics = len(leaf)
    candidates = np.empty(len(out_link), dtype=np.int64)
    for i in range(len(sources)):
        at = leaf[sources[i]]
        row = hops[row_of_leaf[leaf[targets[i]]]]
        place = start[i]
        links[place] = sources[i]
        place += 1
        while row[at] > 0:
            count, total = 0, 0
            for k in range(out_start[at], out_start[at + 1]):
                if row[out_to[k]] == row[at] - 1:
                    candidates[count] = k
                    count += 1
                    total += weight[k]
            value = keys[min(tier[at], len(keys) - 1), i]
            if len(salts):
                value = _mixed(value ^ salts[at])
            pick = np.int64(value % np.uint64(total))
            if total == count:  # every weight is 1
                chosen = candidates[pick]
            else:
                chosen = candidates[0]
                for c in range(count):
                    pick -= weight[candidates[c]]
                    if pick < 0:
                        chosen = candidates[c]
                        break
            links[place] = 2 * nics + out_link[chosen]
            place += 1
            at = out_to[chosen]
        links[place] = nics + targets[i]


@dataclass(frozen=True, eq=False)
class Router:
    """Shortest-path routing of one fabric; building it once serves any number of seeds."""

    graph: FabricGraph

    @cached_property
    def _leaves(self) -> Ints:
        return np.unique(self.graph.nic_leaf)

    @cached_property
    def _row_of_leaf(self) -> Ints:
        rows = np.full(self.graph.switches, -1, dtype=np.int64)
        rows[self._leaves] = np.arange(len(self._leaves))
        return rows

    @cached_property
    def _out(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.graph.link_from, kind="stable")
        bounds = np.searchsorted(self.graph.link_from[order], np.arange(self.graph.switches + 1))
        return bounds.astype(np.int64), order

    @cached_property
    def hops(self) -> Hops:
        """Hops from every switch to each leaf with NICs: (leaves, switches)."""
        order = np.argsort(self.graph.link_to, kind="stable")
        bounds = np.searchsorted(self.graph.link_to[order], np.arange(self.graph.switches + 1))
        senders = self.graph.link_from[order]
        return np.asarray(_distances(self._leaves, senders, bounds, self.graph.switches))

    def _lengths(self, sources: Ints, targets: Ints) -> Ints:
        leaf = self.graph.nic_leaf
        between = self.hops[self._row_of_leaf[leaf[targets]], leaf[sources]]
        lost = np.flatnonzero(between == UNREACHABLE)
        if len(lost):
            a, b = sources[lost[0]], targets[lost[0]]
            raise NoPathError(f"NIC {a} (leaf {leaf[a]}) has no path to NIC {b} (leaf {leaf[b]})")
        return between.astype(np.int64)

    def route(self, sources: Ints, targets: Ints, keys: Keys, seed: int | None = None) -> Paths:
        """Return one hashed path per flow from NIC to NIC.

        `keys`: (flows,) or (tiers, flows) hash values. With a `seed` every switch mixes them
        with a salt of its own (independent choices); without, each tier reduces its row by
        modulo as it is. Raises NoPathError.
        """
        between = self._lengths(sources, targets)
        start = np.concatenate([[0], np.cumsum(between + 2)]).astype(np.int64)
        links = np.empty(int(start[-1]), dtype=np.int64)
        out_start, order = self._out
        salts = np.zeros(0, dtype=np.uint64)
        if seed is not None:
            draw = np.random.default_rng(seed)
            salts = draw.integers(0, 2**64, self.graph.switches, dtype=np.uint64)
        _walk(
            sources, targets, np.atleast_2d(keys), salts, self.graph.tier, self.graph.nic_leaf,
            self._row_of_leaf, self.hops, out_start, order, self.graph.link_to[order],
            self.graph.link_weight[order], start, links,
        )  # fmt: skip
        return Paths(start, links, np.ones(len(links)))

    def spray(self, sources: Ints, targets: Ints) -> Paths:
        """Return every flow spread over all its shortest paths, per packet, by link weight.

        Raises NoPathError.
        """
        self._lengths(sources, targets)
        leaf, nics = self.graph.nic_leaf, self.graph.nics
        between: dict[tuple[int, int], tuple[Ints, Floats]] = {}
        links: list[Ints] = []
        shares: list[Floats] = []
        counts: list[int] = []
        for a, b in zip(sources.tolist(), targets.tolist(), strict=True):
            pair = int(leaf[a]), int(leaf[b])
            if pair not in between:
                between[pair] = self._split(*pair)
            inner, part = between[pair]
            links.append(np.concatenate([[a], inner + 2 * nics, [nics + b]]))
            shares.append(np.concatenate([[1.0], part, [1.0]]))
            counts.append(len(inner) + 2)
        start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Paths(start, np.concatenate(links).astype(np.int64), np.concatenate(shares))

    def _split(self, source: int, target: int) -> tuple[Ints, Floats]:
        """Return (links, share) of the traffic from leaf to leaf."""
        row = self.hops[self._row_of_leaf[target]]
        out_start, order = self._out
        flow = {source: 1.0}
        links: list[int] = []
        shares: list[float] = []
        while flow.keys() != {target}:
            onward: dict[int, float] = {}
            for at, amount in flow.items():
                outs = order[out_start[at] : out_start[at + 1]]
                outs = outs[row[self.graph.link_to[outs]] == row[at] - 1]
                parts = amount * self.graph.link_weight[outs] / self.graph.link_weight[outs].sum()
                for link, part in zip(outs.tolist(), parts.tolist(), strict=True):
                    to = int(self.graph.link_to[link])
                    onward[to] = onward.get(to, 0.0) + part
                    links.append(link)
                    shares.append(part)
            flow = onward
        return np.array(links, dtype=np.int64), np.array(shares)


def random_keys(flows: int, seed: int) -> Keys:
    """Return one uniformly random hash value per flow."""
    return np.random.default_rng(seed).integers(0, 2**64, flows, dtype=np.uint64)

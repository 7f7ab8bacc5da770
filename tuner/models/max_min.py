"""Max-min fair rates of flows on links: what PFC and DCQCN settle at, near enough.

Progressive filling with a heap of links by fair share. A share can only rise while flows freeze
at lower levels, so a link's key is corrected when it comes to the top, never before.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from tuner.models.routing import Paths

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_NOTHING_LEFT = 1e-9


@numba.njit(cache=True, nogil=True)
def _sift_down(key: Floats, item: Ints, size: int, at: int) -> None:
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and key[child + 1] < key[child]:
            child += 1
        if key[at] <= key[child]:
            return
        key[at], key[child] = key[child], key[at]
        item[at], item[child] = item[child], item[at]
        at = child


@numba.njit(cache=True, nogil=True)
def _by_link(start: Ints, links: Ints, count: int) -> tuple[Ints, Ints]:
    """Return (first, flow): the flows on link l are flow[first[l]:first[l+1]]."""
    first = np.zeros(count + 1, dtype=np.int64)
    for link in links:
        first[link + 1] += 1
    for link in range(count):
        first[link + 1] += first[link]
    place = first[:-1].copy()
    flow = np.empty(len(links), dtype=np.int64)
    for i in range(len(start) - 1):
        for k in range(start[i], start[i + 1]):
            flow[place[links[k]]] = i
            place[links[k]] += 1
    return first, flow


@numba.njit(cache=True, nogil=True)
def _fill(start: Ints, links: Ints, share: Floats, capacity: Floats) -> Floats:
    count = len(capacity)
    first, flow = _by_link(start, links, count)
    weight = np.zeros(count)
    for k in range(len(links)):
        weight[links[k]] += share[k]
    left = capacity.copy()
    key = np.empty(count)
    item = np.empty(count, dtype=np.int64)
    size = 0
    for link in range(count):
        if weight[link] > 0:
            key[size] = left[link] / weight[link]
            item[size] = link
            size += 1
    for at in range(size // 2 - 1, -1, -1):
        _sift_down(key, item, size, at)
    rates = np.full(len(start) - 1, -1.0)
    while size > 0:
        link = item[0]
        level = left[link] / weight[link] if weight[link] > _NOTHING_LEFT else np.inf
        if level > key[0] * (1 + 1e-12) and level < np.inf:
            key[0] = level
        else:
            if level < np.inf:
                level = max(level, 0.0)
                for k in range(first[link], first[link + 1]):
                    i = flow[k]
                    if rates[i] < 0:
                        rates[i] = level
                        for m in range(start[i], start[i + 1]):
                            left[links[m]] -= level * share[m]
                            weight[links[m]] -= share[m]
            size -= 1
            key[0] = key[size]
            item[0] = item[size]
        _sift_down(key, item, size, 0)
    return rates


def max_min_rates(paths: Paths, capacity_bps: Floats) -> Floats:
    """Return the max-min fair rate of each flow in bit/s.

    A sprayed flow loads each link with its share of the rate and is held by the fullest.
    """
    return np.asarray(_fill(paths.start, paths.links, paths.share, capacity_bps))


def link_loads(paths: Paths, rates_bps: Floats, links: int) -> Floats:
    """Return the load of each link in bit/s, by link number."""
    per_link = np.repeat(rates_bps, np.diff(paths.start)) * paths.share
    return np.bincount(paths.links, weights=per_link, minlength=links).astype(np.float64)

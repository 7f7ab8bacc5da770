"""Records of which each says only where the next one is, found by numpy all the same.

One chain cannot be followed by numpy. Many can: chains are begun at places that look like a
record's header and followed in step. A chain counts only where the one before it, which is known
to be right, runs into its start; so a wrong guess costs time and nothing else.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Raw = bytes | mmap.mmap
Bytes = NDArray[np.uint8]
Column = NDArray[np.int64]
Columns = tuple[Column, Column, Column, Column]  # start, captured, length, time

ETHERNET: Final = 1
CHUNK: Final = 250_000  # frames that are handed on at once
BLOCK: Final = 32 << 20  # bytes whose records are looked for in many places at once
STRIDE: Final = 64 << 10  # bytes from one such place to the next
LARGEST: Final = 1 << 18  # bytes of a frame that a guess believes in


@dataclass(frozen=True, slots=True)
class Layout:
    """How a record says where the next is: a word of 32 bits at `size_at`, plus `extra` bytes.

    header: bytes of a record without its data. least: bytes of the smallest record.
    """

    order: str
    size_at: int
    extra: int
    header: int
    least: int


def words(data: Bytes, places: Column, count: int, order: str) -> NDArray[np.uint32]:
    """Return `count` words of 32 bits from each place on, one row each."""
    windows = np.lib.stride_tricks.sliding_window_view(data, 4 * count)
    rows: NDArray[np.uint32] = windows[places].view(order + "u4")
    return rows


def in_step(
    data: Bytes, starts: Sequence[int], end: int, layout: Layout
) -> tuple[Column, int, bool]:
    """Return where records begin, what follows the last, and whether most guesses were right.

    starts: places to begin at in ascending order, of which the first is known to be right. end:
    no record is begun at or after it.
    """
    first = np.array(starts, np.int64)
    stops = np.append(first[1:], end)
    place, steps = first.copy(), []
    running = np.arange(len(first))
    while len(running):
        here = place[running]
        size = words(data, here + layout.size_at, 1, layout.order)[:, 0].astype(np.int64)
        size += layout.extra
        whole = (size >= layout.least) & (here + size <= len(data))
        running, here = running[whole], here[whole]
        steps.append((running, here))
        place[running] = here + size[whole]
        inside = place[running] <= len(data) - layout.header
        running = running[inside & (place[running] < stops[running])]
    met = place[:-1] == first[1:]
    good = len(first) if met.all() else int(met.argmin()) + 1
    chains = np.concatenate([chain for chain, _ in steps])
    places = np.concatenate([here for _, here in steps])
    kept = places[chains < good]
    kept.sort()
    return kept, int(place[good - 1]), 2 * good > len(first)

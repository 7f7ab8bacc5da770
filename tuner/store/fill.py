"""Segments into memory: few one item after the other, many in bulk, with the same result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from collectors.model.errors import Malformed
from collectors.wire import telemetry_pb2 as pb
from tuner.store.memory import MemoryStore
from tuner.store.span import read_once

Refused: TypeAlias = Callable[[Malformed], None]
"""Takes what is wrong with an item; it costs no other."""
Progress: TypeAlias = Callable[[int], None]
"""Called now and then with the number of items that came."""
TookFacts: TypeAlias = Callable[[pb.Facts], None]
"""Called with facts that are in the store now, in the order in which they came."""

_LARGE: Final = 16 << 20  # bytes from which on the compiled reader is worth its start
_TELL_EVERY: Final = 1024


def fill_from_segments(
    store: MemoryStore,
    paths: Sequence[Path],
    refused: Refused,
    *,
    progress: Progress | None = None,
    took: TookFacts | None = None,
) -> None:
    """Take what segments hold into an empty store, every batch once.

    Damage of a segment costs its rest, which is logged.
    """
    if sum(path.stat().st_size for path in paths) >= _LARGE:
        from tuner.store.replay import replay
        from tuner.store.unpack import USABLE

        if USABLE:
            replay(store, paths, refused, progress=progress, took=took)
            return
    fill(store, read_once(paths), refused, progress=progress, took=took)


def fill(
    store: MemoryStore,
    items: Iterator[pb.Item],
    refused: Refused,
    *,
    progress: Progress | None = None,
    took: TookFacts | None = None,
) -> None:
    """Take items into a store, one after the other."""
    for number, item in enumerate(items, 1):
        if progress is not None and number % _TELL_EVERY == 0:
            progress(number)
        try:
            store.add(item)
        except Malformed as error:
            refused(error)
            continue
        if took is not None and item.HasField("facts"):
            took(item.facts)

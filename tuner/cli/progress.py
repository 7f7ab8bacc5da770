"""Progress on stderr for what takes longer than two seconds, on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_QUIET_S = 2.0
_EVERY_S = 0.25


@contextmanager
def counting(what: str, of: str = "items") -> Iterator[Callable[[int], None]]:
    """Give a function to call with the number of items (or what `of` says) so far."""
    shown = [0.0]
    due = [time.monotonic() + _QUIET_S]
    terminal = sys.stderr.isatty()

    def count(items: int) -> None:
        now = time.monotonic()
        if terminal and now >= due[0]:
            due[0], shown[0] = now + _EVERY_S, now
            print(f"\r{what}: {items} {of}", end="", file=sys.stderr, flush=True)

    yield count
    if shown[0]:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)

"""Progress on stderr for what takes longer than two seconds, on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_QUIET_S = 2.0
_EVERY_S = 0.25


@contextmanager
def counting(
    what: str, of: str = "items", share: Callable[[], float] | None = None
) -> Iterator[Callable[[int], None]]:
    """Give a function to call with the number of items (or what `of` says) so far.

    share: how much of the whole is done, 0 to 1; without it the whole is not known, and the time
    that it took so far is shown.
    """
    shown = False
    begun = time.monotonic()
    due = begun + _QUIET_S
    terminal = sys.stderr.isatty()

    def count(items: int) -> None:
        nonlocal shown, due
        now = time.monotonic()
        if terminal and now >= due:
            due, shown = now + _EVERY_S, True
            far = f"{now - begun:.0f} s so far" if share is None else f"{min(share(), 1.0):.0%}"
            print(f"\r\x1b[K{what}: {items:,} {of}, {far}", end="", file=sys.stderr, flush=True)

    yield count
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)

"""Counter arithmetic: what happened between two readings of one counter.

Three different things can make a counter go back, and each is told apart here by the width and
overflow of its column: it *wrapped* (32-bit hardware behind a 64-bit text), it was *reset*
(driver reload, `perfquery -R`), or it is *saturated* (InfiniBand PMA counters stick at their
maximum and say nothing more until somebody clears them).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from collectors.model.metric import Column

Event: TypeAlias = Literal["none", "wrap", "reset", "saturated"]


@dataclass(frozen=True, slots=True)
class Delta:
    """The growth of a counter between two readings, in native units.

    value: growth; after a reset, what has been counted since; with `saturated`, a lower bound.
    event: what happened besides counting.
    """

    value: float
    event: Event = "none"

    @property
    def exact(self) -> bool:
        """False where the true growth may have been more."""
        return self.event not in ("reset", "saturated")


def delta(column: Column, before: float, after: float, *, same_incarnation: bool = True) -> Delta:
    """Return the growth from one reading to the next.

    A decrease of a wrapping counter is a wrap only where the growth that this implies is less
    than half its range: a counter that fell from 100 to 5 was reset, one that fell from
    2^32-10 to 5 wrapped. A 64-bit counter never wraps in practice. A float counter can only be
    reset.
    """
    if not same_incarnation:
        return Delta(after, "reset")
    saturates = column.overflow == "saturates" and column.number == "int"
    if saturates and after >= column.modulus - 1:
        return Delta(max(after - before, 0), "saturated")
    if after >= before:
        return Delta(after - before)
    if saturates or column.number == "float" or column.width >= 64:
        return Delta(after, "reset")
    wrapped = after - before + column.modulus
    if 0 <= wrapped < column.modulus // 2:
        return Delta(wrapped, "wrap")
    return Delta(after, "reset")

"""Counter arithmetic on whole arrays: `collectors.model.counters.delta`, vectorised.

A property test holds the two equal. Native values stay integers of 64 bits throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from collectors.model.metric import Column

Ints: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Values: TypeAlias = npt.NDArray[Any]
"""Native values of one kind: uint64 or float64."""
Events: TypeAlias = npt.NDArray[np.uint8]

NONE: Final = 0
WRAP: Final = 1
RESET: Final = 2
SATURATED: Final = 3
EVENT_NAMES: Final = ("none", "wrap", "reset", "saturated")  # by code, as counters.Event


@dataclass(frozen=True)
class Rules:
    """What the arithmetic must know of n columns, as arrays of shape (n,)."""

    top: Words  # largest native value: 2^width - 1
    wraps: Bools  # below 64 bits and not saturating: a decrease may be a wrap
    saturates: Bools

    def take(self, places: Ints) -> Rules:
        """Return the rules of some of the columns, or of cells by their column."""
        return Rules(self.top[places], self.wraps[places], self.saturates[places])


def rules_of(columns: Sequence[Column]) -> Rules:
    """Return the rules of columns; those of float columns mean nothing."""
    return Rules(
        np.array([c.modulus - 1 for c in columns], dtype=np.uint64),
        np.array([c.overflow == "wraps" and c.width < 64 for c in columns], dtype=np.bool_),
        np.array([c.overflow == "saturates" for c in columns], dtype=np.bool_),
    )


def deltas(before: Values, after: Values, same: Bools, rules: Rules) -> tuple[Values, Events]:
    """Return growth in native units and event codes between two sets of readings.

    before, after: shape (..., n), all integers or all floats. same: the incarnation did not
    change, shape (..., n). rules: of the n cells.
    """
    if after.dtype == np.uint64:
        return _int_deltas(before, after, same, rules)
    reset = (after < before) | ~same
    grown = np.where(reset, after, after - before)
    return grown, np.where(reset, RESET, NONE).astype(np.uint8)


def _int_deltas(before: Words, after: Words, same: Bools, rules: Rules) -> tuple[Words, Events]:
    """A decrease that implies growth below half the range is a wrap, any other a reset."""
    grown = after - before
    events = np.zeros(after.shape, dtype=np.uint8)
    fell = after < before
    if fell.any():
        gap = np.where(fell, before - after, np.uint64(0))
        half = rules.top // np.uint64(2) + np.uint64(1)
        # gap <= modulus, written so that 2^64 is never needed
        wrapped = fell & rules.wraps & (gap > half) & (gap - np.uint64(1) <= rules.top)
        reset = fell & ~wrapped
        grown = np.where(wrapped, (rules.top - gap) + np.uint64(1), grown)
        grown = np.where(reset, after, grown)
        events[wrapped] = WRAP
        events[reset] = RESET
    if rules.saturates.any():
        stuck = rules.saturates & (after >= rules.top)
        grown = np.where(stuck & fell, np.uint64(0), grown)
        events[stuck] = SATURATED
    if not same.all():
        anew = np.broadcast_to(~same, after.shape)
        grown = np.where(anew, after, grown)
        events[anew] = RESET
    return grown, events

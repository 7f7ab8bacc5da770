"""The engine's unit of time, whole picoseconds, and what it makes of times and rates."""

from __future__ import annotations

from fractions import Fraction

PS_PER_S = 10**12


def ps(seconds: float) -> int:
    """Return a time in whole picoseconds."""
    return round(seconds * PS_PER_S)


def ps_per_byte(rate_bps: float) -> Fraction:
    """Return how many picoseconds a byte takes at a rate of whole bit/s, exactly."""
    return Fraction(8 * PS_PER_S, round(rate_bps))

"""One comparison of the science bench: ours beside the published value, and the bound."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """`ratio` is what is held against `limit`: a deviation for "<=", else as its unit says."""

    name: str
    ours: float
    reference: float
    ratio: float
    op: str
    limit: float
    unit: str
    reason: str = ""

    @property
    def passes(self) -> bool:
        """Whether the bound holds."""
        return self.ratio <= self.limit if self.op == "<=" else self.ratio >= self.limit


def near(name: str, ours: float, reference: float, limit: float, reason: str = "") -> Check:
    """Relative deviation at most `limit`."""
    deviation = abs(ours / reference - 1) if reference else abs(ours)
    return Check(name, float(ours), reference, float(deviation), "<=", limit, "deviation", reason)


def within(name: str, ours: float, reference: float, limit: float, unit: str) -> Check:
    """Absolute deviation at most `limit`, in `unit`."""
    return Check(name, float(ours), reference, float(abs(ours - reference)), "<=", limit, unit)


def same(name: str, wrong: int, of: int) -> Check:
    """No mismatch among so many exact values."""
    return Check(name, float(of - wrong), float(of), float(wrong), "<=", 0, "mismatches")


def between(
    name: str, ours: float, low: float, high: float, reference: float, reason: str = ""
) -> Check:
    """Ours lies in a published span: distance outside it is 0."""
    outside = float(max(low - ours, ours - high, 0.0))
    return Check(name, float(ours), reference, outside, "<=", 0, f"outside {low}..{high}", reason)


def at_least(name: str, ours: float, reference: float, unit: str) -> Check:
    """Ours is the reference or more."""
    return Check(name, float(ours), reference, float(ours / reference), ">=", 1.0, unit)


def at_most(name: str, ours: float, reference: float, unit: str) -> Check:
    """Ours is the reference or less."""
    return Check(name, float(ours), reference, float(ours / reference), "<=", 1.0, unit)

"""Values, predictions and times in words, the same in tables, reports and plans."""

from __future__ import annotations

from datetime import UTC, datetime

from collectors.model.facts import Value
from tuner.advice.recommendation import Effect


def effect(item: Effect) -> str:
    """Return a prediction in one line."""
    if item.unit == "ratio":
        return f"{item.metric}: ×{item.low:.2f}..{item.high:.2f}"
    if item.unit == "bps" and max(item.high, item.before or 0) >= 1e9:
        before = "?" if item.before is None else f"{item.before / 1e9:.2f}"
        return f"{item.metric}: {before} → {item.low / 1e9:.2f}..{item.high / 1e9:.2f} Gbit/s"
    if item.unit == "bps":
        before = "?" if item.before is None else f"{item.before / 1e6:.2f}"
        return f"{item.metric}: {before} → {item.low / 1e6:.2f}..{item.high / 1e6:.2f} Mbit/s"
    if item.unit == "seconds":
        before = "?" if item.before is None else f"{item.before:.4g}"
        return f"{item.metric}: {before} → {item.low:.4g}..{item.high:.4g} s"
    before = "now unknown" if item.before is None else f"{item.before:.1f}"
    return f"{item.metric}: {before} → {item.low:.1f}..{item.high:.1f}"


def value(of: Value | float, unit: str) -> str:
    """Return a value with its unit for people."""
    if isinstance(of, tuple):
        return " ".join(str(part) for part in of)
    if isinstance(of, bool) or not isinstance(of, (int, float)):
        return str(of)
    if unit == "bps" and of >= 1e9:
        return f"{of / 1e9:g} Gbit/s"
    if unit == "bps" and of >= 1e6:
        return f"{of / 1e6:g} Mbit/s"
    number = f"{of:,.0f}" if isinstance(of, int) or of.is_integer() else f"{of:,.4g}"
    return f"{number} {unit}".strip() if unit not in ("id", "bool", "count") else number


def clock(at_ns: int) -> str:
    """Return a wall-clock time in UTC."""
    return datetime.fromtimestamp(at_ns / 1e9, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

"""Values, predictions and times in words, the same in tables, reports and plans."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import UTC, datetime

from collectors.model.catalogue.settings import SETTINGS
from collectors.model.facts import Value
from collectors.model.units import quantity
from tuner.advice.knobs.knob import shown
from tuner.advice.recommendation import Effect
from tuner.diagnosis.finding import Evidence


def effect(item: Effect) -> str:
    """Return a prediction in one line."""
    return f"{item.metric}: {_course(item)}"


def predictions(effects: Iterable[Effect]) -> list[str]:
    """Return the predictions that tell of a change: not that nothing stays nothing."""
    return [effect(item) for item in effects if item.before or item.low or item.high]


def _course(item: Effect) -> str:
    """Return before and after; a factor of what is 1 now as such, shares as percent."""
    if item.unit == "ratio" and item.before == 1.0 < item.high:
        return f"×{item.low:.2f} to {item.high:.2f}"
    low, high = (quantity(number, item.unit) for number in (item.low, item.high))
    after = low if low == high else f"{_less_unit(low, high)} to {high}"
    if item.before is None:
        vague = item.unit == "ratio" and (item.low, item.high) == (0.0, 1.0)
        return "less; by how much is not known" if vague else after
    before = quantity(item.before, item.unit)
    if item.unit == "ratio" and item.low == 0.0 and 0.0 < item.before <= item.high:
        return f"{before} → less; by how much is not known"
    return f"{before}, unchanged" if before == low == high else f"{before} → {after}"


def _less_unit(low: str, high: str) -> str:
    """Return the lower end of an interval without the unit that its upper end names, too."""
    number, _, unit = low.rpartition(" ")
    return number if number and high.endswith(f" {unit}") else low


def value(of: Value | float, unit: str, *, exact: bool = False) -> str:
    """Return a value with its unit for people."""
    if isinstance(of, bool) or not isinstance(of, (int, float)):
        return shown(of)
    return quantity(of, unit, exact=exact)


def observed(item: Evidence) -> str:
    """Return what was observed for people; a setting that is kept as text with its unit."""
    row = SETTINGS.get(item.name)
    if isinstance(item.value, str) and row is not None and row.unit not in ("", "bool"):
        with contextlib.suppress(ValueError):
            return quantity(float(item.value), row.unit, exact=True)
    return value(item.value, item.unit)


def clock(at_ns: int) -> str:
    """Return a wall-clock time in UTC."""
    return datetime.fromtimestamp(at_ns / 1e9, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

"""Growth of all counters of a window at once.

Where a counter neither fell nor stuck nor began anew, the sum of its steps is last minus first;
the others, and those with absent readings, go through the arithmetic step by step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from collectors.model.metric import Column
from tuner.store.arithmetic import (
    RESET,
    SATURATED,
    WRAP,
    Bools,
    Events,
    Floats,
    Ints,
    Rules,
    Values,
    deltas,
    rules_of,
)
from tuner.store.panel import Half, Panel

_CHUNK: Final = 1 << 20  # readings of one step of arithmetic: bounds the temporary arrays


@dataclass(frozen=True)
class HalfGrowth:
    """Growth of the integer or the float cells, arrays of shape (n,); totals in native units."""

    total: Values
    rough: Floats  # the same as float, where the integer sum may have overflowed
    seconds: Floats
    samples: Ints
    first_at: Ints
    last_at: Ints
    resets: Ints
    wraps: Ints
    saturated: Bools


_NAMES: Final = tuple(HalfGrowth.__dataclass_fields__)


def growth_of(
    panels: Sequence[Panel], halves: Sequence[Half], columns: Sequence[Column], column: Ints
) -> HalfGrowth:
    """Return the growth of every cell of the halves, one half after the other.

    columns, column: all columns, and of each cell the number of its own. What is said of cells
    that are no counters means nothing.
    """
    grown = _nothing(len(column), halves[0].values.dtype if halves else np.dtype(np.uint64))
    rules = rules_of(columns)
    counts = np.array([one.kind == "counter" for one in columns], np.bool_)
    start = 0
    for panel, half in zip(panels, halves, strict=True):
        samples, cells = half.values.shape
        here, start = slice(start, start + cells), start + cells
        if not samples or not cells:
            continue
        part, own = _views(grown, here), column[here]
        if half.present is None or half.present.all():
            odd = _straight(panel, half, part, rules, own)
            for places in _runs(np.flatnonzero(odd & counts[own]), samples):
                _step(panel, half, part, places, rules.take(own[places]))
        else:
            for places in _runs(np.arange(cells), samples):
                _leap(panel, half, part, places, rules.take(own[places]))
    return grown


def _nothing(cells: int, dtype: np.dtype[Any]) -> HalfGrowth:
    total = np.zeros(cells, dtype)
    rough, seconds = np.zeros(cells), np.zeros(cells)
    samples, first_at, last_at, resets, wraps = (np.zeros(cells, np.int64) for _ in range(5))
    saturated = np.zeros(cells, np.bool_)
    return HalfGrowth(total, rough, seconds, samples, first_at, last_at, resets, wraps, saturated)


def _views(grown: HalfGrowth, here: slice) -> HalfGrowth:
    return HalfGrowth(*(getattr(grown, name)[here] for name in _NAMES))


def _runs(places: Ints, samples: int) -> Iterator[Ints]:
    """Yield places in parts of which all readings together are not too many."""
    run = max(1, _CHUNK // samples)
    for begin in range(0, len(places), run):
        yield places[begin : begin + run]


def _straight(panel: Panel, half: Half, part: HalfGrowth, rules: Rules, column: Ints) -> Bools:
    """Write last minus first into cells without absent readings; return where that is wrong."""
    values, row = half.values, half.row
    np.subtract(values[-1], values[0], out=part.total)
    part.rough[:] = part.total
    part.seconds[:] = _seconds(panel)[row]
    part.samples[:] = len(values)
    part.first_at[:], part.last_at[:] = panel.at[0][row], panel.at[-1][row]
    odd = _fell(values)
    anew = panel.incarnation[1:] != panel.incarnation[:-1]
    if anew.any():
        odd |= anew.any(axis=0)[row]
    if values.dtype == np.uint64 and rules.saturates.any():
        odd |= rules.saturates[column] & (values[-1] >= rules.top[column])
    return odd


def _fell(values: Values) -> Bools:
    """Return the cells of which a reading is smaller than the one before."""
    samples, cells = values.shape
    run = max(1, _CHUNK // samples)
    if cells <= run:
        return np.asarray((values[1:] < values[:-1]).any(axis=0))
    return np.concatenate([_fell(values[:, at : at + run]) for at in range(0, cells, run)])


def _seconds(panel: Panel) -> Floats:
    """Return the measured time of each row."""
    same = panel.boot[1:] == panel.boot[:-1]
    if same.all():
        return np.asarray((panel.mono[-1] - panel.mono[0]) / 1e9)
    spans = spans_of(same[:, None], np.diff(panel.mono, axis=0), np.diff(panel.at, axis=0))
    return np.asarray(spans.sum(axis=0))


def _step(panel: Panel, half: Half, part: HalfGrowth, places: Ints, rules: Rules) -> None:
    """Write the sums of steps into cells without absent readings."""
    values = half.values[:, places]
    same = panel.incarnation[1:] == panel.incarnation[:-1]
    grown, what = deltas(values[:-1], values[1:], same[:, half.row[places]], rules)
    part.total[places], part.rough[places] = _sums(grown)
    _count(what, part, places)


def _leap(panel: Panel, half: Half, part: HalfGrowth, places: Ints, rules: Rules) -> None:
    """Write growth from reading to reading into cells with absent ones."""
    row, values = half.row[places], half.values[:, places]
    present = half.present[:, places] if half.present is not None else np.ones(values.shape, bool)
    samples, cells = values.shape
    every = np.arange(cells)[None, :]
    seen = np.where(present, np.arange(samples)[:, None], -1)
    previous = np.maximum.accumulate(seen, axis=0)[:-1]
    valid = present[1:] & (previous >= 0)
    previous = np.maximum(previous, 0)
    incarnation, mono, at = panel.incarnation[:, row], panel.mono[:, row], panel.at[:, row]
    same = incarnation[1:] == incarnation[previous, every]
    grown, what = deltas(values[previous, every], values[1:], same, rules)
    spans = spans_of(
        panel.boot[previous] == panel.boot[1:, None],
        mono[1:] - mono[previous, every],
        at[1:] - at[previous, every],
    )
    first, last = np.argmax(present, axis=0), np.maximum(seen.max(axis=0), 0)
    valid_grown = np.where(valid, grown, grown.dtype.type(0))
    part.total[places], part.rough[places] = _sums(valid_grown)
    part.seconds[places] = np.where(valid, spans, 0.0).sum(axis=0)
    part.samples[places] = np.count_nonzero(present, axis=0)
    part.first_at[places], part.last_at[places] = panel.at[first, row], panel.at[last, row]
    _count(np.where(valid, what, np.uint8(0)), part, places)


def spans_of(same_boot: Bools, mono_ns: Ints, at_ns: Ints) -> Floats:
    """Return seconds: monotonic within a boot, wall clock across boots, never negative."""
    return np.where(same_boot, mono_ns, np.maximum(at_ns, 0)) / 1e9


def _sums(grown: Values) -> tuple[Values, Floats]:
    return grown.sum(axis=0), grown.astype(np.float64).sum(axis=0)


def _count(what: Events, part: HalfGrowth, places: Ints) -> None:
    part.resets[places] = (what == RESET).sum(axis=0)
    part.wraps[places] = (what == WRAP).sum(axis=0)
    part.saturated[places] = (what == SATURATED).any(axis=0)

"""Growth of all counters of a panel at once.

Where a counter neither fell nor stuck nor began anew, the sum of its steps is last minus first;
the others, and those with absent readings, go through the arithmetic step by step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

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

_CHUNK: Final = 1 << 20  # cells of one step of arithmetic: bounds the temporary arrays


@dataclass(frozen=True)
class HalfGrowth:
    """Growth of the cells of one half, arrays of shape (n,); totals in native units."""

    total: Values
    rough: Floats  # the same as float, where the integer sum may have overflowed
    seconds: Floats
    samples: Ints
    first_at: Ints
    last_at: Ints
    resets: Ints
    wraps: Ints
    saturated: Bools


def growth_of(panel: Panel, half: Half) -> HalfGrowth:
    """Return the growth of every cell of a half of a panel."""
    samples, cells = half.values.shape
    run = max(1, _CHUNK // max(samples, 1))
    rules = _rules(tuple(panel.columns))
    parts = []
    for start in range(0, max(cells, 1), run):
        places = slice(start, min(start + run, cells))
        row, values = half.row[places], half.values[:, places]
        of_cells = rules.take(half.column[places])
        present = None if half.present is None else half.present[:, places]
        if present is None or present.all():
            parts.append(_dense(panel, row, values, of_cells))
        else:
            parts.append(_sparse(panel, row, values, present, of_cells))
    if len(parts) == 1:
        return parts[0]
    names = HalfGrowth.__dataclass_fields__
    return HalfGrowth(**{n: np.concatenate([getattr(p, n) for p in parts]) for n in names})


def _dense(panel: Panel, row: Ints, values: Values, rules: Rules) -> HalfGrowth:
    samples, cells = values.shape
    if not samples:
        nothing = np.zeros(cells, np.int64)
        total = np.zeros(cells, values.dtype)
        return _made(total, total, nothing / 1e9, nothing, nothing, nothing, _no_events(cells))
    before, after = values[:-1], values[1:]
    same = panel.incarnation[1:] == panel.incarnation[:-1]
    odd = (after < before).any(axis=0) | ~same.all(axis=0)[row]
    if values.dtype == np.uint64:
        odd |= rules.saturates & (values[-1] >= rules.top)
    total = values[-1] - values[0]
    rough = total.astype(np.float64)
    events = _no_events(cells)
    if odd.any():
        cells_of = np.flatnonzero(odd)
        grown, what = deltas(
            before[:, cells_of], after[:, cells_of], same[:, row[cells_of]], rules.take(cells_of)
        )
        total[cells_of], rough[cells_of] = _sums(grown)
        for kind, counts in zip(events, _count(what), strict=True):
            kind[cells_of] = counts
    seconds = spans_of(
        (panel.boot[1:] == panel.boot[:-1])[:, None],
        np.diff(panel.mono, axis=0),
        np.diff(panel.at, axis=0),
    ).sum(axis=0)[row]
    readings: Ints = np.full(cells, samples, np.int64)
    return _made(total, rough, seconds, readings, panel.at[0][row], panel.at[-1][row], events)


def _sparse(panel: Panel, row: Ints, values: Values, present: Bools, rules: Rules) -> HalfGrowth:
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
    return _made(
        *_sums(np.where(valid, grown, grown.dtype.type(0))),
        np.where(valid, spans, 0.0).sum(axis=0),
        np.asarray(np.count_nonzero(present, axis=0), np.int64),
        panel.at[first, row],
        panel.at[last, row],
        _count(np.where(valid, what, np.uint8(0))),
    )


def spans_of(same_boot: Bools, mono_ns: Ints, at_ns: Ints) -> Floats:
    """Return seconds: monotonic within a boot, wall clock across boots, never negative."""
    return np.where(same_boot, mono_ns, np.maximum(at_ns, 0)) / 1e9


@lru_cache(maxsize=1024)
def _rules(columns: tuple[Column, ...]) -> Rules:
    return rules_of(columns)


def _made(
    total: Values, rough: Values, seconds: Floats, counts: Ints, first_at: Ints, last_at: Ints,
    events: tuple[Ints, Ints, Bools],
) -> HalfGrowth:  # fmt: skip
    return HalfGrowth(total, rough, seconds, counts, first_at, last_at, *events)


def _sums(grown: Values) -> tuple[Values, Floats]:
    return grown.sum(axis=0), grown.astype(np.float64).sum(axis=0)


def _no_events(cells: int) -> tuple[Ints, Ints, Bools]:
    return np.zeros(cells, np.int64), np.zeros(cells, np.int64), np.zeros(cells, np.bool_)


def _count(what: Events) -> tuple[Ints, Ints, Bools]:
    resets, wraps = (what == RESET).sum(axis=0), (what == WRAP).sum(axis=0)
    return resets, wraps, np.asarray((what == SATURATED).any(axis=0))

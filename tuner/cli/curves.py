"""The evidence of a finding over time: sparklines for the terminal, a figure as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from collectors.model.catalogue.registry import CATALOGUE
from collectors.model.entities import display
from collectors.model.errors import Unavailable
from tuner.store.arithmetic import Floats, Ints

if TYPE_CHECKING:
    from collectors.model.entities import Entity
    from tuner.diagnosis.finding import Evidence
    from tuner.store.window import Window

_BARS: Final = "▁▂▃▄▅▆▇█"
_MOST: Final = 8
_LONG: Final = 3.0  # times the usual step: a longer one is a gap, not a reading's time
WIDTH: Final = 48


@dataclass(frozen=True, eq=False)
class Curve:
    """One metric of one entity. at_ns: wall clock; values: shape of at_ns, in `unit`."""

    name: str
    entity: Entity
    unit: str
    at_ns: Ints
    values: Floats


def curves_of(window: Window, evidence: Sequence[Evidence]) -> list[Curve]:
    """Return a curve for each observation that was read over time, at most eight."""
    found: dict[tuple[str, Entity], Curve] = {}
    for item in evidence:
        key = (item.name, item.entity)
        if key in found or len(found) == _MOST:
            continue
        series = window.series(item.name, item.entity)
        if series is None:
            continue
        rates = window.rates(item.name, item.entity)
        if rates is not None:
            unit = f"{CATALOGUE[item.name].unit if item.name in CATALOGUE else item.unit}/s"
            found[key] = Curve(item.name, item.entity, unit, *rates)
        elif series.column.kind != "counter" and len(series.values) > 1:
            values = series.values.astype(np.float64) * float(series.column.scale)
            found[key] = Curve(item.name, item.entity, item.unit, series.at_ns, values)
    return [curve for curve in found.values() if len(curve.values)]


def sparkline(curve: Curve, since_ns: int, until_ns: int, width: int = WIDTH) -> str:
    """Return the highest value of each of `width` slices of time as a bar; ' ' where none is.

    A reading stands for the time since the one before it, unless that is long ago.
    """
    span = max(until_ns - since_ns, 1)
    place = np.clip((curve.at_ns - since_ns) * width // span, 0, width - 1)
    highest = np.full(width, -np.inf)
    np.maximum.at(highest, place, curve.values)
    steps = np.diff(curve.at_ns)
    reach = _LONG * float(np.median(steps)) if len(steps) else 0.0
    ends = since_ns + (np.arange(width) + 1) * span / width
    after = np.minimum(np.searchsorted(curve.at_ns, ends), len(curve.at_ns) - 1)
    wait = curve.at_ns[after] - ends
    stood = ~np.isfinite(highest) & (wait >= 0) & (wait <= reach) & (ends > curve.at_ns[0])
    highest[stood] = curve.values[after[stood]]
    top, known = max(float(curve.values.max()), 0.0), np.isfinite(highest)
    level = np.zeros(width, np.int64)
    if top > 0:
        level[known] = np.ceil(np.maximum(highest[known], 0) / top * (len(_BARS) - 1))
    return "".join(
        _BARS[step] if there else " "
        for step, there in zip(level.tolist(), known.tolist(), strict=True)
    )


def span_of(curves: Sequence[Curve]) -> tuple[int, int]:
    """Return (first, last) wall clock of some curves."""
    return (
        int(min(curve.at_ns.min() for curve in curves)),
        int(max(curve.at_ns.max() for curve in curves)),
    )


def write_svg(path: Path, title: str, curves: Sequence[Curve]) -> None:
    """Write a figure, one panel a curve. Raises Unavailable where the file cannot be written."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    since_ns, _ = span_of(curves)
    figure, panels = plt.subplots(
        len(curves), 1, sharex=True, squeeze=False, figsize=(9, 1 + 1.7 * len(curves))
    )
    for panel, curve in zip(panels[:, 0], curves, strict=True):
        panel.plot((curve.at_ns - since_ns) / 1e9, curve.values, drawstyle="steps-pre")
        panel.set_title(f"{display(curve.entity)}  {curve.name}", loc="left", fontsize=8)
        panel.set_ylabel(curve.unit, fontsize=8)
        panel.set_ylim(bottom=0)
    panels[-1, 0].set_xlabel("seconds")
    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    try:
        figure.savefig(path, format="svg")
    except OSError as error:
        raise Unavailable(str(path), "write figure", error.strerror or str(error)) from error
    finally:
        plt.close(figure)

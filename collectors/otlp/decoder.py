"""OTLP metrics of one switch into the latest value of every series; pure but for its memory.

Which names mean what stands in the catalogue (`otlp` sources). Cumulus Linux and NVOS send
counters as gauges of doubles, exact below 2^53, with the attributes `interface` and `tc`, `sp`
or `pg` ("Open Telemetry Export" of the Cumulus Linux guide); a cumulative Sum means the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from collectors.model.catalogue.registry import sources_of
from collectors.model.entities import Entity, Interface, Slot, SlotKind, Switch
from collectors.model.metric import Column
from collectors.model.reading import Instant, Reading

Gap = Callable[[str, str], None]
_NUMBERED: Final[dict[str, tuple[SlotKind, tuple[str, ...]]]] = {
    "queue": ("queue", ("tc", "traffic_class", "queue")),
    "priority": ("priority", ("sp", "switch_priority", "priority")),
    "priority_group": ("priority_group", ("pg", "priority_group")),
}
_WORTH_NAMING: Final = tuple(f"nvswitch_interface_{part}_" for part in ("sp", "tc", "pg"))
_OPER_STATES: Final = {0: 4, 1: 1, 2: 2}  # the bitmap's words in IF-MIB's numbers; 4 is unknown
_UNKNOWN_STATE: Final = 4
_CUMULATIVE: Final = 2  # AGGREGATION_TEMPORALITY_CUMULATIVE
_NEVER: Final = Instant(0, 0)
_NO_VALUE: Final = 1  # DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK


@dataclass(frozen=True, slots=True)
class Row:
    """What a metric name means. slot: kind of the numbered part, None for the interface itself."""

    column: Column
    slot: SlotKind | None
    numbered_by: tuple[str, ...] = ()


@cache
def rows() -> dict[str, Row]:
    """Return OTLP metric name -> meaning."""
    found: dict[str, Row] = {}
    for metric, source in sources_of("otlp"):
        slot, keys = next((_NUMBERED[kind] for kind in metric.on if kind in _NUMBERED), (None, ()))
        found[source.key] = Row(metric.column(source), slot, keys)
    return found


@dataclass
class _Series:
    values: dict[Column, int | float] = field(default_factory=dict)
    when: Instant = _NEVER
    started_ns: int = 0
    fresh: bool = False


class Decoder:
    """The state of one switch, fed with messages, asked for readings."""

    def __init__(
        self, switch: Switch, wants: Callable[[str], bool], gap: Gap, max_series: int = 100_000
    ) -> None:
        self._switch = switch
        self._wants = wants
        self._gap = gap
        self._max_series = max_series
        self._series: dict[Entity, _Series] = {}
        self._said_unknown: set[str] = set()

    def take(self, metric: Any, received: Instant) -> int:
        """Take one Metric message; return how many of its points could not be used."""
        row = rows().get(metric.name)
        if row is None:
            if metric.name.startswith(_WORTH_NAMING) and metric.name not in self._said_unknown:
                self._said_unknown.add(metric.name)
                self._gap(metric.name, "not in the catalogue")
            return 0
        kind = metric.WhichOneof("data")
        if kind == "sum" and metric.sum.aggregation_temporality != _CUMULATIVE:
            self._gap(row.column.metric, "delta temporality; export cumulative")
            return len(metric.sum.data_points)
        if kind not in ("gauge", "sum"):
            self._gap(row.column.metric, f"a {kind or 'metric without data'}, not a number")
            return 0
        return sum(
            not self._point(row, point, received) for point in getattr(metric, kind).data_points
        )

    def readings(self) -> Iterator[Reading]:
        """Yield a reading for each entity with news."""
        for entity, series in self._series.items():
            if series.fresh and series.values:
                incarnation = f"since {series.started_ns}" if series.started_ns else ""
                yield Reading(entity, dict(series.values), series.when, incarnation)
            series.fresh = False

    def _point(self, row: Row, point: Any, received: Instant) -> bool:
        labels = {pair.key: pair.value for pair in point.attributes}
        name = labels["interface"].string_value if "interface" in labels else ""
        if not name:
            self._gap(row.column.metric, "no attribute `interface`")
            return False
        if not self._wants(name):
            return True
        interface = Interface(self._switch, name)
        entity: Entity = interface
        if row.slot is not None:
            number = next((_whole(labels[key]) for key in row.numbered_by if key in labels), None)
            if number is None:
                self._gap(row.column.metric, f"no attribute `{row.numbered_by[0]}`")
                return False
            entity = Slot(interface, row.slot, number)
        if point.flags & _NO_VALUE:
            self._forget(entity, row.column)
            return True
        value = _number(point, row.column)
        if value is None:
            self._gap(row.column.metric, "negative or not finite")
            return False
        series = self._series.get(entity)
        if series is None:
            if len(self._series) >= self._max_series:
                self._gap(row.column.metric, "too many series")
                return False
            series = self._series[entity] = _Series()
        series.values[row.column] = value
        series.when = received.corrected(point.time_unix_nano)
        series.started_ns = point.start_time_unix_nano
        series.fresh = True
        return True

    def _forget(self, entity: Entity, column: Column) -> None:
        series = self._series.get(entity)
        if series is not None:
            series.values.pop(column, None)


def _whole(value: Any) -> int | None:
    """Return an attribute as the number of a slot: Cumulus writes it as text."""
    kind = value.WhichOneof("value")
    if kind == "int_value" and value.int_value >= 0:
        return int(value.int_value)
    text: str = value.string_value if kind == "string_value" else ""
    return int(text) if text.isascii() and text.isdigit() else None


def _number(point: Any, column: Column) -> float | None:
    """Return a data point as a value of its column, None where it is none."""
    kind = point.WhichOneof("value")
    raw: float = getattr(point, kind) if kind else math.nan
    if not math.isfinite(raw) or raw < 0:
        return None
    if column.kind == "state":
        raw = _OPER_STATES.get(int(raw), _UNKNOWN_STATE)
    return float(raw)

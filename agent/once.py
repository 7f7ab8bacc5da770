"""fabric-agent once: one pass of every collector, printed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from agent.config import Config
from agent.schedule import Schedule
from agent.snapshot import Outcome, Snapshot
from agent.sources import Job
from collectors.model.catalogue.registry import CATALOGUE
from collectors.model.entities import Entity, display, label_of
from collectors.wire.facts import pack_facts

VERSION: Final = 1  # of the JSON


def read_once(config: Config, planned: Sequence[Job]) -> tuple[Outcome, ...]:
    """Return what one pass of each job gave; one that is late is left behind, and says so."""
    snapshot = Snapshot()
    schedule = Schedule(planned, snapshot, lambda _name, _seen: None, config.agent)
    schedule.run_once(max((job.deadline_s for job in planned), default=0.0) + 1)
    return snapshot.outcomes()


def document(config: Config, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the JSON document of a pass.

    version; agent; at_ns; collectors (with success, reason, error, gaps); entities (canonical
    string, label, values by metric in the metric's unit, integers exact); facts by collector, as
    on the wire. A new key keeps the version, a changed or dropped one raises it.
    """
    entities: dict[Entity, dict[str, float]] = {}
    for entity, metric, value in _values(outcomes):
        entities.setdefault(entity, {})[metric] = value
    return {
        "version": VERSION,
        "agent": config.agent,
        "at_ns": time.time_ns(),
        "collectors": [
            {
                "collector": outcome.collector,
                "success": outcome.success,
                "reason": "deadline" if outcome.overrun else outcome.reason,
                "error": outcome.error,
                "duration_s": outcome.duration_s,
                "gaps": [
                    {
                        "subject": gap.subject,
                        "what": gap.what,
                        "reason": gap.reason,
                        "detail": gap.detail,
                        "count": gap.count,
                    }
                    for gap in outcome.gaps
                ],
            }
            for outcome in outcomes
        ],
        "entities": [
            {"entity": str(entity), "label": label_of(entity), "values": values}
            for entity, values in entities.items()
        ],
        "facts": {
            outcome.collector: json.loads(pack_facts(outcome.facts))
            for outcome in outcomes
            if outcome.facts is not None
        },
    }


def render_json(config: Config, outcomes: Sequence[Outcome]) -> str:
    """Return the document as text."""
    return json.dumps(document(config, outcomes), indent=2)


def render_prom(config: Config, outcomes: Sequence[Outcome]) -> str:
    """Return the same in Prometheus' text format, as /metrics would serve it."""
    from agent.exposition import Exposition, whole_text

    metrics = config.metrics
    return whole_text(
        Exposition(
            lambda: tuple(outcomes),
            config.agent,
            node_infiniband=metrics is None or metrics.node_infiniband,
            infiniband_exporter=metrics is not None and metrics.infiniband_exporter,
        )
    )


def print_table(outcomes: Sequence[Outcome]) -> None:
    """Print what is not zero, an entity at a time, for people."""
    from rich.table import Table

    from agent.terminal import console, plain

    table = Table(box=None, pad_edge=False)
    table.add_column("entity", no_wrap=True)
    table.add_column("metric", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    last: Entity | None = None
    for entity, metric, value in sorted(_values(outcomes), key=lambda row: (str(row[0]), row[1])):
        row = CATALOGUE.get(metric)
        if value or (row and row.kind != "counter"):
            shown = "" if entity == last else display(entity)
            table.add_row(plain(shown), metric, f"{value:,}", row.unit if row else "")
            last = entity
    if table.row_count:
        console().print(table)


def _values(outcomes: Sequence[Outcome]) -> Iterator[tuple[Entity, str, float]]:
    """Yield entity, metric and value in the metric's unit; of two sources the first counts."""
    seen: set[tuple[Entity, str]] = set()
    for reading in (reading for outcome in outcomes for reading in outcome.readings):
        for column, value in reading.values.items():
            key = (reading.entity, column.metric)
            if key not in seen:
                seen.add(key)
                yield reading.entity, column.metric, column.to_unit(value)

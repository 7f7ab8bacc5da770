"""Windows from a Prometheus-compatible database: raw samples of known names, as batches.

The database keeps floats and one clock. So a decrease is a reset (never a wrap), and the time of
a sample is that of its scrape. Facts are few there: what info series say of ports. Rules that
need settings, links or queue pairs say that they cannot tell.

HTTP API: /api/v1/label/__name__/values and /api/v1/query with a range selector, which returns
the samples as they were scraped (Prometheus, VictoriaMetrics, Mimir, Thanos).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from collectors.model.catalogue.exporters import Series, entity_of, known_names, series_of
from collectors.model.entities import Entity, Port, Switch, host_of, wire_of
from collectors.model.errors import Malformed
from collectors.model.facts import Attribute, Facts
from collectors.model.metric import Column
from collectors.model.reading import Instant, Reading
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.facts import pack_facts
from collectors.wire.pack import pack_batch, pack_schema
from tuner.store.prometheus_api import Row, database_of

LOG: Final = logging.getLogger(__name__)
VIA: Final = "prometheus"
_LATEST_S: Final = 1 << 33  # the year 2242
_NAMES_PER_QUERY: Final = 40
_INFO: Final = ("fabric_port_info", "rdma_port_info")
_ATTRIBUTES: Final = ("netdev", "link_layer", "driver")
_SKIPPED_LABELS: Final = ("", "0")


def fetch_items(url: str, since_ns: int, until_ns: int) -> Iterator[pb.Item]:
    """Yield what a database holds of a span as an agent would have sent it.

    Every scrape target is one agent. A bearer token comes from the file that
    FABRIC_TUNER_PROMETHEUS_TOKEN_FILE names. Raises ConfigInvalid for a URL that is none,
    Unavailable or Denied where the database does not answer, Malformed where it answers
    something else, or holds no name that the catalogue knows.
    """
    database = database_of(url)
    known = known_names()
    present = database.names()
    names = [name for name in present if name in known]
    infos = [name for name in _INFO if name in present]
    if not names:
        why = "holds no metric that the catalogue knows, of our agents or of other exporters"
        raise Malformed(database.base, "read names", f"it {why}")
    seconds = max(1, math.ceil((until_ns - since_ns) / 1e9))
    scrapes: dict[tuple[str, int], dict[Entity, dict[Column, float]]] = {}
    columns: dict[Series, Column] = {}
    nameless: list[str] = []
    for start in range(0, len(names), _NAMES_PER_QUERY):
        some = names[start : start + _NAMES_PER_QUERY]
        for row in database.samples(some, seconds, until_ns / 1e9):
            series = series_of(row.metric)
            entity = None if series is None else entity_of(series, row.metric)
            if series is None or entity is None:
                nameless.append(row.metric.get("__name__", ""))
                continue
            column = columns.setdefault(
                series, Column(series.metric.name, series.metric.kind, VIA, number="float")
            )
            samples = _numbers(database.base, row)
            _file(scrapes, _agent(entity, row.metric), entity, column, float(series.scale), samples)
    if nameless:
        why = "their labels do not tell host, device and port, or switch and interface"
        LOG.warning("%d series left out, %s first: %s", len(nameless), nameless[0], why)
    if not scrapes:
        raise Malformed(database.base, "read samples", f"it holds none of the last {seconds} s")
    yield from _batches(scrapes)
    if infos:
        yield from _facts(database.samples(infos, seconds, until_ns / 1e9), until_ns)


def _numbers(base: str, row: Row) -> Iterator[tuple[int, float]]:
    """Yield (milliseconds, finite value). Raises Malformed for what is no sample."""
    for at, text in row.values:
        try:
            value = float(text)
        except ValueError:
            name = row.metric.get("__name__", "")
            raise Malformed(base, f"read {name}", f"{text[:20]!r} is no number") from None
        if not 0 <= at < _LATEST_S:
            raise Malformed(base, "read samples", f"{at!r} is no time")
        if math.isfinite(value):
            yield round(at * 1000), value


def _file(
    scrapes: dict[tuple[str, int], dict[Entity, dict[Column, float]]],
    agent: str,
    entity: Entity,
    column: Column,
    scale: float,
    samples: Iterable[tuple[int, float]],
) -> None:
    """Put the samples of one series into the scrapes that they belong to."""
    for at_ms, value in samples:
        scrape = scrapes.setdefault((agent, at_ms), {})
        if math.isfinite(value * scale):
            scrape.setdefault(entity, {}).setdefault(column, value * scale)


def _batches(
    scrapes: Mapping[tuple[str, int], Mapping[Entity, Mapping[Column, float]]],
) -> Iterator[pb.Item]:
    sent: set[bytes] = set()
    numbers: dict[str, int] = {}
    for (agent, at_ms), entities in sorted(scrapes.items(), key=lambda item: item[0]):
        when = Instant(at_ms * 10**6, at_ms * 10**6)
        readings = [Reading(entity, values, when) for entity, values in entities.items()]
        schema = pack_schema(readings)
        if schema.id not in sent:
            sent.add(schema.id)
            yield pb.Item(schema=schema)
        batch = pack_batch(readings, schema, VIA, VIA)
        batch.agent, batch.epoch = agent, VIA
        batch.seq = numbers[agent] = numbers.get(agent, 0) + 1
        yield pb.Item(batch=batch)


def _facts(rows: Iterable[Row], until_ns: int) -> Iterator[pb.Item]:
    """Yield what info series tell of ports: network interface, link layer, driver."""
    found: dict[str, dict[tuple[Entity, str], Attribute]] = {}
    for labels in (row.metric for row in rows):
        named = {k: v for k, v in labels.items() if k != "netdev"}
        series = series_of({"__name__": "node_infiniband_state_id"})
        port = None if series is None else entity_of(series, named)
        if not isinstance(port, Port):
            continue
        of_agent = found.setdefault(_agent(port, labels), {})
        for name in _ATTRIBUTES:
            if labels.get(name, "") not in _SKIPPED_LABELS:
                of_agent[port, name] = Attribute(port, name, labels[name])
    for agent, attributes in found.items():
        body = pack_facts(Facts(attributes=tuple(attributes.values())))
        yield pb.Item(
            facts=pb.Facts(
                agent=agent, epoch=f"{VIA} facts", seq=1, collector=VIA, at_ns=until_ns, json=body
            )
        )


def _agent(entity: Entity, labels: Mapping[str, str]) -> str:
    wire = wire_of(entity)
    switch = entity if isinstance(entity, Switch) else getattr(wire, "switch", None)
    return host_of(entity) or (switch.name if switch else labels.get("instance", VIA))

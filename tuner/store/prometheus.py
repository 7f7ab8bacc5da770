"""Windows from a Prometheus-compatible database: raw samples of known names, as batches.

The database keeps floats and one clock. So a decrease is a reset (never a wrap), and the time of
a sample is that of its scrape. Facts are few there: what info series say of ports. Rules that
need settings, links or queue pairs say that they cannot tell.

HTTP API: /api/v1/label/__name__/values and /api/v1/query with a range selector, which returns
the samples as they were scraped (Prometheus, VictoriaMetrics, Mimir, Thanos).
"""

from __future__ import annotations

import json
import math
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from collectors.model.catalogue.exporters import Series, entity_of, known_names, series_of
from collectors.model.entities import Entity, Port, Switch, host_of, wire_of
from collectors.model.errors import ConfigInvalid, Denied, FabricError, Malformed, Unavailable
from collectors.model.facts import Attribute, Facts
from collectors.model.metric import Column
from collectors.model.reading import Instant, Reading
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.facts import pack_facts
from collectors.wire.pack import pack_batch, pack_schema

VIA: Final = "prometheus"
TOKEN_FILE: Final = "FABRIC_TUNER_PROMETHEUS_TOKEN_FILE"  # noqa: S105  the name of a variable
_TIMEOUT_S: Final = 120.0
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
    base = _checked(url)
    known = known_names()
    present = _ask(base, "label/__name__/values", {})
    if not isinstance(present, list):
        raise Malformed(base, "names", "the answer holds no list")
    names = [name for name in present if name in known]
    infos = [name for name in _INFO if name in present]
    if not names:
        why = "holds no metric that the catalogue knows, of our agents or of other exporters"
        raise Malformed(base, "read names", f"it {why}")
    seconds = max(1, math.ceil((until_ns - since_ns) / 1e9))
    scrapes: dict[tuple[str, int], dict[Entity, dict[Column, float]]] = {}
    columns: dict[Series, Column] = {}
    for start in range(0, len(names), _NAMES_PER_QUERY):
        some = names[start : start + _NAMES_PER_QUERY]
        for labels, samples in _samples(base, some, seconds, until_ns):
            series = series_of(labels)
            entity = None if series is None else entity_of(series, labels)
            if series is None or entity is None:
                continue
            column = columns.setdefault(
                series, Column(series.metric.name, series.metric.kind, VIA, number="float")
            )
            _file(scrapes, _agent(entity, labels), entity, column, float(series.scale), samples)
    yield from _batches(scrapes)
    if infos:
        yield from _facts(_samples(base, infos, seconds, until_ns), until_ns)


def _file(
    scrapes: dict[tuple[str, int], dict[Entity, dict[Column, float]]],
    agent: str,
    entity: Entity,
    column: Column,
    scale: float,
    samples: Sequence[tuple[float, str]],
) -> None:
    """Put the samples of one series into the scrapes that they belong to."""
    for at, text in samples:
        value = float(text)
        if math.isfinite(value):
            scrape = scrapes.setdefault((agent, round(at * 1000)), {})
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


def _facts(
    rows: Iterator[tuple[dict[str, str], list[tuple[float, str]]]], until_ns: int
) -> Iterator[pb.Item]:
    """Yield what info series tell of ports: network interface, link layer, driver."""
    found: dict[str, dict[tuple[Entity, str], Attribute]] = {}
    for labels, _ in rows:
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


def _samples(
    base: str, names: Sequence[str], seconds: int, until_ns: int
) -> Iterator[tuple[dict[str, str], list[tuple[float, str]]]]:
    selector = f'{{__name__=~"{"|".join(names)}"}}[{seconds}s]'
    data = _ask(base, "query", {"query": selector, "time": f"{until_ns / 1e9:.3f}"})
    if not isinstance(data, dict) or data.get("resultType") != "matrix":
        raise Malformed(base, "query", "the answer is no matrix of samples")
    for row in data["result"]:
        yield row["metric"], row.get("values", [])


def _checked(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigInvalid("prometheus=", "--source", "must be prometheus=http://HOST:PORT")
    if parts.username or parts.password:
        raise ConfigInvalid(
            f"prometheus={parts.scheme}://{parts.hostname}",
            "--source",
            f"carries a password; put a bearer token into a file and name it in {TOKEN_FILE}",
        )
    return url.rstrip("/")


def _ask(base: str, path: str, form: dict[str, str]) -> Any:
    data = urllib.parse.urlencode(form).encode() if form else None
    request = urllib.request.Request(f"{base}/api/v1/{path}", data=data)  # noqa: S310  checked
    token = _token()
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:  # noqa: S310  checked
            answer = json.load(reply)
    except urllib.error.HTTPError as error:
        raise _refused(base, path, error) from None
    except (OSError, TimeoutError) as error:
        why = getattr(error, "reason", None) or error
        raise Unavailable(base, f"ask {path}", f"cannot be reached ({why})") from None
    except ValueError:
        raise Malformed(base, f"ask {path}", "the answer is no JSON; is this Prometheus?") from None
    if not isinstance(answer, dict) or answer.get("status") != "success":
        raise Malformed(base, f"ask {path}", "the answer is not that of Prometheus' HTTP API")
    return answer.get("data")


def _refused(base: str, path: str, error: urllib.error.HTTPError) -> FabricError:
    if error.code in (401, 403):
        return Denied(base, f"ask {path}", f"HTTP {error.code}; a token: {TOKEN_FILE}")
    try:
        why = json.load(error).get("error", "")
    except (ValueError, AttributeError, OSError):
        why = ""
    return Unavailable(base, f"ask {path}", f"HTTP {error.code} {why}".strip())


def _token() -> str:
    path = os.environ.get(TOKEN_FILE, "")
    if not path:
        return ""
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise ConfigInvalid(path, TOKEN_FILE, error.strerror or str(error)) from None

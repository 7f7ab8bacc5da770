"""The snapshot as Prometheus families: what /metrics and `once --format prom` write.

Collecting reads frozen records only: it never waits for a collector, a disk or the tuner.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Metric as Family

from agent import infiniband_exporter
from agent.labels import clean, labels
from agent.snapshot import Outcome
from agent.sources import software_version
from collectors.model.catalogue import own
from collectors.model.catalogue.own import OwnMetric
from collectors.model.catalogue.registry import CATALOGUE
from collectors.model.entities import Device, Entity, Port
from collectors.model.facts import Value
from collectors.model.metric import Column

_COMPATIBLE: Final = "node_infiniband_"
_INFO_ATTRIBUTES: Final = ("link_layer", "netdev", "driver")  # of a port, else of its device


@dataclass(frozen=True, slots=True)
class Vital:
    """A number about the agent itself, without labels."""

    row: OwnMetric
    value: float


class Exposition:
    """A custom collector of prometheus-client over the snapshot.

    outcomes: of a snapshot. host: the agent's own. node_infiniband: also serve the names that
    node_exporter has. infiniband_exporter: also serve swept subnets under the names of the common
    InfiniBand exporters. stale_after_s: age beyond which readings are no longer served. vitals:
    numbers of the parts of the agent that keep some (spool, uplink).
    """

    def __init__(
        self,
        outcomes: Callable[[], tuple[Outcome, ...]],
        host: str,
        *,
        node_infiniband: bool = True,
        infiniband_exporter: bool = False,
        stale_after_s: float = 120.0,
        vitals: Callable[[], Iterable[Vital]] = tuple,
        mono_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._outcomes = outcomes
        self._host = host
        self._node_infiniband = node_infiniband
        self._infiniband_exporter = infiniband_exporter
        self._stale_after_ns = int(stale_after_s * 1e9)
        self._vitals = vitals
        self._mono_ns = mono_ns
        self._labels: dict[Entity, dict[str, str]] = {}
        self._label_texts: dict[Entity, str] = {}

    def collect(self) -> Iterator[Family]:
        """Yield every family that has a sample now, but for the readings, which text() writes."""
        outcomes = self._outcomes()
        now = self._mono_ns()
        fresh = self._fresh(outcomes, now)
        yield from self._identity(fresh)
        if self._infiniband_exporter:
            yield from infiniband_exporter.families(fresh)
        yield from _collectors(outcomes, now)
        for vital in self._vitals():
            family = _family(vital.row)
            family.add_sample(vital.row.name, {}, vital.value)
            yield family
        family = _family(own.AGENT_INFO)
        family.add_sample(own.AGENT_INFO.name, {"version": software_version()}, 1)
        yield family

    def text(self, *, openmetrics: bool) -> bytes:
        """Return the readings in Prometheus' text format or in OpenMetrics, without its end.

        The library spends eight times as much on a sample, most of it on labels that are the
        same at each scrape. Integers are written whole: 2^53 + 1 stays exact on the wire.
        """
        families: dict[str, list[str]] = {}
        kinds: dict[str, str] = {}
        for column, label_text, value in self._samples():
            name = column.metric
            if name not in families:
                families[name] = []
                kinds[name] = "counter" if column.kind == "counter" else "gauge"
            families[name].append(f"{name}{label_text} {column.to_unit(value)}\n")
        parts: list[str] = []
        for name, lines in families.items():
            row = CATALOGUE.get(name)
            meaning = row.meaning if row else name
            if openmetrics:
                meaning = _escaped(meaning)
            base = name.removesuffix("_total") if openmetrics else name
            parts.append(f"# HELP {base} {meaning}\n# TYPE {base} {kinds[name]}\n")
            parts += lines
        return "".join(parts).encode()

    def _samples(self) -> Iterator[tuple[Column, str, float]]:
        """Yield column, labels as written, and value of each series; of two sources the first."""
        seen: set[tuple[str, str]] = set()
        fresh = self._fresh(self._outcomes(), self._mono_ns())
        for reading in (reading for outcome in fresh for reading in outcome.readings):
            label_text = self._label_text(reading.entity)
            for column, value in reading.values.items():
                key = (column.metric, label_text)
                if key not in seen and (self._node_infiniband or not _of_node_exporter(column)):
                    seen.add(key)
                    yield column, label_text, value

    def _fresh(self, outcomes: tuple[Outcome, ...], now: int) -> list[Outcome]:
        return [
            outcome
            for outcome in outcomes
            if outcome.read_mono_ns is not None
            and now - outcome.read_mono_ns
            <= max(self._stale_after_ns, int(2e9 * outcome.interval_s))
        ]

    def _label_text(self, entity: Entity) -> str:
        found = self._label_texts.get(entity)
        if found is None:
            if len(self._label_texts) > 100_000:  # entities that come and go
                self._label_texts.clear()
            of = self._labels_of(entity)
            inner = ",".join(f'{name}="{_escaped(of[name])}"' for name in sorted(of))
            found = self._label_texts[entity] = f"{{{inner}}}" if inner else ""
        return found

    def _identity(self, fresh: list[Outcome]) -> Iterator[Family]:
        known: dict[tuple[Entity, str], Value] = {}
        for outcome in fresh:
            for attribute in outcome.facts.attributes if outcome.facts else ():
                known.setdefault((attribute.entity, attribute.name), attribute.value)
        ports = {e: None for e, _ in known if isinstance(e, Port)}
        ports.update(
            {r.entity: None for o in fresh for r in o.readings if isinstance(r.entity, Port)}
        )
        family = _family(own.PORT_INFO)
        for port in ports:
            of = {
                name: _text(known.get((port, name), known.get((port.device, name), "")))
                for name in _INFO_ATTRIBUTES
            }
            guid = _text(known.get((port.device, "node_guid"), ""))
            of |= {
                "pci_addr": _text(known.get((port.device, "pci_address"), "")),
                "is_vf": _text(known.get((port.device, "is_vf"), "")),
                "node_guid": guid.replace(":", ""),
            }
            family.add_sample(own.PORT_INFO.name, {**self._labels_of(port), **of}, 1)
        if family.samples:
            yield family
        if not self._node_infiniband:
            return
        family = _family(own.DEVICE_INFO)
        for device in {e: None for e, _ in known if isinstance(e, Device)}:
            of = {
                "board_id": _text(known.get((device, "board_id"), "")),
                "firmware_version": _text(known.get((device, "firmware"), "")),
                "hca_type": _text(known.get((device, "hca_type"), "")),
            }
            family.add_sample(own.DEVICE_INFO.name, {**self._labels_of(device), **of}, 1)
        if family.samples:
            yield family

    def _labels_of(self, entity: Entity) -> dict[str, str]:
        found = self._labels.get(entity)
        if found is None:
            if len(self._labels) > 100_000:  # entities that come and go
                self._labels.clear()
            found = self._labels[entity] = labels(entity, self._host)
        return found


def whole_text(exposition: Exposition) -> str:
    """Return all that an exposition has, in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(exposition)
    return (exposition.text(openmetrics=False) + generate_latest(registry)).decode()


def _of_node_exporter(column: Column) -> bool:
    # It reads its own host only: what is swept from a subnet clashes with nothing.
    return column.metric.startswith(_COMPATIBLE) and column.via != "mad"


def _collectors(outcomes: tuple[Outcome, ...], now: int) -> Iterator[Family]:
    def age_s(outcome: Outcome) -> float | None:
        read = outcome.read_mono_ns
        return None if read is None else max(0, now - read) / 1e9

    values: tuple[tuple[OwnMetric, Callable[[Outcome], float | None]], ...] = (
        (own.COLLECTOR_SUCCESS, lambda o: float(o.success)),
        (own.COLLECTOR_AGE, age_s),
        (own.COLLECTOR_DURATION, lambda o: o.duration_s),
        (own.COLLECTOR_PASSES, lambda o: o.passes),
        (own.COLLECTOR_OVERRUNS, lambda o: o.overruns),
    )
    for row, value_of in values:
        family = _family(row)
        for outcome in outcomes:
            value = value_of(outcome)
            if value is not None:
                family.add_sample(row.name, {"collector": clean(outcome.collector)}, value)
        if family.samples:
            yield family
    by_reason: tuple[tuple[OwnMetric, Callable[[Outcome], Mapping[str, int]]], ...] = (
        (own.COLLECTOR_FAILURES, lambda o: o.failures),
        (own.GAPS, lambda o: o.gap_counts),
    )
    for row, counts_of in by_reason:
        family = _family(row)
        for outcome in outcomes:
            for reason, count in counts_of(outcome).items():
                of = {"collector": clean(outcome.collector), "reason": clean(reason)}
                family.add_sample(row.name, of, count)
        if family.samples:
            yield family


def _family(row: OwnMetric) -> Family:
    return Family(row.name.removesuffix("_total"), row.meaning, row.kind)


def _escaped(text: str) -> str:
    """Return a label value as both formats want it."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return clean(str(value))

"""The tuner's own /metrics: what agents deliver, how fast it is safe, and what is amiss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import Metric

from collectors.model.catalogue import own
from collectors.model.catalogue.own import OwnMetric
from tuner.store.ledger import AgentRecord
from tuner.store.store import Checked, Store

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)
_OF_AGENTS: Final[tuple[tuple[OwnMetric, Callable[[AgentRecord], float]], ...]] = (
    (own.AGENT_BATCHES, lambda record: record.batches),
    (own.AGENT_VALUES, lambda record: record.values),
    (own.AGENT_DUPLICATES, lambda record: record.duplicates),
    (own.AGENT_REFUSED, lambda record: record.refused),
    (own.AGENT_MISSING, lambda record: record.missing),
    (own.AGENT_LAST_BATCH, lambda record: record.last_batch_at_ns / 1e9),
)


class Meter:
    """Histograms of ingest, and a collector over ledger and store."""

    def __init__(
        self,
        store: Store,
        now: Callable[[], int],
        connected: Callable[[], frozenset[str]],
        trouble: Callable[[], str],
        over_limit: Callable[[], Mapping[str, int]],
    ) -> None:
        self.registry = CollectorRegistry()
        self._store = store
        self._now = now
        self._connected = connected
        self._trouble = trouble
        self._over_limit = over_limit
        self._commit = self._histogram(own.COMMIT_TIME)
        self._delay = self._histogram(own.INGEST_DELAY)
        self.registry.register(self)

    def committed(self, seconds: float, items: Sequence[Checked]) -> None:
        """Note a group of items that is safe now."""
        self._commit.observe(seconds)
        now_ns = self._now()
        for checked in items:
            if checked.item.HasField("batch"):
                self._delay.observe(max(now_ns - checked.item.batch.at_ns, 0) / 1e9)

    def collect(self) -> Iterator[Metric]:
        """Yield the families of one scrape (called by prometheus_client in its own thread)."""
        ledger, memory = self._store.ledger, self._store.memory
        agents = dict(ledger.agents)
        for row, value_of in _OF_AGENTS:
            yield _family(row, {agent: value_of(record) for agent, record in agents.items()})
        connected = self._connected()
        yield _family(own.AGENT_CONNECTED, {agent: agent in connected for agent in agents})
        yield _family(
            own.AGENT_ACKNOWLEDGED,
            {agent: ledger.acknowledged(agent, record.epoch) for agent, record in agents.items()},
        )
        yield _family(own.LIMIT_REFUSALS, self._over_limit())
        yield _single(own.STORE_WRITABLE, not self._trouble())
        yield _single(own.WINDOW_BYTES, memory.nbytes)
        yield _single(own.DISK_BYTES, ledger.sealed_bytes)

    def _histogram(self, row: OwnMetric) -> Histogram:
        return Histogram(row.name, row.meaning, buckets=_SECONDS, registry=self.registry)


def _family(row: OwnMetric, values: Mapping[str, float]) -> Metric:
    """Return one sample for each value of the row's label."""
    family = Metric(row.name.removesuffix("_total"), row.meaning, row.kind)
    (label,) = row.labels
    for of, value in values.items():
        family.add_sample(row.name, {label: of}, value)
    return family


def _single(row: OwnMetric, value: float) -> Metric:
    family = Metric(row.name, row.meaning, row.kind)
    family.add_sample(row.name, {}, value)
    return family

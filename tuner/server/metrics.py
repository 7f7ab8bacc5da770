"""The tuner's own /metrics: what agents deliver, how fast it is safe, and what is amiss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tuner.store.ledger import AgentRecord
from tuner.store.store import Checked, Store

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)
_COUNTERS: Final[tuple[tuple[str, str, Callable[[AgentRecord], int]], ...]] = (
    ("batches", "Batches that are safe on disk.", lambda record: record.batches),
    ("values", "Values that are safe on disk.", lambda record: record.values),
    ("duplicates", "Items that came again and were dropped.", lambda record: record.duplicates),
    ("refused", "Items that could not be understood.", lambda record: record.refused),
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
        self._commit = Histogram(
            "fabric_tuner_commit_seconds",
            "Time to make one group of items safe on disk.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._delay = Histogram(
            "fabric_tuner_ingest_delay_seconds",
            "Age of the readings of a batch when they were safe, by the agent's clock.",
            buckets=_SECONDS,
            registry=self.registry,
        )
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
        agents = list(self._store.ledger.agents.items())
        connected = self._connected()

        def gauge(name: str, text: str, value: float) -> Metric:
            return GaugeMetricFamily(f"fabric_tuner_{name}", text, value)

        def by_agent(name: str, text: str, value: Callable[[str, AgentRecord], float]) -> Metric:
            family = GaugeMetricFamily(f"fabric_tuner_agent_{name}", text, labels=["agent"])
            for agent, record in agents:
                family.add_metric([agent], value(agent, record))
            return family

        for name, text, value in _COUNTERS:
            family = CounterMetricFamily(f"fabric_tuner_agent_{name}", text, labels=["agent"])
            for agent, record in agents:
                family.add_metric([agent], value(record))
            yield family
        ledger = self._store.ledger
        yield by_agent("connected", "1 while its stream is live.", lambda a, _: a in connected)
        yield by_agent(
            "missing_items", "Numbers that never came.", lambda _, record: record.missing
        )
        yield by_agent(
            "acknowledged_seq",
            "Number up to which everything is safe, in the agent's current epoch.",
            lambda agent, record: ledger.acknowledged(agent, record.epoch),
        )
        yield by_agent(
            "last_batch_timestamp_seconds",
            "Wall clock of its newest batch, 0 where there is none.",
            lambda _, record: record.last_batch_at_ns / 1e9,
        )
        refusals = CounterMetricFamily(
            "fabric_tuner_limit_refusals",
            "Streams refused because the configured limit was reached.",
            labels=["limit"],
        )
        for limit, count in self._over_limit().items():
            refusals.add_metric([limit], count)
        yield refusals
        yield gauge("store_writable", "0 while nothing can be stored.", not self._trouble())
        yield gauge("window_bytes", "Bytes of the window in memory.", self._store.memory.nbytes)
        yield gauge("disk_bytes", "Bytes of complete segments on disk.", ledger.sealed_bytes)

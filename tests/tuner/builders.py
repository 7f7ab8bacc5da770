"""Readings to items as an agent would send them, for tests of store, server and rules."""

from collections.abc import Iterable, Sequence

from collectors.model.facts import Facts
from collectors.model.reading import Instant, Reading
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.facts import pack_facts
from collectors.wire.pack import pack_batch, pack_schema
from tuner.store.memory import MemoryStore

SECOND = 10**9
START_NS = 1_800_000_000 * SECOND


def at(second: float, mono: float | None = None) -> Instant:
    """A moment `second` after the start; the monotonic clock runs beside it unless told."""
    return Instant(
        START_NS + round(second * SECOND),
        10**12 + round((second if mono is None else mono) * SECOND),
    )


class Uplink:
    """Numbers items as an agent's spool does."""

    def __init__(self, agent: str = "node1", epoch: str = "e1") -> None:
        self.agent, self.epoch, self.seq = agent, epoch, 0
        self._sent: set[bytes] = set()

    def batch(
        self, readings: Sequence[Reading], collector: str = "sysfs", boot_id: str = "boot-1"
    ) -> list[pb.Item]:
        """The items of a pass: the schema where it is new, and the batch."""
        schema = pack_schema(readings)
        batch = pack_batch(readings, schema, collector, boot_id)
        self.seq += 1
        batch.agent, batch.epoch, batch.seq = self.agent, self.epoch, self.seq
        new = schema.id not in self._sent
        self._sent.add(schema.id)
        return [*([pb.Item(schema=schema)] if new else []), pb.Item(batch=batch)]

    def facts(self, facts: Facts, at_ns: int, collector: str = "sysfs") -> pb.Item:
        """The item of a collector's facts."""
        self.seq += 1
        return pb.Item(
            facts=pb.Facts(
                agent=self.agent, epoch=self.epoch, seq=self.seq, collector=collector,
                at_ns=at_ns, json=pack_facts(facts),
            )
        )  # fmt: skip


def store_of(items: Iterable[pb.Item]) -> MemoryStore:
    """A store of these items."""
    store = MemoryStore()
    for item in items:
        store.add(item)
    return store

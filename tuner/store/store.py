"""The embedded store: a time window in memory and segments on disk, of one folder."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from collectors.model.entities import Port
from collectors.model.errors import Malformed, Unavailable
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.facts import parse_facts
from collectors.wire.pack import Key, key_of
from collectors.wire.segment import translate
from tuner.store.disk import DiskStore, Retention
from tuner.store.fill import fill_from_segments
from tuner.store.ledger import Ledger
from tuner.store.memory import MemoryStore
from tuner.store.schemas import Numbers, check_time, decode_batch
from tuner.store.window import Window

LOG: Final = logging.getLogger(__name__)


class UnknownSchema(Unavailable):
    """A batch came before its schema: once that was sent again, the batch will do."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is kept in memory for quick questions."""

    age_ns: int = 900 * 10**9
    max_bytes: int = 2 << 30


@dataclass(frozen=True, slots=True)
class Checked:
    """An item that can be stored. numbers: of a batch, decoded once for disk and window."""

    item: pb.Item
    numbers: Numbers | None = None


class Store:
    """Opens the folder, replays what the window needs, and locks out a second writer.

    Raises Denied, Unavailable (among others where another process has the folder).
    """

    def __init__(
        self, folder: Path, retention: Retention, limits: Limits, now: Callable[[], int]
    ) -> None:
        self.memory = MemoryStore(max_bytes=limits.max_bytes)
        self.limits = limits
        self._now = now
        self._lock = _lock(folder)
        self._disk = DiskStore(folder, retention, self._schema)
        fill_from_segments(
            self.memory,
            self._disk.open(now() - limits.age_ns),
            lambda error: LOG.warning("%s; left out of the window", error),
            took=self._disk.hold,
        )

    @property
    def ledger(self) -> Ledger:
        """What is known of the agents and their numbers."""
        return self._disk.ledger

    def check(self, item: pb.Item) -> Checked:
        """Raise Malformed or UnknownSchema unless the item can be stored; learn a schema."""
        numbers = None
        match item.WhichOneof("body"):
            case "schema":
                self.memory.add_schema(item.schema)
            case "batch":
                schema = self.memory.schema(item.batch.schema)
                if schema is None:
                    where = f"batch {item.batch.agent}/{item.batch.epoch}/{item.batch.seq}"
                    raise UnknownSchema(where, "store", "its schema is unknown here; send it again")
                numbers = decode_batch(item.batch, schema)
            case "facts":
                check_time(item.facts.at_ns)
                parse_facts(item.facts.json)
            case kind:
                raise Malformed("item", "store", f"unexpected {kind or 'empty item'}")
        return Checked(item, numbers)

    def sort_out(self, items: Sequence[Checked]) -> tuple[list[Checked], list[Key]]:
        """Return the items that are new, and the keys of those that are resends."""
        seen: set[Key] = set()
        new, again = [], []
        for checked in items:
            key = key_of(checked.item)
            if key is None:
                continue
            if key in seen or self.ledger.knows(key):
                again.append(key)
                continue
            seen.add(key)
            new.append(checked)
        return new, again

    def commit(self, new: Sequence[Checked]) -> None:
        """Return once new items are safe on disk. Blocks; call `noted` afterwards.

        Raises Denied or Unavailable (full disk): then none of them is stored.
        """
        self._disk.commit([checked.item for checked in new], self._now())

    def noted(self, new: Sequence[Checked], again: Sequence[Key] = ()) -> None:
        """Take items into ledger and window that are safe now, and count resends."""
        self._disk.noted([checked.item for checked in new])
        for checked in new:
            try:
                self.memory.add(checked.item, checked.numbers)
            except Malformed as error:  # its schema was forgotten while the disk was stuck
                LOG.warning("%s; it is on disk but not in the window", error)
        for key in again:
            self.ledger.record(key.agent).duplicates += 1

    def refused(self, key: Key) -> None:
        """Count an item that will never be stored, so that it is not missed."""
        record = self.ledger.record(key.agent)
        record.refused += 1
        record.numbers(key.epoch).note(key.seq)

    def read(self, since_ns: int, until_ns: int, agents: Sequence[str]) -> Iterator[pb.Item]:
        """Yield what the disk holds of a span, oldest first."""
        return self._disk.read(since_ns, until_ns, frozenset(agents))

    def window(self, since_ns: int, until_ns: int) -> Window:
        """Return what memory holds of a span."""
        return self.memory.window(since_ns, until_ns)

    def expire(self) -> None:
        """Delete from disk what is too old or too much. Raises Denied, Unavailable."""
        self._disk.expire(self._now())

    def ports_by_agent(self) -> dict[str, int]:
        """Return how many RDMA ports each agent speaks of in the window."""
        ports: dict[str, set[Port]] = {}
        for agent, entities in self.memory.entities_by_agent():
            found = ports.setdefault(agent, set())
            found.update(entity for entity in entities if isinstance(entity, Port))
        return {agent: len(found) for agent, found in ports.items()}

    def close(self) -> None:
        """Save the ledger and let go of the folder."""
        try:
            self._disk.close()
        finally:
            os.close(self._lock)

    def _schema(self, schema_id: bytes) -> pb.Schema:
        known = self.memory.schema(schema_id)
        if known is None:
            raise UnknownSchema(schema_id.hex(), "store", "its schema is unknown here")
        return known.message


def _lock(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise translate(error, folder, "open") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise Unavailable(str(folder), "open", "another tuner uses this folder") from error
    return handle

"""The store on disk: segments that are rotated, kept for a while, and replayed at start.

Each segment stands alone: it begins with the facts that held when it was opened, and a schema
goes before the first batch that needs it. So the oldest can be deleted at any time. Nothing is
safe, and nothing may be acknowledged, before `commit` has returned.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from collectors.model.errors import FabricError, Malformed
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import key_of
from collectors.wire.segment import SUFFIX, SegmentWriter, segments, translate
from tuner.store.ledger import Ledger, Sealed, sync_folder
from tuner.store.span import read_span, readable, time_of

LOG: Final = logging.getLogger(__name__)
LEDGER: Final = "ledger.json"
_HEADERS: Final = 8  # a segment is at least so many times the facts at its begin
_FORGOTTEN_AFTER: Final = 7  # times the retention, without data from an agent


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept on disk, and when a new segment begins."""

    age_ns: int = 24 * 3600 * 10**9
    max_bytes: int = 20 << 30
    segment_bytes: int = 64 << 20
    segment_ns: int = 600 * 10**9


@dataclass
class _Span:
    """Wall clock of the oldest and newest item of a segment."""

    oldest_ns: int = 1 << 63
    newest_ns: int = 0

    def note(self, item: pb.Item) -> None:
        at_ns = time_of(item)
        if at_ns:
            self.oldest_ns = min(self.oldest_ns, at_ns)
            self.newest_ns = max(self.newest_ns, at_ns)


@dataclass
class DiskStore:
    """The segments of one folder; one process writes at a time (a lock file sees to it).

    schema_of: returns a schema by its id, to be put before a batch.
    """

    folder: Path
    retention: Retention
    schema_of: Callable[[bytes], pb.Schema]
    ledger: Ledger = field(default_factory=Ledger)
    _writer: SegmentWriter | None = None
    _span: _Span = field(default_factory=_Span)
    _opened_ns: int = 0
    _header: int = 0  # bytes of facts at the begin of the open segment
    _now_ns: int = 0
    _written: set[bytes] = field(default_factory=set)
    _facts: dict[tuple[str, str], pb.Facts] = field(default_factory=dict)
    _saved: set[str] = field(default_factory=set)  # segments whose numbers the ledger has on disk

    def open(self, since_ns: int) -> list[Path]:
        """Open the folder and return the segments that a window since then needs, oldest first.

        What the ledger did not know yet is noted in it; the facts that those segments hold are
        for `hold`, before the first `commit`. Raises Denied or Unavailable.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise translate(error, self.folder, "make folder") from error
        try:
            self.ledger.load(self.folder / LEDGER)
        except Malformed as error:
            LOG.warning("%s; it is made anew from the segments", error)
        self._saved = set(self.ledger.sealed)
        paths = segments(self.folder)
        for path in paths:
            if path.name not in self.ledger.sealed:
                self.ledger.sealed[path.name] = self._counted(path)
        for name in set(self.ledger.sealed) - {path.name for path in paths}:
            del self.ledger.sealed[name]
        # The last one begins with the facts that held, however old it is.
        return [
            path
            for path in paths
            if path == paths[-1] or self.ledger.sealed[path.name].newest_ns >= since_ns
        ]

    def hold(self, facts: pb.Facts) -> None:
        """Begin further segments with these facts, until others of the same collector come."""
        self._facts[facts.agent, facts.collector] = facts

    def commit(self, items: Sequence[pb.Item], now_ns: int) -> None:
        """Return once these batches and facts are safe; then note them with `noted`.

        Raises Denied or Unavailable (full disk): then none of them is in the store.
        """
        self._now_ns = now_ns
        writer = self._writer
        if writer is None or self._is_full(writer, now_ns):
            writer = self._rotate(now_ns)
        start, written = writer.size, set(self._written)
        try:
            for item in items:
                if item.WhichOneof("body") == "batch" and item.batch.schema not in self._written:
                    writer.append(pb.Item(schema=self.schema_of(item.batch.schema)))
                    self._written.add(item.batch.schema)
                writer.append(item)
            writer.sync()
        except FabricError:
            self._written = written
            self._undo(writer, start)
            raise

    def noted(self, items: Sequence[pb.Item]) -> None:
        """Note items that `commit` has made safe."""
        for item in items:
            self._span.note(item)
            self._note(item)
            if item.HasField("facts"):
                self.hold(item.facts)

    def read(self, since_ns: int, until_ns: int, agents: Container[str] = ()) -> Iterator[pb.Item]:
        """Yield what is held of a span, as `read_span` does."""
        return read_span(self._reaching(since_ns, until_ns), since_ns, until_ns, agents)

    def _reaching(self, since_ns: int, until_ns: int) -> Iterator[Path]:
        """Yield the segments that may hold something of a span, oldest first."""
        for path in segments(self.folder):
            known = self.ledger.sealed.get(path.name)
            if known is None or (known.newest_ns >= since_ns and known.oldest_ns <= until_ns):
                yield path

    def expire(self, now_ns: int) -> None:
        """Delete the oldest segments while they are too old or too many. Raises Denied..."""
        kept = sorted(self.ledger.sealed.items())
        size = sum(segment.size for _, segment in kept)
        # Neither a tuner's clock that jumps ahead nor an agent's may cost what is young.
        newest = max([self._span.newest_ns, *(segment.newest_ns for _, segment in kept)])
        begin = min(now_ns, newest) - self.retention.age_ns
        self.ledger.forget(begin - _FORGOTTEN_AFTER * self.retention.age_ns)
        for name, segment in kept:
            old = segment.written_ns < begin
            if name not in self._saved or not (old or size > self.retention.max_bytes):
                break
            path = self.folder / name
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise translate(error, path, "delete") from error
            size -= segment.size
            del self.ledger.sealed[name]

    def close(self) -> None:
        """Seal the open segment and save the ledger. Raises Denied or Unavailable."""
        self._seal()
        self._save()

    def _save(self) -> None:
        self.ledger.save(self.folder / LEDGER)
        self._saved = set(self.ledger.sealed)

    def _counted(self, path: Path) -> Sealed:
        """Note what a segment holds that the ledger does not know, and return its row there."""
        span = _Span()
        for item in readable(path):
            span.note(item)
            key = key_of(item)
            if key is not None and not self.ledger.knows(key):
                self._note(item)
        facts = path.stat()
        return Sealed(span.oldest_ns, span.newest_ns, facts.st_mtime_ns, facts.st_size)

    def _note(self, item: pb.Item) -> None:
        key = key_of(item)
        if key is None:
            return
        if item.HasField("batch"):
            batch = item.batch
            self.ledger.note(key, len(batch.ints) + len(batch.floats), batch.at_ns)
        else:
            self.ledger.note(key, 0, None)

    def _is_full(self, writer: SegmentWriter, now_ns: int) -> bool:
        kept = self.retention
        most = max(kept.segment_bytes, _HEADERS * self._header)  # else facts would fill the disk
        return writer.size >= most or now_ns - self._opened_ns >= kept.segment_ns

    def _rotate(self, now_ns: int) -> SegmentWriter:
        self._seal()
        self.expire(now_ns)
        last = segments(self.folder)[-1:]
        number = int(last[0].stem) + 1 if last else 1
        writer = SegmentWriter(self.folder / f"{number:012d}{SUFFIX}")
        try:
            for facts in self._facts.values():
                writer.append(pb.Item(facts=facts))
            writer.sync()
            sync_folder(self.folder)
            self._save()
        except (FabricError, OSError) as error:
            writer.close()
            with contextlib.suppress(OSError):
                writer.path.unlink()
            if isinstance(error, OSError):
                raise translate(error, writer.path, "open") from error
            raise
        self._writer, self._opened_ns, self._header = writer, now_ns, writer.size
        self._span, self._written = _Span(), set()
        return writer

    def _seal(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            self.ledger.sealed[writer.path.name] = Sealed(
                self._span.oldest_ns, self._span.newest_ns, self._now_ns, writer.size
            )

    def _undo(self, writer: SegmentWriter, size: int) -> None:
        """Cut the segment back, else go on with another one: nothing half-written may be read."""
        try:
            os.truncate(writer.path, size)
        except OSError as error:
            LOG.warning("%s", translate(error, writer.path, "cut back"))
        writer.size = size
        self._seal()

"""The spool: what the tuner has not acknowledged yet, on disk, bounded.

    SPOOL/lock
    SPOOL/00000007-<epoch>/00000000000000000001.ftseg    one folder for each run of the agent
                           00000000000000004711.ftseg    named by the first number in it

Each run numbers its items 1, 2, 3... in an epoch of its own, so that no number can ever mean
two things, whatever a crash took back; what former runs left is delivered first. Each segment
begins with the Hello of its run and repeats the schemas it needs. Segments are deleted when all
of them is acknowledged, and the oldest when the spool is full. Where the disk refuses (full,
read-only, gone), items wait in memory, bounded as well, and the agent goes on.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import re
import threading
import uuid
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from agent.packing import Packed
from collectors.model.errors import FabricError, Unavailable
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import Key, key_of, set_key
from collectors.wire.segment import SUFFIX, SegmentWriter, read_segment, segments, translate

_log: Final = logging.getLogger("agent.spool")

_MEMORY_BYTES: Final = 16 << 20  # of items that the disk refused
_SEGMENT_MOST: Final = 4 << 20
_SEGMENTS_AT_LEAST: Final = 8  # so that dropping the oldest drops an eighth, not all
_DISK_REFUSES: Final = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}
_EPOCH: Final = re.compile(r"(\d{8})-([0-9a-f]{32})")


@dataclass(frozen=True, slots=True)
class Sendable:
    """A numbered item, with the schemas that came before it in its segment."""

    seq: int
    item: pb.Item
    schemas: tuple[pb.Item, ...] = ()


@dataclass
class Segment:
    """A segment on disk. size: bytes that are whole; last: number of its last item, if known."""

    path: Path
    size: int
    last: int | None = None


@dataclass
class Epoch:
    """A run of the agent. segments: oldest first. acknowledged: by the tuner."""

    folder: Path
    name: str
    segments: list[Segment] = field(default_factory=list)
    acknowledged: int = 0
    last: int = 0  # number given last; of the current run only


class Spool:
    """Numbers items, keeps them until they are acknowledged, and hands them out in order.

    hello: of this run; its epoch is filled in here. Safe for threads: one appends, one sends.
    version: grows with every append; `changed` is notified. Raises Unavailable or Denied where
    the folder cannot be used, or another agent uses it.
    """

    def __init__(self, folder: Path, max_bytes: int, hello: pb.Hello) -> None:
        self.changed = threading.Condition()
        self.version = 0
        self.dropped = 0  # items lost because the spool was full
        self.write_errors = 0
        self._folder = folder
        self._max_bytes = max_bytes
        self._segment_bytes = min(_SEGMENT_MOST, max_bytes // _SEGMENTS_AT_LEAST)
        self._lock_file = _lock(folder)
        self._old = _read_epochs(folder)
        number = 1 + max((int(e.folder.name.split("-")[0]) for e in self._old), default=0)
        name = uuid.uuid4().hex
        self.hello = pb.Hello()
        self.hello.CopyFrom(hello)
        self.hello.epoch = name
        self.current = Epoch(folder / f"{number:08d}-{name}", name)
        self._writer: SegmentWriter | None = None
        self._written: dict[bytes, pb.Item] = {}  # schemas in the open segment
        self._memory: deque[tuple[Sendable, int]] = deque()
        self._memory_bytes = 0
        self._complained = False

    # --- the side that appends -----------------------------------------------------------

    def append(self, packed: Packed) -> int:
        """Number an item, keep it, and return its number. Never raises for the disk."""
        with self.changed:
            self.current.last += 1
            seq = self.current.last
            set_key(packed.item, Key(self.hello.agent, self.current.name, seq))
            schemas = (pb.Item(schema=packed.schema),) if packed.schema else ()
            sendable = Sendable(seq, packed.item, schemas)
            if self._memory and not self._empty_memory():
                self._remember(sendable)
            else:
                try:
                    self._write(sendable)
                except FabricError as error:
                    self._complain(error)
                    self._remember(sendable)
            self._shrink()
            self.version += 1
            self.changed.notify_all()
            return seq

    def sync(self) -> None:
        """Make what is on disk safe against a power cut, where the disk can."""
        with self.changed:
            writer = self._writer
        if writer is not None:
            with contextlib.suppress(FabricError, ValueError):  # ValueError: closed meanwhile
                writer.sync()

    def close(self) -> None:
        """Write what is in memory where the disk takes it, and let go of the folder."""
        with self.changed:
            if self._memory:
                self._empty_memory()
            self._close_writer()
            if self.current.acknowledged >= self.current.last:
                self._delete(self.current)
            self.version += 1
            self.changed.notify_all()
        if self._lock_file:
            self._lock_file.close()

    # --- the side that sends --------------------------------------------------------------

    def oldest(self) -> Epoch:
        """Return the epoch to deliver now: the oldest of a former run, else the current one."""
        with self.changed:
            return self._old[0] if self._old else self.current

    def acknowledge(self, epoch: Epoch, seq: int) -> None:
        """Note that everything of the epoch up to a number is safe with the tuner."""
        with self.changed:
            epoch.acknowledged = max(epoch.acknowledged, seq)
            if epoch is self.current:
                while self._memory and self._memory[0][0].seq <= seq:
                    self._memory_bytes -= self._memory.popleft()[1]
            while epoch.segments:
                segment = epoch.segments[0]
                done = segment.last is not None and segment.last <= epoch.acknowledged
                if not done or (self._writer and segment.path == self._writer.path):
                    break
                self._remove(epoch, segment)
            self.changed.notify_all()

    def finished(self, epoch: Epoch) -> None:
        """Forget an epoch of a former run: all of it was delivered or cannot be read."""
        with self.changed:
            if epoch in self._old:
                self._old.remove(epoch)
                self._delete(epoch)

    def waiting(self) -> int:
        """Return how many items of this run are not acknowledged."""
        with self.changed:
            return self.current.last - self.current.acknowledged

    def bytes(self) -> int:
        """Return the size of the spool, on disk and in memory."""
        with self.changed:
            return self._disk_bytes() + self._memory_bytes

    def in_memory(self, after: int) -> Sendable | None:
        """Return the first item after a number that only memory holds."""
        with self.changed:
            return next((s for s, _ in self._memory if s.seq > after), None)

    # --- inside; the lock is held ----------------------------------------------------------

    def _write(self, sendable: Sendable) -> None:
        writer = self._open_writer(sendable.seq)
        segment = self.current.segments[-1]
        for schema in sendable.schemas:
            if schema.schema.id not in self._written:
                writer.append(schema)
                self._written[schema.schema.id] = schema
        writer.append(sendable.item)
        segment.size, segment.last = writer.size, sendable.seq
        if self._complained:
            self._complained = False
            _log.info("%s: the disk takes data again", self._folder)

    def _open_writer(self, seq: int) -> SegmentWriter:
        if self._writer and self._writer.size >= self._segment_bytes:
            self._close_writer()
        if self._writer is None:
            path = self.current.folder / f"{seq:020d}{SUFFIX}"
            try:
                self.current.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise translate(error, self.current.folder, "make folder") from error
            try:
                self._writer = SegmentWriter(path)
                self._writer.append(pb.Item(hello=self.hello))
            except FabricError:
                self._close_writer()
                with contextlib.suppress(OSError):
                    path.unlink()
                raise
            self.current.segments.append(Segment(path, self._writer.size))
            self._written.clear()
        return self._writer

    def _close_writer(self) -> None:
        if self._writer:
            with contextlib.suppress(OSError):
                self._writer.close()
            self._writer = None

    def _remember(self, sendable: Sendable) -> None:
        self.write_errors += 1
        size = sendable.item.ByteSize() + sum(s.ByteSize() for s in sendable.schemas)
        self._memory.append((sendable, size))
        self._memory_bytes += size
        while self._memory_bytes > _MEMORY_BYTES and len(self._memory) > 1:
            self._memory_bytes -= self._memory.popleft()[1]
            self.dropped += 1

    def _empty_memory(self) -> bool:
        """Write what memory holds, in order; False where the disk still refuses."""
        while self._memory:
            sendable, size = self._memory[0]
            try:
                self._write(sendable)
            except FabricError as error:
                self._complain(error)
                return False
            self._memory.popleft()
            self._memory_bytes -= size
        return True

    def _complain(self, error: FabricError) -> None:
        if not self._complained:
            self._complained = True
            _log.error("%s; keeping up to %d MiB in memory", error, _MEMORY_BYTES >> 20)

    def _disk_bytes(self) -> int:
        return sum(s.size for epoch in (*self._old, self.current) for s in epoch.segments)

    def _shrink(self) -> None:
        """Drop the oldest segments until the spool is within its bound."""
        while self._disk_bytes() > self._max_bytes:
            epoch = next((e for e in (*self._old, self.current) if e.segments), None)
            if epoch is None:
                return
            segment = epoch.segments[0]
            if self._writer and segment.path == self._writer.path:
                return
            lost = _count(segment, epoch.acknowledged)
            if not self.dropped and lost:
                _log.error("%s: full; dropping the oldest, which counts as missing", self._folder)
            self.dropped += lost
            self._remove(epoch, segment)

    def _remove(self, epoch: Epoch, segment: Segment) -> None:
        epoch.segments.remove(segment)
        with contextlib.suppress(OSError):
            segment.path.unlink()

    def _delete(self, epoch: Epoch) -> None:
        for segment in tuple(epoch.segments):
            self._remove(epoch, segment)
        with contextlib.suppress(OSError):
            epoch.folder.rmdir()


def _lock(folder: Path) -> BinaryIO | None:
    """Take the folder for this process; None where the disk cannot even hold a lock now."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("ab")
    except OSError as error:
        if error.errno in _DISK_REFUSES:
            _log.error("%s: %s; going on in memory", folder, error.strerror)
            return None
        raise translate(error, folder, "open spool") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise Unavailable(
            str(folder), "open spool", "another fabric-agent uses it; set uplink.spool"
        ) from error
    return file


def _read_epochs(folder: Path) -> list[Epoch]:
    """Return what former runs left, oldest first."""
    found: list[Epoch] = []
    with contextlib.suppress(OSError):
        for path in sorted(folder.iterdir()):
            match = _EPOCH.fullmatch(path.name)
            if match is None:
                continue
            left = [Segment(part, part.stat().st_size) for part in segments(path)]
            if left:
                found.append(Epoch(path, match[2], left))
            else:
                path.rmdir()
    return found


def _count(segment: Segment, acknowledged: int) -> int:
    """Return how many items of a segment are not acknowledged."""
    count = 0
    with contextlib.suppress(FabricError):
        for item in read_segment(segment.path):
            key = key_of(item)
            count += key is not None and key.seq > acknowledged
    return count

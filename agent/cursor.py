"""Reads a spool in order while it grows, for one stream of the uplink."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from io import FileIO
from typing import Final

from agent.spool import Epoch, Segment, Sendable, Spool
from collectors.model.errors import FabricError, Malformed
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import key_of
from collectors.wire.segment import MAGIC, parse_frame, read_segment

_log: Final = logging.getLogger("agent.spool")

_GATHER_S: Final = 0.05  # collectors wake together: one waking here for all of their passes


class Cursor:
    """Hands out the items of one epoch, from the number after `after`.

    last: number of the item handed out last. Segments may be dropped under it: it goes on with
    the next one.
    """

    def __init__(self, spool: Spool, epoch: Epoch, after: int) -> None:
        self.last = after
        self._spool = spool
        self._epoch = epoch
        self._segment: Segment | None = None
        self._file: FileIO | None = None
        self._whole = 0  # bytes of the segment that may be read
        self._highest = 0  # number in this segment
        self._schemas: list[pb.Item] = []

    def next(self, timeout_s: float, stopped: Callable[[], bool]) -> Sendable | None:
        """Return the next item, waiting for it.

        None after the time-out, once stopped, and at the end of a former run's epoch.
        """
        while not stopped():
            with self._spool.changed:
                version = self._spool.version
            found = self._from_disk()
            if found is None and self._epoch is not self._spool.current:
                return None
            if found is None:
                found, came = self._from_memory(version, timeout_s)
                if found is None and not came:
                    return None
            if found is not None:
                self.last = found.seq
                return found
            if timeout_s and not stopped():
                time.sleep(_GATHER_S)
        return None

    def _from_memory(self, version: int, timeout_s: float) -> tuple[Sendable | None, bool]:
        """Return what only memory holds, else wait; and whether there may be more now."""
        with self._spool.changed:
            if self._spool.version != version:
                return None, True  # what memory held might have moved to disk
            found = self._spool.in_memory(self.last)
            return found, found is not None or self._spool.changed.wait(timeout_s)

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()
            self._file = None

    def _from_disk(self) -> Sendable | None:
        while self._advance():
            try:
                found = self._read()
            except (OSError, FabricError) as error:
                _log.error("%s: the rest of it cannot be read: %s", self._segment, error)
                found = None
                self._whole = -1
            if found is not None:
                return found
            self._end_of_segment()
        return None

    def _advance(self) -> bool:
        """Be at a segment with bytes left to read; False where there is none (yet)."""
        with self._spool.changed:
            segment = self._segment
            if segment and self._file and self._whole >= 0:
                self._whole = segment.size
                if self._file.tell() < self._whole:
                    return True
            name = segment.path.name if segment else ""
            later = next((s for s in self._epoch.segments if s.path.name > name), None)
            if later is None:
                return False
            self.close()
            self._segment, self._whole, self._highest = later, later.size, 0
            self._schemas.clear()
            return True

    def _read(self) -> Sendable | None:
        """Return the next numbered item after `last`, None at the end of what is whole."""
        if self._file is None and self._segment is not None:
            with contextlib.suppress(FileNotFoundError):  # dropped meanwhile
                self._file = FileIO(self._segment.path)
                if self._file.read(len(MAGIC)) != MAGIC:
                    raise Malformed(str(self._segment.path), "read", "this is no segment")
        while self._file and self._file.tell() < self._whole:
            item = parse_frame(self._file)
            if item is None:  # cut short by a crash; nothing follows
                self._file.seek(self._whole)
                break
            if item.HasField("schema"):
                self._schemas.append(item)
            key = key_of(item)
            if key is None:
                continue
            self._highest = max(self._highest, key.seq)
            schemas, self._schemas = tuple(self._schemas), []
            if key.seq > self.last:
                return Sendable(key.seq, item, schemas)
            self._schemas = list(schemas)  # an item that comes later may need them
        return None

    def _end_of_segment(self) -> None:
        """Tell the spool where a former run's segment ended: acknowledging may delete it now."""
        if self._segment and self._epoch is not self._spool.current:
            self._segment.last = self._highest


def read_hello(epoch: Epoch) -> pb.Hello | None:
    """Return the Hello of a former run, None where nothing of it can be read."""
    for segment in tuple(epoch.segments):
        with contextlib.suppress(FabricError):
            first = next(read_segment(segment.path), None)
            if first is not None and first.HasField("hello"):
                return first.hello
    return None

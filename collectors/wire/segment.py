"""Segments: the one file format of spool, store and recording.

A segment is a file of frames; a frame is length, CRC-32 and a zlib-compressed `Item`. A crash
may cut the last frame short: reading ends there, and appending cuts the torn tail off first. A
folder of segments with ascending names is a spool, a store or a recording.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import zlib
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Final

from collectors.model.errors import Denied, FabricError, Malformed, Unavailable
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import parse_item

MAGIC: Final = b"FTSEG1\n\0"
SUFFIX: Final = ".ftseg"
_HEAD: Final = struct.Struct("<II")  # length of the compressed item, CRC-32 of it
MOST_BYTES: Final = 64 << 20  # a longer frame is damage, not data
_MOST_ITEM: Final = 256 << 20  # unpacked; gRPC takes a quarter of it


def pack_frame(item: pb.Item) -> bytes:
    """Return an item as the frame of a segment."""
    data = zlib.compress(item.SerializeToString(), 1)
    return _HEAD.pack(len(data), zlib.crc32(data)) + data


def parse_frame(file: BinaryIO | FileIO) -> pb.Item | None:
    """Return the next item; None at the end and where the last frame was cut short.

    Raises Malformed where a whole frame does not match its checksum.
    """
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    length, crc = _HEAD.unpack(head)
    data = file.read(length) if length <= MOST_BYTES else b""
    if len(data) < length:
        return None
    if zlib.crc32(data) != crc:
        raise _damage(file, "checksum differs", data)
    try:
        return parse_item(_decompressed(data))
    except zlib.error as error:
        raise _damage(file, str(error), data) from error


def _damage(file: BinaryIO | FileIO, why: str, data: bytes) -> Malformed:
    """Return the error of a frame that was just read, with the place where it begins."""
    start = file.tell() - len(data) - _HEAD.size
    return Malformed(getattr(file, "name", "segment"), "read", why, data, start)


def _decompressed(data: bytes) -> bytes:
    """Return the bytes of a frame. Raises zlib.error, also where they would fill the memory."""
    unpacking = zlib.decompressobj()
    item = unpacking.decompress(data, _MOST_ITEM)
    if not unpacking.eof:
        raise zlib.error(f"cut short, or over {_MOST_ITEM >> 20} MiB when unpacked")
    return item


def segments(folder: Path) -> list[Path]:
    """Return the segments of a folder, oldest first."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def read_segment(path: Path, start: int = 0) -> Iterator[pb.Item]:
    """Yield the items of a segment, all or from the frame on that begins at a place.

    Raises Malformed for a file of another form or a damaged frame, Denied or Unavailable where
    it cannot be read.
    """
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise Malformed(str(path), "read", "this is no segment")
            file.seek(max(start, len(MAGIC)))
            while (item := parse_frame(file)) is not None:
                yield item
    except OSError as error:
        raise translate(error, path, "read") from error


def torn_bytes(path: Path) -> int:
    """Return how many bytes of a segment are no whole frame, because its end was cut off.

    Looks at the lengths of frames only. Raises Denied or Unavailable where it cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            whole = file.read(len(MAGIC)) == MAGIC
            return _after_frames(file.fileno()) if whole else 0  # else reading it says so
    except OSError as error:
        raise translate(error, path, "read") from error


def _after_frames(file: int) -> int:
    at, size = len(MAGIC), os.fstat(file).st_size
    while len(head := os.pread(file, _HEAD.size, at)) == _HEAD.size:
        end = at + _HEAD.size + int(_HEAD.unpack(head)[0])
        if end > size:
            break
        at = end
    return max(size - at, 0)


def load_segment(path: Path) -> bytearray:
    """Return all bytes of a segment. Raises as `read_segment`, but for damage of frames."""
    try:
        with path.open("rb", buffering=0) as file:
            data = bytearray(os.fstat(file.fileno()).st_size)
            view, size = memoryview(data), 0
            while size < len(data) and (count := file.readinto(view[size:])):
                size += count
    except OSError as error:
        raise translate(error, path, "read") from error
    view.release()
    del data[size:]
    if not data.startswith(MAGIC):
        raise Malformed(str(path), "read", "this is no segment")
    return data


class SegmentWriter:
    """Appends items to one segment.

    path: the file, made or continued; a torn tail of a crash is cut off. `sync` makes what was
    appended safe on disk. Raises Denied or Unavailable (a full disk among others); after a
    failed append the file is cut back to the last whole frame, so that nothing torn remains.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("r+b" if path.exists() else "x+b", buffering=0)
            self.size = self._repair()
        except OSError as error:
            raise translate(error, path, "open") from error

    def append(self, item: pb.Item) -> int:
        """Append one item and return the size of its frame in bytes."""
        frame = pack_frame(item)
        try:
            if self._file.write(frame) != len(frame):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._cut()
            raise translate(error, self.path, "append") from error
        self.size += len(frame)
        return len(frame)

    def sync(self) -> None:
        """Return once all that was appended is on disk."""
        try:
            os.fdatasync(self._file.fileno())
        except OSError as error:
            raise translate(error, self.path, "sync") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _repair(self) -> int:
        if self._file.read(len(MAGIC)) != MAGIC:
            self._file.seek(0, os.SEEK_END)
            if self._file.tell() >= len(MAGIC):
                raise Malformed(str(self.path), "append", "this is no segment")
            self._file.seek(0)
            self._file.truncate()
            self._file.write(MAGIC)
            return len(MAGIC)
        good = self._file.tell()
        with contextlib.suppress(Malformed):  # what follows a damaged frame is damage, too
            while parse_frame(self._file) is not None:
                good = self._file.tell()
        self._file.seek(good)
        self._file.truncate()
        return good

    def _cut(self) -> None:
        with contextlib.suppress(OSError):  # else _repair mends it at the next open
            self._file.seek(self.size)
            self._file.truncate()


def translate(error: OSError, path: Path, what: str) -> FabricError:
    """Return the project's error for an operating-system error on a file."""
    kind = Denied if isinstance(error, PermissionError) else Unavailable
    return kind(str(path), what, error.strerror or str(error))

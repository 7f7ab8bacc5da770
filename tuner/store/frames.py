"""The frames of segments by the hundred thousand, as arrays.

A store of a large fabric holds few kinds of batches, each of them many times: agent, collector,
schema, bitmap and boot are the same, and times and numbers differ. What is the same is kept once
as the *head* of the batch, a protobuf message itself; numbers go to arrays. Schemas and facts,
which each segment repeats, are unpacked once. Items that this reader does not understand are
handed on whole, and where a segment is damaged, reading ends with the place.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import parse_item
from collectors.wire.segment import MAGIC
from tuner.store import unpack
from tuner.store.arithmetic import Floats, Ints, Values, Words
from tuner.store.unpack import Bytes, Known

_MOST_RAW: Final = 32 << 20  # bytes of an item; longer ones are left to the reader of single items
_MOST_HEAD: Final = 1 << 20
_MOST_FRAMES: Final = 8192


@dataclass(frozen=True, eq=False)
class Chunk:
    """Frames of one segment, in order, and their numbers; columns as in `unpack`.

    heads: how many heads are known after it. stuck_at: where in the segment the reader of single
    items must go on, None where this one does. torn: bytes at the segment's end that are no whole
    frame, known when the last chunk of it is read.
    """

    frames: Ints
    ints: Words
    floats: Floats
    times: Ints
    texts: Bytes
    heads: int
    stuck_at: int | None
    torn: int

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers."""
        return 8 * (len(self.ints) + len(self.floats) + len(self.times))

    def text(self, frame: int) -> bytes:
        """Return the item of a frame that is no batch."""
        row = self.frames[frame]
        return self.texts[row[unpack.TEXT] : row[unpack.TEXT_END]].tobytes()


@dataclass(eq=False)
class Reader:
    """Reads segments, one after the other, in chunks."""

    _state: Ints = field(default_factory=lambda: np.zeros(unpack.STATE, np.int64))
    _sizes: Ints = field(default_factory=lambda: np.zeros(4, np.int64))
    _inflated: Words = field(default_factory=lambda: np.zeros(1, np.uint64))
    _raw: Bytes = field(default_factory=lambda: np.empty(_MOST_RAW, np.uint8))
    _head: Bytes = field(default_factory=lambda: np.empty(_MOST_HEAD, np.uint8))
    _heads: Known = field(default_factory=lambda: _empty(4 * _MOST_RAW))
    _kept: Known = field(default_factory=lambda: _empty(16 * _MOST_RAW))

    def read(self, segment: Bytes) -> Iterator[Chunk]:
        """Yield the frames of a segment. The interpreter's lock is free while it reads."""
        self._state[unpack.PLACE] = len(MAGIC)
        ended = unpack.FULL
        while ended == unpack.FULL:
            self._state[unpack.FRAMES : unpack.N_TEXTS + 1] = 0
            frames = np.empty((_MOST_FRAMES, unpack.WIDTH), np.int64)
            ints = np.empty(_MOST_RAW // 8, np.uint64)
            floats = np.empty(_MOST_RAW // 8, np.float64)
            times = np.empty(_MOST_RAW // 8, np.int64)
            texts = np.empty(_MOST_RAW, np.uint8)
            ended = unpack.read(
                segment, self._state, self._sizes, self._inflated, frames, self._raw, self._head,
                ints, floats, times, texts, self._heads, self._kept,
            )  # fmt: skip
            used = self._state.tolist()
            yield Chunk(
                frames[: used[unpack.FRAMES]],
                ints[: used[unpack.N_INTS]],
                floats[: used[unpack.N_FLOATS]],
                times[: used[unpack.N_TIMES]],
                texts[: used[unpack.N_TEXTS]],
                used[unpack.HEADS],
                used[unpack.PLACE] if ended == unpack.STUCK else None,
                len(segment) - used[unpack.PLACE] if ended == unpack.END else 0,
            )

    def head(self, number: int) -> pb.Batch:
        """Return what the batches of a head have in common. Raises Malformed."""
        body = _bytes(self._heads, number)
        size = len(body)  # in the seven-bit groups of protobuf, three of them: see _MOST_HEAD
        length = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14])
        return parse_item(b"\x1a" + length + body).batch

    def sizes(self, number: int) -> Sequence[int]:
        """Return the sizes of their numbers: integers, floats, both kinds of time offsets."""
        sizes: list[int] = self._heads.sizes[number].tolist()
        return sizes

    def kept(self, number: int) -> bytes:
        """Return the item of schema or facts by their number."""
        return zlib.decompress(_bytes(self._kept, number))


def _bytes(known: Known, number: int) -> bytes:
    return known.data[known.start[number] : known.start[number + 1]].tobytes()


def _empty(size: int) -> Known:
    return Known(
        np.zeros(size, np.uint8),
        np.zeros(unpack.MOST_KNOWN + 1, np.int64),
        np.zeros((unpack.MOST_KNOWN, 4), np.int64),
        np.zeros(unpack.SLOTS, np.int32),
    )


class Copies:
    """Copies numbers to where they belong, by a thread while the interpreter goes on.

    Sources and targets must stay where they are until `wait` has returned.
    """

    def __init__(self, thread: Executor) -> None:
        self._thread = thread
        self._jobs: list[tuple[Ints, Ints, Ints]] = []
        self._bytes = 0
        self._running: list[Future[None]] = []

    def later(self, addresses: Ints, out: Values) -> None:
        """Copy a row of `out` from each address, some time."""
        self._jobs.append(_job(addresses, out))
        self._bytes += out.nbytes
        if self._bytes > _MOST_RAW:
            self._start()

    def wait(self) -> None:
        """Return once everything is copied."""
        self._start()
        for running in self._running:
            running.result()

    def _start(self) -> None:
        if self._jobs:
            jobs = (np.concatenate(parts) for parts in zip(*self._jobs, strict=True))
            self._running.append(self._thread.submit(unpack.copy, *jobs))
        self._jobs, self._bytes = [], 0


def copy_rows(addresses: Ints, out: Values) -> None:
    """Copy a row of a matrix from each address."""
    unpack.copy(*_job(addresses, out))


def _job(addresses: Ints, out: Values) -> tuple[Ints, Ints, Ints]:
    size = out.shape[1] * out.itemsize
    begin: int = out.__array_interface__["data"][0]
    rows = np.arange(len(addresses), dtype=np.int64)
    return addresses, begin + rows * size, np.full(len(addresses), size)

"""pcap and pcapng files as one byte array with the place of every frame in it. No packet objects.

pcap in all four magics: both byte orders, micro- and nanoseconds. pcapng: see pcapng.py.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collectors.capture import pcapng
from collectors.capture.chains import (
    BLOCK,
    CHUNK,
    ETHERNET,
    LARGEST,
    STRIDE,
    Column,
    Columns,
    Layout,
    Raw,
    in_step,
    words,
)
from collectors.model.errors import Malformed, NotSupported, Unavailable

_MAGICS: Final = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
LARGE: Final = 1 << 20  # bytes from which on a file is mapped
PADDING: Final = 256  # zero bytes after the last frame, so that header reads stay in bounds
TRIAL: Final = 64  # records of one size in a row that make it worth to take a run at once
MIXED: Final = 4096  # records that are looked at one by one before a run is tried again


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames of a file.

    data: all bytes. start, captured, length: offset, stored bytes and bytes on the wire of each
    frame. time_ns: since 1970.
    """

    data: NDArray[np.uint8]
    start: NDArray[np.int64]
    captured: NDArray[np.int64]
    length: NDArray[np.int64]
    time_ns: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)


def read_frames(file: Path) -> Iterator[Frames]:
    """Yield the frames of a file in chunks. A file cut off in a frame yields what is before it.

    A large file is mapped, not read: its size is no matter, but nobody may shorten it meanwhile.
    Raises Unavailable, Malformed, NotSupported (link types other than Ethernet).
    """
    try:
        with file.open("rb") as opened:
            if os.fstat(opened.fileno()).st_size < LARGE:
                raw: Raw = opened.read()
            else:
                raw = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise Unavailable(str(file), "read capture", error.strerror or str(error)) from error
    yield from parse_frames(raw, str(file))


def parse_frames(raw: Raw, name: str) -> Iterator[Frames]:
    """Yield the frames of a capture's bytes. name: for errors."""
    if raw[:4] in _MAGICS:
        chunks = _pcap(raw, name)
    elif raw[:4] == pcapng.MAGIC:
        chunks = pcapng.pcapng(raw, name)
    else:
        raise Malformed(name, "read capture", "neither pcap nor pcapng", raw[:16])
    data = np.frombuffer(raw, np.uint8)
    for columns in chunks:
        start, captured = columns[:2]
        if len(raw) < LARGE:
            yield _padded(data, columns)
            continue
        cut = int(np.searchsorted(start + captured, len(raw) - PADDING, "right"))
        yield Frames(data, *(column[:cut] for column in columns))
        if cut < len(start):
            yield _padded(data, tuple(column[cut:] for column in columns))  # type: ignore[arg-type]


def _padded(data: NDArray[np.uint8], columns: Columns) -> Frames:
    """Return frames with a copy of the bytes from the first on, and PADDING after them."""
    start, *others = columns
    base = int(start[0]) if len(start) else len(data)
    copy = np.zeros(len(data) - base + PADDING, np.uint8)
    copy[: len(data) - base] = data[base:]
    return Frames(copy, start - base, *others)


def _pcap(raw: Raw, name: str) -> Iterator[Columns]:
    order, scale = _MAGICS[raw[:4]]
    if len(raw) < 24:
        raise Malformed(name, "read capture", "the file header is cut off", raw[:24])
    data = np.frombuffer(raw, np.uint8)
    link = struct.unpack_from(order + "I", raw, 20)[0] & 0xFFFF
    if link != ETHERNET:
        raise NotSupported(name, "read capture", f"link type {link}; Ethernet (1) is read")
    layout = Layout(order, size_at=8, extra=16, header=16, least=16)
    at, guess = 24, True
    while at <= len(raw) - 16:
        parts: list[Columns] = []
        count = 0
        while count < CHUNK and at <= len(raw) - 16:
            columns, following = _alike(raw, at, order, scale, CHUNK - count)
            if columns is None:
                places = None
                if guess and len(raw) - at > 4 * STRIDE:
                    end = min(len(raw), at + BLOCK)
                    starts = [at, *_likely(raw, at, end, order)]
                    places, following, guess = in_step(data, starts, end, layout)
                if places is None or not len(places):
                    places, following = _one_by_one(raw, at, order, MIXED)
                columns = _headers(data, places, order, scale)
            if following == at:
                break  # cut off: what came before is good
            parts.append(columns)
            count += len(columns[0])
            at = following
        if not parts:
            return
        yield _joined(parts)


def _alike(raw: Raw, at: int, order: str, scale: int, most: int) -> tuple[Columns | None, int]:
    """Return a run of records of one size, found without looking at each, and what follows.

    None where the next few differ in size: then looking at each is quicker.
    """
    size = struct.unpack_from(order + "I", raw, at + 8)[0]
    step = 16 + size
    room = min((len(raw) - at) // step, most)
    count = min(room, TRIAL)
    while True:
        if count < TRIAL:
            return None, at
        shape, strides = (count, 4), (step, 4)
        rows: NDArray[np.uint32] = np.ndarray(shape, np.dtype(order + "u4"), raw, at, strides)
        same = rows[:, 2] == size
        length = count if same.all() else int(same.argmin())
        if length < TRIAL:
            return None, at
        if length < count or count == room:
            rows = rows[:length]
            places = at + 16 + step * np.arange(length, dtype=np.int64)
            times = rows[:, 0].astype(np.int64) * 10**9 + rows[:, 1].astype(np.int64) * scale
            lengths = rows[:, 3].astype(np.int64)
            return (places, np.full(length, size, np.int64), lengths, times), at + step * length
        count = min(room, count * 16)


def _one_by_one(raw: Raw, at: int, order: str, most: int) -> tuple[Column, int]:
    """Return where up to so many records begin, and what follows them."""
    size_of = struct.Struct(order + "I").unpack_from
    found: list[int] = []
    end = len(raw)
    for _ in range(most):
        if at + 16 > end:
            break
        following = at + 16 + size_of(raw, at + 8)[0]
        if following > end:
            break
        found.append(at)
        at = following
    return np.array(found, np.int64), at


def _likely(raw: Raw, at: int, end: int, order: str) -> Iterator[int]:
    """Yield places, one every STRIDE, that look like a record's header, by the first one's time.

    The upper three bytes of the seconds hold for 256 s; a longer capture has places without.
    """
    header = struct.Struct(order + "IIII")
    second = header.unpack_from(raw, at)[0]
    upper = struct.pack(order + "I", second)
    upper, lead = (upper[1:], 1) if order == "<" else (upper[:3], 0)
    for goal in range(at + STRIDE, end - STRIDE, STRIDE):
        found = goal
        while (found := raw.find(upper, found, goal + STRIDE)) >= 0:
            place = found - lead
            size, length = header.unpack_from(raw, place)[2:]
            following = place + 16 + size
            if size <= length <= LARGEST and following <= end - 16:
                later = header.unpack_from(raw, following)
                if abs(later[0] - second) < 256 and later[2] <= later[3] <= LARGEST:
                    yield place
                    break
            found += 1


def _headers(data: NDArray[np.uint8], places: Column, order: str, scale: int) -> Columns:
    """Return the columns of the records that begin at these places."""
    rows = words(data, places, 4, order).astype(np.int64)
    times = rows[:, 0] * 10**9 + rows[:, 1] * scale
    return places + 16, rows[:, 2], rows[:, 3], times


def _joined(parts: list[Columns]) -> Columns:
    start, captured, length, times = (
        np.concatenate([part[place] for part in parts]) for place in range(4)
    )
    return start, captured, length, times

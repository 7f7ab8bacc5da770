"""pcap and pcapng files as one byte array with the place of every frame in it. No packet objects.

Formats: pcap (all four magics, both byte orders, micro- and nanoseconds), pcapng (section,
interface, enhanced and simple packet blocks, `if_tsresol`).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collectors.model.errors import Malformed, NotSupported, Unavailable

ETHERNET: Final = 1
_MAGICS: Final = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
_NG: Final = b"\x0a\x0d\x0d\x0a"
PADDING: Final = 256  # zero bytes after the last frame, so that header reads stay in bounds
CHUNK: Final = 250_000
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

    Raises Unavailable, Malformed, NotSupported (link types other than Ethernet).
    """
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise Unavailable(str(file), "read capture", error.strerror or str(error)) from error
    yield from parse_frames(raw, str(file))


def parse_frames(raw: bytes, name: str) -> Iterator[Frames]:
    """Yield the frames of a capture's bytes. name: for errors."""
    data = np.zeros(len(raw) + PADDING, np.uint8)
    data[: len(raw)] = np.frombuffer(raw, np.uint8)
    if raw[:4] in _MAGICS:
        chunks = _pcap(raw, name)
    elif raw[:4] == _NG:
        chunks = _pcapng(raw, name)
    else:
        raise Malformed(name, "read capture", "neither pcap nor pcapng", raw[:16])
    for columns in chunks:
        yield Frames(data, *columns)


Column = NDArray[np.int64]
Columns = tuple[Column, Column, Column, Column]  # start, captured, length, time


def _pcap(raw: bytes, name: str) -> Iterator[Columns]:
    order, scale = _MAGICS[raw[:4]]
    if len(raw) < 24:
        raise Malformed(name, "read capture", "the file header is cut off", raw)
    link = struct.unpack_from(order + "I", raw, 20)[0] & 0xFFFF
    if link != ETHERNET:
        raise NotSupported(name, "read capture", f"link type {link}; Ethernet (1) is read")
    at = 24
    while at <= len(raw) - 16:
        parts: list[Columns] = []
        count = 0
        while count < CHUNK and at <= len(raw) - 16:
            columns, following = _alike(raw, at, order, scale, CHUNK - count)
            if columns is None:
                columns, following = _one_by_one(raw, at, order, scale, MIXED)
            if following == at:
                break  # cut off: what came before is good
            parts.append(columns)
            count += len(columns[0])
            at = following
        if not parts:
            return
        yield _joined(parts)


def _alike(raw: bytes, at: int, order: str, scale: int, most: int) -> tuple[Columns | None, int]:
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


def _one_by_one(raw: bytes, at: int, order: str, scale: int, most: int) -> tuple[Columns, int]:
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
    places = np.array(found, np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(raw, np.uint8), 16)
    rows = windows[places].view(order + "u4").astype(np.int64)
    times = rows[:, 0] * 10**9 + rows[:, 1] * scale
    return (places + 16, rows[:, 2], rows[:, 3], times), at


def _joined(parts: list[Columns]) -> Columns:
    start, captured, length, times = (
        np.concatenate([part[place] for part in parts]) for place in range(4)
    )
    return start, captured, length, times


def _pcapng(raw: bytes, name: str) -> Iterator[Columns]:
    order, at = "<", 0
    links: list[tuple[int, int]] = []  # link type, ticks a second
    found = array("q")
    while at + 12 <= len(raw):
        kind = raw[at : at + 4]
        if kind == _NG:
            order = "<" if raw[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            links = []
        number, size = struct.unpack_from(order + "II", raw, at)
        if size < 12 or size % 4 or at + size > len(raw):
            break
        if number == 1:
            links.append(_interface(raw, at, size, order))
        elif number == 6 and size >= 32:
            which, high, low, captured, length = struct.unpack_from(order + "IIIII", raw, at + 8)
            _add(found, links, which, (high << 32 | low), at + 28, captured, length, name)
        elif number == 3 and size >= 16:
            length = struct.unpack_from(order + "I", raw, at + 8)[0]
            _add(found, links, 0, 0, at + 12, min(length, size - 16), length, name)
        at += size
        if len(found) >= 4 * CHUNK:
            yield _columns(found)
            found = array("q")
    yield _columns(found)


def _columns(found: array[int]) -> Columns:
    rows = np.frombuffer(found, np.int64).reshape(-1, 4).T
    return rows[0], rows[1], rows[2], rows[3]


def _interface(raw: bytes, at: int, size: int, order: str) -> tuple[int, int]:
    """Return link type and ticks a second of an interface block."""
    link = struct.unpack_from(order + "H", raw, at + 8)[0]
    ticks, option, end = 10**6, at + 16, at + size - 4
    while option + 4 <= end:
        code, length = struct.unpack_from(order + "HH", raw, option)
        if code == 0:
            break
        if code == 9 and length == 1:
            value = raw[option + 4]
            ticks = 2 ** (value & 0x7F) if value & 0x80 else 10 ** min(value, 18)
        option += 4 + (length + 3) // 4 * 4
    return link, ticks


def _add(
    found: array[int],
    links: list[tuple[int, int]],
    which: int,
    ticks: int,
    at: int,
    captured: int,
    length: int,
    name: str,
) -> None:
    if which >= len(links):
        raise Malformed(name, "read capture", f"a packet of interface {which}, which is not there")
    link, per_second = links[which]
    if link != ETHERNET:
        raise NotSupported(name, "read capture", f"link type {link}; Ethernet (1) is read")
    time_ns = ticks * 10**9 // per_second
    found.extend((at, captured, length, min(time_ns, 2**63 - 1)))

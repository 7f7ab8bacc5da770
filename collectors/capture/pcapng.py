"""pcapng: section, interface, enhanced and simple packet blocks, `if_tsresol`."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from typing import Final

import numpy as np

from collectors.capture.chains import (
    BLOCK,
    CHUNK,
    ETHERNET,
    LARGEST,
    STRIDE,
    Bytes,
    Column,
    Columns,
    Layout,
    Raw,
    in_step,
    words,
)
from collectors.model.errors import Malformed, NotSupported

MAGIC: Final = b"\x0a\x0d\x0d\x0a"
_ENHANCED, _SIMPLE, _INTERFACE, _SECTION = 6, 3, 1, 0x0A0D0D0A
_KINDS: Final = (1, 2, 3, 4, 5, 6, _SECTION)
_NS: Final = 10**9

Links = list[tuple[int, int]]  # link type, ticks a second


def pcapng(raw: Raw, name: str) -> Iterator[Columns]:
    """Yield the columns of the frames. Raises Malformed, NotSupported."""
    order, at = "<", 0
    links: Links = []
    found = array("q")
    data = np.frombuffer(raw, np.uint8)
    guess = len(raw) > 4 * STRIDE
    while at + 12 <= len(raw):
        kind = raw[at : at + 4]
        if kind == MAGIC:
            order = "<" if raw[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            links = []
        number, size = struct.unpack_from(order + "II", raw, at)
        if size < 12 or size % 4 or at + size > len(raw):
            break
        if number == _ENHANCED and guess and len(raw) - at > 4 * STRIDE:
            if found:
                yield _columns(found)
                found = array("q")
            columns, at, guess = _many(raw, data, at, order, links, name)
            yield from columns
            continue
        if number == _INTERFACE:
            links.append(_interface(raw, at, size, order))
        elif number == _ENHANCED and size >= 32:
            which, high, low, captured, length = struct.unpack_from(order + "IIIII", raw, at + 8)
            _add(found, links, which, (high << 32 | low), at + 28, captured, length, name)
        elif number == _SIMPLE and size >= 16:
            length = struct.unpack_from(order + "I", raw, at + 8)[0]
            _add(found, links, 0, 0, at + 12, min(length, size - 16), length, name)
        at += size
        if len(found) >= 4 * CHUNK:
            yield _columns(found)
            found = array("q")
    yield _columns(found)


def _many(
    raw: Raw, data: Bytes, at: int, order: str, links: Links, name: str
) -> tuple[list[Columns], int, bool]:
    """Return the frames of many blocks, what follows them, and whether guessing paid.

    Ends before a block that changes what packets mean, or that is a packet of another kind.
    """
    end = min(len(raw), at + BLOCK)
    layout = Layout(order, size_at=4, extra=0, header=12, least=12)
    places, following, pays = in_step(data, [at, *_likely(raw, at, end, order)], end, layout)
    kinds = words(data, places, 1, order)[:, 0]
    other = np.flatnonzero((kinds != _ENHANCED) & ~np.isin(kinds, (2, 4, 5)))
    if len(other):
        following = int(places[other[0]])
        places, kinds = places[: other[0]], kinds[: other[0]]
    places = places[kinds == _ENHANCED]
    found = [
        _packets(data, places[start : start + CHUNK], order, links, name)
        for start in range(0, len(places), CHUNK)
    ]
    return found, following, pays


def _likely(raw: Raw, at: int, end: int, order: str) -> Iterator[int]:
    """Yield places, one every STRIDE, that look like an enhanced packet block."""
    pattern, pair = struct.pack(order + "I", _ENHANCED), struct.Struct(order + "II")
    one = struct.Struct(order + "I")
    for goal in range(at + STRIDE, end - STRIDE, STRIDE):
        place = goal - 1
        while (place := raw.find(pattern, place + 1, goal + STRIDE)) >= 0:
            size = pair.unpack_from(raw, place)[1]
            following = place + size
            if size % 4 or not 32 <= size <= LARGEST or following + 12 > end:
                continue
            ends_alike = one.unpack_from(raw, following - 4)[0] == size
            if ends_alike and one.unpack_from(raw, following)[0] in _KINDS:
                yield place
                break


def _packets(data: Bytes, places: Column, order: str, links: Links, name: str) -> Columns:
    rows = words(data, places, 7, order).astype(np.int64)
    times = np.zeros(len(places), np.int64)
    for which in np.unique(rows[:, 2]).tolist():
        per_second = _ticks(links, which, name)
        mine = rows[:, 2] == which
        ticks = rows[mine, 3] << 32 | rows[mine, 4]
        if _NS % per_second == 0:
            times[mine] = ticks * (_NS // per_second)
        else:
            times[mine] = [min(int(tick) * _NS // per_second, 2**63 - 1) for tick in ticks]
    return places + 28, rows[:, 5], rows[:, 6], times


def _columns(found: array[int]) -> Columns:
    rows = np.frombuffer(found, np.int64).reshape(-1, 4).T
    return rows[0], rows[1], rows[2], rows[3]


def _interface(raw: Raw, at: int, size: int, order: str) -> tuple[int, int]:
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


def _ticks(links: Links, which: int, name: str) -> int:
    """Return the ticks a second of an interface. Raises Malformed, NotSupported."""
    if which >= len(links):
        raise Malformed(name, "read capture", f"a packet of interface {which}, which is not there")
    link, per_second = links[which]
    if link != ETHERNET:
        raise NotSupported(name, "read capture", f"link type {link}; Ethernet (1) is read")
    return per_second


def _add(
    found: array[int],
    links: Links,
    which: int,
    ticks: int,
    at: int,
    captured: int,
    length: int,
    name: str,
) -> None:
    time_ns = ticks * _NS // _ticks(links, which, name)
    found.extend((at, captured, length, min(time_ns, 2**63 - 1)))

"""Compiled code that takes the frames of a segment apart; `frames` says what for.

It inflates and checks with zlib itself, in the machine's shared library, so that one core unpacks
while Python works on the other. Compiled once for each machine, then kept by numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import llvmlite.binding as llvm
import numba
import numpy as np
import numpy.typing as npt
from numba import types

from collectors.wire.segment import MOST_BYTES
from tuner.store.arithmetic import Floats, Ints, Words

Bytes: TypeAlias = npt.NDArray[np.uint8]
Vector: TypeAlias = npt.NDArray[Any]
Word: TypeAlias = Any
"""A number of the machine: int to Python, of numpy's kinds when compiled."""
F = TypeVar("F", bound=Callable[..., object])

# Kinds of frames. REPEATED: schema or facts that came before.
BATCH, SCHEMA, FACTS, OTHER, REPEATED = range(5)
# Columns of a frame. WHAT: number of a batch's head, or of schema or facts (-1: not kept). The
# last three are places in the arrays of numbers; of a text the first two are its begin and end.
KIND, OFFSET, WHAT, SEQ, AT, MONO, INTS, FLOATS, TIMES, WIDTH = range(10)
TEXT, TEXT_END = INTS, FLOATS
# How reading ended: with the segment, with full arrays, at a frame that is for the single reader.
END, FULL, STUCK = range(3)
# State: place in the segment, how much of the chunk's arrays is used, and how much is known.
PLACE, FRAMES, N_INTS, N_FLOATS, N_TIMES, N_TEXTS, HEADS, KEPT, STATE = range(9)

SLOTS: Final = 1 << 20
MOST_KNOWN: Final = SLOTS // 2
_MOST_NUMBER: Final = 1 << 62
_COMMON: Final = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 10 | 1 << 13  # fields of a head


class Known(NamedTuple):
    """Byte strings by number, found by hash. sizes: further numbers that must be equal."""

    data: Bytes
    start: Ints  # number n: data[start[n] : start[n + 1]]
    sizes: Ints  # (n, 4)
    slots: npt.NDArray[np.int32]  # number + 1 by hash


_numba: Any = numba  # its own annotations know neither `_nrt` nor its configuration


def _is_usable() -> bool:
    """Make zlib known to the compiled code; tell whether it is there, and code is compiled."""
    try:
        llvm.load_library_permanently("libz.so.1")
    except RuntimeError:
        return False
    return not _numba.config.DISABLE_JIT


USABLE: Final = _is_usable()
_word = types.uintp
_uncompress: Any = types.ExternalFunction("uncompress", types.int32(*[_word] * 3, types.ulong))
_crc32: Any = types.ExternalFunction("crc32", types.ulong(types.ulong, _word, types.uint32))
_memcpy: Any = types.ExternalFunction("memcpy", _word(_word, _word, _word))
_memcmp: Any = types.ExternalFunction("memcmp", types.int32(_word, _word, _word))


def _jit(function: F) -> F:
    """Compile without reference counts, in half the time: nothing here makes arrays."""
    compiled: F = _numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)(function)
    return compiled


@_jit
def _at(data: Vector, place: Word) -> Word:
    """Return the address of an element of a vector."""
    return data.ctypes.data + np.uint64(place * data.itemsize)


@_jit
def _copy(source: Vector, at: Word, target: Vector, to: Word, size: Word) -> None:
    """Copy elements of a vector to another of the same kind."""
    _memcpy(_at(target, to), _at(source, at), np.uint64(size * source.itemsize))


@_jit
def _varint(data: Bytes, at: Word, end: Word) -> tuple[Word, Word]:
    """Return (value, place after it); place -1 where there is none of at most 9 bytes."""
    value = np.uint64(0)
    for n in range(9):
        if at + n >= end:
            break
        byte = data[at + n]
        value |= np.uint64(byte & 0x7F) << np.uint64(7 * n)
        if byte < 0x80:
            return value, at + n + 1
    return value, -1


@_jit
def _find(
    known: Known, count: Word, key: Word, data: Bytes, at: Word, size: Word, sizes: Ints
) -> tuple[Word, Word]:
    """Return the number of data[at : at + size], `count` where it is new, and its slot."""
    slot = np.int64((key ^ (key >> np.uint64(32))) & np.uint64(SLOTS - 1))
    while known.slots[slot]:
        number = np.int64(known.slots[slot]) - 1
        start = known.start[number]
        same = known.start[number + 1] - start == size
        for n in range(4):
            same = same and known.sizes[number, n] == sizes[n]
        if same and _memcmp(_at(known.data, start), _at(data, at), np.uint64(size)) == 0:
            return number, slot
        slot = (slot + 1) & (SLOTS - 1)
    return count, slot


@_jit
def _learn(
    known: Known, count: Word, slot: Word, data: Bytes, at: Word, size: Word, sizes: Ints
) -> None:
    """Keep data[at : at + size] under the next number."""
    start = known.start[count]
    _copy(data, at, known.data, start, size)
    known.start[count + 1] = start + size
    for n in range(4):
        known.sizes[count, n] = sizes[n]
    known.slots[slot] = count + 1


@_jit
def _unzigzag(data: Bytes, at: Word, end: Word, out: Ints, first: Word, begin: Word) -> Word:
    """Write packed sint64; return how many, -1 where begin + one is no time or out is full."""
    place = first
    while at < end:
        value, at = _varint(data, at, end)
        if at < 0 or place == len(out):
            return -1
        one = np.int64((value >> np.uint64(1)) ^ (np.uint64(0) - (value & np.uint64(1))))
        if begin + one < 0:
            return -1
        out[place] = one
        place += 1
    return place - first


@_jit
def _read_batch(  # noqa: C901, PLR0912  one pass over the fields of a message
    raw: Bytes, at: Word, end: Word, row: Ints, sizes: Ints, head: Bytes, ints: Words,
    floats: Floats, times: Ints,
) -> Word:  # fmt: skip
    """Read a batch; return the size of its head, -1 where it is none of the usual form.

    row: of the frame. sizes: counts of integers, floats and both time offsets.
    """
    size = 0
    for n in range(4):
        sizes[n] = 0
    wall: tuple[Word, Word] = (0, 0)  # where the time offsets lie
    mono: tuple[Word, Word] = (0, 0)
    while at < end:
        tag, start = raw[at], at
        at += 1
        if tag == 0x31 or tag == 0x39:  # noqa: PLR1714  at_ns, mono_ns; a set takes long to compile
            if at + 8 > end:
                return -1
            value = np.uint64(0)
            for n in range(8):
                value |= np.uint64(raw[at + n]) << np.uint64(8 * n)
            if value > np.uint64(_MOST_NUMBER):
                return -1
            row[AT if tag == 0x31 else MONO] = np.int64(value)
            at += 8
            continue
        value, at = _varint(raw, at, end)
        if at < 0 or value > np.uint64(_MOST_NUMBER):
            return -1
        if tag == 0x18:
            row[SEQ] = np.int64(value)
            continue
        if value > np.uint64(end - at):
            return -1
        length: Word = np.int64(value)
        common: Word = 0
        if tag == 0x5A and not sizes[0] and length % 8 == 0:
            sizes[0] = length // 8
            _memcpy(_at(ints, row[INTS]), _at(raw, at), np.uint64(length))
        elif tag == 0x62 and not sizes[1] and length % 8 == 0:
            sizes[1] = length // 8
            _memcpy(_at(floats, row[FLOATS]), _at(raw, at), np.uint64(length))
        elif tag == 0x42 and wall[1] == wall[0]:
            wall = (at, at + length)
        elif tag == 0x4A and mono[1] == mono[0]:
            mono = (at, at + length)
        elif tag & 7 == 2 and 1 << (tag >> 3) & _COMMON:
            common = at + length - start
        else:
            return -1
        if common:
            if size + common > len(head):
                return -1
            _copy(raw, start, head, size, common)
            size += common
        at += length
    for n in range(row[FLOATS], row[FLOATS] + sizes[1]):
        if not np.isfinite(floats[n]):
            return -1
    first = row[TIMES]
    if wall[1] > wall[0]:
        sizes[2] = _unzigzag(raw, wall[0], wall[1], times, first, row[AT])
        if sizes[2] < 0:
            return -1
        if mono[1] == mono[0]:
            for n in range(first, first + sizes[2]):
                if row[MONO] + times[n] < 0:
                    return -1
    if mono[1] > mono[0]:
        sizes[3] = _unzigzag(raw, mono[0], mono[1], times, first + sizes[2], row[MONO])
        if sizes[3] < 0:
            return -1
    return size


@_jit
def _body(raw: Bytes, size: Word) -> tuple[Word, Word]:
    """Return (tag, place of the body) of an item that is one message and nothing else."""
    if size < 2:
        return 0, 0
    length, at = _varint(raw, 1, size)
    if at < 0 or length != np.uint64(size - at):
        return 0, 0
    return int(raw[0]), at


@_jit
def read(  # noqa: C901, PLR0912  one pass over the frames
    data: Bytes, state: Ints, sizes: Ints, inflated: Words, frames: Ints, raw: Bytes, head: Bytes,
    ints: Words, floats: Floats, times: Ints, texts: Bytes, heads: Known, kept: Known,
) -> Word:  # fmt: skip
    """Read frames until something is full; return how it ended. The arrays are `Reader`'s."""
    while True:
        at = state[PLACE]
        if at + 8 > len(data):
            return END
        length = np.int64(0)
        crc = np.uint64(0)
        for n in range(4):
            length |= np.int64(data[at + n]) << (8 * n)
            crc |= np.uint64(data[at + 4 + n]) << np.uint64(8 * n)
        if length > MOST_BYTES or at + 8 + length > len(data):
            return END
        if state[FRAMES] == len(frames):
            return FULL
        source = _at(data, at + 8)
        if np.uint64(_crc32(np.uint64(0), source, np.uint32(length))) != crc:
            return STUCK
        row = frames[state[FRAMES]]
        for n in range(WIDTH):
            row[n] = 0
        row[OFFSET] = at
        for n in range(4):
            sizes[n] = 0
        number, slot = _find(kept, state[KEPT], crc, data, at + 8, length, sizes)
        if number < state[KEPT]:
            row[KIND], row[WHAT] = REPEATED, number
            state[PLACE] = at + 8 + length
            state[FRAMES] += 1
            continue
        inflated[0] = len(raw)
        if _uncompress(_at(raw, 0), inflated.ctypes.data, source, np.uint64(length)) != 0:
            return STUCK
        size = np.int64(inflated[0])
        if (
            state[N_INTS] + size // 8 > len(ints)
            or state[N_FLOATS] + size // 8 > len(floats)
            or state[N_TEXTS] + size > len(texts)
            or heads.start[state[HEADS]] + size > len(heads.data)
            or state[HEADS] == MOST_KNOWN
        ):
            return STUCK if state[FRAMES] == 0 else FULL
        tag, body = _body(raw, size)
        row[INTS], row[FLOATS], row[TIMES] = state[N_INTS], state[N_FLOATS], state[N_TIMES]
        used = -1
        if tag == 0x1A:
            used = _read_batch(raw, body, size, row, sizes, head, ints, floats, times)
        if used >= 0:
            key = np.uint64(1469598103934665603)
            for n in range(used):
                key = (key ^ np.uint64(head[n])) * np.uint64(1099511628211)
            number, slot = _find(heads, state[HEADS], key, head, 0, used, sizes)
            if number == state[HEADS]:
                _learn(heads, number, slot, head, 0, used, sizes)
                state[HEADS] += 1
            row[KIND], row[WHAT] = BATCH, number
            state[N_INTS] += sizes[0]
            state[N_FLOATS] += sizes[1]
            state[N_TIMES] += sizes[2] + sizes[3]
        else:
            first = state[N_TEXTS]
            _copy(raw, 0, texts, first, size)
            state[N_TEXTS] += size
            row[TEXT], row[TEXT_END] = first, first + size
            row[KIND], row[WHAT] = OTHER, -1
            if tag == 0x12 or tag == 0x22:  # noqa: PLR1714
                row[KIND] = SCHEMA if tag == 0x12 else FACTS
                number = state[KEPT]
                if number < MOST_KNOWN and kept.start[number] + length <= len(kept.data):
                    for n in range(4):
                        sizes[n] = 0
                    _learn(kept, number, slot, data, at + 8, length, sizes)
                    row[WHAT] = number
                    state[KEPT] += 1
        state[PLACE] = at + 8 + length
        state[FRAMES] += 1


@_jit
def copy(sources: Ints, targets: Ints, sizes: Ints) -> None:
    """Copy bytes from addresses to others."""
    for n in range(len(sources)):
        _memcpy(np.uint64(targets[n]), np.uint64(sources[n]), np.uint64(sizes[n]))

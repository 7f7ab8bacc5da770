"""Paths of many flows at once: the hashes of collectors.model.ecmp_hash, compiled.

The definition is there; tests hold this copy to it, value by value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from collectors.model.ecmp_hash import (
    CRC_BISYNC_TABLE,
    HASH_BITS,
    HashAlgorithm,
    HashField,
    HashSpec,
    Reduction,
)
from collectors.model.roce import UDP_PROTOCOL
from simlab.packet.jit import entry, jit

ALGORITHMS = tuple(HashAlgorithm)
MURMUR = ALGORITHMS.index(HashAlgorithm.MURMUR3)
XOR = ALGORITHMS.index(HashAlgorithm.XOR)
CCITT = ALGORITHMS.index(HashAlgorithm.CRC_CCITT)
BISYNC = ALGORITHMS.index(HashAlgorithm.CRC_BISYNC)
LOW = ALGORITHMS.index(HashAlgorithm.CRC_32LO)
HIGH = ALGORITHMS.index(HashAlgorithm.CRC_32HI)
FIELDS = tuple(HashField)
WIDTHS = {
    HashField.IN_PORT: 2,
    HashField.SRC_IP: 4,
    HashField.DST_IP: 4,
    HashField.PROTOCOL: 1,
    HashField.SRC_PORT: 2,
    HashField.DST_PORT: 2,
    HashField.FLOW_LABEL: 3,
    HashField.DST_QP: 3,
}
SPEC_WORDS = 5 + 2 * len(FIELDS)  # algorithm, seed, bits, rotate, multiply; count, field, width ...
PROTOCOL = FIELDS.index(HashField.PROTOCOL)
IN_PORT = FIELDS.index(HashField.IN_PORT)
MASK = 0xFFFFFFFF
Array = Any  # NDArray[np.int64] whose items are plain ints to the compiler


def _table(poly: int) -> NDArray[np.int64]:
    table = []
    for byte in range(256):
        register = byte
        for _ in range(8):
            register = register >> 1 ^ (poly if register & 1 else 0)
        table.append(register)
    return np.array(table, dtype=np.int64)


CRC32_TABLE = _table(0xEDB88320)
BISYNC_TABLE = np.array(CRC_BISYNC_TABLE, dtype=np.int64)


def pack_spec(spec: HashSpec, seed: int) -> NDArray[np.int64]:
    """Return a hash spec as the row that `hash_of` reads."""
    row = np.zeros(SPEC_WORDS + 1, dtype=np.int64)
    bits = HASH_BITS[spec.algorithm]
    row[:5] = (
        ALGORITHMS.index(spec.algorithm),
        seed,
        bits,
        spec.rotate % bits,
        int(spec.reduction is Reduction.MULTIPLY_SHIFT),
    )
    row[5] = len(spec.fields)
    for at, name in enumerate(spec.fields):
        row[6 + 2 * at] = FIELDS.index(name)
        row[7 + 2 * at] = WIDTHS[name]
    return row


@jit
def crc(table: Array, key: Array, size: int, register: int) -> int:
    """Reflected table CRC without final inversion."""
    for i in range(size):
        register = register >> 8 ^ table[(register ^ key[i]) & 0xFF]
    return register


@jit
def ccitt(key: Array, size: int, register: int) -> int:
    """CRC-16/CCITT, bit by bit."""
    for i in range(size):
        register ^= key[i] << 8
        for _ in range(8):
            register <<= 1
            if register & 0x10000 != 0:
                register ^= 0x11021
    return register


@jit
def multiply(a: int, b: int) -> int:
    """Return a*b mod 2**32 for 32-bit factors without leaving int64."""
    low = a * (b & 0xFFFF)
    high = (a * (b >> 16) & 0xFFFF) << 16
    return low + high & MASK


@jit
def mixed(word: int) -> int:
    """MurmurHash3's treatment of one block."""
    word = multiply(word, 0xCC9E2D51)
    word = (word << 15 | word >> 17) & MASK
    return multiply(word, 0x1B873593)


@jit
def murmur(key: Array, size: int, seed: int) -> int:
    """MurmurHash3 x86 32-bit."""
    value = seed & MASK
    whole = size - size % 4
    for at in range(0, whole, 4):
        block = key[at] | key[at + 1] << 8 | key[at + 2] << 16 | key[at + 3] << 24
        value ^= mixed(block)
        value = (value << 13 | value >> 19) & MASK
        value = multiply(value, 5) + 0xE6546B64 & MASK
    if whole < size:
        block = 0
        for at in range(size - 1, whole - 1, -1):
            block = block << 8 | key[at]
        value ^= mixed(block)
    value ^= size
    value = multiply(value ^ value >> 16, 0x85EBCA6B)
    value = multiply(value ^ value >> 13, 0xC2B2AE35)
    return value ^ value >> 16


@jit
def hash_of(spec: Array, values: Array, key: Array) -> int:
    """Return the hash of one flow (`values` by field) under a packed spec; `key` is scratch."""
    algorithm: int = spec[0]
    seed: int = spec[1]
    size = 0
    for i in range(spec[5]):
        width = spec[7 + 2 * i]
        for j in range(width):
            shift = 8 * j if algorithm == MURMUR else 8 * (width - 1 - j)
            key[size + j] = values[spec[6 + 2 * i]] >> shift & 0xFF
        size += width
    if algorithm == MURMUR:
        return murmur(key, size, seed)
    if algorithm == XOR:
        fold = seed & 0xFFFF
        key[size] = 0
        for at in range(0, size, 2):
            fold ^= key[at] << 8 | key[at + 1]
        return fold
    if algorithm == CCITT:
        return ccitt(key, size, (0xFFFF ^ seed) & 0xFFFF)
    if algorithm == BISYNC:
        return crc(BISYNC_TABLE, key, size, seed & 0xFFFF)
    value = crc(CRC32_TABLE, key, size, seed & MASK ^ MASK) ^ MASK
    if algorithm == LOW:
        return value & 0xFFFF
    if algorithm == HIGH:
        return value >> 16
    return value


@jit
def member(spec: Array, value: int, count: int) -> int:
    """Return which of `count` next hops a hash value selects."""
    bits: int = spec[2]
    turn: int = spec[3]
    value = (value >> turn | value << (bits - turn)) & ((1 << bits) - 1)
    if spec[4] != 0:
        return value * count >> bits
    return value % count


@entry
def trace_paths(
    flows: Array, first: Array, specs: Array, switch_of: Array, routes: Array, groups: Array,
    peer: Array, interface: Array, out: Array, lengths: Array,
) -> None:  # fmt: skip
    """Follow every flow to its destination.

    `flows` has a row of values by field per flow, then the destination host's index; `first` is
    its first directed port, `out` receives the ports behind that one and `lengths` how many.
    """
    key = np.zeros(32, dtype=np.int64)
    values = np.zeros(flows.shape[1], dtype=np.int64)
    for i in range(flows.shape[0]):
        values[:] = flows[i]
        values[PROTOCOL] = UDP_PROTOCOL
        port = first[i]
        hops = 0
        node = peer[port]
        while switch_of[node] >= 0:
            group = routes[switch_of[node], values[values.shape[0] - 1]]
            count = groups[group]
            if count == 0 or hops == out.shape[1]:
                hops = -1
                break
            index = 0
            if count > 1:
                values[IN_PORT] = interface[port ^ 1]
                spec = specs[switch_of[node]]
                index = member(spec, hash_of(spec, values, key), count)
            port = groups[group + 1 + index]
            out[i, hops] = port
            hops += 1
            node = peer[port]
        lengths[i] = hops

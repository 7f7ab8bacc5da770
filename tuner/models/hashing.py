"""The ECMP hashes of collectors.model.ecmp_hash over arrays of flows, for Monte-Carlo runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from collectors.model.ecmp_hash import (
    CRC_BISYNC_TABLE,
    HASH_BITS,
    HashAlgorithm,
    HashField,
    HashSpec,
)
from collectors.model.roce import UDP_PORT, UDP_PROTOCOL

Keys = NDArray[np.uint64]
Words = NDArray[np.uint32]
Bytes = NDArray[np.uint8]

_WIDTH = {
    HashField.IN_PORT: 2,
    HashField.SRC_IP: 4,
    HashField.DST_IP: 4,
    HashField.PROTOCOL: 1,
    HashField.SRC_PORT: 2,
    HashField.DST_PORT: 2,
    HashField.FLOW_LABEL: 3,
    HashField.DST_QP: 3,
}
_CONSTANT = {HashField.PROTOCOL: UDP_PROTOCOL, HashField.DST_PORT: UDP_PORT}


def _table(polynomial: int, *, reflected: bool) -> Words:
    out = []
    for byte in range(256):
        register = byte if reflected else byte << 8
        for _ in range(8):
            if reflected:
                register = register >> 1 ^ (polynomial if register & 1 else 0)
            else:
                register = (register << 1 ^ (polynomial if register & 0x8000 else 0)) & 0xFFFF
        out.append(register)
    return np.array(out, dtype=np.uint32)


_8, _16, _BYTE, _HALF = (np.uint32(value) for value in (8, 16, 0xFF, 0xFFFF))
_CRC32 = _table(0xEDB88320, reflected=True)
_CCITT = _table(0x1021, reflected=False)
_BISYNC = np.array(CRC_BISYNC_TABLE, dtype=np.uint32)


def key_bytes(fields: dict[HashField, NDArray[np.int64]], spec: HashSpec, flows: int) -> Bytes:
    """Return (flows, bytes) packed keys; protocol and destination port default to RoCEv2's.

    Raises KeyError for a field of the spec that is not given.
    """
    little = spec.algorithm is HashAlgorithm.MURMUR3
    columns = []
    for field in spec.fields:
        if field in fields:
            value = np.asarray(fields[field])
        elif field in _CONSTANT:
            value = np.full(flows, _CONSTANT[field])
        else:
            raise KeyError(f"the hash needs {field.value}, which no flow has")
        shifts = range(_WIDTH[field]) if little else reversed(range(_WIDTH[field]))
        columns += [(value >> 8 * shift & 0xFF).astype(np.uint8) for shift in shifts]
    return np.stack(columns, axis=1)


def _crc32(data: Bytes, start: int) -> Words:
    register = np.full(len(data), start ^ 0xFFFFFFFF, dtype=np.uint32)
    for column in data.T:
        register = register >> _8 ^ _CRC32[(register ^ column) & _BYTE]
    return ~register


def _rotated(value: Words, bits: int) -> Words:
    return value << np.uint32(bits) | value >> np.uint32(32 - bits)


def _murmur3(data: Bytes, seed: int) -> Words:
    def mixed(word: Words) -> Words:
        return _rotated(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)

    length = data.shape[1]
    padded = np.pad(data, ((0, 0), (0, -length % 4)))
    words = np.ascontiguousarray(padded).view("<u4").astype(np.uint32)
    value = np.full(len(data), seed & 0xFFFFFFFF, dtype=np.uint32)
    for at in range(length // 4):
        value = _rotated(value ^ mixed(words[:, at]), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    if length % 4:
        value ^= mixed(words[:, -1])
    value ^= np.uint32(length)
    value = (value ^ value >> _16) * np.uint32(0x85EBCA6B)
    value = (value ^ value >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return value ^ value >> _16


def hash_keys(data: Bytes, spec: HashSpec) -> Keys:
    """Return the (flows,) hash values, rotated, before reduction to a member."""
    seed = spec.seed
    value: Words
    match spec.algorithm:
        case HashAlgorithm.CRC_CCITT:
            value = np.full(len(data), (0xFFFF ^ seed) & 0xFFFF, dtype=np.uint32)
            for column in data.T:
                value = (value << _8 & _HALF) ^ _CCITT[(value >> _8 ^ column) & _BYTE]
        case HashAlgorithm.CRC_BISYNC:
            value = np.full(len(data), seed & 0xFFFF, dtype=np.uint32)
            for column in data.T:
                value = value >> _8 ^ _BISYNC[(value ^ column) & _BYTE]
        case HashAlgorithm.XOR:
            value = np.full(len(data), seed & 0xFFFF, dtype=np.uint32)
            for at, column in enumerate(data.T):
                value = value ^ column.astype(np.uint32) << np.uint32(0 if at % 2 else 8)
        case HashAlgorithm.MURMUR3:
            value = _murmur3(data, seed)
        case HashAlgorithm.CRC_32LO:
            value = _crc32(data, seed & 0xFFFFFFFF) & _HALF
        case HashAlgorithm.CRC_32HI:
            value = _crc32(data, seed & 0xFFFFFFFF) >> _16
        case HashAlgorithm.CRC:
            value = _crc32(data, seed & 0xFFFFFFFF)
    bits = HASH_BITS[spec.algorithm]
    wide = value.astype(np.uint64)
    turn = spec.rotate % bits
    if turn:
        wide = (wide >> np.uint64(turn) | wide << np.uint64(bits - turn)) & np.uint64(
            (1 << bits) - 1
        )
    return wide

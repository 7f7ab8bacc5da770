"""ECMP hash functions of switch ASICs and of the reference simulators, with fields and seed.

What an ASIC really computes is fitted, not looked up: names, fields and seeds are public (SAI
`SAI_HASH_ALGORITHM_*`), the exact bit order is not. SAI's RANDOM and CRC_XOR are vendor-private
and therefore absent here.
"""

from __future__ import annotations

import binascii
import math
import zlib
from dataclasses import dataclass
from enum import Enum

from collectors.model.roce import UDP_PORT, UDP_PROTOCOL

MASK32 = 0xFFFFFFFF


class HashField(Enum):
    """What may enter the hash; DST_QP is the BTH field that Meta's E-ECMP adds by UDF."""

    IN_PORT = "in_port"
    SRC_IP = "src_ip"
    DST_IP = "dst_ip"
    PROTOCOL = "protocol"
    SRC_PORT = "src_port"
    DST_PORT = "dst_port"
    FLOW_LABEL = "flow_label"
    DST_QP = "dst_qp"


class HashAlgorithm(Enum):
    """Hash functions; the CRC names are SAI's."""

    CRC_CCITT = "crc_ccitt"  # poly 0x1021, as RTAG7's CRC16-CCITT
    CRC_BISYNC = "crc_bisync"  # poly 0x8005 reflected, CRC-16/ARC
    CRC_32LO = "crc_32lo"
    CRC_32HI = "crc_32hi"
    CRC = "crc"  # all 32 bits
    XOR = "xor"  # fold of 16-bit words
    MURMUR3 = "murmur3"  # HPCC, conweave and their descendants


class Reduction(Enum):
    """How a hash value becomes a member index; both exist in devices."""

    MODULO = "modulo"
    MULTIPLY_SHIFT = "multiply_shift"


FIVE_TUPLE = (
    HashField.SRC_IP,
    HashField.DST_IP,
    HashField.PROTOCOL,
    HashField.SRC_PORT,
    HashField.DST_PORT,
)
E_ECMP = (*FIVE_TUPLE, HashField.DST_QP)
# HPCC's switch-node: {sip, dip, sport | dport << 16} as three little-endian words.
NS3_FIELDS = (HashField.SRC_IP, HashField.DST_IP, HashField.SRC_PORT, HashField.DST_PORT)

_WIDTH: dict[HashField, int] = {
    HashField.IN_PORT: 2,
    HashField.PROTOCOL: 1,
    HashField.SRC_PORT: 2,
    HashField.DST_PORT: 2,
    HashField.FLOW_LABEL: 3,
    HashField.DST_QP: 3,
}

HASH_BITS: dict[HashAlgorithm, int] = {
    HashAlgorithm.CRC_CCITT: 16,
    HashAlgorithm.CRC_BISYNC: 16,
    HashAlgorithm.CRC_32LO: 16,
    HashAlgorithm.CRC_32HI: 16,
    HashAlgorithm.CRC: 32,
    HashAlgorithm.XOR: 16,
    HashAlgorithm.MURMUR3: 32,
}


@dataclass(frozen=True, slots=True)
class FlowKey:
    """What a switch sees of one RoCEv2 flow; addresses are integers of `ip_bytes` bytes."""

    src_ip: int
    dst_ip: int
    src_port: int
    dst_port: int = UDP_PORT
    protocol: int = UDP_PROTOCOL
    dst_qp: int = 0
    flow_label: int = 0
    in_port: int = 0
    ip_bytes: int = 4


@dataclass(frozen=True, slots=True)
class HashSpec:
    """A switch's ECMP choice: which function, over which fields, seeded and reduced how.

    `seed` is the starting register of the CRCs and XOR, and murmur3's seed. `rotate` turns the
    value right by so many bits before it is reduced (the "offset" of RTAG7). A CRC is affine in
    its register: another seed XORs one constant into every hash, so with a power-of-two group it
    renumbers the members and leaves two tiers as polarised as before. Rotation, another
    polynomial or murmur3's seed do separate them.
    """

    algorithm: HashAlgorithm = HashAlgorithm.CRC_32LO
    fields: tuple[HashField, ...] = FIVE_TUPLE
    seed: int = 0
    rotate: int = 0
    reduction: Reduction = Reduction.MODULO


def _crc_bisync_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        register = byte
        for _ in range(8):
            register = register >> 1 ^ (0xA001 if register & 1 else 0)
        table.append(register)
    return tuple(table)


CRC_BISYNC_TABLE = _crc_bisync_table()


def crc_ccitt(data: bytes, start: int = 0xFFFF) -> int:
    """CRC-16/CCITT-FALSE; check value of "123456789" is 0x29B1."""
    return binascii.crc_hqx(data, start)


def crc_bisync(data: bytes, start: int = 0) -> int:
    """CRC-16/ARC (BISYNC); check value of "123456789" is 0xBB3D."""
    register = start
    for byte in data:
        register = register >> 8 ^ CRC_BISYNC_TABLE[(register ^ byte) & 0xFF]
    return register


def xor16(data: bytes, start: int = 0) -> int:
    """Fold the big-endian 16-bit words, the last one padded with a zero byte."""
    value = start & 0xFFFF
    for at in range(0, len(data), 2):
        value ^= int.from_bytes(data[at : at + 2].ljust(2, b"\0"), "big")
    return value


def _rotate_left(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & MASK32


def murmur3(data: bytes, seed: int = 0) -> int:
    """MurmurHash3 x86 32-bit (public domain algorithm by A. Appleby)."""

    def mixed(word: int) -> int:
        return _rotate_left(word * 0xCC9E2D51 & MASK32, 15) * 0x1B873593 & MASK32

    value = seed & MASK32
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        value = _rotate_left(value ^ mixed(int.from_bytes(data[at : at + 4], "little")), 13)
        value = value * 5 + 0xE6546B64 & MASK32
    if whole < len(data):
        value ^= mixed(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EBCA6B & MASK32
    value = (value ^ value >> 13) * 0xC2B2AE35 & MASK32
    return value ^ value >> 16


def pack_hash_key(flow: FlowKey, spec: HashSpec) -> bytes:
    """Return the bytes that are hashed: the fields in order, network order except for murmur3."""
    little = spec.algorithm is HashAlgorithm.MURMUR3
    parts = []
    for field in spec.fields:
        width = _WIDTH.get(field, flow.ip_bytes)
        value: int = getattr(flow, field.value)
        parts.append(value.to_bytes(width, "little" if little else "big"))
    return b"".join(parts)


def hash_value(data: bytes, algorithm: HashAlgorithm, seed: int = 0) -> int:
    """Return the hash of a packed key, HASH_BITS wide."""
    match algorithm:
        case HashAlgorithm.CRC_CCITT:
            return crc_ccitt(data, (0xFFFF ^ seed) & 0xFFFF)
        case HashAlgorithm.CRC_BISYNC:
            return crc_bisync(data, seed & 0xFFFF)
        case HashAlgorithm.CRC_32LO:
            return zlib.crc32(data, seed & MASK32) & 0xFFFF
        case HashAlgorithm.CRC_32HI:
            return zlib.crc32(data, seed & MASK32) >> 16
        case HashAlgorithm.CRC:
            return zlib.crc32(data, seed & MASK32)
        case HashAlgorithm.XOR:
            return xor16(data, seed)
        case HashAlgorithm.MURMUR3:
            return murmur3(data, seed)


def reduce_hash(value: int, members: int, bits: int, reduction: Reduction) -> int:
    """Return the member index 0..members-1 of a `bits` wide hash value."""
    if reduction is Reduction.MODULO:
        return value % members
    return value * members >> bits


def choose_member(flow: FlowKey, members: int, spec: HashSpec) -> int:
    """Return which of `members` equal-cost next hops this flow takes; ValueError if none."""
    if members < 1:
        raise ValueError(f"an ECMP group needs a member, got {members}")
    bits = HASH_BITS[spec.algorithm]
    value = hash_value(pack_hash_key(flow, spec), spec.algorithm, spec.seed)
    turn = spec.rotate % bits
    value = (value >> turn | value << bits - turn) & (1 << bits) - 1
    return reduce_hash(value, members, bits, spec.reduction)


def reachable_members(first_tier: int, second_tier: int) -> int:
    """Return how many second-tier links one first-tier link can reach if both hash alike.

    Both tiers reduce the same hash value by modulo, so the residue mod gcd is fixed by the
    first choice: polarisation. (16, 16) → 1, (16, 12) → 3, (16, 9) → 9.
    """
    return second_tier // math.gcd(first_tier, second_tier)

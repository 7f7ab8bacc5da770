"""The few BER types that an SNMPv2c agent needs (X.690, RFC 3416): bytes <-> values, no I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

INTEGER: Final = 0x02
OCTETS: Final = 0x04
OID: Final = 0x06
SEQUENCE: Final = 0x30
COUNTER32: Final = 0x41
GAUGE32: Final = 0x42
TIMETICKS: Final = 0x43
COUNTER64: Final = 0x46
NO_SUCH_OBJECT: Final = b"\x80\x00"
END_OF_MIB: Final = b"\x82\x00"
GET, GET_NEXT, RESPONSE, GET_BULK = 0xA0, 0xA1, 0xA2, 0xA5


def tlv(tag: int, body: bytes) -> bytes:
    """Return one tag-length-value."""
    size = len(body)
    if size < 0x80:
        return bytes((tag, size)) + body
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + body


def pack_int(value: int, tag: int = INTEGER) -> bytes:
    """Return an integer in two's complement of the fewest octets."""
    size = value.bit_length() // 8 + 1
    return tlv(tag, value.to_bytes(size, "big", signed=True))


def pack_oid(arcs: tuple[int, ...]) -> bytes:
    """Return an object identifier; needs two arcs or more."""
    body = bytearray()
    for arc in (arcs[0] * 40 + arcs[1], *arcs[2:]):
        septets = [arc & 0x7F]
        while arc := arc >> 7:
            septets.append(0x80 | (arc & 0x7F))
        body += bytes(reversed(septets))
    return tlv(OID, bytes(body))


def pack_value(tag: int, value: int | str | bytes) -> bytes:
    """Return a value under its tag: octets, object identifier or one of the integers."""
    if tag == OCTETS:
        return tlv(tag, value.encode() if isinstance(value, str) else bytes(value))
    if tag == OID:
        return pack_oid(parse_dotted(str(value)))
    return pack_int(int(value), tag)


def parse_dotted(text: str) -> tuple[int, ...]:
    """Return the arcs of `1.3.6.1`."""
    return tuple(map(int, text.strip(".").split(".")))


def parse_tlv(data: bytes, at: int) -> tuple[int, int, int]:
    """Return tag, start and end of the body at an offset. Raises ValueError past the end."""
    if at + 2 > len(data):
        raise ValueError("truncated")
    tag, size, start = data[at], data[at + 1], at + 2
    if size & 0x80:
        more = size & 0x7F
        size = int.from_bytes(data[start : start + more], "big")
        start += more
    if start + size > len(data):
        raise ValueError("truncated")
    return tag, start, start + size


def parse_sequence(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield tag, start and end of each element of a body."""
    while start < end:
        tag, body, stop = parse_tlv(data, start)
        yield tag, body, stop
        start = stop


def parse_oid(body: bytes) -> tuple[int, ...]:
    """Return the arcs of an object identifier's body."""
    arcs: list[int] = []
    value = 0
    for octet in body:
        value = value << 7 | octet & 0x7F
        if not octet & 0x80:
            arcs.append(value)
            value = 0
    first = min(arcs[0] // 40, 2) if arcs else 0
    return (first, arcs[0] - 40 * first, *arcs[1:]) if arcs else ()

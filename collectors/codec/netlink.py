"""Netlink framing: messages and attributes, in and out (Linux uapi/linux/netlink.h, RFC 3549).

Everything is in the byte order of the machine. The two top bits of an attribute's type are
flags (nested, network byte order) and are masked away, because kernels set them on some nests
and not on others.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from collectors.model.errors import Malformed

T = TypeVar("T")

HEADER = struct.Struct("=IHHII")
ATTRIBUTE = struct.Struct("=HH")
GENERIC_HEADER = struct.Struct("=BBH")

NLMSG_NOOP = 1
NLMSG_ERROR = 2
NLMSG_DONE = 3
NLMSG_OVERRUN = 4

NLM_F_REQUEST = 0x01
NLM_F_MULTI = 0x02
NLM_F_ACK = 0x04
NLM_F_DUMP_INTR = 0x10
NLM_F_DUMP = 0x300

NLA_F_NESTED = 0x8000
_TYPE_MASK = 0x3FFF

NETLINK_ROUTE = 0
NETLINK_GENERIC = 16
NETLINK_RDMA = 20


@dataclass(frozen=True, slots=True)
class Message:
    """One netlink message without its header's length."""

    type: int
    flags: int
    sequence: int
    payload: bytes

    @property
    def error(self) -> int | None:
        """Errno of an error message, 0 of an acknowledgement, None of anything else."""
        if self.type != NLMSG_ERROR:
            return None
        if len(self.payload) < 4:
            raise Malformed(
                "netlink", "parse error message", "shorter than its errno", self.payload
            )
        return -int(struct.unpack_from("=i", self.payload)[0])


def _align(length: int) -> int:
    return (length + 3) & ~3


def parse_messages(data: bytes) -> Iterator[Message]:
    """Return the messages of one datagram; Malformed where a length does not fit."""
    offset = 0
    while offset < len(data):
        if len(data) - offset < HEADER.size:
            raise Malformed("netlink", "parse message", "truncated header", data, offset)
        length, kind, flags, sequence, _port = HEADER.unpack_from(data, offset)
        if length < HEADER.size or offset + length > len(data):
            raise Malformed(
                "netlink", "parse message", f"length {length} does not fit", data, offset
            )
        yield Message(kind, flags, sequence, bytes(data[offset + HEADER.size : offset + length]))
        offset += _align(length)


def parse_replies(datagrams: Iterable[bytes], parse: Callable[[Message], T | None]) -> Iterator[T]:
    """Return what `parse` finds in the messages of datagrams; None is a message that is not its.

    Raises Malformed where a length does not fit, and what `parse` does.
    """
    for data in datagrams:
        for message in parse_messages(data):
            found = parse(message)
            if found is not None:
                yield found


def pack_message(kind: int, flags: int, payload: bytes, sequence: int = 0) -> bytes:
    """Return one message with its header."""
    return HEADER.pack(HEADER.size + len(payload), kind, flags, sequence, 0) + payload


def parse_attributes(data: bytes, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Return (type, payload) of each attribute from `offset` on; Malformed on a bad length."""
    while offset < len(data):
        if len(data) - offset < ATTRIBUTE.size:
            if not any(data[offset:]):
                return  # padding
            raise Malformed("netlink", "parse attribute", "truncated header", data, offset)
        length, kind = ATTRIBUTE.unpack_from(data, offset)
        if length < ATTRIBUTE.size or offset + length > len(data):
            raise Malformed(
                "netlink", "parse attribute", f"length {length} does not fit", data, offset
            )
        yield kind & _TYPE_MASK, data[offset + ATTRIBUTE.size : offset + length]
        offset += _align(length)


def pack_attribute(kind: int, payload: bytes) -> bytes:
    """Return one attribute, padded to four bytes."""
    length = ATTRIBUTE.size + len(payload)
    return ATTRIBUTE.pack(length, kind) + payload + bytes(_align(length) - length)


def pack_u8(kind: int, value: int) -> bytes:
    """Return an attribute with one byte."""
    return pack_attribute(kind, struct.pack("=B", value))


def pack_u16(kind: int, value: int) -> bytes:
    """Return an attribute with a 16-bit number."""
    return pack_attribute(kind, struct.pack("=H", value))


def pack_u32(kind: int, value: int) -> bytes:
    """Return an attribute with a 32-bit number."""
    return pack_attribute(kind, struct.pack("=I", value))


def pack_u64(kind: int, value: int) -> bytes:
    """Return an attribute with a 64-bit number."""
    return pack_attribute(kind, struct.pack("=Q", value))


def pack_text(kind: int, value: str) -> bytes:
    """Return an attribute with a NUL-terminated text."""
    return pack_attribute(kind, value.encode() + b"\0")


def pack_nest(kind: int, attributes: Iterable[bytes]) -> bytes:
    """Return an attribute that contains attributes."""
    return pack_attribute(kind | NLA_F_NESTED, b"".join(attributes))


def number(payload: bytes) -> int:
    """Return an attribute's unsigned number of 1, 2, 4 or 8 bytes; Malformed for other sizes."""
    form = {1: "=B", 2: "=H", 4: "=I", 8: "=Q"}.get(len(payload))
    if form is None:
        raise Malformed("netlink", "parse number", f"{len(payload)} bytes", payload)
    return int(struct.unpack(form, payload)[0])


def text(payload: bytes) -> str:
    """Return an attribute's text up to its NUL; bytes that are no UTF-8 are replaced."""
    return payload.split(b"\0", 1)[0].decode("utf-8", "replace")

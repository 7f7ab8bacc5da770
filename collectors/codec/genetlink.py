"""Generic netlink: looking up a family, and its header (uapi/linux/genetlink.h)."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.codec.netlink import (
    GENERIC_HEADER,
    NLM_F_ACK,
    NLM_F_REQUEST,
    Message,
    number,
    pack_message,
    pack_text,
    parse_attributes,
    text,
)
from collectors.model.errors import Malformed

CONTROL = 0x10
_GET_FAMILY = 3
_NEW_FAMILY = 1
_FAMILY_ID = 1
_FAMILY_NAME = 2


def pack_generic(family: int, command: int, version: int, payload: bytes, flags: int = 0) -> bytes:
    """Return a request to a generic netlink family."""
    header = GENERIC_HEADER.pack(command, version, 0)
    return pack_message(family, NLM_F_REQUEST | (flags or NLM_F_ACK), header + payload)


def pack_get_family(name: str) -> bytes:
    """Return the request for the number of a family."""
    return pack_generic(CONTROL, _GET_FAMILY, 1, pack_text(_FAMILY_NAME, name))


def parse_family(message: Message, name: str) -> int | None:
    """Return the number of a family; None for a message that does not tell it."""
    if message.type != CONTROL or command_of(message) != _NEW_FAMILY:
        return None
    found = dict(generic_attributes(message))
    if text(found.get(_FAMILY_NAME, b"")) != name or _FAMILY_ID not in found:
        return None
    return number(found[_FAMILY_ID])


def command_of(message: Message) -> int:
    """Return the command of a generic message; Malformed where its header is cut."""
    if len(message.payload) < GENERIC_HEADER.size:
        raise Malformed("genetlink", "parse header", "truncated", message.payload)
    return message.payload[0]


def generic_attributes(message: Message) -> Iterator[tuple[int, bytes]]:
    """Return the attributes behind the generic header."""
    command_of(message)
    return parse_attributes(message.payload, GENERIC_HEADER.size)

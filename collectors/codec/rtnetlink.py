"""Routing netlink: the IPv4 addresses of interfaces (uapi/linux/if_addr.h)."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

from collectors.codec.netlink import (
    NLM_F_DUMP,
    NLM_F_REQUEST,
    Message,
    pack_message,
    parse_attributes,
    text,
)
from collectors.model.errors import Malformed

RTM_NEWADDR = 20
RTM_GETADDR = 22
AF_INET = 2
_HEADER = struct.Struct("=BBBBI")  # ifaddrmsg: family, prefix length, flags, scope, index
_IFA_LOCAL = 2
_IFA_LABEL = 3


@dataclass(frozen=True, slots=True)
class InterfaceAddress:
    """An IPv4 address. netdev: the interface by its label, without the alias after a colon."""

    netdev: str
    index: int
    address: str
    prefix: int


def pack_get_addresses() -> bytes:
    """Return the request for all IPv4 addresses."""
    return pack_message(RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, _HEADER.pack(AF_INET, 0, 0, 0, 0))


def parse_address(message: Message) -> InterfaceAddress | None:
    """Return the address of an RTM_NEWADDR message; None for another. Raises Malformed."""
    if message.type != RTM_NEWADDR:
        return None
    if len(message.payload) < _HEADER.size:
        raise Malformed("rtnetlink", "parse address", "truncated header", message.payload)
    family, prefix, _, _, index = _HEADER.unpack_from(message.payload)
    found = dict(parse_attributes(message.payload, _HEADER.size))
    local = found.get(_IFA_LOCAL)
    if family != AF_INET or local is None or len(local) != 4 or _IFA_LABEL not in found:
        return None
    netdev = text(found[_IFA_LABEL]).split(":", 1)[0]
    return InterfaceAddress(netdev, index, str(ipaddress.IPv4Address(local)), prefix)

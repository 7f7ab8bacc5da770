"""IP addresses as bytes: what GIDs and queue pairs are joined by, many thousands at a time."""

from __future__ import annotations

import socket
from functools import lru_cache
from typing import Final

IPV4_BYTES: Final = 4
_MAPPED: Final = bytes(10) + b"\xff\xff"  # ::ffff:0:0/96 (RFC 4291, section 2.5.5.2)


@lru_cache(maxsize=1 << 17)
def packed(text: str) -> bytes | None:
    """Return the 16 bytes of an address, the last 4 of one that is IPv4 or maps it.

    None for what is no address, and for link-local ones (fe80::/10, 169.254.0.0/16), to which
    those with a zone (`fe80::1%eth0`) belong.
    """
    try:
        address = socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    except (OSError, ValueError):
        return None
    if len(address) == IPV4_BYTES:
        return None if address.startswith(b"\xa9\xfe") else address
    if address[0] == 0xFE and address[1] & 0xC0 == 0x80:
        return None
    return address[-IPV4_BYTES:] if address.startswith(_MAPPED) else address

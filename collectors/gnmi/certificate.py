"""The names in an X.509 certificate, without a library for it: DNS names, then common name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

_SUBJECT_ALT_NAME: Final = bytes.fromhex("0603551d11")
_COMMON_NAME: Final = bytes.fromhex("0603550403")
_DNS: Final = 0x82


def _length(der: bytes, at: int) -> tuple[int, int]:
    size = der[at]
    if size < 0x80:
        return size, at + 1
    more = size & 0x7F
    return int.from_bytes(der[at + 1 : at + 1 + more], "big"), at + 1 + more


def names_of(der: bytes) -> list[str]:
    """Return the DNS names of a certificate, and after them its last common name.

    A certificate that is cut off has the names that came before the cut.
    """
    return list(_names(der))


def _names(der: bytes) -> Iterator[str]:
    with contextlib.suppress(IndexError):  # the cut
        at = der.find(_SUBJECT_ALT_NAME)
        if at >= 0:
            yield from _dns_names(der, at + len(_SUBJECT_ALT_NAME))
        at = der.rfind(_COMMON_NAME)
        if at >= 0:
            size, at = _length(der, at + len(_COMMON_NAME) + 1)
            yield der[at : at + size].decode("utf-8", "replace")


def _dns_names(der: bytes, at: int) -> Iterator[str]:
    if der[at] == 0x01:  # critical
        at += 3
    _, at = _length(der, at + 1)  # octet string
    size, at = _length(der, at + 1)  # sequence
    end = at + size
    while at < end:
        tag = der[at]
        size, at = _length(der, at + 1)
        if tag == _DNS:
            yield der[at : at + size].decode("ascii", "replace")
        at += size

"""Data centre bridging over routing netlink: one request brings all settings of an interface.

Numbers and structures from uapi/linux/dcbnl.h, nesting from net/dcb/dcbnl.c. Structures are in
the byte order of the machine.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from collectors.codec.netlink import (
    NLM_F_REQUEST,
    Message,
    number,
    pack_message,
    pack_text,
    parse_attributes,
    text,
)
from collectors.model.errors import Malformed

RTM_GETDCB: Final = 78
CMD_IEEE_GET: Final = 21
CMD_GDCBX: Final = 22
ATTR_IFNAME: Final = 1
ATTR_IEEE: Final = 13
ATTR_DCBX: Final = 14

SELECTOR_ETHERTYPE: Final = 1
SELECTOR_DATAGRAM_PORT: Final = 3
SELECTOR_ANY_PORT: Final = 4
SELECTOR_DSCP: Final = 5
SELECTOR_PCP: Final = 255

HEADER: Final = struct.Struct("=BBxx")
ETS: Final = struct.Struct("=3B8B8B8B8B8B8B8B")
PFC: Final = struct.Struct("=BBBxH2x8Q8Q")
APP: Final = struct.Struct("=BBH")
BUFFER: Final = struct.Struct("=8B8II")
MAXRATE: Final = struct.Struct("=8Q")

_TSA: Final = {0: "strict", 1: "cbs", 2: "ets", 255: "vendor"}
_SELECTORS: Final = {SELECTOR_DSCP: "dscp", SELECTOR_PCP: "pcp"}


@dataclass(frozen=True, slots=True)
class Ets:
    """Scheduling. bandwidth_percent, algorithm: by traffic class. traffic_class: by priority."""

    traffic_classes: int
    bandwidth_percent: tuple[int, ...]
    algorithm: tuple[str, ...]
    traffic_class: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pfc:
    """Priority flow control by priority. rx_frames, tx_frames: as the driver last knew them."""

    priorities_max: int
    enabled: tuple[bool, ...]
    delay: int
    tx_frames: tuple[int, ...]
    rx_frames: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class App:
    """A rule that gives a priority to a protocol. selector: what kind of number it is."""

    selector: int
    priority: int
    protocol: int


@dataclass(frozen=True, slots=True)
class Buffers:
    """Receive buffers. buffer: by priority. bytes: by buffer."""

    buffer: tuple[int, ...]
    bytes: tuple[int, ...]
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Dcb:
    """All that one interface tells; None or empty is what its driver does not know.

    trust: selectors in order, only where the kernel has them. rewrite: rules by priority.
    """

    netdev: str
    ets: Ets | None = None
    pfc: Pfc | None = None
    peer_pfc: Pfc | None = None
    apps: tuple[App, ...] = ()
    rewrite: tuple[App, ...] = ()
    trust: tuple[str, ...] = ()
    max_rate_bps: tuple[int, ...] = ()
    buffers: Buffers | None = None
    raw: dict[int, bytes] = field(default_factory=dict, compare=False)


def pack_get(command: int, netdev: str) -> bytes:
    """Return a request about one interface; it has one reply and no acknowledgement."""
    payload = HEADER.pack(0, command) + pack_text(ATTR_IFNAME, netdev)
    return pack_message(RTM_GETDCB, NLM_F_REQUEST, payload)


def _body(message: Message, command: int) -> dict[int, bytes] | None:
    if message.type != RTM_GETDCB:
        return None
    if len(message.payload) < HEADER.size:
        raise Malformed("dcb", "parse reply", "truncated header", message.payload)
    if HEADER.unpack_from(message.payload)[1] != command:
        return None
    return dict(parse_attributes(message.payload, HEADER.size))


def parse_dcbx(message: Message) -> int | None:
    """Return the DCBX mode bits; None for another message. Raises Malformed."""
    found = _body(message, CMD_GDCBX)
    return None if found is None or ATTR_DCBX not in found else number(found[ATTR_DCBX])


def parse_dcb(message: Message) -> Dcb | None:
    """Return the settings of an IEEE_GET reply; None for another message. Raises Malformed."""
    found = _body(message, CMD_IEEE_GET)
    if found is None:
        return None
    ieee = dict(parse_attributes(found.get(ATTR_IEEE, b"")))
    rates = _unpack(MAXRATE, ieee[7]) if 7 in ieee else ()
    return Dcb(
        text(found.get(ATTR_IFNAME, b"")),
        parse_ets(ieee[1]) if 1 in ieee else None,
        parse_pfc(ieee[2]) if 2 in ieee else None,
        parse_pfc(ieee[5]) if 5 in ieee else None,
        tuple(_apps(ieee.get(3, b""))),
        tuple(_apps(ieee.get(12, b""))),
        tuple(_trust(ieee.get(11, b""))),
        tuple(kilobits * 1000 for kilobits in rates),
        parse_buffers(ieee[10]) if 10 in ieee else None,
        ieee,
    )


def _unpack(form: struct.Struct, data: bytes) -> tuple[int, ...]:
    if len(data) < form.size:
        raise Malformed("dcb", "parse structure", f"{len(data)} of {form.size} bytes", data)
    return form.unpack_from(data)


def parse_ets(data: bytes) -> Ets:
    """Return struct ieee_ets; Malformed where it is cut."""
    fields = _unpack(ETS, data)
    return Ets(
        fields[1],
        fields[3:11],
        tuple(_TSA.get(kind, str(kind)) for kind in fields[19:27]),
        fields[27:35],
    )


def parse_pfc(data: bytes) -> Pfc:
    """Return struct ieee_pfc; Malformed where it is cut."""
    fields = _unpack(PFC, data)
    enabled = tuple(bool(fields[1] >> priority & 1) for priority in range(8))
    return Pfc(fields[0], enabled, fields[3], fields[4:12], fields[12:20])


def parse_buffers(data: bytes) -> Buffers:
    """Return struct dcbnl_buffer; Malformed where it is cut."""
    fields = _unpack(BUFFER, data)
    return Buffers(fields[:8], fields[8:16], fields[16])


def _apps(data: bytes) -> Iterator[App]:
    for _, entry in parse_attributes(data):
        yield App(*_unpack(APP, entry))


def _trust(data: bytes) -> Iterator[str]:
    for _, entry in parse_attributes(data):
        selector = number(entry)
        yield _SELECTORS.get(selector, str(selector))

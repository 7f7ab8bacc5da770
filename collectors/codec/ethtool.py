"""The ethtool family of generic netlink: pause, FEC, standard statistics, link, module memory.

Numbers from uapi/linux/ethtool_netlink.h; request and reply numbers differ. A value that the
driver does not report is missing from the reply, so it is missing here.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from collectors.codec.genetlink import command_of, generic_attributes, pack_generic
from collectors.codec.netlink import (
    Message,
    number,
    pack_attribute,
    pack_nest,
    pack_text,
    pack_u8,
    pack_u32,
    parse_attributes,
    text,
)
from collectors.model.errors import Malformed

FAMILY: Final = "ethtool"
_VERSION: Final = 1

LINKMODES_GET, LINKMODES_REPLY = 4, 4
LINKSTATE_GET, LINKSTATE_REPLY = 6, 6
PAUSE_GET, PAUSE_REPLY = 21, 22
FEC_GET, FEC_REPLY = 29, 30
MODULE_EEPROM_GET, MODULE_EEPROM_REPLY = 31, 32
STATS_GET, STATS_REPLY = 32, 33

_HEADER_NAME: Final = 2
_HEADER_FLAGS: Final = 3
_FLAG_STATS: Final = 4

# Group id -> name and statistic id -> name, spelled as `ethtool --json -S --groups` does.
STAT_GROUPS: Final[Mapping[int, tuple[str, tuple[str, ...]]]] = {
    0: ("eth-phy", ("SymbolErrorDuringCarrier",)),
    1: (
        "eth-mac",
        (
            "FramesTransmittedOK",
            "SingleCollisionFrames",
            "MultipleCollisionFrames",
            "FramesReceivedOK",
            "FrameCheckSequenceErrors",
            "AlignmentErrors",
            "OctetsTransmittedOK",
            "FramesWithDeferredXmissions",
            "LateCollisions",
            "FramesAbortedDueToXSColls",
            "FramesLostDueToIntMACXmitError",
            "CarrierSenseErrors",
            "OctetsReceivedOK",
            "FramesLostDueToIntMACRcvError",
            "MulticastFramesXmittedOK",
            "BroadcastFramesXmittedOK",
            "FramesWithExcessiveDeferral",
            "MulticastFramesReceivedOK",
            "BroadcastFramesReceivedOK",
            "InRangeLengthErrors",
            "OutOfRangeLengthField",
            "FrameTooLongErrors",
        ),
    ),
    2: (
        "eth-ctrl",
        ("MACControlFramesTransmitted", "MACControlFramesReceived", "UnsupportedOpcodesReceived"),
    ),
    3: ("rmon", ("etherStatsUndersizePkts", "etherStatsOversizePkts", "etherStatsFragments",
                 "etherStatsJabbers")),
}  # fmt: skip
_ALL_GROUPS: Final = 0b1111


@dataclass(frozen=True, slots=True)
class Pause:
    """802.3x pause: what is set, and frames where the driver counts them."""

    netdev: str
    autonegotiate: bool | None = None
    rx: bool | None = None
    tx: bool | None = None
    rx_frames: int | None = None
    tx_frames: int | None = None


@dataclass(frozen=True, slots=True)
class Fec:
    """FEC blocks and bits: index 0 is the port, then one value a lane where there are several."""

    netdev: str
    corrected_blocks: tuple[int, ...] = ()
    uncorrectable_blocks: tuple[int, ...] = ()
    corrected_bits: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkModes:
    """The link as negotiated. speed_mbps: None where unknown."""

    netdev: str
    autonegotiate: bool | None = None
    speed_mbps: int | None = None
    full_duplex: bool | None = None
    lanes: int | None = None


@dataclass(frozen=True, slots=True)
class LinkState:
    """up: carrier. down_count: times that the PHY lost the link."""

    netdev: str
    up: bool | None = None
    down_count: int | None = None
    extended_state: int | None = None


@dataclass(frozen=True, slots=True)
class StandardStatistics:
    """values: `<group> <statistic>` -> value."""

    netdev: str
    values: Mapping[str, int] = field(default_factory=dict)


def _header(kind: int, netdev: str, *, statistics: bool = False) -> bytes:
    parts = [pack_text(_HEADER_NAME, netdev)]
    if statistics:
        parts.append(pack_u32(_HEADER_FLAGS, _FLAG_STATS))
    return pack_nest(kind, parts)


def pack_pause_get(family: int, netdev: str) -> bytes:
    """Return the request for pause settings with their statistics."""
    return pack_generic(family, PAUSE_GET, _VERSION, _header(1, netdev, statistics=True))


def pack_fec_get(family: int, netdev: str) -> bytes:
    """Return the request for FEC settings with their statistics."""
    return pack_generic(family, FEC_GET, _VERSION, _header(1, netdev, statistics=True))


def pack_link_modes_get(family: int, netdev: str) -> bytes:
    """Return the request for speed, lanes, duplex, autonegotiation."""
    return pack_generic(family, LINKMODES_GET, _VERSION, _header(1, netdev))


def pack_link_state_get(family: int, netdev: str) -> bytes:
    """Return the request for carrier and link-down count."""
    return pack_generic(family, LINKSTATE_GET, _VERSION, _header(1, netdev))


def pack_statistics_get(family: int, netdev: str) -> bytes:
    """Return the request for all standard statistics groups."""
    groups = [
        pack_attribute(1, b""),  # no mask: the value is a list of what is wanted
        pack_u32(2, 4),
        pack_attribute(4, struct.pack("=I", _ALL_GROUPS)),
    ]
    payload = _header(2, netdev) + pack_nest(3, groups)
    return pack_generic(family, STATS_GET, _VERSION, payload)


def pack_module_get(family: int, netdev: str, page: int, offset: int, length: int) -> bytes:
    """Return the request for up to 128 bytes of the module's memory (bank 0)."""
    payload = _header(1, netdev) + pack_u32(2, offset) + pack_u32(3, length)
    payload += pack_u8(4, page) + pack_u8(5, 0) + pack_u8(6, 0x50)
    return pack_generic(family, MODULE_EEPROM_GET, _VERSION, payload)


def _netdev(header: bytes) -> str:
    return text(dict(parse_attributes(header)).get(_HEADER_NAME, b""))


def _bool(payload: bytes | None) -> bool | None:
    return None if payload is None else bool(number(payload))


def _int(payload: bytes | None) -> int | None:
    return None if not payload else number(payload)


def _reply(message: Message, command: int) -> dict[int, bytes] | None:
    return dict(generic_attributes(message)) if command_of(message) == command else None


def parse_pause(message: Message) -> Pause | None:
    """Return the pause reply; None for another command. Raises Malformed."""
    found = _reply(message, PAUSE_REPLY)
    if found is None:
        return None
    statistics = dict(parse_attributes(found.get(5, b"")))
    return Pause(
        _netdev(found.get(1, b"")),
        _bool(found.get(2)),
        _bool(found.get(3)),
        _bool(found.get(4)),
        _int(statistics.get(3)),
        _int(statistics.get(2)),
    )


def parse_fec(message: Message) -> Fec | None:
    """Return the FEC reply; None for another command. Raises Malformed."""
    found = _reply(message, FEC_REPLY)
    if found is None:
        return None
    statistics = dict(parse_attributes(found.get(5, b"")))

    def lanes(kind: int) -> tuple[int, ...]:
        data = statistics.get(kind, b"")
        if len(data) % 8:
            raise Malformed("ethtool", "parse FEC", f"{len(data)} bytes of counters", data)
        return struct.unpack(f"={len(data) // 8}Q", data)

    return Fec(_netdev(found.get(1, b"")), lanes(2), lanes(3), lanes(4))


def parse_link_modes(message: Message) -> LinkModes | None:
    """Return the link modes reply; None for another command. Raises Malformed."""
    found = _reply(message, LINKMODES_REPLY)
    if found is None:
        return None
    speed = _int(found.get(5))
    return LinkModes(
        _netdev(found.get(1, b"")),
        _bool(found.get(2)),
        None if speed in (None, 0, 0xFFFFFFFF) else speed,
        {0: False, 1: True}.get(_int(found.get(6)) or 0) if 6 in found else None,
        _int(found.get(9)),
    )


def parse_link_state(message: Message) -> LinkState | None:
    """Return the link state reply; None for another command. Raises Malformed."""
    found = _reply(message, LINKSTATE_REPLY)
    if found is None:
        return None
    return LinkState(
        _netdev(found.get(1, b"")), _bool(found.get(2)), _int(found.get(7)), _int(found.get(5))
    )


def parse_statistics(message: Message) -> StandardStatistics | None:
    """Return the statistics reply; None for another command. Raises Malformed."""
    if command_of(message) != STATS_REPLY:
        return None
    netdev, values = "", {}
    for kind, payload in generic_attributes(message):
        if kind == 2:
            netdev = _netdev(payload)
        elif kind == 4:
            values.update(_group(payload))
    return StandardStatistics(netdev, values)


def _group(payload: bytes) -> dict[str, int]:
    parts = list(parse_attributes(payload))
    known = next((STAT_GROUPS.get(number(data)) for kind, data in parts if kind == 2), None)
    if known is None:
        return {}
    group, names = known
    found = {}
    for kind, data in parts:
        if kind != 4:
            continue
        for identifier, value in parse_attributes(data):
            if identifier < len(names) and len(value) == 8:
                found[f"{group} {names[identifier]}"] = number(value)
    return found


def parse_module(message: Message) -> bytes | None:
    """Return the module's memory; None for another command. Raises Malformed."""
    found = _reply(message, MODULE_EEPROM_REPLY)
    return None if found is None else found.get(7, b"")

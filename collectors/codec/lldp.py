"""LLDPDU: who is at the other end of the cable (IEEE 802.1AB-2016 clause 8).

`parse_frame` takes an Ethernet frame, `parse_lldpdu` what follows its type. Unknown TLVs are
skipped, as the standard asks; a TLV that does not fit is Malformed.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from collectors.model.errors import Malformed

ETHERTYPE: Final = 0x88CC
MULTICAST: Final = bytes.fromhex("0180c200000e")
_DOT1: Final = b"\x00\x80\xc2"
_DOT3: Final = b"\x00\x12\x0f"


@dataclass(frozen=True, slots=True)
class LldpNeighbour:
    """What a neighbour says of itself. chassis, port: as text by their subtypes.

    chassis_kind, port_kind: `mac`, `name`, `alias`, `address`, `component`, `local`.
    ttl_s: 0 means that it takes back what it said. pfc_enabled: priorities, None if not told.
    max_frame_bytes: what it accepts, 0 if not told.
    """

    chassis: str
    chassis_kind: str
    port: str
    port_kind: str
    ttl_s: int
    system_name: str = ""
    system_description: str = ""
    port_description: str = ""
    management_address: str = ""
    pfc_enabled: tuple[bool, ...] | None = None
    pfc_willing: bool = False
    max_frame_bytes: int = 0


_CHASSIS_KINDS: Final = {1: "component", 2: "alias", 3: "component", 4: "mac", 5: "address",
                         6: "name", 7: "local"}  # fmt: skip
_PORT_KINDS: Final = {1: "alias", 2: "component", 3: "mac", 4: "address", 5: "name", 6: "circuit",
                      7: "local"}  # fmt: skip


def _tlvs(data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset < len(data):
        if len(data) - offset < 2:
            raise Malformed("lldp", "parse TLV", "truncated header", data, offset)
        (head,) = struct.unpack_from(">H", data, offset)
        kind, length = head >> 9, head & 0x1FF
        if offset + 2 + length > len(data):
            raise Malformed("lldp", "parse TLV", f"length {length} does not fit", data, offset)
        if kind == 0:
            return
        yield kind, data[offset + 2 : offset + 2 + length]
        offset += 2 + length


def _identity(value: bytes, kinds: dict[int, str]) -> tuple[str, str]:
    if len(value) < 2:
        raise Malformed("lldp", "parse identity", "shorter than two bytes", value)
    kind = kinds.get(value[0], "local")
    body = value[1:]
    if kind == "mac" and len(body) == 6:
        return ":".join(f"{byte:02x}" for byte in body), kind
    if kind == "address":
        return _address(body), kind
    return _text(body), kind


def _address(body: bytes) -> str:
    if body[:1] == b"\x01" and len(body) == 5:
        return str(ipaddress.IPv4Address(body[1:]))
    if body[:1] == b"\x02" and len(body) == 17:
        return str(ipaddress.IPv6Address(body[1:]))
    return body.hex()


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace").replace("\0", "").strip()


def parse_frame(frame: bytes) -> LldpNeighbour | None:
    """Return the neighbour of an Ethernet frame, None if it is no LLDP. Raises Malformed."""
    if len(frame) < 14 or struct.unpack_from(">H", frame, 12)[0] != ETHERTYPE:
        return None
    return parse_lldpdu(frame[14:])


def parse_lldpdu(data: bytes) -> LldpNeighbour:
    """Return the neighbour of an LLDPDU. Raises Malformed, also for a mandatory TLV missing."""
    chassis = port = None
    ttl = None
    texts: dict[int, str] = {}
    management = ""
    pfc: tuple[bool, ...] | None = None
    willing, frame_bytes = False, 0
    for kind, value in _tlvs(data):
        if kind == 1:
            chassis = _identity(value, _CHASSIS_KINDS)
        elif kind == 2:
            port = _identity(value, _PORT_KINDS)
        elif kind == 3:
            if len(value) < 2:
                raise Malformed("lldp", "parse time to live", "shorter than two bytes", value)
            (ttl,) = struct.unpack_from(">H", value)
        elif kind in (4, 5, 6):
            texts[kind] = _text(value)
        elif kind == 8 and not management and len(value) > 2:
            management = _address(value[1 : 1 + value[0]])
        elif kind == 127 and value[:4] == _DOT1 + b"\x0b" and len(value) >= 6:
            pfc = tuple(bool(value[5] >> priority & 1) for priority in range(8))
            willing = bool(value[4] & 0x80)
        elif kind == 127 and value[:4] == _DOT3 + b"\x04" and len(value) >= 6:
            (frame_bytes,) = struct.unpack_from(">H", value, 4)
    if chassis is None or port is None or ttl is None:
        raise Malformed("lldp", "parse LLDPDU", "chassis, port or time to live is missing", data)
    return LldpNeighbour(
        *chassis,
        *port,
        ttl,
        texts.get(5, ""),
        texts.get(6, ""),
        texts.get(4, ""),
        management,
        pfc,
        willing,
        frame_bytes,
    )


def pack_tlv(kind: int, value: bytes) -> bytes:
    """Return one TLV; value at most 511 bytes."""
    return struct.pack(">H", kind << 9 | len(value)) + value

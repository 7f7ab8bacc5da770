"""Management datagrams: the frames around the attributes (IBTA vol. 1, 13.4.2 and 14.2.1).

Every request made here is a Get or GetTable: this codec cannot set, and so cannot clear.
All datagrams are 256 bytes; transaction ids are 32 bits, because the kernel owns the upper half
of the 64-bit field and puts its agent's number there.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from collectors.model.errors import Malformed

MAD_BYTES = 256
PAYLOAD_AT = 64  # SMP, PerfMgt and congestion control data begin here
SMP_PAYLOAD_BYTES = 64
GMP_PAYLOAD_BYTES = 192
SA_PAYLOAD_AT = 56
MAX_HOPS = 63

CLASS_SMP_LID = 0x01
CLASS_SMP_DIRECT = 0x81
CLASS_SA = 0x03
CLASS_PERF = 0x04
CLASS_CONGESTION = 0x21
CLASS_VERSION = {
    CLASS_SMP_LID: 1,
    CLASS_SMP_DIRECT: 1,
    CLASS_SA: 2,
    CLASS_PERF: 1,
    CLASS_CONGESTION: 2,
}

METHOD_GET = 0x01
METHOD_GET_RESPONSE = 0x81
METHOD_GET_TABLE = 0x12
METHOD_GET_TABLE_RESPONSE = 0x92

PERMISSIVE_LID = 0xFFFF
QKEY_GSI = 0x80010000

# IBTA vol. 1, 13.4.7: bits 2-4 of the status
STATUS_TEXT = {
    0: "ok",
    1: "bad base or class version",
    2: "method not supported",
    3: "method/attribute not supported",
    7: "invalid attribute or modifier",
}
_NOT_SUPPORTED = (1, 2, 3, 7)
STATUS_DIRECTION = 0x8000  # in a direct-routed SMP the top status bit is the direction

_HEADER = struct.Struct(">BBBBHHQHHI")
_HEADER_PAD = bytes(PAYLOAD_AT - _HEADER.size)


class Header(NamedTuple):
    """The common header; `hops` (pointer, count) is read from direct-routed SMPs only."""

    base_version: int
    mgmt_class: int
    class_version: int
    method: int
    status: int
    hops: int
    tid: int
    attribute: int
    modifier: int


def parse_header(mad: bytes | bytearray | memoryview) -> Header:
    """Read the common header of a datagram; raises Malformed when it is cut short."""
    if len(mad) < MAD_BYTES:
        raise Malformed("MAD", "parse header", f"{len(mad)} bytes, needs {MAD_BYTES}", bytes(mad))
    base, cls, version, method, status, hops, tid, attribute, _, modifier = _HEADER.unpack_from(mad)
    if base != 1:
        raise Malformed("MAD", "parse header", f"base version {base}, expected 1", bytes(mad), 0)
    if cls == CLASS_SMP_DIRECT:
        status &= ~STATUS_DIRECTION
    return Header(base, cls, version, method, status, hops, tid, attribute, modifier)


def status_text(status: int) -> str:
    """Say what a MAD status means (IBTA vol. 1, 13.4.7)."""
    parts = []
    if status & 1:
        parts.append("busy")
    if status & 2:
        parts.append("redirect required")
    code = status >> 2 & 7
    if code:
        parts.append(STATUS_TEXT.get(code, f"reserved code {code}"))
    if status >> 8:
        parts.append(f"class-specific status 0x{status >> 8:02x}")
    return ", ".join(parts) or "ok"


def is_unsupported(status: int) -> bool:
    """Tell whether the status says that asking again is of no use."""
    return status >> 2 & 7 in _NOT_SUPPORTED


def is_busy(status: int) -> bool:
    """Tell whether the responder was busy and may be asked again."""
    return bool(status & 1)


def pack_direct(attribute: int, modifier: int, tid: int, path: bytes, m_key: int = 0) -> bytes:
    """Pack a direct-routed SMP Get; `path` holds the egress port of each hop, at most 63.

    DrSLID and DrDLID are permissive: direct routing all the way (IBTA vol. 1, 14.2.2).
    """
    if len(path) > MAX_HOPS:
        raise ValueError(f"{len(path)} hops, a directed route has at most {MAX_HOPS}")
    header = _HEADER.pack(
        1, CLASS_SMP_DIRECT, 1, METHOD_GET, 0, len(path), tid, attribute, 0, modifier
    )
    return b"".join(
        (
            header,
            m_key.to_bytes(8, "big"),
            b"\xff\xff\xff\xff",
            bytes(28 + SMP_PAYLOAD_BYTES),
            b"\x00",  # entry 0 of the initial path is not used
            path,
            bytes(63 - len(path) + 64),
        )
    )


def direct_path(mad: bytes | bytearray | memoryview) -> bytes:
    """Return the initial path of a direct-routed SMP, request or reply.

    Raises Malformed when its hop count is over 63.
    """
    hop_count = mad[7]
    if hop_count > MAX_HOPS:
        raise Malformed("MAD", "parse path", f"hop count {hop_count}", bytes(mad), 7)
    return bytes(mad[129 : 129 + hop_count])


_ZERO_GMP = bytes(GMP_PAYLOAD_BYTES)


def pack_get(
    mgmt_class: int, attribute: int, modifier: int, tid: int, payload: bytes = b"", key: int = 0
) -> bytes:
    """Pack a LID-routed Get: SMP, PerfMgt, congestion control or vendor class.

    `key` is the M_Key of an SMP or the CC_Key of the congestion class (bytes 24-31 of both).
    """
    header = _HEADER.pack(
        1,
        mgmt_class,
        CLASS_VERSION.get(mgmt_class, 1),
        METHOD_GET,
        0,
        0,
        tid,
        attribute,
        0,
        modifier,
    )
    pad = _HEADER_PAD if not key else key.to_bytes(8, "big") + _HEADER_PAD[8:]
    return header + pad + payload + _ZERO_GMP[len(payload) :]


def pack_sa(
    attribute: int,
    tid: int,
    record: bytes,
    component_mask: int,
    *,
    table: bool,
    sm_key: int = 0,
) -> bytes:
    """Pack an SA query (IBTA vol. 1, 15.2.1.1): Get one record, or GetTable of all that match."""
    method = METHOD_GET_TABLE if table else METHOD_GET
    header = _HEADER.pack(1, CLASS_SA, 2, method, 0, 0, tid, attribute, 0, 0)
    # RMPP version 1 and inactive: this is a request without segments
    rmpp = b"\x01" + bytes(11)
    middle = sm_key.to_bytes(8, "big") + bytes(4) + component_mask.to_bytes(8, "big")
    body = header + rmpp + middle + record
    return body + bytes(MAD_BYTES - len(body))


def parse_sa_records(mad: bytes | bytearray | memoryview, record_bytes: int) -> list[bytes]:
    """Cut the records out of an SA answer, however many segments the kernel joined.

    AttributeOffset counts 8-byte words between records and is 0 when there is none.
    Raises Malformed when a record is shorter than `record_bytes`.
    """
    header = parse_header(mad)
    stride = int.from_bytes(mad[44:46], "big") * 8
    data = bytes(mad[SA_PAYLOAD_AT:])
    if header.method == METHOD_GET_RESPONSE:
        if len(data) < record_bytes:
            raise Malformed("SA", "parse records", f"{len(data)} bytes, needs {record_bytes}", data)
        return [data]
    if stride == 0:
        return []
    if stride < record_bytes:
        raise Malformed("SA", "parse records", f"{stride} bytes apart, needs {record_bytes}", data)
    return [
        data[at : at + stride]
        for at in range(0, len(data) - record_bytes + 1, stride)
        if len(data) - at >= record_bytes
    ]

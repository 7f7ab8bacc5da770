"""RoCEv2 headers of many frames at once: arrays in, arrays out.

Ethernet (up to two VLAN tags), IPv4, IPv6, UDP 4791, BTH, AETH (IBTA volume 1 chapter 9 and
annex A17); ERSPAN I, II and III are unwrapped first. Frames that are no RoCEv2 are left out.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collectors.capture.pcap import PADDING, Frames

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

ROCE_PORT: Final = 4791
CNP: Final = 0x81
ACKNOWLEDGE: Final = 0x11
AETH_OPCODES: Final = (0x0D, 0x0F, 0x10, 0x11, 0x12)
ICRC_BYTES: Final = 4
_HAS_AETH: Final = np.isin(np.arange(256), AETH_OPCODES)


@dataclass(frozen=True, slots=True)
class Packets:
    """RoCEv2 packets. One entry each.

    frame: index of the frame. source, destination: high and low 64 bits of the address, IPv4 in
    the low 32 with high 0. ecn: 0-3. syndrome: of the AETH, -1 where there is none. becn: of the
    BTH. ip, bth: offsets of the headers in the data.
    """

    frame: Ints
    time_ns: Ints
    length: Ints
    vlan_priority: Ints
    is_ipv6: Flags
    source_high: NDArray[np.uint64]
    source: NDArray[np.uint64]
    destination_high: NDArray[np.uint64]
    destination: NDArray[np.uint64]
    dscp: Ints
    ecn: Ints
    source_port: Ints
    opcode: Ints
    destination_qp: Ints
    psn: Ints
    syndrome: Ints
    becn: Flags
    ip: Ints
    bth: Ints

    def __len__(self) -> int:
        return len(self.frame)

    def take(self, chosen: Flags | Ints) -> Packets:
        """Return those packets only."""
        return Packets(*(getattr(self, row.name)[chosen] for row in fields(self)))


_LINK: Final = np.dtype(
    {
        "names": ["kind", "tag", "kind2", "tag2", "kind3"],
        "formats": [">u2"] * 5,
        "offsets": [12, 14, 16, 18, 20],
        "itemsize": 22,
    }
)
_V4: Final = {
    "first": ("u1", 0), "tos": ("u1", 1), "fragment": (">u2", 6), "protocol": ("u1", 9),
    "source": (">u4", 12), "destination": (">u4", 16),
}  # fmt: skip
_V6: Final = {
    "word": (">u2", 0), "next": ("u1", 6), "source_high": (">u8", 8), "source_low": (">u8", 16),
    "destination_high": (">u8", 24), "destination_low": (">u8", 32),
}  # fmt: skip
_NETWORK: Final = np.dtype(
    {
        "names": [*_V4, *_V6],
        "formats": [row[0] for row in (*_V4.values(), *_V6.values())],
        "offsets": [row[1] for row in (*_V4.values(), *_V6.values())],
        "itemsize": 40,
    }
)
_TRANSPORT: Final = np.dtype(
    {
        "names": ["source", "destination", "opcode", "becn", "qp", "psn", "syndrome"],
        "formats": [">u2", ">u2", "u1", "u1", ">u4", ">u4", "u1"],
        "offsets": [0, 2, 8, 12, 12, 16, 20],
        "itemsize": 24,
    }
)
_GRE: Final = np.dtype(
    {
        "names": ["flags", "kind", "plain", "sequenced"],
        "formats": [">u2", ">u2", "u1", "u1"],
        "offsets": [0, 2, 15, 19],
        "itemsize": 20,
    }
)


def _rows(data: NDArray[np.uint8], at: Ints, form: np.dtype[np.void]) -> NDArray[np.void]:
    """Return a header of every frame, as records: one copy, then fields are views."""
    windows = np.lib.stride_tricks.sliding_window_view(data, form.itemsize)
    return windows[at].view(form)[:, 0]


def _wide(values: NDArray[np.void]) -> Ints:
    return values.astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Layers:
    """Where the headers of each frame are."""

    priority: Ints
    network: Ints
    rows: NDArray[np.void]
    v4: Flags
    v6: Flags
    protocol: Ints
    transport: Ints


def _layers(data: NDArray[np.uint8], at: Ints, top: int) -> _Layers:
    link = _rows(data, at, _LINK)
    kind, network = link["kind"], at + 14
    priority = np.full(len(at), -1, np.int64)
    tagged = (kind == 0x8100) | (kind == 0x88A8)
    if tagged.any():
        priority[tagged] = link["tag"][tagged] >> 13
        kind = np.where(tagged, link["kind2"], kind)
        network = np.where(tagged, network + 4, network)
        twice = tagged & ((kind == 0x8100) | (kind == 0x88A8))
        kind = np.where(twice, link["kind3"], kind)
        network = np.where(twice, network + 4, network)
    network = np.minimum(network, top)
    rows = _rows(data, network, _NETWORK)
    first = rows["first"]
    v4 = (kind == 0x0800) & (first >= 0x45) & (first < 0x50)
    v4 &= rows["fragment"] & 0x1FFF == 0  # no later fragments
    v6 = (kind == 0x86DD) & (first >> 4 == 6)
    protocol = np.where(v4, rows["protocol"], np.where(v6, rows["next"], 255)).astype(np.int64)
    transport = network + np.where(v4, (first & 15).astype(np.int64) * 4, 40)
    return _Layers(priority, network, rows, v4, v6, protocol, np.minimum(transport, top))


def _unwrap(data: NDArray[np.uint8], at: Ints, end: Ints, outer: _Layers, top: int) -> Ints:
    """Return where each frame really begins: within ERSPAN where it is mirrored so."""
    gre = outer.transport
    is_gre = (outer.protocol == 47) & (gre + 16 <= end)
    rows = _rows(data, gre, _GRE)
    sequence = rows["flags"] & 0x1000 != 0
    after = gre + 4 + np.where(sequence, 4, 0)
    mirror = is_gre & (rows["kind"] == 0x88BE)
    third = is_gre & (rows["kind"] == 0x22EB)
    last = np.where(sequence, rows["sequenced"], rows["plain"])
    extra = np.where(last & 1 == 1, 8, 0)
    begin = after + np.where(third, 12 + extra, np.where(sequence, 8, 0))
    return np.where(mirror | third, np.minimum(begin, top), at)


def decode(frames: Frames) -> Packets:
    """Return the RoCEv2 packets among the frames."""
    data = frames.data
    # Offsets that lying lengths lead to are held below this; checks against `end` reject them.
    top = len(data) - PADDING
    index = np.flatnonzero(frames.captured >= 14 + 20 + 8 + 12)
    at = frames.start[index]
    end = at + frames.captured[index]
    layers = _layers(data, at, top)
    if (layers.protocol == 47).any():
        at = _unwrap(data, at, end, layers, top)
        layers = _layers(data, at, top)
    udp = layers.transport
    rows = _rows(data, udp, _TRANSPORT)
    roce = (layers.protocol == 17) & (rows["destination"] == ROCE_PORT) & (udp + 20 <= end)
    if not roce.all():
        chosen = np.flatnonzero(roce)
        index, at, end, udp, rows = (
            index[chosen],
            at[chosen],
            end[chosen],
            udp[chosen],
            rows[chosen],
        )
        layers = _Layers(*(getattr(layers, row.name)[chosen] for row in fields(_Layers)))
    return _packets(frames, index, at, end, layers, udp, rows)


def _packets(
    frames: Frames,
    index: Ints,
    at: Ints,
    end: Ints,
    layers: _Layers,
    udp: Ints,
    rows: NDArray[np.void],
) -> Packets:
    network, v6 = layers.rows, layers.v6
    tclass = network["tos"].astype(np.int64)
    source = network["source"].astype(np.uint64)
    destination = network["destination"].astype(np.uint64)
    source_high = destination_high = np.zeros(len(index), np.uint64)
    if v6.any():
        tclass = np.where(v6, _wide(network["word"]) >> 4 & 0xFF, tclass)
        zero = np.uint64(0)
        source_high = np.where(v6, network["source_high"], zero).astype(np.uint64)
        destination_high = np.where(v6, network["destination_high"], zero).astype(np.uint64)
        source = np.where(v6, network["source_low"], source).astype(np.uint64)
        destination = np.where(v6, network["destination_low"], destination).astype(np.uint64)
    opcode = _wide(rows["opcode"])
    has_aeth = _HAS_AETH[opcode] & (udp + 24 <= end)
    return Packets(
        frame=index,
        time_ns=frames.time_ns[index],
        length=frames.length[index] - (at - frames.start[index]),
        vlan_priority=layers.priority,
        is_ipv6=v6,
        source_high=source_high,
        source=source,
        destination_high=destination_high,
        destination=destination,
        dscp=tclass >> 2,
        ecn=tclass & 3,
        source_port=_wide(rows["source"]),
        opcode=opcode,
        destination_qp=_wide(rows["qp"]) & 0xFFFFFF,
        psn=_wide(rows["psn"]) & 0xFFFFFF,
        syndrome=np.where(has_aeth, rows["syndrome"].astype(np.int64), -1),
        becn=rows["becn"] & 0x40 != 0,
        ip=layers.network,
        bth=udp + 8,
    )


def icrc_errors(frames: Frames, packets: Packets, at_most: int = 100_000) -> tuple[int, int]:
    """Return wrong and checked ICRCs; truncated packets cannot be checked.

    One packet at a time, some microseconds each: at most so many are checked.
    """
    wrong = checked = 0
    data = frames.data.data
    for at in range(min(len(packets), at_most)):
        frame = int(packets.frame[at])
        ip, bth = int(packets.ip[at]), int(packets.bth[at])
        whole = frames.captured[frame] >= frames.length[frame]
        udp_length = int.from_bytes(data[bth - 4 : bth - 2], "big")
        end = bth - 8 + udp_length
        stored = int(frames.start[frame] + frames.captured[frame])
        if not whole or end > stored or udp_length < 8 + 12 + ICRC_BYTES:
            continue
        checked += 1
        masked = bytearray(data[ip : end - ICRC_BYTES])
        udp = bth - 8 - ip
        if packets.is_ipv6[at]:
            masked[0:4] = b"\x6f\xff\xff\xff"
            masked[7] = 0xFF
        else:
            masked[1] = masked[8] = masked[10] = masked[11] = 0xFF
        masked[udp + 6] = masked[udp + 7] = 0xFF
        masked[udp + 12] = 0xFF
        crc = zlib.crc32(b"\xff" * 8 + masked)
        wrong += crc.to_bytes(4, "little") != data[end - ICRC_BYTES : end]
    return wrong, checked

"""RoCEv2 captures to read: written with numpy for size, with scapy for variety.

scapy is GPL: it is imported only here and in tests, never by what is shipped to hosts.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np


def write_large(file: Path, packets: int, flows: int = 64, payload: int = 64) -> None:
    """Write a pcap of RC WRITE MIDDLE packets of some flows, every eighth marked."""
    size = 14 + 20 + 8 + 12 + payload + 4
    frame = np.zeros((packets, 16 + size), np.uint8)
    index = np.arange(packets)
    flow = index % flows

    def put(at: int, width: int, values: Any) -> None:
        for place in range(width):
            frame[:, 16 + at + place] = (values >> (8 * (width - 1 - place))) & 0xFF

    header = np.zeros((packets, 4), np.uint32)
    header[:, 0] = 1_700_000_000 + index // 1_000_000
    header[:, 1] = index % 1_000_000
    header[:, 2] = header[:, 3] = size
    frame[:, :16] = header.view(np.uint8).reshape(packets, 16)
    put(12, 2, np.int64(0x0800))
    put(14, 1, np.int64(0x45))
    put(15, 1, (26 << 2) | np.where(index % 8 == 0, 3, 2))
    put(16, 2, np.int64(size - 14))
    put(22, 1, np.int64(64))
    put(23, 1, np.int64(17))
    put(26, 4, 0x0A000001 + flow)
    put(30, 4, 0x0A000101 + flow)
    put(34, 2, 49152 + flow)
    put(36, 2, np.int64(4791))
    put(38, 2, np.int64(size - 34))
    put(42, 1, np.int64(0x07))
    put(47, 3, 0x100 + flow)
    put(51, 3, index // flows)
    with file.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        out.write(frame.tobytes())


def icrc(ip: bytes, is_ipv6: bool) -> bytes:
    """Return the ICRC of an IP packet without it (IBTA annex A17)."""
    masked = bytearray(ip)
    if is_ipv6:
        masked[0:4] = b"\x6f\xff\xff\xff"
        masked[7] = 0xFF
        udp = 40
    else:
        masked[1] = masked[8] = masked[10] = masked[11] = 0xFF
        udp = (ip[0] & 15) * 4
    masked[udp + 6] = masked[udp + 7] = masked[udp + 12] = 0xFF
    return zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little")

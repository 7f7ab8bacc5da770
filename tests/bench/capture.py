"""Captures: RoCEv2 packets per CPU-second from a file through to flows, and scapy on the same.

./run bench capture. CPU is process time, the best of several runs; one thread.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"

ROOT = Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(path for path in sys.path if Path(path) != Path(__file__).parent)]

from collectors.capture.flows import FlowTable  # noqa: E402
from collectors.capture.pcap import read_frames  # noqa: E402
from collectors.capture.roce import decode  # noqa: E402
from simlab.switches.roce_pcap import write_large  # noqa: E402
from tests.bench.packet_parts.report import Report  # noqa: E402

PACKETS, RUNS, SCAPY_PACKETS = 1_000_000, 3, 3000


def mixed(folder: Path) -> Path:
    """Return a file in which sizes change from packet to packet, as acknowledgements make it."""
    import numpy as np

    parts = []
    for payload in (0, 1024):
        file = folder / str(payload)
        write_large(file, PACKETS // 2, payload=payload)
        raw = np.fromfile(file, np.uint8)[24:].reshape(PACKETS // 2, -1)
        parts.append(raw)
        file.unlink()
    head = (0xA1B2C3D4).to_bytes(4, "little") + bytes.fromhex("0200040000000000" + "00" * 4)
    out = folder / "mixed.pcap"
    with out.open("wb") as file_out:
        file_out.write(head + (65535).to_bytes(4, "little") + (1).to_bytes(4, "little"))
        file_out.write(np.concatenate(parts, axis=1).tobytes())
    return out


def mixed_ng(folder: Path) -> Path:
    """Return the packets of `mixed` as pcapng."""
    import numpy as np

    def block(kind: int, body: bytes) -> bytes:
        size = (12 + len(body)).to_bytes(4, "little")
        return kind.to_bytes(4, "little") + size + body + size

    parts = []
    for payload in (0, 1024):
        file = folder / str(payload)
        write_large(file, PACKETS // 2, payload=payload)
        records = np.fromfile(file, np.uint8)[24:].reshape(PACKETS // 2, -1)
        file.unlink()
        frame = records.shape[1] - 16
        size = 32 + frame + -frame % 4
        rows = np.zeros((len(records), size), np.uint8)
        words = rows[:, :28].view("<u4")
        ticks = records[:, :8].copy().view("<u4").astype(np.int64)
        micro = ticks[:, 0] * 10**6 + ticks[:, 1]
        words[:, 0], words[:, 1] = 6, size
        words[:, 3], words[:, 4] = micro >> 32, micro & 0xFFFFFFFF
        words[:, 5] = words[:, 6] = frame
        rows[:, 28 : 28 + frame] = records[:, 16:]
        rows[:, -4:].view("<u4")[:] = size
        parts.append(rows)
    out = folder / "mixed.pcapng"
    with out.open("wb") as file_out:
        file_out.write(block(0x0A0D0D0A, bytes.fromhex("4d3c2b1a01000000" + "ff" * 8)))
        file_out.write(block(1, bytes.fromhex("0100000000000400")))
        file_out.write(np.concatenate(parts, axis=1).tobytes())
    return out


def ours(file: Path) -> tuple[float, int, int]:
    """Return CPU seconds (best), packets and flows."""
    best, table = float("inf"), FlowTable()
    for _ in range(RUNS):
        began, table = time.process_time(), FlowTable()
        for frames in read_frames(file):
            table.add(decode(frames))
        best = min(best, time.process_time() - began)
    return best, table.packets, len(table.flows())


def scapy(file: Path) -> float:
    """Return CPU seconds of scapy's reader for one packet."""
    from scapy.all import PcapReader
    from scapy.contrib.roce import BTH

    began = time.process_time()
    with PcapReader(str(file)) as reader:
        for _, packet in zip(range(SCAPY_PACKETS), reader, strict=False):
            packet[BTH].psn  # noqa: B018
    return (time.process_time() - began) / SCAPY_PACKETS


def main() -> int:
    report = Report("capture")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alike = folder / "alike.pcap"
        write_large(alike, PACKETS)
        report.title(f"{PACKETS} RC WRITE packets of 64 flows, from a file in the page cache")
        other = 1 / scapy(alike)
        for kind, file in (
            ("one size", alike),
            ("mixed sizes", mixed(folder)),
            ("mixed sizes, pcapng", mixed_ng(folder)),
        ):
            seconds, packets, flows = ours(file)
            report.line(f"  {kind}: {packets} packets, {flows} flows, {seconds:.3f} s CPU")
            report.check(
                f"{kind}: packets per CPU-second", packets / seconds, 1e6, ">=", "packets/s"
            )
        report.note(f"scapy decodes {other:.0f} packets per CPU-second of the first file")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())

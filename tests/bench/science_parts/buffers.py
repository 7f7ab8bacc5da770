"""Buffers and headers: source ports, hashes, headroom, ECN before PFC."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from collectors.model.ecmp_hash import HashField, HashSpec, reachable_members
from collectors.model.roce import flow_label_of_qps, source_port
from tests.bench.science_parts.check import Check, near, same
from tuner.models.ecn_before_pfc import (
    SharedBuffer,
    incast_bound,
    static_ecn_bound,
    static_pfc_bound,
    worst_case_bound,
)
from tuner.models.hashing import hash_keys, key_bytes
from tuner.models.headroom import SPECTRUM, headroom_parts, sonic_headroom

PORTS = (
    (0x1234, 0x5678, 0x60002, 49178), (0x48, 0x49, 0x1488, 54408), (100, 200, 0x4E20, 52769),
    (0x2A5, 0x2A5, 0x6FE59, 65090), (0xFFFFFF, 0xFFFFFF, 0xFFF1E, 65313), (1, 1, 1, 49153),
)  # fmt: skip
POLARISED = ((16, 16, 1), (16, 8, 1), (8, 16, 2), (16, 12, 3), (16, 9, 9))
CONSECUTIVE = {8: 1.43, 16: 1.92, 32: 2.82}
# ASIC, Gb/s → xoff at 5/40/300 m with 100 % small packets, then with none.
HEADROOM = {
    ("spectrum1", 100): (72704, 80896, 144384, 37888, 41984, 73728),
    ("spectrum3", 200): (92160, 111616, 256000, 41984, 51200, 114688),
    ("spectrum3", 400): (159744, 198656, 487424, 72704, 89088, 218112),
    ("spectrum5", 400): (212992, 265216, 649216, 72704, 89088, 218112),
    ("spectrum5", 800): (220160, 323584, 1093632, 74752, 109568, 365568),
}
COMPONENTS = {40: (24.4, 29.2, 39.2), 100: (54.7, 66.6, 91.6)}
# Buffer MB, ports, lossless, headroom KB → Kmin bounds at α = 1/8: any pattern KB, 1:1 MB.
BOUNDS = (
    ((64, 64, 1, 180), 91, 5.8), ((113.66, 64, 2, 300), 118, 8.4), ((165.2, 64, 2, 600), 138, 9.8),
)  # fmt: skip


def checks() -> Iterator[Check]:
    """Yield every comparison of headers and buffers."""
    wrong = sum(
        (flow_label_of_qps(a, b), source_port(a, b)) != (label, port) for a, b, label, port in PORTS
    )
    yield same("UDP source-port vectors", wrong, len(PORTS))
    wrong = sum(reachable_members(a, b) != reach for a, b, reach in POLARISED)
    yield same("polarisation: links reached", wrong, len(POLARISED))
    yield from consecutive_ports()
    for (asic, gbps), table in HEADROOM.items():
        wrong = 0
        for at, want in enumerate(table):
            got = sonic_headroom(
                SPECTRUM[asic],
                gbps * 1e9,
                (5, 40, 300)[at % 3],
                small_packet_percent=100 if at < 3 else 0,
            )
            wrong += got.xoff_bytes != want
        yield same(f"SONiC xoff to the byte, {asic} {gbps}G", wrong, len(table))
    for gbps, kilobytes in COMPONENTS.items():
        for cable, want in zip((5, 100, 300), kilobytes, strict=True):
            got = headroom_parts(gbps * 1e9, cable).total_bytes / 1e3
            yield near(f"802.1Qbb headroom KB, {gbps}G {cable} m", got, want, 0.005)
    trident = SharedBuffer(12_000e3, 32, 8, 22.4e3)
    yield near("Trident II t_PFC KB", static_pfc_bound(trident) / 1e3, 24.47, 0.001)
    yield near(
        "Trident II static t_ECN KB (corrected)", static_ecn_bound(trident) / 1e3, 0.765, 1e-3
    )
    yield near(
        "Trident II dynamic t_ECN KB, β = 8", worst_case_bound(trident, 1) / 1e3, 21.755, 1e-3
    )
    for (total, ports, lossless, headroom), always, one in BOUNDS:
        buffer = SharedBuffer(total * 1e6, ports, lossless, headroom * 1e3)
        where = f"{total:g} MB {ports} ports"
        yield near(f"Kmin bound KB any pattern, {where}", worst_case_bound(buffer, 1 / 8) / 1e3,
                   always, 0.02)  # fmt: skip
        yield near(f"Kmin bound MB 1:1, {where}", incast_bound(buffer, 1 / 8, 1) / 1e6, one, 0.02)
    yield near(
        "Kmin bound MB 8:1, 64 MB 64 ports",
        incast_bound(SharedBuffer(64e6, 64, 1, 180e3), 1 / 8, 8) / 1e6, 26, 0.02,
    )  # fmt: skip


def consecutive_ports() -> Iterator[Check]:
    """16 flows with consecutive source ports under CRC-32: far more even than random ones."""
    draw = np.random.default_rng(1)
    trials = 4000
    order = (HashField.SRC_IP, HashField.DST_IP, HashField.SRC_PORT, HashField.DST_PORT)
    spec = HashSpec(fields=(*order, HashField.PROTOCOL))
    addresses = draw.integers(0, 2**32, (2, trials)).repeat(16, axis=1)
    first = draw.integers(49152, 65535 - 16, trials).repeat(16)
    fields = {
        HashField.SRC_IP: addresses[0],
        HashField.DST_IP: addresses[1],
        HashField.SRC_PORT: first + np.tile(np.arange(16), trials),
    }
    value = hash_keys(key_bytes(fields, spec, 16 * trials), spec)
    for members, want in CONSECUTIVE.items():
        member = (value % np.uint64(members)).astype(np.int64).reshape(trials, 16)
        got = np.mean([np.bincount(row).max() for row in member]) / (16 / members)
        yield near(f"16 consecutive ports on {members} links, max/mean", float(got), want, 0.02)

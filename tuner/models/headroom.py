"""PFC headroom: bytes that still arrive after a pause is sent. SONiC's formula and 802.1Qbb's.

SONiC: doc/qos/dynamically-headroom-calculation.md and its Mellanox plugin, to the byte,
including its mixing of 1000 and 1024 (bytes on the cable come out 2.4 % low). Component form:
IEEE 802.1Qbb Annex O as summed in the literature on data-centre storage networks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from collectors.model.roce import PAUSE_QUANTUM_BITS

KIB = 1024
# Pause quanta a peer may take to stop, by port speed in Gb/s (SONiC, Mellanox plugin).
RESPONSE_QUANTA: dict[int, int] = {
    10: 67, 25: 80, 40: 118, 50: 147, 100: 394, 200: 453, 400: 905, 800: 905,
}  # fmt: skip
_SONIC_CABLE_MPS = 1.98e8
_CELL_MIN = 64
_MAC_PHY_BYTES = 0.8 * KIB

_FRAME_OVERHEAD_BITS = 160  # inter-frame gap 96 and preamble 64
_PAUSE_FRAME_BITS = 672
CABLE_S_PER_M = 5e-9
# Interface delay and pause response in bit times (802.1Qbb), by Gb/s.
_INTERFACE_BITS: dict[int, int] = {10: 8192, 25: 6144, 40: 24576, 100: 122880}
_RESPONSE_BITS: dict[int, int] = {10: 30720, 25: 40960, 40: 60416, 100: 201728, 400: 463360}


@dataclass(frozen=True, slots=True)
class Asic:
    """What SONiC's formula needs of a chip; sizes in bytes."""

    cell_bytes: int
    pipeline_latency_bytes: int


SPECTRUM: dict[str, Asic] = {
    "spectrum1": Asic(96, 19 * KIB),
    "spectrum2": Asic(144, 19 * KIB),
    "spectrum3": Asic(144, 19 * KIB),
    "spectrum4": Asic(192, 19 * KIB),
    "spectrum5": Asic(192, 19 * KIB),
    "spectrum6": Asic(256, 42 * KIB),
}


@dataclass(frozen=True, slots=True)
class SonicHeadroom:
    """A lossless PG profile in bytes, as SONiC's buffer manager writes it."""

    xoff_bytes: int
    xon_bytes: int
    size_bytes: int


def _speed_key(link_bps: float, table: dict[int, int]) -> int:
    key = round(link_bps / 1e9)
    if key not in table:
        known = ", ".join(f"{speed}G" for speed in table)
        raise ValueError(f"no pause response time for {link_bps / 1e9:g} Gb/s; known: {known}")
    return table[key]


def sonic_headroom(
    asic: Asic,
    link_bps: float,
    cable_m: float,
    *,
    port_mtu: int = 9100,
    lossless_mtu: int = 1500,
    small_packet_percent: float = 100.0,
    gearbox_bytes: float = 0.0,
    eight_lanes: bool = False,
    shared_headroom_pool: bool = False,
) -> SonicHeadroom:
    """Return SONiC's headroom for one port and lossless priority, rounded up to KiB.

    Raises ValueError for a speed without a known pause response time.
    """
    cell = asic.cell_bytes
    factor = cell / _CELL_MIN if cell > 2 * _CELL_MIN else 2 * cell / (1 + cell)
    occupancy = (100 - small_packet_percent + small_packet_percent * factor) / 100
    cable = 2 * cable_m * (link_bps / 1e6) * 1e9 / _SONIC_CABLE_MPS / (8 * 1024)
    response = _speed_key(link_bps, RESPONSE_QUANTA) * PAUSE_QUANTUM_BITS / 8
    propagation = port_mtu + cable + 2 * gearbox_bytes + _MAC_PHY_BYTES + response
    xoff = math.ceil((lossless_mtu + propagation * occupancy) / KIB) * KIB
    latency = asic.pipeline_latency_bytes
    xon = 2 * latency - KIB if eight_lanes else latency
    extra = port_mtu if eight_lanes else 0
    size = xon if shared_headroom_pool else xoff + xon + extra
    return SonicHeadroom(xoff_bytes=xoff, xon_bytes=xon, size_bytes=math.ceil(size / KIB) * KIB)


@dataclass(frozen=True, slots=True)
class HeadroomParts:
    """The 802.1Qbb components in bytes: what each delay lets through."""

    other_frame: float
    pause_frame: float
    interface: float
    cable: float
    response: float
    lossless_frame: float

    @property
    def total_bytes(self) -> float:
        """Sum of the parts."""
        return (
            self.other_frame
            + self.pause_frame
            + self.interface
            + self.cable
            + self.response
            + self.lossless_frame
        )


def headroom_parts(
    link_bps: float, cable_m: float, *, other_mtu: int = 9216, lossless_mtu: int = 4200
) -> HeadroomParts:
    """Return the component form for one port and priority.

    A frame of another class may just have started when the pause is due, and a lossless one at
    the peer when it takes effect. Raises ValueError for a speed without known delays.
    """
    return HeadroomParts(
        other_frame=other_mtu + _FRAME_OVERHEAD_BITS / 8,
        pause_frame=_PAUSE_FRAME_BITS / 8,
        interface=_speed_key(link_bps, _INTERFACE_BITS) / 8,
        cable=2 * cable_m * CABLE_S_PER_M * link_bps / 8,
        response=_speed_key(link_bps, _RESPONSE_BITS) / 8,
        lossless_frame=lossless_mtu + _FRAME_OVERHEAD_BITS / 8,
    )


@dataclass(frozen=True, slots=True)
class WatchdogTiming:
    """When a PFC watchdog acts on a queue that never drains, and what has piled up by then."""

    earliest_s: float
    latest_s: float
    arrived_bytes: float


def watchdog_timing(detection_s: float, poll_s: float, offered_bps: float) -> WatchdogTiming:
    """Return the span in which a watchdog polling every `poll_s` declares a storm.

    The stall begins anywhere in a poll interval and is seen at the first poll that is at least
    `detection_s` later. `arrived_bytes`: what the ingress must hold or pause away until then.
    """
    if poll_s <= 0 or detection_s < poll_s:
        raise ValueError(f"needs 0 < poll <= detection, got {poll_s} and {detection_s} s")
    latest = detection_s + poll_s
    return WatchdogTiming(detection_s, latest, offered_bps / 8 * latest)


def shortest_detection_s(
    buffered_bytes: float, drain_bps: float, pausing_hops: int = 1, *, margin: float = 2.0
) -> float:
    """Return a detection time that honest congestion does not reach.

    The longest honest pause lets `buffered_bytes` drain at `drain_bps` behind each of the
    pausing hops in turn; `margin` multiplies it.
    """
    return margin * pausing_hops * buffered_bytes * 8 / drain_bps

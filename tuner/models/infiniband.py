"""InfiniBand closed forms: credits, stalls, static routing load, congestion-control table.

Sources: IBTA 1.3 section 7.9 (link-level flow control), Annex A10 (congestion control), ibutils
ORCS-like static metrics (flows per link over shift permutations).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

CREDIT_BYTES = 64
CCT_TIMER_UNIT_S = 1.024e-6
CCT_MULTIPLIER_MAX = 0x3FFF
CCT_SHIFT_MAX = 3


def credit_bound_bps(buffer_bytes: float, round_trip_s: float, link_bps: float) -> float:
    """Return the throughput of a VL whose receive buffer is so large: min(C, buffer/RTT)."""
    return min(link_bps, 8 * buffer_bytes / round_trip_s) if round_trip_s > 0 else link_bps


def buffer_for_full_rate(link_bps: float, round_trip_s: float, mtu_bytes: int) -> int:
    """Return the credits in bytes that keep a link full: C·RTT and one packet, whole credits."""
    need = link_bps * round_trip_s / 8 + mtu_bytes
    return int(-(-need // CREDIT_BYTES)) * CREDIT_BYTES


def longest_cable_m(
    buffer_bytes: float, link_bps: float, mtu_bytes: int, fixed_s: float = 0.0
) -> float:
    """Return the cable length up to which such a buffer keeps the link full (5 ns/m)."""
    round_trip = 8 * (buffer_bytes - mtu_bytes) / link_bps - fixed_s
    return max(0.0, round_trip / 2 / 5e-9)


def stall_ratio(xmit_wait_ticks: float, tick_s: float, interval_s: float) -> float:
    """Return the part of the time a port had data and could not send, 0..1.

    The tick is the device's (PortSamplesControl); compare only within one device family.
    """
    return min(1.0, xmit_wait_ticks * tick_s / interval_s)


def incast_stall_ratio(senders: int) -> float:
    """Return the stall share of each of k saturated senders to one port: 1 − 1/k."""
    return 1 - 1 / senders


class RoutingLoopError(ValueError):
    """A forwarding table sends a destination in a circle or nowhere; the text says where."""


@numba.njit(cache=True)
def _static_walk(
    source_switch: Ints, target: Ints, out_link: Ints, link_to: Ints, home: Ints, loads: Ints
) -> int:
    """Count flows per link; returns the index of a flow that never arrives, or -1."""
    for i in range(len(source_switch)):
        at = source_switch[i]
        for _ in range(len(out_link) + 1):
            if at == home[target[i]]:
                break
            link = out_link[at, target[i]]
            if link < 0:
                return i
            loads[link] += 1
            at = link_to[link]
        if at != home[target[i]]:
            return i
    return -1


@dataclass(frozen=True, slots=True, eq=False)
class ForwardingTables:
    """LFTs as one array: out_link[switch, end port] is a link number or -1.

    `link_to`: switch at the far end of each switch-to-switch link. `home`: switch of each end
    port (HCA). The hop from the last switch to the HCA is not a link here.
    """

    out_link: Ints
    link_to: Ints
    home: Ints


def static_loads(tables: ForwardingTables, sources: Ints, targets: Ints) -> Ints:
    """Return how many of the flows cross each link; raises RoutingLoopError."""
    loads = np.zeros(len(tables.link_to), dtype=np.int64)
    lost = _static_walk(
        tables.home[sources], targets, tables.out_link, tables.link_to, tables.home, loads
    )
    if lost >= 0:
        raise RoutingLoopError(
            f"no route from end port {sources[lost]} to {targets[lost]}: "
            f"a forwarding table loops or has no entry"
        )
    return loads


@dataclass(frozen=True, slots=True)
class ShiftLoad:
    """Congestion of a job over its shift permutations: flows on the fullest link."""

    mean_of_max: float
    worst_max: int
    mean_rate_ratio: float  # mean over shifts of 1/max: the pace of a shift-based All-to-All


def shift_load(tables: ForwardingTables, members: Ints) -> ShiftLoad:
    """Return the static congestion of a job: every member sends to the one `shift` further on."""
    worst = []
    for shift in range(1, len(members)):
        loads = static_loads(tables, members, np.roll(members, -shift))
        worst.append(max(1, int(loads.max(initial=0))))
    maxima = np.array(worst or [1])
    return ShiftLoad(float(maxima.mean()), int(maxima.max()), float((1.0 / maxima).mean()))


def pack_cct_entry(delay: float) -> int:
    """Return the 16-bit CCT entry whose inter-packet delay (in packet times) is nearest.

    Bits 15..14 shift, 13..0 multiplier: delay = multiplier / 2^shift. The largest shift that
    holds the value is the finest. Raises ValueError above 16383 packet times or below 0.
    """
    if not 0 <= delay <= CCT_MULTIPLIER_MAX:
        raise ValueError(f"a delay of {delay} packet times is outside 0..{CCT_MULTIPLIER_MAX}")
    for shift in range(CCT_SHIFT_MAX, -1, -1):
        multiplier = round(delay * (1 << shift))
        if multiplier <= CCT_MULTIPLIER_MAX:
            return shift << 14 | multiplier
    return CCT_MULTIPLIER_MAX


def cct_delay(entry: int) -> float:
    """Return the inter-packet delay of an entry in packet times."""
    return (entry & CCT_MULTIPLIER_MAX) / (1 << (entry >> 14))


def cct_rate_ratio(entry: int) -> float:
    """Return the rate that an entry leaves: 1/(1 + delay)."""
    return 1 / (1 + cct_delay(entry))


def quadratic_cct(entries: int, last_delay: float) -> tuple[int, ...]:
    """Return a table that rises with the square of the index, as LLNL's optimiser uses."""
    top = max(1, entries - 1)
    return tuple(pack_cct_entry(last_delay * (i / top) ** 2) for i in range(entries))


def geometric_cct(entries: int, senders: int) -> tuple[int, ...]:
    """Return a table whose rates fall by one factor per step, down to 1/senders at the end."""
    top = max(1, entries - 1)
    return tuple(pack_cct_entry(senders ** (i / top) - 1) for i in range(entries))


@dataclass(frozen=True, slots=True)
class CctBehaviour:
    """What a table can do: the deepest throttle and the time back to full rate."""

    deepest_ratio: float
    recovery_s: float
    most_senders: float  # incast that the deepest throttle still resolves


def cct_behaviour(table: Sequence[int], ccti_timer: int, ccti_limit: int) -> CctBehaviour:
    """Return the bounds of a CCT with this timer (units of 1.024 µs) and limit."""
    last = min(ccti_limit, len(table) - 1)
    deepest = cct_rate_ratio(table[last])
    return CctBehaviour(deepest, last * ccti_timer * CCT_TIMER_UNIT_S, 1 / deepest)

"""RoCEv2 header arithmetic: UDP source port, traffic class, pause quanta and RC timer codes.

Sources: Linux include/rdma/ib_verbs.h (flow label, source port, RNR timer enum), IBTA 9.7.5 and
11.6 (timeout codes), IEEE 802.1Qbb (pause quanta), RFC 2474 and RFC 3168 (DSCP, ECN).
"""

from __future__ import annotations

import math
from enum import IntEnum

UDP_PORT = 4791
UDP_PROTOCOL = 17
SOURCE_PORT_BASE = 0xC000
SOURCE_PORT_COUNT = 0x4000

QPN_MASK = 0xFFFFFF
FLOW_LABEL_MASK = 0xFFFFF

PAUSE_QUANTUM_BITS = 512
PAUSE_QUANTA_MAX = 0xFFFF

ACK_TIMEOUT_UNIT_S = 4.096e-6
RETRY_COUNT_MAX = 7
RNR_RETRY_INFINITE = 7


class Ecn(IntEnum):
    """The two ECN bits of the traffic class (RFC 3168)."""

    NOT_ECT = 0
    ECT1 = 1
    ECT0 = 2
    CE = 3


# Milliseconds by 5-bit code: enum ib_rnr_timeout. Code 0 is the longest, not the shortest.
RNR_TIMER_MS: tuple[float, ...] = (
    655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12,
    0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92,
    2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72,
    40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
)  # fmt: skip


def _within(name: str, value: int, maximum: int) -> None:
    if not 0 <= value <= maximum:
        raise ValueError(f"{name} {value} is outside 0..{maximum}")


def flow_label_of_qps(local_qpn: int, remote_qpn: int) -> int:
    """Return the 20-bit flow label that Linux derives when a QP sets none.

    Symmetric in its arguments, so both directions of a connection share one label. Raises
    ValueError for a number that is no 24-bit QPN.
    """
    _within("QP number", local_qpn, QPN_MASK)
    _within("QP number", remote_qpn, QPN_MASK)
    value = local_qpn * remote_qpn
    value ^= value >> 20
    value ^= value >> 40
    return value & FLOW_LABEL_MASK


def source_port_of_flow_label(flow_label: int) -> int:
    """Return the UDP source port (49152..65535, 14 bits of entropy) for a flow label."""
    _within("flow label", flow_label, FLOW_LABEL_MASK)
    return ((flow_label & 0x3FFF) ^ ((flow_label & 0xFC000) >> 14)) | SOURCE_PORT_BASE


def source_port(local_qpn: int, remote_qpn: int, flow_label: int = 0) -> int:
    """Return the UDP source port of an RC/UC queue pair: its flow label, or its QPNs if 0.

    This is the kernel's function; firmware that picks its own port (bnxt_re, or mlx5 after
    mlx5dv_modify_qp_udp_sport) does not follow it.
    """
    return source_port_of_flow_label(flow_label or flow_label_of_qps(local_qpn, remote_qpn))


def dscp_of_tclass(tclass: int) -> int:
    """Return the 6-bit DSCP of the 8-bit traffic class (106 → 26)."""
    _within("traffic class", tclass, 255)
    return tclass >> 2


def ecn_of_tclass(tclass: int) -> Ecn:
    """Return the ECN codepoint of the 8-bit traffic class (106 → ECT(0))."""
    _within("traffic class", tclass, 255)
    return Ecn(tclass & 3)


def tclass_of_dscp(dscp: int, ecn: Ecn = Ecn.NOT_ECT) -> int:
    """Return the 8-bit traffic class for a DSCP; (26, ECT0) → 106, (24, NOT_ECT) → 96."""
    _within("DSCP", dscp, 63)
    return dscp << 2 | ecn


def pause_s(quanta: int, link_bps: float) -> float:
    """Return how long a pause of so many quanta lasts at this speed (0xFFFF at 100G: 335 µs)."""
    _within("pause quanta", quanta, PAUSE_QUANTA_MAX)
    return quanta * PAUSE_QUANTUM_BITS / link_bps


def pause_quanta(duration_s: float, link_bps: float) -> int:
    """Return the quanta that pause for at least this long, at most 0xFFFF."""
    return min(PAUSE_QUANTA_MAX, math.ceil(duration_s * link_bps / PAUSE_QUANTUM_BITS))


def alpha_of_dynamic_th(dynamic_th: int) -> float:
    """Return the dynamic-threshold α of SAI's `dynamic_th` n: 2^n (−3 → 1/8)."""
    return 2.0**dynamic_th


def ack_timeout_s(code: int) -> float:
    """Return the RC local ACK timeout of a 5-bit code: 4.096 µs·2^code; 0 is infinite."""
    _within("timeout code", code, 31)
    return math.inf if code == 0 else ACK_TIMEOUT_UNIT_S * 2**code


def ack_timeout_code(wanted_s: float) -> int:
    """Return the smallest code whose timeout is at least this long; ValueError above 2.4 hours."""
    for code in range(1, 32):
        if ack_timeout_s(code) >= wanted_s:
            return code
    raise ValueError(f"no RC timeout code reaches {wanted_s} s (the longest is 8796 s)")


def rnr_timer_s(code: int) -> float:
    """Return the receiver-not-ready timer of a 5-bit `min_rnr_timer` code (12 → 0.64 ms)."""
    _within("RNR timer code", code, 31)
    return RNR_TIMER_MS[code] * 1e-3


def rnr_timer_code(wanted_s: float) -> int:
    """Return the code of the shortest RNR timer that is at least this long.

    Raises ValueError above 655.36 ms.
    """
    fits = [(ms, code) for code, ms in enumerate(RNR_TIMER_MS) if ms * 1e-3 >= wanted_s]
    if not fits:
        raise ValueError(f"no RNR timer code reaches {wanted_s} s (the longest is 0.655 s)")
    return min(fits)[1]

"""The responder of an RC queue pair and the notification point: ACKs, NAKs, CNPs, deliveries."""

from __future__ import annotations

from simlab.packet.bitmap import set_bit, test_bit, test_clear
from simlab.packet.events import free_packet, new_packet
from simlab.packet.jit import Ints, jit
from simlab.packet.layout import (
    ACK,
    ACK_BYTES,
    ACK_ECT,
    ACK_EVERY,
    ACK_HOST_QUEUE,
    ACK_PRIORITY,
    CE,
    CNP,
    CNP_BYTES,
    CNP_FLAG,
    CNP_INTERVAL,
    CNP_MODE,
    CNP_ON_ACK,
    CNP_PER_PORT,
    CNP_PRIORITY,
    CNP_SENT_TOTAL,
    ECT,
    GROUP_BYTES,
    GROUP_MAX,
    GROUP_REFRESH,
    GROUP_TIME,
    GROUP_WORDS,
    GROUP_XOFF_SENT,
    MSG_NEXT,
    MSG_PACKETS,
    MSG_RECEIVED,
    MSG_RECEIVED_TIME,
    MSG_REPEAT,
    NAK,
    NAK_CNP,
    NAK_INTERVAL,
    PKT_AUX,
    PKT_CURSOR,
    PKT_GROUP,
    PKT_INFO,
    PKT_PSN,
    PKT_QP,
    PORT_CNP_LAST,
    PORT_DRAIN_NUM,
    PORT_GROUPS,
    PORT_PAUSE_PS,
    PORT_RECEIVE_INTERVAL,
    PORT_RECEIVE_REQUESTS,
    PORT_RX_DISCARDS,
    PORT_RX_LIMIT,
    PORT_RX_XOFF,
    PORT_RX_XON,
    PORT_SILENT,
    PRIORITY_SHIFT,
    QP_ACK_PATH,
    QP_ALIVE,
    QP_CNP_LAST,
    QP_CNP_TX,
    QP_DUPLICATES,
    QP_EXPECTED,
    QP_NAK_FOR,
    QP_NAK_TIME,
    QP_NAKS,
    QP_OUT_OF_ORDER,
    QP_RX_BYTES,
    QP_RX_CE,
    QP_RX_LEFT,
    QP_RX_MAP,
    QP_RX_MESSAGE,
    QP_RX_PORT,
    QP_RX_UNACKED,
    QP_WQE_USED,
    RECEIVE_LIMITED,
    RNR,
    SELECTIVE,
    SIZE_MASK,
)
from simlab.packet.pause import append, arm, send_xoff
from simlab.packet.posting import delivered


@jit
def fits(s: Ints, port: int, info: int, now: int) -> bool:
    """Take a data packet into a slow host's receive buffer; False if it overflows."""
    size = info & SIZE_MASK
    group = port + PORT_GROUPS + (info >> PRIORITY_SHIFT & 7) * GROUP_WORDS
    gone = (now - s[group + GROUP_TIME]) // s[port + PORT_DRAIN_NUM]
    occupied = max(0, s[group + GROUP_BYTES] - gone)
    if occupied + size > s[port + PORT_RX_LIMIT]:
        s[port + PORT_RX_DISCARDS] += 1
        return False
    occupied += size
    s[group + GROUP_BYTES] = occupied
    s[group + GROUP_TIME] = now
    s[group + GROUP_MAX] = max(s[group + GROUP_MAX], occupied)
    if occupied > s[port + PORT_RX_XOFF] and s[group + GROUP_XOFF_SENT] == 0:
        send_xoff(s, group, now)
        empty_at = now + (occupied - s[port + PORT_RX_XON]) * s[port + PORT_DRAIN_NUM]
        if s[port + PORT_PAUSE_PS] == 0 or empty_at < s[group + GROUP_REFRESH]:
            s[group + GROUP_REFRESH] = empty_at
            arm(s, port, empty_at)
    return True


@jit
def advance(s: Ints, qp: int, now: int) -> int:
    """Deliver the next packet in order; 1 if it completed a message."""
    s[qp + QP_EXPECTED] += 1
    left = s[qp + QP_RX_LEFT] - 1
    if left > 0:
        s[qp + QP_RX_LEFT] = left
        return 0
    message = s[qp + QP_RX_MESSAGE]
    s[message + MSG_RECEIVED] += 1
    s[message + MSG_RECEIVED_TIME] = now
    s[qp + QP_WQE_USED] += 1
    following = message
    if s[message + MSG_RECEIVED] == s[message + MSG_REPEAT] and s[message + MSG_NEXT] != 0:
        following = s[message + MSG_NEXT]
        s[qp + QP_RX_MESSAGE] = following
    s[qp + QP_RX_LEFT] = s[following + MSG_PACKETS]
    delivered(s, message, now)
    return 1


@jit
def starved(s: Ints, qp: int, now: int) -> bool:
    """Tell whether the responder has no receive request posted for the next message."""
    if s[RECEIVE_LIMITED] == 0:
        return False
    port = s[qp + QP_RX_PORT]
    interval = s[port + PORT_RECEIVE_INTERVAL]
    if interval == 0:
        return False
    if s[qp + QP_RX_LEFT] != s[s[qp + QP_RX_MESSAGE] + MSG_PACKETS]:
        return False
    return s[port + PORT_RECEIVE_REQUESTS] + now // interval <= s[qp + QP_WQE_USED]


@jit
def congestion_packet(s: Ints, qp: int, now: int) -> None:
    """Send a CNP for this QP unless one was sent within the interval."""
    port = s[qp + QP_RX_PORT]
    last = port + PORT_CNP_LAST if s[CNP_MODE] == CNP_PER_PORT else qp + QP_CNP_LAST
    if now - s[last] < s[CNP_INTERVAL]:
        return
    s[last] = now
    s[qp + QP_CNP_TX] += 1
    s[CNP_SENT_TOTAL] += 1
    packet = new_packet(s)
    size = s[CNP_BYTES]
    priority = s[CNP_PRIORITY]
    s[packet + PKT_QP] = qp
    s[packet + PKT_PSN] = 0
    s[packet + PKT_INFO] = size | priority << PRIORITY_SHIFT | CNP
    s[packet + PKT_CURSOR] = s[qp + QP_ACK_PATH]
    s[packet + PKT_GROUP] = 0
    s[qp + QP_ALIVE] += 1
    append(s, port, priority, packet, size)


@jit
def noticed(s: Ints, qp: int, info: int, now: int) -> int:
    """The notification point sees a data packet; return the flag that its ACK must carry."""
    if info & CE == 0:
        return 0
    s[qp + QP_RX_CE] += 1
    if s[s[qp + QP_RX_PORT] + PORT_SILENT] != 0:
        return 0
    if s[CNP_MODE] == CNP_ON_ACK:
        s[qp + QP_CNP_TX] += 1
        return CNP_FLAG
    congestion_packet(s, qp, now)
    return 0


@jit
def in_order(s: Ints, qp: int, size: int, flags: int, now: int) -> int:
    """Take the expected packet; return ACK, RNR or 0 for no answer."""
    if starved(s, qp, now):
        return RNR
    s[qp + QP_RX_BYTES] += size
    whole = advance(s, qp, now)
    if s[SELECTIVE] != 0:
        while test_clear(s, qp + QP_RX_MAP, s[qp + QP_EXPECTED]):
            whole |= advance(s, qp, now)
    s[qp + QP_NAK_FOR] = -1
    waiting = s[qp + QP_RX_UNACKED] + 1
    if waiting >= s[ACK_EVERY] or whole != 0 or flags != 0:
        s[qp + QP_RX_UNACKED] = 0
        return ACK
    s[qp + QP_RX_UNACKED] = waiting
    return 0


@jit
def out_of_order(s: Ints, qp: int, psn: int, size: int, now: int) -> int:
    """Take a packet beyond the expected one; return NAK or 0 for no answer."""
    expected = s[qp + QP_EXPECTED]
    s[qp + QP_OUT_OF_ORDER] += 1
    if s[SELECTIVE] != 0:
        if not test_bit(s, qp + QP_RX_MAP, psn):
            set_bit(s, qp + QP_RX_MAP, psn)
            s[qp + QP_RX_BYTES] += size
    elif s[qp + QP_NAK_FOR] == expected and now < s[qp + QP_NAK_TIME] + s[NAK_INTERVAL]:
        return 0
    s[qp + QP_NAK_FOR] = expected
    s[qp + QP_NAK_TIME] = now
    s[qp + QP_NAKS] += 1
    return NAK


@jit
def received(s: Ints, packet: int, now: int) -> int:
    """Process a data packet at its destination; it becomes the answer, if there is one.

    Returns the port that the answer leaves by.
    """
    qp = s[packet + PKT_QP]
    info = s[packet + PKT_INFO]
    psn = s[packet + PKT_PSN]
    port = s[qp + QP_RX_PORT]
    if s[port + PORT_DRAIN_NUM] > 0 and not fits(s, port, info, now):
        s[qp + QP_ALIVE] -= 1
        free_packet(s, packet)
        return port
    flags = noticed(s, qp, info, now)
    expected = s[qp + QP_EXPECTED]
    if psn == expected:
        kind = in_order(s, qp, info & SIZE_MASK, flags, now)
    elif psn > expected:
        kind = out_of_order(s, qp, psn, info & SIZE_MASK, now)
        if kind != 0 and s[NAK_CNP] != 0:
            flags = CNP_FLAG
    else:
        s[qp + QP_DUPLICATES] += 1
        kind = ACK
    if kind == 0:
        s[qp + QP_ALIVE] -= 1
        free_packet(s, packet)
        return port
    priority = s[ACK_PRIORITY]
    if priority < 0:
        priority = info >> PRIORITY_SHIFT & 7
    size = s[ACK_BYTES]
    s[packet + PKT_PSN] = s[qp + QP_EXPECTED]
    s[packet + PKT_AUX] = psn
    s[packet + PKT_INFO] = size | priority << PRIORITY_SHIFT | kind | flags | ECT * s[ACK_ECT]
    s[packet + PKT_CURSOR] = s[qp + QP_ACK_PATH]
    queue = s[ACK_HOST_QUEUE]
    append(s, port, priority if queue < 0 else queue, packet, size)
    return port

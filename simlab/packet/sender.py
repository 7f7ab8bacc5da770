"""The requester of an RC queue pair: what it sends next, acknowledgements, loss recovery."""

from __future__ import annotations

from simlab.packet.bitmap import clear_range, next_missing, set_bit
from simlab.packet.events import cancel, new_packet, schedule
from simlab.packet.jit import Ints, Reals, jit
from simlab.packet.layout import (
    CNP_FLAG,
    DATA,
    DONE_MESSAGES,
    DONE_TIME,
    ECT,
    HIGHEST_BIT,
    IDLE,
    KIND_MASK,
    MSG_ACKED_TIME,
    MSG_FIRST_PSN,
    MSG_LAST_BYTES,
    MSG_NEXT,
    MSG_PACKETS,
    MSG_REPEAT,
    MTU_WIRE,
    NAK,
    NEVER,
    PACING,
    PKT_AUX,
    PKT_CURSOR,
    PKT_GROUP,
    PKT_INFO,
    PKT_PSN,
    PKT_QP,
    PORT_QP_LIST,
    PORT_READY,
    PORT_ROUND,
    PRIORITY_SHIFT,
    QP_ACK_END,
    QP_ACK_MESSAGE,
    QP_ALIVE,
    QP_CAREFUL,
    QP_CLASS,
    QP_CONGESTED,
    QP_CUT_AT,
    QP_END,
    QP_ERROR,
    QP_HELD_UNTIL,
    QP_HIGH_SACK,
    QP_ID,
    QP_INCREASE_AT,
    QP_LEFT,
    QP_MESSAGE,
    QP_NEXT_PSN,
    QP_NEXT_TIME,
    QP_PATH,
    QP_PORT,
    QP_PROFILE,
    QP_READY_NEXT,
    QP_RETRANSMITTED,
    QP_RETRIES,
    QP_RETRY_PSN,
    QP_RNR,
    QP_RTO_BASE,
    QP_RTX,
    QP_SACK_MAP,
    QP_SHIFT,
    QP_STATE,
    QP_TIMEOUTS,
    QP_TIMER_AT,
    QP_TX_PACKETS,
    QP_UNACKED,
    QP_WINDOW,
    READY,
    REORDER_TOLERANT,
    RETRY_LIMIT,
    RNR,
    RNR_DELAY,
    RTO,
    SELECTIVE,
)
from simlab.packet.profile_layout import RP_BYTES
from simlab.packet.reaction import arm_qp, bytes_sent, notified, pacing_gap, reaction_timer


@jit
def has_work(s: Ints, qp: int) -> bool:
    """Tell whether the QP may send now: new packets within its window, or a retransmission."""
    if s[qp + QP_CAREFUL] == 0:
        return s[qp + QP_NEXT_PSN] < s[qp + QP_END]
    if s[qp + QP_ERROR] != 0:
        return False
    if s[qp + QP_RTX] < s[qp + QP_HIGH_SACK]:
        psn = next_missing(s, qp + QP_SACK_MAP, s[qp + QP_RTX], s[qp + QP_HIGH_SACK])
        s[qp + QP_RTX] = psn
        if psn < s[qp + QP_HIGH_SACK]:
            return True
    if s[qp + QP_NEXT_PSN] >= s[qp + QP_END]:
        return False
    window = s[qp + QP_WINDOW]
    return window == 0 or s[qp + QP_NEXT_PSN] - s[qp + QP_UNACKED] < window


@jit
def wake(s: Ints, qp: int, now: int) -> None:
    """Plan the next packet of an idle QP that has work again."""
    if s[qp + QP_STATE] == IDLE and has_work(s, qp):
        s[qp + QP_STATE] = PACING
        schedule(s, s[qp + QP_ID], max(now, s[qp + QP_NEXT_TIME], s[qp + QP_HELD_UNTIL]))


@jit
def make_ready(s: Ints, qp: int) -> int:
    """The QP's pacing gap is over: queue it for its port. Return the port."""
    port = s[qp + QP_PORT]
    if s[qp + QP_STATE] == PACING and has_work(s, qp):
        priority = s[qp + QP_CLASS] & 7
        head = port + PORT_QP_LIST + 2 * priority
        s[qp + QP_READY_NEXT] = 0
        if s[head] == 0:
            s[head] = qp
            s[port + PORT_READY] |= 1 << (priority + QP_SHIFT)
        else:
            s[s[head + 1] + QP_READY_NEXT] = qp
        s[head + 1] = qp
        s[qp + QP_STATE] = READY
    else:
        s[qp + QP_STATE] = IDLE
    return port


@jit
def seek(s: Ints, qp: int, psn: int) -> None:
    """Point the send cursor at `psn`, searching from the oldest unfinished message."""
    message = s[qp + QP_ACK_MESSAGE]
    while psn >= s[message + MSG_FIRST_PSN] + s[message + MSG_PACKETS] * s[message + MSG_REPEAT]:
        following = s[message + MSG_NEXT]
        if following == 0:
            break
        message = following
    packets = s[message + MSG_PACKETS]
    s[qp + QP_MESSAGE] = message
    s[qp + QP_LEFT] = packets - (psn - s[message + MSG_FIRST_PSN]) % packets


@jit
def last_of(s: Ints, qp: int, psn: int) -> int:
    """Return the wire size of packet `psn`, moving the message cursor if it is a fresh one."""
    left = s[qp + QP_LEFT]
    message = s[qp + QP_MESSAGE]
    size = s[MTU_WIRE]
    if left == 1:
        size = s[message + MSG_LAST_BYTES]
        packets = s[message + MSG_PACKETS]
        end = s[message + MSG_FIRST_PSN] + packets * s[message + MSG_REPEAT]
        following = s[message + MSG_NEXT]
        if psn + 1 == end and following != 0:
            s[qp + QP_MESSAGE] = following
            packets = s[following + MSG_PACKETS]
        left = packets + 1
    s[qp + QP_LEFT] = left - 1
    return size


@jit
def resend_size(s: Ints, qp: int, psn: int) -> int:
    """Return the wire size of an old packet without moving the cursor."""
    message = s[qp + QP_MESSAGE]
    left = s[qp + QP_LEFT]
    seek(s, qp, psn)
    size = s[MTU_WIRE]
    if s[qp + QP_LEFT] == 1:
        size = s[s[qp + QP_MESSAGE] + MSG_LAST_BYTES]
    s[qp + QP_MESSAGE] = message
    s[qp + QP_LEFT] = left
    return size


@jit
def qp_packet(s: Ints, port: int, ready: int, now: int) -> int:
    """Take the next QP in turn (priorities round robin) and build its packet."""
    if ready & (ready - 1) == 0:
        priority = s[HIGHEST_BIT + ready]
    else:
        priority = s[port + PORT_ROUND]
        while ready >> priority & 1 == 0:
            priority = priority + 1 & 7
        s[port + PORT_ROUND] = priority + 1 & 7
    head = port + PORT_QP_LIST + 2 * priority
    qp = s[head]
    following = s[qp + QP_READY_NEXT]
    s[head] = following
    if following == 0:
        s[port + PORT_READY] &= ~(1 << (priority + QP_SHIFT))
    if not has_work(s, qp):  # acknowledged while it waited here
        s[qp + QP_STATE] = IDLE
        return 0
    if s[qp + QP_CAREFUL] != 0 and s[qp + QP_RTX] < s[qp + QP_HIGH_SACK]:
        psn = s[qp + QP_RTX]
        s[qp + QP_RTX] = psn + 1
        s[qp + QP_RETRANSMITTED] += 1
        size = resend_size(s, qp, psn)
    else:
        psn = s[qp + QP_NEXT_PSN]
        s[qp + QP_NEXT_PSN] = psn + 1
        size = last_of(s, qp, psn)
    packet = new_packet(s)
    s[packet + PKT_QP] = qp
    s[packet + PKT_PSN] = psn
    s[packet + PKT_INFO] = size | priority << PRIORITY_SHIFT | DATA | s[qp + QP_CLASS] & ECT
    s[packet + PKT_CURSOR] = s[qp + QP_PATH]
    s[packet + PKT_GROUP] = 0
    s[packet + PKT_AUX] = 0
    s[qp + QP_ALIVE] += 1
    s[qp + QP_TX_PACKETS] += 1
    if s[RTO] > 0 and psn == s[qp + QP_UNACKED]:
        s[qp + QP_RTO_BASE] = now
        arm_qp(s, qp, now + s[RTO])
    if s[qp + QP_CONGESTED] != 0 and s[s[qp + QP_PROFILE] + RP_BYTES] != 0:
        bytes_sent(s, qp, size, now)
    s[qp + QP_NEXT_TIME] = now + pacing_gap(s, qp, size, now)
    if has_work(s, qp):
        s[qp + QP_STATE] = PACING
        schedule(s, s[qp + QP_ID], s[qp + QP_NEXT_TIME])
    else:
        s[qp + QP_STATE] = IDLE
    return packet


@jit
def go_back(s: Ints, qp: int, psn: int, now: int) -> None:
    """Send again from `psn` on."""
    if s[SELECTIVE] != 0:
        s[qp + QP_RTX] = psn
        s[qp + QP_HIGH_SACK] = s[qp + QP_NEXT_PSN]
    elif psn < s[qp + QP_NEXT_PSN]:
        s[qp + QP_RETRANSMITTED] += s[qp + QP_NEXT_PSN] - psn
        s[qp + QP_NEXT_PSN] = psn
        seek(s, qp, psn)
    wake(s, qp, now)


@jit
def acknowledged(s: Ints, f: Reals, packet: int, now: int) -> bool:
    """Process an ACK, NAK or RNR NAK at the requester; 1 if the QP has nothing left to do."""
    qp = s[packet + PKT_QP]
    info = s[packet + PKT_INFO]
    psn = s[packet + PKT_PSN]
    before = s[qp + QP_UNACKED]
    if psn > before:
        s[qp + QP_UNACKED] = psn
        s[qp + QP_RTO_BASE] = now
        if psn > s[qp + QP_NEXT_PSN]:  # acknowledged while going back: no need to send it again
            s[qp + QP_NEXT_PSN] = psn
            seek(s, qp, psn)
        if s[SELECTIVE] != 0:
            clear_range(s, qp + QP_SACK_MAP, before, psn)
            s[qp + QP_RTX] = max(s[qp + QP_RTX], psn)
        if psn >= s[qp + QP_ACK_END]:
            finish_messages(s, qp, psn, now)
        if s[qp + QP_STATE] == IDLE:
            wake(s, qp, now)
    if info & CNP_FLAG != 0:
        notified(s, f, qp, now)
    kind = info & KIND_MASK
    if kind == NAK:
        negative(s, qp, psn, s[packet + PKT_AUX], now)
    elif kind == RNR:
        s[qp + QP_RNR] += 1
        s[qp + QP_HELD_UNTIL] = now + s[RNR_DELAY]
        s[qp + QP_NEXT_TIME] = max(s[qp + QP_NEXT_TIME], s[qp + QP_HELD_UNTIL])
        go_back(s, qp, psn, now)
        if s[qp + QP_STATE] == PACING:
            schedule(s, s[qp + QP_ID], s[qp + QP_NEXT_TIME])
    return s[qp + QP_UNACKED] >= s[qp + QP_END]


@jit
def negative(s: Ints, qp: int, psn: int, received: int, now: int) -> None:
    """Out-of-sequence NAK: the receiver expects `psn` and got `received`."""
    if s[SELECTIVE] == 0:
        if psn >= s[qp + QP_UNACKED]:
            go_back(s, qp, psn, now)
        return
    if received < s[qp + QP_UNACKED]:
        return
    set_bit(s, qp + QP_SACK_MAP, received)
    if s[REORDER_TOLERANT] == 0:
        s[qp + QP_HIGH_SACK] = max(s[qp + QP_HIGH_SACK], received)
        wake(s, qp, now)


@jit
def finish_messages(s: Ints, qp: int, psn: int, now: int) -> None:
    """Stamp the messages that are acknowledged to their end; forget their SACK bits."""
    message = s[qp + QP_ACK_MESSAGE]
    while message != 0:
        end = s[message + MSG_FIRST_PSN] + s[message + MSG_PACKETS] * s[message + MSG_REPEAT]
        s[qp + QP_ACK_END] = end
        if psn < end:
            break
        s[message + MSG_ACKED_TIME] = now
        s[DONE_MESSAGES] += 1
        s[DONE_TIME] = max(s[DONE_TIME], now)
        if s[message + MSG_NEXT] == 0:
            break
        message = s[message + MSG_NEXT]
        s[qp + QP_ACK_MESSAGE] = message


@jit
def qp_timer(s: Ints, f: Reals, qp: int, now: int) -> None:
    """Everything of this QP's timers that is due: reaction point and retransmission."""
    s[qp + QP_TIMER_AT] = NEVER
    reaction_timer(s, f, qp, now)
    following = min(s[qp + QP_CUT_AT], s[qp + QP_INCREASE_AT])
    if s[RTO] > 0 and s[qp + QP_UNACKED] < s[qp + QP_NEXT_PSN] and s[qp + QP_ERROR] == 0:
        base = max(s[qp + QP_RTO_BASE], s[qp + QP_HELD_UNTIL])
        if base + s[RTO] <= now:
            s[qp + QP_TIMEOUTS] += 1
            if s[qp + QP_UNACKED] != s[qp + QP_RETRY_PSN]:
                s[qp + QP_RETRY_PSN] = s[qp + QP_UNACKED]
                s[qp + QP_RETRIES] = 0
            s[qp + QP_RETRIES] += 1
            s[qp + QP_RTO_BASE] = now
            base = now
            if 0 < s[RETRY_LIMIT] < s[qp + QP_RETRIES]:
                s[qp + QP_ERROR] = 1
                s[qp + QP_CAREFUL] = 1
                cancel(s, s[qp + QP_ID])
            else:
                go_back(s, qp, s[qp + QP_UNACKED], now)
        following = min(following, base + s[RTO])
    arm_qp(s, qp, following)

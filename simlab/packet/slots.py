"""Queue-pair slots: a flow takes one when it starts and gives it back when it is over.

Reuse keeps the event tree and the caches as small as the number of flows in progress.
"""

from __future__ import annotations

from simlab.packet.events import cancel, schedule
from simlab.packet.jit import Ints, Reals, entry, floats, ints, jit
from simlab.packet.layout import (
    FLOAT_ALPHA,
    HEAP,
    HEAP_SIZE,
    IDLE,
    MSG_ACK_PATH,
    MSG_DST_PORT,
    MSG_FREE,
    MSG_PACKETS,
    MSG_PATH,
    MSG_PRIORITY,
    MSG_PROFILE,
    MSG_QP,
    MSG_REPEAT,
    MSG_SRC_PORT,
    NEVER,
    PORT_ECT,
    PORT_SUMS,
    QP_ACK_END,
    QP_ACK_MESSAGE,
    QP_ACK_PATH,
    QP_ACTIVE,
    QP_ALIVE,
    QP_BYTE_COUNT,
    QP_CAREFUL,
    QP_CLASS,
    QP_CNP_LAST,
    QP_CUT_AT,
    QP_FLOAT,
    QP_FREE,
    QP_ID,
    QP_INCREASE_AT,
    QP_INDEX,
    QP_LEFT,
    QP_MESSAGE,
    QP_NAK_FOR,
    QP_NAK_TIME,
    QP_NEXT_PSN,
    QP_PATH,
    QP_PORT,
    QP_POSTING,
    QP_PROFILE,
    QP_READY_NEXT,
    QP_RETRY_PSN,
    QP_RX_LEFT,
    QP_RX_MAP,
    QP_RX_MESSAGE,
    QP_RX_PORT,
    QP_SACK_MAP,
    QP_STATE,
    QP_STATS,
    QP_STATS_REQUESTER,
    QP_TARGET,
    QP_TIMER_AT,
    QP_UNACKED,
    QP_WINDOW,
    QP_WORDS,
    SELECTIVE,
    SR_WORDS,
    START_END,
    START_NEXT,
    WINDOW_PACKETS,
)
from simlab.packet.posting import heap_pop, next_start, post
from simlab.packet.profile_layout import RP_ALPHA_START, RP_BYTES, RP_FLOAT, RP_MAX
from simlab.packet.reaction import set_rate

LONG_AGO = -(10**15)


@jit
def open_qp(s: Ints, f: Reals, qp: int, message: int) -> None:
    """Set a QP up for the send queue that begins with `message`; start at line rate."""
    keep_id = s[qp + QP_ID]
    keep_index = s[qp + QP_INDEX]
    keep_float = s[qp + QP_FLOAT]
    sack = s[qp + QP_SACK_MAP]
    arrived = s[qp + QP_RX_MAP]
    for i in range(QP_WORDS):
        s[qp + i] = 0
    s[qp + QP_ID] = keep_id
    s[qp + QP_INDEX] = keep_index
    s[qp + QP_FLOAT] = keep_float
    s[qp + QP_SACK_MAP] = sack
    s[qp + QP_RX_MAP] = arrived
    if sack != 0:
        for i in range(s[SR_WORDS]):
            s[sack + i] = 0
            s[arrived + i] = 0
    profile = s[message + MSG_PROFILE]
    s[qp + QP_PROFILE] = profile
    s[qp + QP_PORT] = s[message + MSG_SRC_PORT]
    s[qp + QP_RX_PORT] = s[message + MSG_DST_PORT]
    s[qp + QP_PATH] = s[message + MSG_PATH]
    s[qp + QP_ACK_PATH] = s[message + MSG_ACK_PATH]
    s[qp + QP_CLASS] = s[message + MSG_PRIORITY] | s[s[qp + QP_PORT] + PORT_ECT]
    s[qp + QP_MESSAGE] = message
    s[qp + QP_ACK_MESSAGE] = message
    s[qp + QP_RX_MESSAGE] = message
    s[qp + QP_POSTING] = message
    s[qp + QP_LEFT] = s[message + MSG_PACKETS]
    s[qp + QP_ACK_END] = s[message + MSG_PACKETS] * s[message + MSG_REPEAT]
    s[qp + QP_RETRY_PSN] = -1
    s[qp + QP_WINDOW] = s[WINDOW_PACKETS]
    s[qp + QP_CAREFUL] = int(s[SELECTIVE] != 0 or s[WINDOW_PACKETS] > 0)
    s[qp + QP_RX_LEFT] = s[message + MSG_PACKETS]
    s[qp + QP_TIMER_AT] = NEVER
    s[qp + QP_CUT_AT] = NEVER
    s[qp + QP_INCREASE_AT] = NEVER
    s[qp + QP_NAK_FOR] = -1
    s[qp + QP_NAK_TIME] = LONG_AGO
    s[qp + QP_CNP_LAST] = LONG_AGO
    s[qp + QP_BYTE_COUNT] = s[profile + RP_BYTES]
    s[qp + QP_TARGET] = s[profile + RP_MAX]
    set_rate(s, qp, s[profile + RP_MAX])
    f[keep_float + FLOAT_ALPHA] = f[s[profile + RP_FLOAT] + RP_ALPHA_START]
    s[qp + QP_ACTIVE] = 1


@entry
def open_all(state: Ints, reals: Reals, heads: Ints) -> None:
    """Set up the QPs of connections that live for the whole run; `heads` are first messages."""
    s = ints(state)
    f = floats(reals)
    for i in range(len(heads)):
        open_qp(s, f, s[heads[i] + MSG_QP], heads[i])


@jit
def close_slot(s: Ints, qp: int) -> None:
    """Free the slot of a finished flow once nothing of it is left in the fabric."""
    if s[qp + QP_ACTIVE] != 0 and s[qp + QP_ALIVE] == 0 and s[qp + QP_STATE] == IDLE:
        message = s[qp + QP_MESSAGE]
        if s[qp + QP_UNACKED] >= s[message + MSG_PACKETS] and s[qp + QP_NEXT_PSN] > 0:
            cancel(s, s[qp + QP_ID])
            cancel(s, s[qp + QP_ID] + 1)
            s[qp + QP_ACTIVE] = 0
            for i, word in enumerate(QP_STATS):
                port = s[qp + QP_PORT] if i < QP_STATS_REQUESTER else s[qp + QP_RX_PORT]
                s[port + PORT_SUMS + i] += s[qp + word]
                s[qp + word] = 0
            s[qp + QP_READY_NEXT] = s[QP_FREE]
            s[QP_FREE] = qp


@jit
def start_due(s: Ints, f: Reals, entity: int, now: int) -> bool:
    """Post everything planned for `now`; False if a flow found no free QP slot."""
    while s[START_NEXT] < s[START_END] and s[s[START_NEXT]] <= now:
        message = s[s[START_NEXT] + 1]
        if s[message + MSG_QP] == 0:
            qp = s[QP_FREE]
            if qp == 0:
                return False
            s[QP_FREE] = s[qp + QP_READY_NEXT]
            s[message + MSG_QP] = qp
            open_qp(s, f, qp, message)
        s[START_NEXT] += 2
        post(s, message, s[message + MSG_FREE], now)
    while s[HEAP_SIZE] > 0 and s[s[HEAP] + 2] <= now:
        post(s, heap_pop(s), 1, now)
    schedule(s, entity, next_start(s))
    return True

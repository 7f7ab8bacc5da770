"""How a host of the reference chooses the queue pair that sends next.

Its queue pairs take turns in the order of their start. One with nothing to send now looks again
when the nearest gap is over, which it plans when it finds nothing; finished ones leave the list
when they are passed by.
"""

from __future__ import annotations

from packet_parts.ns3_words import COUNT, HOSTS, LAST, LISTED, ROW, WAITING, outside

from simlab.packet import egress, events, slots
from simlab.packet.jit import Ints, jit
from simlab.packet.layout import (
    NEVER,
    PORT_PAUSED,
    PORT_QP_LIST,
    PORT_READY,
    PORT_SWITCH,
    QP_ACTIVE,
    QP_CLASS,
    QP_END,
    QP_ID,
    QP_NEXT_PSN,
    QP_NEXT_TIME,
    QP_PORT,
    QP_READY_NEXT,
    QP_SHIFT,
    QP_UNACKED,
)

plain_transmit, plain_close = egress.transmit, slots.close_slot


@jit
def row_of(s: Ints, port: int) -> int:
    """Return where the list of a host's QPs is."""
    return HOSTS + ROW * events.departure_of(s, port)


@jit
def make_ready(s: Ints, qp: int) -> int:
    """List a QP that begins with its host; what was planned later has the host look at all."""
    port = s[qp + QP_PORT]
    words = outside()
    row = row_of(s, port)
    if s[qp + QP_NEXT_PSN] == 0:
        words[row + LISTED + words[row + COUNT]] = qp
        words[row + COUNT] += 1
    else:
        words[row + WAITING] = 0
    return port


@jit
def is_finished(s: Ints, qp: int) -> bool:
    """Tell whether all of a QP's packets are acknowledged; 0 is one whose slot is free again."""
    return qp == 0 or s[qp + QP_UNACKED] >= s[qp + QP_END]


@jit
def may_send(s: Ints, qp: int) -> bool:
    """Tell whether a QP has packets that were never sent."""
    return qp != 0 and s[qp + QP_NEXT_PSN] < s[qp + QP_END]


@jit
def in_turn(s: Ints, port: int, now: int) -> int:
    """Return the QP that may send and comes next after the last one; 0 for none.

    Finished ones that were passed by are taken off the list, and all behind the first of them.
    """
    words = outside()
    row = row_of(s, port)
    count = words[row + COUNT]
    qps = row + LISTED
    found = -1
    first = count
    for step in range(1, count + 1):
        at = (step + words[row + LAST]) % count
        qp = words[qps + at]
        if is_finished(s, qp):
            first = min(first, at)
        elif may_send(s, qp) and s[qp + QP_NEXT_TIME] <= now and s[port + PORT_PAUSED] == 0:
            found = at
            break
    kept = first
    for at in range(first + 1, count):
        if not is_finished(s, words[qps + at]):
            if at == found:
                found = kept
            words[qps + kept] = words[qps + at]
            kept += 1
    words[row + COUNT] = min(count, kept)
    if found < 0:
        return 0
    words[row + LAST] = found
    return words[qps + found]


@jit
def look_again(s: Ints, port: int, now: int) -> None:
    """Plan when a host that has nothing to send now looks again: when the next gap is over."""
    words = outside()
    row = row_of(s, port)
    next_qp = 0
    for at in range(words[row + COUNT]):
        qp = words[row + LISTED + at]
        sooner = next_qp == 0 or s[qp + QP_NEXT_TIME] < s[next_qp + QP_NEXT_TIME]
        if sooner and may_send(s, qp):
            next_qp = qp
    if next_qp != 0 and words[row + WAITING] == 0 and s[next_qp + QP_NEXT_TIME] > now:
        words[row + WAITING] = next_qp
        events.schedule(s, s[next_qp + QP_ID], s[next_qp + QP_NEXT_TIME])


@jit
def transmit(s: Ints, port: int, now: int) -> None:
    """Send the next packet of an idle port; a host's QPs take turns in the order of their start."""
    if s[port + PORT_SWITCH] != 0 or s[port + PORT_READY] != 0:
        plain_transmit(s, port, now)
        return
    qp = in_turn(s, port, now)
    if qp == 0:
        look_again(s, port, now)
        return
    priority = s[qp + QP_CLASS] & 7
    s[port + PORT_QP_LIST + 2 * priority] = qp
    s[qp + QP_READY_NEXT] = 0
    s[port + PORT_READY] = 1 << (priority + QP_SHIFT)
    plain_transmit(s, port, now)
    events.schedule(s, s[qp + QP_ID], NEVER)  # the host looks again when it is idle
    words = outside()
    if words[row_of(s, port) + WAITING] == qp:
        words[row_of(s, port) + WAITING] = 0


@jit
def close_slot(s: Ints, qp: int) -> None:
    """Free the slot of a finished flow; its host's list must not take the next flow for it."""
    port = s[qp + QP_PORT]
    plain_close(s, qp)
    if s[qp + QP_ACTIVE] == 0:
        words = outside()
        row = row_of(s, port)
        for at in range(words[row + COUNT]):
            if words[row + LISTED + at] == qp:
                words[row + LISTED + at] = 0

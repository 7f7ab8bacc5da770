"""A packet at a switch: next hop, buffer admission, ECN at enqueue, and the egress queue."""

from __future__ import annotations

from simlab.packet.egress import drop, marked
from simlab.packet.events import random
from simlab.packet.jit import Ints, jit
from simlab.packet.layout import (
    CE,
    ECT,
    FLOWLET_GAP,
    FLOWLETS,
    GROUP_BYTES,
    GROUP_WORDS,
    HOST_COUNT,
    INFINIBAND,
    LIMITED,
    LINK_DOWN,
    MARK_ENQUEUE,
    PICK_FLOWLET,
    PICK_LEAST_QUEUE,
    PKT_CURSOR,
    PKT_GROUP,
    PKT_INFO,
    PKT_QP,
    PORT_GROUPS,
    PORT_QUEUES,
    PORT_TROUBLE,
    PORT_WATCH_UNTIL,
    PRIORITY_SHIFT,
    QP_INDEX,
    QUEUE_ALPHA,
    QUEUE_BYTES,
    QUEUE_DROPPED,
    QUEUE_DROPPED_BYTES,
    QUEUE_LIMIT,
    QUEUE_MARKED,
    QUEUE_OPTIONS,
    QUEUE_WORDS,
    RANDOM_RANGE,
    RATIO_ONE,
    ROUTES,
    SIZE_MASK,
    SPRAY,
    STORMED,
    SWITCH_CLASSES,
    SWITCH_DROPPED,
    SWITCH_EGRESS_USED,
    SWITCH_INDEX,
    SWITCH_MAX,
    SWITCH_POOL,
)
from simlab.packet.pause import admit, append


@jit
def pick(s: Ints, switch: int, packet: int, host: int, now: int) -> int:
    """Choose an egress port towards `host` for a packet that has no fixed path."""
    group = s[s[ROUTES] + s[switch + SWITCH_INDEX] * s[HOST_COUNT] + host]
    count = s[group]
    if count == 1:
        return s[group + 1]
    mode = s[SPRAY]
    if mode == PICK_LEAST_QUEUE:
        start = random(s) * count // (RANDOM_RANGE + 1)
        best = s[group + 1 + start]
        least = waiting(s, best, packet)
        for step in range(1, count):
            port = s[group + 1 + (start + step) % count]
            length = waiting(s, port, packet)
            if length < least:
                least = length
                best = port
        return best
    at = random(s) * count // (RANDOM_RANGE + 1)
    choice = s[group + 1 + at]
    for _ in range(count):  # a switch sees at once that its own link is down
        if s[choice + PORT_TROUBLE] & LINK_DOWN == 0:
            break
        at = (at + 1) % count
        choice = s[group + 1 + at]
    if mode == PICK_FLOWLET:
        # One entry per (QP, switch): time of the last packet and the port it took.
        entry = flowlet_entry(s, switch, s[packet + PKT_QP])
        if s[entry + 1] != 0 and now - s[entry] < s[FLOWLET_GAP]:
            choice = s[entry + 1]
        s[entry] = now
        s[entry + 1] = choice
    return choice


@jit
def flowlet_entry(s: Ints, switch: int, qp: int) -> int:
    """Return the row (last time, port) of a QP at a switch."""
    table = s[FLOWLETS]
    return table + 1 + 2 * (s[qp + QP_INDEX] * s[table] + s[switch + SWITCH_INDEX])


@jit
def waiting(s: Ints, port: int, packet: int) -> int:
    """Return the bytes queued at `port` in the packet's class."""
    bit = s[packet + PKT_INFO] >> PRIORITY_SHIFT & 7
    return s[port + PORT_QUEUES + bit * QUEUE_WORDS + QUEUE_BYTES]


@jit
def lose(s: Ints, switch: int, queue: int, packet: int, size: int) -> None:
    """Count and discard a packet that the switch could not store."""
    s[queue + QUEUE_DROPPED] += 1
    s[queue + QUEUE_DROPPED_BYTES] += size
    s[switch + SWITCH_DROPPED] += 1
    drop(s, packet)


@jit
def over_limit(s: Ints, switch: int, queue: int, size: int) -> bool:
    """Tell whether a packet would take the egress queue over its static or dynamic limit."""
    length = s[queue + QUEUE_BYTES] + size
    if 0 < s[queue + QUEUE_LIMIT] < length:
        return True
    alpha = s[queue + QUEUE_ALPHA]
    free = s[switch + SWITCH_POOL] - s[switch + SWITCH_EGRESS_USED]
    return alpha > 0 and length > alpha * free // RATIO_ONE


@jit
def forward(s: Ints, switch: int, came: int, packet: int, now: int) -> int:
    """Queue a packet that arrived on port `came`; return the egress port, 0 if it was dropped."""
    cursor = s[packet + PKT_CURSOR]
    if cursor >= 0:
        port = s[cursor]
        s[packet + PKT_CURSOR] = cursor + 1
    else:
        port = pick(s, switch, packet, -1 - cursor, now)
    info = s[packet + PKT_INFO]
    size = info & SIZE_MASK
    classes = s[switch + SWITCH_CLASSES]
    bit = classes >> 8 + 4 * (info >> PRIORITY_SHIFT & 7) & 7
    queue = port + PORT_QUEUES + bit * QUEUE_WORDS
    if classes >> bit & 1 == 0:
        stormed = s[port + PORT_TROUBLE] & STORMED != 0
        if (stormed and s[port + PORT_WATCH_UNTIL] >> bit & 1 != 0) or (
            s[queue + QUEUE_OPTIONS] & LIMITED != 0 and over_limit(s, switch, queue, size)
        ):
            lose(s, switch, queue, packet, size)
            return 0
        group = came + PORT_GROUPS + bit * GROUP_WORDS
        if s[INFINIBAND] != 0:
            s[packet + PKT_GROUP] = group
            s[group + GROUP_BYTES] += size
        elif not admit(s, switch, group, packet, size, now):  # counted by the group
            s[switch + SWITCH_DROPPED] += 1
            drop(s, packet)
            return 0
        s[switch + SWITCH_EGRESS_USED] += size
        s[switch + SWITCH_MAX] = max(s[switch + SWITCH_MAX], s[switch + SWITCH_EGRESS_USED])
    length = append(s, port, bit, packet, size)
    at_enqueue = s[queue + QUEUE_OPTIONS] & MARK_ENQUEUE != 0
    if at_enqueue and info & ECT != 0 and marked(s, queue, length):
        s[queue + QUEUE_MARKED] += 1
        s[packet + PKT_INFO] |= CE
    return port

"""The event loop: one compiled function that runs the state vectors up to a time."""

from __future__ import annotations

from simlab.packet.egress import credit_received, drop, flush, return_credit, transmit
from simlab.packet.events import free_packet, port_row, random, schedule
from simlab.packet.jit import Ints, Reals, entry, floats, ints, jit
from simlab.packet.layout import (
    ALL_DONE,
    CNP,
    CREDIT,
    DATA,
    DONE_MESSAGES,
    ENTITY_BITS,
    ENTITY_MASK,
    EVENTS,
    FIRST_QP,
    GROUP_WORDS,
    GROW_PACKETS,
    GROW_QPS,
    INFINIBAND,
    KIND_MASK,
    LINK_DOWN,
    LINK_SHORT,
    MESSAGE_COUNT,
    NEVER,
    NOW,
    PACKET_BRK,
    PACKET_LIMIT,
    PAUSED_FOR_BUDGET,
    PFC,
    PKT_AUX,
    PKT_INFO,
    PKT_NEXT,
    PKT_NEXT_TIME,
    PKT_QP,
    PORT_BUSY_UNTIL,
    PORT_COUNT,
    PORT_ERROR,
    PORT_GROUPS,
    PORT_LARGEST,
    PORT_LINK_HEAD,
    PORT_LOST,
    PORT_LOST_BYTES,
    PORT_REVERSE,
    PORT_SWITCH,
    PORT_TROUBLE,
    PORT_TX_SCHEDULED,
    PRIORITY_SHIFT,
    QP_ALIVE,
    QP_WORDS,
    REACHED,
    RECYCLE,
    SAMPLE_AT,
    SAMPLE_COUNT,
    SAMPLE_END,
    SAMPLE_LIST,
    SAMPLE_PERIOD,
    SIZE_MASK,
    STOP_WHEN_DONE,
    STORMED,
    TRACE_FULL,
    TREE,
)
from simlab.packet.lookahead import CACHED_LEVELS, look_ahead, tree_depth
from simlab.packet.pause import kick, pause_received, pause_timer
from simlab.packet.reaction import notified
from simlab.packet.receiver import received
from simlab.packet.sender import acknowledged, make_ready, qp_timer
from simlab.packet.slots import close_slot, start_due
from simlab.packet.switching import forward


@jit
def lost(s: Ints, port: int, size: int) -> bool:
    """Decide whether a link that is down or lossy, or its far end's MTU, loses the packet."""
    if s[port + PORT_TROUBLE] & LINK_DOWN != 0:
        return True
    if s[port + PORT_TROUBLE] & LINK_SHORT != 0 and size > s[port + PORT_LARGEST]:
        return True
    return s[port + PORT_ERROR] > 0 and random(s) <= s[port + PORT_ERROR]


@jit
def lose_on_link(s: Ints, port: int, packet: int) -> int:
    """Count and discard a packet that the link lost; return that no port may send for it."""
    s[port + PORT_LOST] += 1
    s[port + PORT_LOST_BYTES] += s[packet + PKT_INFO] & SIZE_MASK
    drop(s, packet)
    return 0


@jit
def arrive(s: Ints, f: Reals, port: int, entity: int, now: int) -> int:
    """The first packet of a link reaches the far end; return the port that may now send."""
    packet = s[port + PORT_LINK_HEAD]
    following = s[packet + PKT_NEXT]
    s[port + PORT_LINK_HEAD] = following
    schedule(s, entity, s[packet + PKT_NEXT_TIME] if following != 0 else NEVER)
    info = s[packet + PKT_INFO]
    kind = info & KIND_MASK
    if s[port + PORT_TROUBLE] != 0 and lost(s, port, info & SIZE_MASK):
        down = s[port + PORT_TROUBLE] & LINK_DOWN != 0
        if s[INFINIBAND] == 0 or down:
            return lose_on_link(s, port, packet)
        if kind != CREDIT:  # its credit comes back: both ends count blocks (IBTA 7.9.4)
            credit_received(s, port, info >> PRIORITY_SHIFT & 7, info & SIZE_MASK, now)
            return lose_on_link(s, port, packet)
    came = s[port + PORT_REVERSE]
    if kind >= PFC:
        if kind == CREDIT:
            priority = info >> PRIORITY_SHIFT & 7
            credit_received(s, came, priority, s[packet + PKT_AUX], now)
        else:
            pause_received(s, came, info, s[packet + PKT_AUX], now)
        free_packet(s, packet)
        return 0
    switch = s[came + PORT_SWITCH]
    if switch != 0:
        return forward(s, switch, came, packet, now)
    if s[INFINIBAND] != 0:
        group = came + PORT_GROUPS + (info >> PRIORITY_SHIFT & 7) * GROUP_WORDS
        return_credit(s, group, info & SIZE_MASK, now)
    if kind == DATA:
        return received(s, packet, now)
    qp = s[packet + PKT_QP]
    s[qp + QP_ALIVE] -= 1
    if kind == CNP:
        notified(s, f, qp, now)
        done = False
    else:
        done = acknowledged(s, f, packet, now)
    free_packet(s, packet)
    if s[RECYCLE] != 0 and (done or s[qp + QP_ALIVE] == 0):
        close_slot(s, qp)
    return 0


@jit
def sample(s: Ints, trace: Ints) -> None:
    """Record the length of every watched queue."""
    count = s[SAMPLE_COUNT]
    at = s[SAMPLE_AT]
    for i in range(count):
        trace[at + i] = s[s[s[SAMPLE_LIST] + i]]
    s[SAMPLE_AT] = at + count


@jit
def rare(s: Ints, f: Reals, trace: Ints, entity: int, now: int) -> int:
    """Process a pause timer, a start or a sample; return minus a status, 0 if all is well."""
    ports = s[PORT_COUNT]
    if entity < 3 * ports:
        pause_timer(s, port_row(s, entity - 2 * ports), now)
    elif entity == 3 * ports:
        if not start_due(s, f, entity, now):
            return -GROW_QPS
    else:
        if s[SAMPLE_AT] + s[SAMPLE_COUNT] > s[SAMPLE_END]:
            return -TRACE_FULL
        sample(s, trace)
        schedule(s, entity, now + s[SAMPLE_PERIOD])
    return 0


@jit
def process(s: Ints, f: Reals, trace: Ints, entity: int, now: int) -> int:
    """Process one event; return the port that may now send, 0 for none, or minus a status."""
    ports = s[PORT_COUNT]
    if entity < ports:
        return arrive(s, f, port_row(s, entity), entity, now)
    if entity < 2 * ports:
        schedule(s, entity, NEVER)
        port = port_row(s, entity - ports)
        s[port + PORT_TX_SCHEDULED] = 0
        if s[port + PORT_TROUBLE] & STORMED != 0:
            flush(s, port, now)
        return port
    number = entity - 3 * ports - 2
    if number < 0:
        return rare(s, f, trace, entity, now)
    schedule(s, entity, NEVER)
    qp = s[FIRST_QP] + (number >> 1) * QP_WORDS
    if number & 1 == 0:
        return make_ready(s, qp)
    qp_timer(s, f, qp, now)
    return 0


@entry
def run(state: Ints, reals: Reals, samples: Ints, until: int, budget: int) -> int:
    """Process events up to and including `until` (ps); return REACHED or why it stopped early.

    `budget` is the most events to process in this call, for progress and interruption.
    """
    s = ints(state)
    f = floats(reals)
    trace = ints(samples)
    status = REACHED
    events = 0
    now = s[NOW]
    depth = tree_depth(s)
    deep = depth > CACHED_LEVELS
    while True:
        key = s[TREE + 1]
        time = key >> ENTITY_BITS
        if time > until:
            now = until
            break
        if events >= budget:
            status = PAUSED_FOR_BUDGET
            break
        if s[PACKET_BRK] > s[PACKET_LIMIT]:
            status = GROW_PACKETS
            break
        now = time
        port = process(s, f, trace, key & ENTITY_MASK, now)
        if port < 0:
            status = -port
            break
        events += 1
        if port != 0:
            if s[port + PORT_BUSY_UNTIL] <= now:
                transmit(s, port, now)
            else:
                kick(s, port, now)
        if deep:
            look_ahead(s, key & ENTITY_MASK, depth)
        if s[DONE_MESSAGES] >= s[MESSAGE_COUNT] and s[STOP_WHEN_DONE] != 0:
            status = ALL_DONE
            break
    s[NOW] = now
    s[EVENTS] += events
    return status

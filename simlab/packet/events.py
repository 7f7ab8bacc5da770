"""The event queue (one slot per entity in a tournament tree), random numbers and packet pool.

An entity (a link's first arrival, a port's end of transmission, a QP's timer ...) has at most one
pending event, so that moving or cancelling it is one walk from its leaf towards the root. Of the
queues measured this was the fastest at every size that matters here.
"""

from __future__ import annotations

from simlab.packet.jit import Ints, entry, fetch_ahead, ints, jit
from simlab.packet.layout import (
    ENTITY_BITS,
    ENTITY_MASK,
    FIRST_PORT,
    FIRST_QP,
    GROUP_WORDS,
    LEAVES,
    NEVER,
    PACKET_BRK,
    PACKET_FREE,
    PACKETS_ALIVE,
    PKT_CURSOR,
    PKT_INFO,
    PKT_NEXT,
    PKT_QP,
    PKT_WORDS,
    PORT_COUNT,
    PORT_GROUPS,
    PORT_LINK_HEAD,
    PORT_QUEUES,
    PORT_REVERSE,
    PORT_SWITCH,
    PORT_WORDS,
    PRIORITY_SHIFT,
    QP_WORDS,
    QUEUE_WORDS,
    RANDOM_A,
    RANDOM_B,
    TREE,
)

SMALL_TREE = 4096  # leaves up to which everything stays in the caches anyway


@jit
def hint_row(s: Ints, key: int) -> None:
    """Fetch the row of an event that is some tens of events away."""
    entity = key & ENTITY_MASK
    ports = s[PORT_COUNT]
    if entity < 2 * ports:
        if entity >= ports:
            entity -= ports
        row = s[FIRST_PORT] + entity * PORT_WORDS
        fetch_ahead(s, row)
        fetch_ahead(s, row + 8)
    elif entity >= 3 * ports + 2:
        row = s[FIRST_QP] + ((entity - 3 * ports - 2) >> 1) * QP_WORDS
        fetch_ahead(s, row)
        fetch_ahead(s, row + 8)
        fetch_ahead(s, row + 16)


@jit
def hint_packet(s: Ints, key: int) -> None:
    """Fetch the packet and the far end of a link whose arrival is a few events away."""
    entity = key & ENTITY_MASK
    if entity < s[PORT_COUNT]:
        row = s[FIRST_PORT] + entity * PORT_WORDS
        fetch_ahead(s, s[row + PORT_LINK_HEAD])
        fetch_ahead(s, s[row + PORT_REVERSE] + 8)


@jit
def hint_target(s: Ints, key: int) -> None:
    """Fetch what the next arrival will touch: its priority group, path and QP."""
    entity = key & ENTITY_MASK
    if entity < s[PORT_COUNT]:
        row = s[FIRST_PORT] + entity * PORT_WORDS
        packet = s[row + PORT_LINK_HEAD]
        came = s[row + PORT_REVERSE]
        if s[came + PORT_SWITCH] != 0:
            bit = s[packet + PKT_INFO] >> PRIORITY_SHIFT & 7
            fetch_ahead(s, came + PORT_GROUPS + bit * GROUP_WORDS)
            cursor = s[packet + PKT_CURSOR]
            if cursor > 0:
                out = s[cursor]
                fetch_ahead(s, out)
                fetch_ahead(s, out + 8)
                fetch_ahead(s, out + PORT_QUEUES + bit * QUEUE_WORDS)
        else:
            qp = s[packet + PKT_QP]
            fetch_ahead(s, qp)
            fetch_ahead(s, qp + 16)
            fetch_ahead(s, qp + 24)
            fetch_ahead(s, came)


@jit
def schedule(s: Ints, entity: int, time: int) -> None:
    """Set the one pending event of `entity` to `time` (ps), NEVER to cancel.

    On its way to the root the walk meets the new earliest events of ever larger parts of the
    tree; these come up soon, so their memory is fetched ahead.
    """
    key = time << ENTITY_BITS | entity
    node = s[LEAVES] + entity
    s[TREE + node] = key
    while node > 1:
        other = s[TREE + (node ^ 1)]
        key = min(other, key)
        node >>= 1
        if s[TREE + node] == key:
            break
        s[TREE + node] = key
        if node < 64 and s[LEAVES] > SMALL_TREE:
            if node >= 32:
                hint_row(s, key)
            elif 8 <= node < 16:
                hint_packet(s, key)
            elif 2 <= node < 4:
                hint_target(s, key)


@jit
def cancel(s: Ints, entity: int) -> None:
    """Take the pending event of `entity` away."""
    schedule(s, entity, NEVER)


@jit
def event_time(s: Ints, entity: int) -> int:
    """Return when `entity` has its event; NEVER if it has none."""
    return s[TREE + s[LEAVES] + entity] >> ENTITY_BITS


@jit
def random(s: Ints) -> int:
    """Return a uniform integer in 1 .. RANDOM_RANGE (L'Ecuyer's combined generator, 1988)."""
    a = s[RANDOM_A] * 40014 % 2147483563
    b = s[RANDOM_B] * 40692 % 2147483399
    s[RANDOM_A] = a
    s[RANDOM_B] = b
    z = a - b
    if z < 1:
        z += 2147483562
    return z


@jit
def new_packet(s: Ints) -> int:
    """Take a packet row from the pool; the main loop has made sure that there is one."""
    packet = s[PACKET_FREE]
    if packet != 0:
        s[PACKET_FREE] = s[packet + PKT_NEXT]
    else:
        packet = s[PACKET_BRK]
        s[PACKET_BRK] = packet + PKT_WORDS
    s[PACKETS_ALIVE] += 1
    return packet


@jit
def free_packet(s: Ints, packet: int) -> None:
    """Give a packet row back; the last one freed is the next one used, which keeps caches warm."""
    s[packet + PKT_NEXT] = s[PACKET_FREE]
    s[PACKET_FREE] = packet
    s[PACKETS_ALIVE] -= 1


@entry
def plan(state: Ints, entity: int, time: int) -> None:
    """Set the event of `entity` from outside the event loop."""
    schedule(ints(state), entity, time)

"""The event queue (one slot per entity in a tournament tree), random numbers and packet pool.

An entity (a link's first arrival, a port's end of transmission, a QP's timer ...) has at most one
pending event, so that moving or cancelling it is one walk from its leaf towards the root. Of the
queues measured this was the fastest at every size that matters here.
"""

from __future__ import annotations

from simlab.packet.jit import Ints, entry, ints, jit
from simlab.packet.layout import (
    ENTITY_BITS,
    ENTITY_MASK,
    LEAVES,
    NEVER,
    PACKET_BRK,
    PACKET_FREE,
    PACKETS_ALIVE,
    PKT_NEXT,
    PKT_WORDS,
    PORT_ENTITIES,
    RANDOM_A,
    RANDOM_B,
    ROOTS,
    TREE,
)


@jit
def arrival_of(s: Ints, port: int) -> int:
    """Return the entity of the first arrival on the port's link."""
    return s[port + PORT_ENTITIES] & ENTITY_MASK


@jit
def departure_of(s: Ints, port: int) -> int:
    """Return the entity of the moment when the port may send again."""
    return s[port + PORT_ENTITIES] >> ENTITY_BITS & ENTITY_MASK


@jit
def pause_timer_of(s: Ints, port: int) -> int:
    """Return the entity of the port's pause timer."""
    return s[port + PORT_ENTITIES] >> 2 * ENTITY_BITS


@jit
def schedule(s: Ints, entity: int, time: int) -> None:
    """Set the one pending event of `entity` to `time` (ps), NEVER to cancel."""
    key = time << ENTITY_BITS | entity
    node = s[LEAVES] + entity
    s[TREE + node] = key
    below = 2 * s[ROOTS]
    while node >= below:
        other = s[TREE + (node ^ 1)]
        key = min(other, key)
        node >>= 1
        if s[TREE + node] == key:
            break
        s[TREE + node] = key


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

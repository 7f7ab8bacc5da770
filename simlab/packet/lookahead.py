"""Fetching memory ahead of the events that need it, in fabrics too large for the caches.

The tournament tree knows what comes next. After an event, the nodes on its way to the root hold
the earliest events of parts of the tree; the smaller the part, the further away its event is. Three
nodes are looked at: far away the event's row is fetched, then what the row points to, and at last
what the event will touch beyond that. With regions, the rows of the one after the next are fetched,
and what those of the next one point to. Nothing here changes a result.
"""

from __future__ import annotations

from simlab.packet.jit import Ints, fetch_ahead, jit
from simlab.packet.layout import (
    ARRIVAL,
    DATA,
    DEPARTURE,
    ENTITY_MASK,
    GROUP_WORDS,
    HIGHEST_BIT,
    KIND_MASK,
    LEAVES,
    OWNER_KIND,
    OWNERS,
    PACE,
    PKT_CURSOR,
    PKT_INFO,
    PKT_NEXT,
    PKT_QP,
    PORT_GROUPS,
    PORT_LINK_HEAD,
    PORT_QP_LIST,
    PORT_QUEUES,
    PORT_READY,
    PORT_REVERSE,
    PORT_SWITCH,
    PRIORITY_SHIFT,
    QP_CLASS,
    QP_MESSAGE,
    QP_PATH,
    QP_PORT,
    QP_SHIFT,
    QP_TIMER,
    QUEUE_WORDS,
    ROOTS,
    TREE,
)

CACHED_LEVELS = 12  # of a tree with which everything stays in the caches anyway
# Levels below the root; three apart, so that one walk seldom does two steps for one event.
ROW_LEVEL, POINTED_LEVEL, TOUCHED_LEVEL = 12, 9, 4
ARRIVALS_AHEAD = 4  # packets of a link that are fetched before the region is reached


@jit
def fetch_row(s: Ints, key: int) -> None:
    """Fetch the row of an event that is far away: a port's or a queue pair's."""
    owner = s[s[OWNERS] + (key & ENTITY_MASK)]
    kind = owner & OWNER_KIND
    row = owner - kind
    if kind in (ARRIVAL, DEPARTURE):
        fetch_ahead(s, row)
        fetch_ahead(s, row + 8)
    elif kind in (PACE, QP_TIMER):
        fetch_ahead(s, row)
        fetch_ahead(s, row + 8)
        fetch_ahead(s, row + 16)


@jit
def fetch_pointed(s: Ints, key: int) -> None:
    """Fetch what the row of an event points to: the packet, the far end, queues, the message."""
    owner = s[s[OWNERS] + (key & ENTITY_MASK)]
    kind = owner & OWNER_KIND
    row = owner - kind
    if kind == ARRIVAL:
        fetch_ahead(s, s[row + PORT_LINK_HEAD])
        fetch_ahead(s, s[row + PORT_REVERSE])
        fetch_ahead(s, s[row + PORT_REVERSE] + 8)
    elif kind == DEPARTURE:
        queues = s[row + PORT_READY] & 511
        if queues != 0:
            fetch_ahead(s, row + PORT_QUEUES + s[HIGHEST_BIT + queues] * QUEUE_WORDS)
        waiting = s[row + PORT_READY] >> QP_SHIFT
        if waiting != 0:
            fetch_ahead(s, row + PORT_QP_LIST + 2 * s[HIGHEST_BIT + waiting])
    elif kind in (PACE, QP_TIMER):
        fetch_ahead(s, s[row + QP_PORT])
        fetch_ahead(s, s[row + QP_PORT] + 8)
        fetch_ahead(s, s[row + QP_PORT] + PORT_QP_LIST + 2 * (s[row + QP_CLASS] & 7))
        fetch_ahead(s, s[row + QP_MESSAGE])


@jit
def fetch_touched(s: Ints, key: int) -> None:
    """Fetch what an event will touch beyond that: next hop, priority group, QP, queued packet."""
    owner = s[s[OWNERS] + (key & ENTITY_MASK)]
    kind = owner & OWNER_KIND
    row = owner - kind
    if kind == ARRIVAL:
        packet = s[row + PORT_LINK_HEAD]
        came = s[row + PORT_REVERSE]
        bit = s[packet + PKT_INFO] >> PRIORITY_SHIFT & 7
        if s[came + PORT_SWITCH] != 0:
            fetch_ahead(s, came + PORT_GROUPS + bit * GROUP_WORDS)
            cursor = s[packet + PKT_CURSOR]
            if cursor > 0:
                out = s[cursor]
                fetch_ahead(s, out)
                fetch_ahead(s, out + 8)
                fetch_ahead(s, out + PORT_QUEUES + bit * QUEUE_WORDS)
        elif s[packet + PKT_INFO] & KIND_MASK == DATA:
            fetch_ahead(s, s[packet + PKT_QP] + 24)
            fetch_ahead(s, came + PORT_QUEUES + bit * QUEUE_WORDS)
        else:
            fetch_ahead(s, s[packet + PKT_QP])
            fetch_ahead(s, s[packet + PKT_QP] + 8)
    elif kind == DEPARTURE:
        queues = s[row + PORT_READY] & 511
        if queues != 0:
            fetch_ahead(s, s[row + PORT_QUEUES + s[HIGHEST_BIT + queues] * QUEUE_WORDS])
        waiting = s[row + PORT_READY] >> QP_SHIFT
        if waiting != 0:
            qp = s[row + PORT_QP_LIST + 2 * s[HIGHEST_BIT + waiting]]
            fetch_ahead(s, qp)
            fetch_ahead(s, qp + 8)
            fetch_ahead(s, qp + 16)


@jit
def look_ahead(s: Ints, entity: int, depth: int) -> None:
    """Fetch for the events that come into view after one of `entity`; `depth` is the tree's."""
    node = s[LEAVES] + entity
    fetch_row(s, s[TREE + (node >> (depth - ROW_LEVEL))])
    fetch_pointed(s, s[TREE + (node >> (depth - POINTED_LEVEL))])
    fetch_touched(s, s[TREE + (node >> (depth - TOUCHED_LEVEL))])


@jit
def fetch_region(s: Ints, index: int) -> None:
    """Fetch what most events of a region touch: the rows of links, ports and queue pairs."""
    block = s[LEAVES] // s[ROOTS]
    for place in range(s[OWNERS] + index * block, s[OWNERS] + (index + 1) * block):
        kind = s[place] & OWNER_KIND
        row = s[place] - kind
        if kind in (ARRIVAL, DEPARTURE, PACE):
            fetch_ahead(s, row)
            fetch_ahead(s, row + 8)
        if kind == PACE:
            fetch_ahead(s, row + 16)
            fetch_ahead(s, row + 24)
        if kind == 0:
            break


@jit
def fetch_beyond(s: Ints, index: int) -> None:
    """Fetch what the rows of a region point to: packets about to arrive, messages, paths."""
    block = s[LEAVES] // s[ROOTS]
    for place in range(s[OWNERS] + index * block, s[OWNERS] + (index + 1) * block):
        kind = s[place] & OWNER_KIND
        row = s[place] - kind
        if kind == ARRIVAL:
            packet = s[row + PORT_LINK_HEAD]
            for _ in range(ARRIVALS_AHEAD):  # behind the last one is row 0
                fetch_ahead(s, packet)
                packet = s[packet + PKT_NEXT]
        elif kind == PACE:
            fetch_ahead(s, s[row + QP_MESSAGE])
            fetch_ahead(s, s[row + QP_MESSAGE] + 8)
            fetch_ahead(s, s[row + QP_PATH])
        elif kind == 0:
            break


@jit
def tree_depth(s: Ints) -> int:
    """Return how many levels of the event tree lie below the root."""
    depth = 0
    while s[LEAVES] >> (depth + 1) != 0:
        depth += 1
    return depth

"""The event loop: one compiled function that runs the state vectors up to a time."""

from __future__ import annotations

from simlab.packet.egress import credit_received, drop, flush, return_credit, transmit
from simlab.packet.events import free_packet, random, schedule
from simlab.packet.jit import Ints, Reals, entry, floats, ints, jit
from simlab.packet.layout import (
    ALL_DONE,
    ARRIVAL,
    CNP,
    CREDIT,
    DATA,
    DEPARTURE,
    DONE_MESSAGES,
    DONE_TIME,
    ENTITY_BITS,
    ENTITY_MASK,
    EVEN_COUNT,
    EVENTS,
    FORWARD,
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
    OWNER_KIND,
    OWNERS,
    PACE,
    PACKET_BRK,
    PACKET_LIMIT,
    PAUSE_TIMER,
    PAUSED_FOR_BUDGET,
    PFC,
    PKT_AUX,
    PKT_INFO,
    PKT_NEXT,
    PKT_NEXT_TIME,
    PKT_QP,
    PORT_BUSY_UNTIL,
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
    QP_TIMER,
    RANDOM_A,
    RANDOM_B,
    REACHED,
    RECYCLE,
    REGION_COUNT,
    REGION_FIRST_QP,
    REGION_RANDOM_A,
    REGION_RANDOM_B,
    REGION_WORDS,
    REGIONS,
    ROOTS,
    SAMPLE_AT,
    SAMPLE_COUNT,
    SAMPLE_END,
    SAMPLE_LIST,
    SAMPLE_PERIOD,
    SIZE_MASK,
    START,
    STOP_WHEN_DONE,
    STORMED,
    TRACE_FULL,
    TREE,
    WINDOW,
)
from simlab.packet.lookahead import (
    CACHED_LEVELS,
    fetch_beyond,
    fetch_region,
    look_ahead,
    tree_depth,
)
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
def rare(s: Ints, f: Reals, trace: Ints, kind: int, entity: int, now: int) -> int:
    """Process a start or a sample of the queues; return minus a status, 0 if all is well."""
    if kind == START:
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
    owner = s[s[OWNERS] + entity]
    kind = owner & OWNER_KIND
    row = owner - kind
    if kind == ARRIVAL:
        return arrive(s, f, row, entity, now)
    if kind == DEPARTURE:
        schedule(s, entity, NEVER)
        s[row + PORT_TX_SCHEDULED] = 0
        if s[row + PORT_TROUBLE] & STORMED != 0:
            flush(s, row, now)
        return row
    if kind == PACE:
        schedule(s, entity, NEVER)
        return make_ready(s, row)
    if kind == QP_TIMER:
        schedule(s, entity, NEVER)
        qp_timer(s, f, row, now)
        return 0
    if kind == PAUSE_TIMER:
        pause_timer(s, row, now)
        return 0
    return rare(s, f, trace, kind, entity, now)


@jit
def run_tree(s: Ints, f: Reals, trace: Ints, root: int, bound: int, budget: int, depth: int) -> int:
    """Process the events of one tree that are before key `bound`; return as `run` does.

    `depth` is that of the only tree, in which it is worth to look ahead; 0 for one of several.
    """
    status = REACHED
    events = 0
    now = s[NOW]
    deep = depth > CACHED_LEVELS
    stop = depth > 0 and s[STOP_WHEN_DONE] != 0
    while True:
        key = s[TREE + root]
        if key >= bound:
            break
        if events >= budget:
            status = PAUSED_FOR_BUDGET
            break
        if s[PACKET_BRK] > s[PACKET_LIMIT]:
            status = GROW_PACKETS
            break
        now = key >> ENTITY_BITS
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
        if stop and s[DONE_MESSAGES] >= s[MESSAGE_COUNT]:
            status = ALL_DONE
            break
    s[NOW] = now
    s[EVENTS] += events
    return status


@jit
def run_region(s: Ints, f: Reals, trace: Ints, index: int, bound: int) -> int:
    """Process the events of one region before key `bound`, with its own random numbers."""
    region = s[REGIONS] + index * REGION_WORDS
    s[RANDOM_A] = s[region + REGION_RANDOM_A]
    s[RANDOM_B] = s[region + REGION_RANDOM_B]
    status = run_tree(s, f, trace, s[ROOTS] + index, bound, NEVER, 0)
    s[region + REGION_RANDOM_A] = s[RANDOM_A]
    s[region + REGION_RANDOM_B] = s[RANDOM_B]
    return status


@jit
def run_regions(
    s: Ints, f: Reals, trace: Ints, begin: int, end: int, time: int, common: bool
) -> int:
    """Process the events of regions begin .. end-1 before `time`; with `common` ports' at it, too.

    Every other call goes through them backwards: the last ones are still in the caches.
    """
    step = 2 * s[FORWARD] - 1
    index = begin if step > 0 else end - 1
    while begin <= index < end:
        if begin <= index + 2 * step < end:
            fetch_region(s, index + 2 * step)
        if begin <= index + step < end:
            fetch_beyond(s, index + step)
        bound = time << ENTITY_BITS
        if common:  # ports come before common events, which come before QPs
            bound += s[s[REGIONS] + index * REGION_WORDS + REGION_FIRST_QP]
        if s[TREE + s[ROOTS] + index] < bound:
            status = run_region(s, f, trace, index, bound)
            if status != REACHED:
                return status
        index += step
    return REACHED


@jit
def common_time(s: Ints) -> int:
    """Return the time of the next event that is of no region."""
    return s[TREE + s[ROOTS] + s[REGION_COUNT]] >> ENTITY_BITS


@jit
def soonest(s: Ints) -> int:
    """Return the time of the next event of all."""
    key = s[TREE + s[ROOTS]]
    for index in range(1, s[REGION_COUNT] + 1):
        key = min(key, s[TREE + s[ROOTS] + index])
    return key >> ENTITY_BITS


@jit
def why_stop(s: Ints, last: int) -> int:
    """Return ALL_DONE, PAUSED_FOR_BUDGET from event `last` on, or REACHED to go on."""
    if s[STOP_WHEN_DONE] != 0 and s[DONE_MESSAGES] >= s[MESSAGE_COUNT]:
        return ALL_DONE
    return PAUSED_FOR_BUDGET if s[EVENTS] >= last else REACHED


@jit
def run_fabric(s: Ints, f: Reals, trace: Ints, until: int, budget: int) -> int:
    """Process the events of a fabric of several regions; see simlab.packet.regions.

    Even regions have all events before `even` behind them, odd ones those before `odd`. What an odd
    region sends from then on arrives after `odd` + WINDOW: so far the even ones may go, and the
    other way round. All are at the same time when common events happen and when it returns, unless
    the pool of packets must grow.
    """
    last = s[EVENTS] + budget
    goal = until + 1
    even = odd = -1
    status = REACHED
    while soonest(s) < goal:
        even = max(even, soonest(s) - 1)
        odd = max(odd, soonest(s) - 1)
        common = common_time(s)
        nearest = min(goal, common)
        if even == odd == common:
            bound = (common + 1) << ENTITY_BITS
            stop = run_tree(s, f, trace, s[ROOTS] + s[REGION_COUNT], bound, NEVER, 0)
        elif even <= odd:
            even = min(odd + s[WINDOW], nearest)
            s[FORWARD] = 1 - s[FORWARD]
            stop = run_regions(s, f, trace, 0, s[EVEN_COUNT], even, even == common < goal)
            if s[EVEN_COUNT] == s[REGION_COUNT]:
                odd = even
        else:
            odd = min(even + s[WINDOW], nearest)
            first = s[EVEN_COUNT]
            stop = run_regions(s, f, trace, first, s[REGION_COUNT], odd, odd == common < goal)
        if stop != REACHED:
            return stop
        if status == REACHED:
            status = why_stop(s, last)
            if status != REACHED:
                goal = max(even, odd)
    s[NOW] = s[DONE_TIME] if status == ALL_DONE else goal - 1
    return status


@entry
def run(state: Ints, reals: Reals, samples: Ints, until: int, budget: int) -> int:
    """Process events up to and including `until` (ps); return REACHED or why it stopped early.

    `budget` is the most events to process in this call, for progress and interruption; several
    regions look at it once a window.
    """
    s = ints(state)
    f = floats(reals)
    trace = ints(samples)
    if s[REGION_COUNT] > 1:
        status = run_fabric(s, f, trace, until, budget)
    else:
        bound = (until + 1) << ENTITY_BITS
        status = run_tree(s, f, trace, s[ROOTS], bound, budget, tree_depth(s))
        if status == REACHED:
            s[NOW] = until
    return status

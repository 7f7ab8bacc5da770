"""Our model with the order of events and the random numbers of the HPCC simulator's ns-3.

Two events at one nanosecond happen in the order in which they were planned, where our engine takes
them by their number; a link's error, a mark or a pause frame takes the next number of the
reference's generator. Nothing else is changed: what switches, queue pairs, receivers and pause
frames do remains the model's own code. `install` must come before the engine is compiled.

ns-3 plans the end of a transmission and its arrival when it begins, and timers one period ahead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from packet_parts.ns3_hosts import close_slot, is_finished, make_ready, transmit
from packet_parts.ns3_words import (
    DRAW,
    DRAWS,
    GAP,
    INCREASE,
    KEY_BITS,
    LARGEST,
    LATE_CUTS,
    LONG_GAP,
    MONITOR,
    MOST_DRAWS,
    RATES,
    SEQUENCE,
    SEQUENCE_SHIFT,
    SHORT,
    TIME_SHIFT,
    outside,
)

from simlab.packet import egress, engine, events, pause, reaction, sender, slots
from simlab.packet.jit import Ints, Reals, jit
from simlab.packet.layout import (
    ACK,
    ALL_DONE,
    DONE_MESSAGES,
    ENTITY_BITS,
    EVENTS,
    GROW_PACKETS,
    KIND_MASK,
    LEAVES,
    LINK_PACKETS,
    MESSAGE_COUNT,
    NEVER,
    NOW,
    OWNER_KIND,
    OWNERS,
    PACE,
    PACKET_BRK,
    PACKET_LIMIT,
    PAUSED_FOR_BUDGET,
    PFC,
    PKT_INFO,
    PKT_NEXT,
    PKT_NEXT_TIME,
    PORT_DELAY,
    PORT_LINK_HEAD,
    PORT_LINK_TAIL,
    PORT_PS_BYTE,
    PORT_REVERSE,
    PORT_SWITCH,
    PORT_TX_BYTES,
    PORT_TX_PACKETS,
    PORT_TX_SCHEDULED,
    QP_ALPHA_CNP,
    QP_ALPHA_ORIGIN,
    QP_CONGESTED,
    QP_INCREASE_AT,
    QP_PROFILE,
    QP_TIMER,
    REACHED,
    SIZE_MASK,
    STOP_WHEN_DONE,
    TREE,
    XOFF,
)
from simlab.packet.profile_layout import RP_ALPHA_PERIOD, RP_TIMER, RP_WINDOW
from simlab.packet.reaction import PS_BITS

plain_arrive = engine.arrive
plain_notified, plain_gap, plain_wire = reaction.notified, reaction.gap_of, egress.wire_time
plain_control = pause.send_control


@jit
def planned(s: Ints, entity: int, time: int) -> int:
    """Return which of the events of one nanosecond this one is: the less, the sooner."""
    words = outside()
    owner = s[s[OWNERS] + entity]
    kind = owner & OWNER_KIND
    qp = owner - kind
    if kind == QP_TIMER:
        return INCREASE if time == s[qp + QP_INCREASE_AT] else MONITOR
    if kind == PACE and time - s[NOW] > s[s[qp + QP_PROFILE] + RP_TIMER]:
        return LONG_GAP
    if kind == PACE and time - s[NOW] > s[s[qp + QP_PROFILE] + RP_WINDOW]:
        return GAP
    words[SEQUENCE] += 1
    return words[SEQUENCE]


@jit
def moment(s: Ints, entity: int, time: int) -> int:
    """Return the key of an event: its nanosecond, and its turn within it."""
    words = outside()
    turn = planned(s, entity, time)
    return time // 1000 << words[TIME_SHIFT] | turn << words[SEQUENCE_SHIFT] | entity


@jit
def schedule(s: Ints, entity: int, time: int) -> None:
    """Set the one pending event of `entity` to `time` (ps), NEVER, or a key made by `moment`."""
    key = time
    if time == NEVER:
        key = NEVER << ENTITY_BITS | entity
    elif time < NEVER:
        key = moment(s, entity, time)
    node = s[LEAVES] + entity
    while node >= 1:
        s[TREE + node] = key
        key = min(key, s[TREE + (node ^ 1)])
        node >>= 1


@jit
def event_time(s: Ints, entity: int) -> int:
    """Return when `entity` has its event; NEVER if it has none."""
    key = s[TREE + s[LEAVES] + entity]
    if key >= NEVER << ENTITY_BITS:
        return NEVER
    return (key >> outside()[TIME_SHIFT]) * 1000


@jit
def random(_s: Ints) -> int:
    """Return the reference's next number as one of 1 .. RANDOM_RANGE."""
    words = outside()
    draw = words[DRAW]
    words[DRAW] = draw + 1
    return words[DRAWS + draw % MOST_DRAWS]


@jit
def run_tree(
    s: Ints, f: Reals, trace: Ints, root: int, bound: int, budget: int, _depth: int
) -> int:
    """Process the events up to `bound`; a port is idle when its end of sending was processed."""
    words = outside()
    last = (bound >> ENTITY_BITS) - 1
    limit = NEVER << ENTITY_BITS
    if last // 1000 + 1 < 1 << KEY_BITS - words[TIME_SHIFT]:
        limit = (last // 1000 + 1) << words[TIME_SHIFT]
    entities = (1 << words[SEQUENCE_SHIFT]) - 1
    status = REACHED
    count = 0
    while s[TREE + root] < limit:
        if count >= budget:
            status = PAUSED_FOR_BUDGET
            break
        if s[PACKET_BRK] > s[PACKET_LIMIT]:
            status = GROW_PACKETS
            break
        key = s[TREE + root]
        s[NOW] = (key >> words[TIME_SHIFT]) * 1000
        port = engine.process(s, f, trace, key & entities, s[NOW])
        if port < 0:
            status = -port
            break
        count += 1
        if port != 0 and s[port + PORT_TX_SCHEDULED] == 0:
            transmit(s, port, s[NOW])
        if s[STOP_WHEN_DONE] != 0 and s[DONE_MESSAGES] >= s[MESSAGE_COUNT]:
            status = ALL_DONE
            break
    s[EVENTS] += count
    return status


@jit
def send(s: Ints, port: int, packet: int, now: int) -> None:
    """Put a packet on the wire; its end and its arrival are planned now, in this order."""
    size = s[packet + PKT_INFO] & SIZE_MASK
    done = now + wire_time(s, port, size)
    s[port + PORT_TX_PACKETS] += 1
    s[port + PORT_TX_BYTES] += size
    s[LINK_PACKETS] += 1
    s[port + PORT_TX_SCHEDULED] = 1
    schedule(s, events.departure_of(s, port), done)
    link = events.arrival_of(s, port)
    arrival = moment(s, link, done + s[port + PORT_DELAY])
    s[packet + PKT_NEXT] = 0
    if s[port + PORT_LINK_HEAD] == 0:
        s[port + PORT_LINK_HEAD] = packet
        schedule(s, link, arrival)
    else:
        tail = s[port + PORT_LINK_TAIL]
        s[tail + PKT_NEXT] = packet
        s[tail + PKT_NEXT_TIME] = arrival
    s[port + PORT_LINK_TAIL] = packet


@jit
def arrive(s: Ints, f: Reals, port: int, entity: int, now: int) -> int:
    """Process an arrival; an acknowledgement or a resume frame has its port look for work."""
    info = s[s[port + PORT_LINK_HEAD] + PKT_INFO]
    came = s[port + PORT_REVERSE]
    sender_port = plain_arrive(s, f, port, entity, now)
    kind = info & KIND_MASK
    resumed = kind == PFC and info & XOFF == 0
    if resumed or (kind == ACK and s[came + PORT_SWITCH] == 0):
        return came
    return sender_port


@jit
def notified(s: Ints, f: Reals, qp: int, now: int) -> None:
    """React to a CNP; one at the very instant of an alpha update still counts for that update.

    In the reference a flow's first CNP cuts the rate even if it came with the last packet's ACK.
    """
    known = s[qp + QP_CONGESTED] != 0
    if not known and is_finished(s, qp):
        outside()[LATE_CUTS] += 1
    if known:
        reaction.current_alpha(s, f, qp, now - 1)
    at_update = (now - s[qp + QP_ALPHA_ORIGIN]) % s[s[qp + QP_PROFILE] + RP_ALPHA_PERIOD] == 0
    if known and at_update:
        s[qp + QP_ALPHA_CNP] = 1
    plain_notified(s, f, qp, now)
    if known and at_update:
        s[qp + QP_ALPHA_CNP] = 0


@jit
def cut_short(size: int, rate: int) -> int:
    """Return the 1 ns (in ps) by which floating point cuts a time that is whole nanoseconds.

    1,048 bytes at 100 Mb/s take 83,840 ns, but 8.384e-5 as a double is less: 83,839 ns.
    """
    for kind in range(len(RATES)):
        if rate == RATES[kind] and size < LARGEST:
            return outside()[SHORT + LARGEST * kind + size]
    return 0


@jit
def gap_of(s: Ints, size: int, rate: int) -> int:
    """Return the gap between packets (ps), as the reference's floating point has it."""
    return plain_gap(s, size, rate) - cut_short(size, rate)


@jit
def wire_time(s: Ints, port: int, size: int) -> int:
    """Return how long a packet is sent (ps), as the reference's floating point has it."""
    return plain_wire(s, port, size) - cut_short(size, PS_BITS // s[port + PORT_PS_BYTE])


@jit
def send_control(s: Ints, port: int, kind: int, priority: int, aux: int, now: int) -> None:
    """Queue a pause frame, whose header takes a random number in the reference."""
    random(s)
    plain_control(s, port, kind, priority, aux, now)


REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {
    engine.arrive: arrive,
    engine.run_tree: run_tree,
    egress.send: send,
    egress.transmit: transmit,
    egress.wire_time: wire_time,
    events.schedule: schedule,
    events.event_time: event_time,
    events.random: random,
    pause.send_control: send_control,
    reaction.gap_of: gap_of,
    reaction.notified: notified,
    sender.make_ready: make_ready,
    slots.close_slot: close_slot,
}


def install() -> None:
    """Have all modules of the engine call the functions of this one.

    What Python calls is compiled anew: the cache on disk is of the engine as it is.
    """
    for entry in (engine.run, events.plan, pause.resume, slots.open_all):
        REPLACED[entry] = jit(entry.py_func)  # type: ignore[attr-defined]
    for name, module in list(sys.modules.items()):
        if not name.startswith("simlab.packet."):
            continue
        for word, value in list(vars(module).items()):
            if callable(value) and value in REPLACED:
                setattr(module, word, REPLACED[value])

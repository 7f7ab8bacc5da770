"""The egress side of a port: which queue sends next, ECN marking, and putting bits on the link."""

from __future__ import annotations

from simlab.packet.events import arrival_of, departure_of, free_packet, random, schedule
from simlab.packet.jit import Ints, jit
from simlab.packet.layout import (
    CE,
    CONTROL,
    CREDIT,
    ECT,
    GROUP_FREED,
    GROUP_FREED_QUEUED,
    GROUP_PORT,
    GROUP_WORDS,
    HIGHEST_BIT,
    INFINIBAND,
    KIND_MASK,
    LINK_PACKETS,
    MARK_ENQUEUE,
    MTU_WIRE,
    PFC,
    PKT_AUX,
    PKT_GROUP,
    PKT_INFO,
    PKT_NEXT,
    PKT_NEXT_TIME,
    PKT_QP,
    PORT_BUSY_UNTIL,
    PORT_CREDIT,
    PORT_CREDIT_SINCE,
    PORT_CREDIT_WAIT,
    PORT_DELAY,
    PORT_GROUPS,
    PORT_LINK_HEAD,
    PORT_LINK_TAIL,
    PORT_PAUSED,
    PORT_PS_BYTE,
    PORT_PS_DEN,
    PORT_PS_NUM,
    PORT_PS_REM,
    PORT_QUEUES,
    PORT_READY,
    PORT_ROUND,
    PORT_STRICT,
    PORT_SWITCH,
    PORT_TX_BYTES,
    PORT_TX_PACKETS,
    PORT_TX_SCHEDULED,
    PORT_WAIT,
    PORT_WAIT_SINCE,
    PORT_WATCH_UNTIL,
    PRIORITY_SHIFT,
    QP_ALIVE,
    QP_SHIFT,
    QUEUE_BYTES,
    QUEUE_DEFICIT,
    QUEUE_DROPPED,
    QUEUE_DROPPED_BYTES,
    QUEUE_FECN_COUNT,
    QUEUE_FECN_RATE,
    QUEUE_HEAD,
    QUEUE_KMAX,
    QUEUE_KMIN,
    QUEUE_MARKED,
    QUEUE_OPTIONS,
    QUEUE_PMAX,
    QUEUE_QUANTUM,
    QUEUE_TX_BYTES,
    QUEUE_TX_PACKETS,
    QUEUE_WORDS,
    SIZE_MASK,
    SWITCH_EGRESS_USED,
    TRUNCATE_NS,
)
from simlab.packet.pause import kick, release, send_control
from simlab.packet.sender import qp_packet


@jit
def wire_time(s: Ints, port: int, size: int) -> int:
    """Return how long `size` bytes take on the port's wire (ps), never losing a fraction."""
    per_byte = s[port + PORT_PS_BYTE]
    if per_byte < 0:
        total = size * s[port + PORT_PS_NUM] + s[port + PORT_PS_REM]
        time = total // s[port + PORT_PS_DEN]
        s[port + PORT_PS_REM] = total - time * s[port + PORT_PS_DEN]
    else:
        time = size * per_byte
    if s[TRUNCATE_NS] != 0:
        time -= time % 1000
    return time


@jit
def marked(s: Ints, queue: int, length: int) -> bool:
    """Decide whether a queue of this length marks the packet (RED without averaging)."""
    over = length - s[queue + QUEUE_KMIN]
    if over <= 0:
        return False
    rate = s[queue + QUEUE_FECN_RATE]
    if rate > 0:
        s[queue + QUEUE_FECN_COUNT] += 1
        if s[queue + QUEUE_FECN_COUNT] <= rate:
            return False
        s[queue + QUEUE_FECN_COUNT] = 0
        return True
    span = s[queue + QUEUE_KMAX] - s[queue + QUEUE_KMIN]
    if over > span:
        return True
    return random(s) * span <= s[queue + QUEUE_PMAX] * over


@jit
def choose_weighted(s: Ints, port: int, mask: int) -> int:
    """Deficit weighted round robin (Shreedhar and Varghese) among the queues of `mask`."""
    bit = s[port + PORT_ROUND]
    while True:
        queue = port + PORT_QUEUES + bit * QUEUE_WORDS
        if mask >> bit & 1 != 0:
            size = s[s[queue + QUEUE_HEAD] + PKT_INFO] & SIZE_MASK
            if s[queue + QUEUE_DEFICIT] >= size:
                s[queue + QUEUE_DEFICIT] -= size
                s[port + PORT_ROUND] = bit
                return bit
        elif s[queue + QUEUE_HEAD] == 0:
            s[queue + QUEUE_DEFICIT] = 0
        bit = bit + 1 & 7
        queue = port + PORT_QUEUES + bit * QUEUE_WORDS
        if mask >> bit & 1 != 0:
            s[queue + QUEUE_DEFICIT] += s[queue + QUEUE_QUANTUM]


@jit
def fill_credit(s: Ints, port: int, packet: int) -> None:
    """Write all bytes freed so far into a credit update as it leaves (newest value wins)."""
    group = port + PORT_GROUPS + (s[packet + PKT_INFO] >> PRIORITY_SHIFT & 7) * GROUP_WORDS
    s[packet + PKT_AUX] = s[group + GROUP_FREED]
    s[group + GROUP_FREED] = 0
    s[group + GROUP_FREED_QUEUED] = 0


@jit
def return_credit(s: Ints, group: int, size: int, now: int) -> None:
    """IB: the receive buffer of this group has `size` more bytes to grant."""
    s[group + GROUP_FREED] += size
    if s[group + GROUP_FREED_QUEUED] == 0:
        s[group + GROUP_FREED_QUEUED] = 1
        port = s[group + GROUP_PORT]
        send_control(s, port, CREDIT, (group - port - PORT_GROUPS) // GROUP_WORDS, 0, now)


@jit
def spend_credit(s: Ints, port: int, priority: int, size: int, now: int) -> None:
    """IB: take credit for a packet; block the VL while less than one full packet is left."""
    left = s[port + PORT_CREDIT + priority] - size
    s[port + PORT_CREDIT + priority] = left
    if left < s[MTU_WIRE]:
        s[port + PORT_PAUSED] |= 1 << priority | 1 << (priority + QP_SHIFT)
        s[port + PORT_CREDIT_SINCE + priority] = now


@jit
def credit_received(s: Ints, port: int, priority: int, size: int, now: int) -> None:
    """IB: the far end granted `size` bytes."""
    left = s[port + PORT_CREDIT + priority] + size
    s[port + PORT_CREDIT + priority] = left
    bits = 1 << priority | 1 << (priority + QP_SHIFT)
    if left >= s[MTU_WIRE] and s[port + PORT_PAUSED] & bits != 0:
        s[port + PORT_PAUSED] &= ~bits
        if s[port + PORT_READY] & bits != 0:
            s[port + PORT_CREDIT_WAIT + priority] += now - s[port + PORT_CREDIT_SINCE + priority]
            kick(s, port, now)


@jit
def dequeue(s: Ints, port: int, bit: int, now: int) -> int:
    """Take the head packet of a queue: counters, ECN at dequeue, buffer accounting."""
    queue = port + PORT_QUEUES + bit * QUEUE_WORDS
    packet = s[queue + QUEUE_HEAD]
    following = s[packet + PKT_NEXT]
    s[queue + QUEUE_HEAD] = following
    if following == 0:
        s[port + PORT_READY] &= ~(1 << bit)
    info = s[packet + PKT_INFO]
    size = info & SIZE_MASK
    length = s[queue + QUEUE_BYTES] - size
    s[queue + QUEUE_BYTES] = length
    s[queue + QUEUE_TX_BYTES] += size
    s[queue + QUEUE_TX_PACKETS] += 1
    if (
        info & ECT != 0
        and s[queue + QUEUE_OPTIONS] & MARK_ENQUEUE == 0
        and marked(s, queue, length)
    ):
        s[queue + QUEUE_MARKED] += 1
        s[packet + PKT_INFO] = info | CE
    group = s[packet + PKT_GROUP]
    if group != 0:
        switch = s[port + PORT_SWITCH]
        s[switch + SWITCH_EGRESS_USED] -= size
        if s[INFINIBAND] != 0:
            return_credit(s, group, size, now)
        else:
            release(s, switch, group, size, now)
        s[packet + PKT_GROUP] = 0
    return packet


@jit
def flush(s: Ints, port: int, now: int) -> None:
    """Watchdog action: drop what waits in the stormed queues."""
    mask = s[port + PORT_WATCH_UNTIL] & s[port + PORT_READY]
    for bit in range(8):
        if mask >> bit & 1 != 0:
            queue = port + PORT_QUEUES + bit * QUEUE_WORDS
            while s[queue + QUEUE_HEAD] != 0:
                packet = dequeue(s, port, bit, now)
                s[queue + QUEUE_DROPPED] += 1
                s[queue + QUEUE_DROPPED_BYTES] += s[packet + PKT_INFO] & SIZE_MASK
                drop(s, packet)


@jit
def drop(s: Ints, packet: int) -> None:
    """Give a lost packet back to the pool."""
    if s[packet + PKT_INFO] & KIND_MASK < PFC:
        s[s[packet + PKT_QP] + QP_ALIVE] -= 1
    free_packet(s, packet)


@jit
def transmit(s: Ints, port: int, now: int) -> None:
    """Send the next packet of an idle port, if any queue may send."""
    ready = s[port + PORT_READY] & ~s[port + PORT_PAUSED]
    if ready == 0:
        if s[port + PORT_READY] != 0 and s[port + PORT_WAIT_SINCE] == 0:
            s[port + PORT_WAIT_SINCE] = now
        return
    if s[port + PORT_WAIT_SINCE] != 0:
        s[port + PORT_WAIT] += now - s[port + PORT_WAIT_SINCE]
        s[port + PORT_WAIT_SINCE] = 0
    queues = ready & 511
    if queues != 0:
        if queues & (queues - 1) == 0:
            bit = s[HIGHEST_BIT + queues]
        else:
            first = queues & (s[port + PORT_STRICT] | 1 << CONTROL)
            bit = s[HIGHEST_BIT + first] if first != 0 else choose_weighted(s, port, queues)
        packet = dequeue(s, port, bit, now)
        if bit == CONTROL and s[packet + PKT_INFO] & KIND_MASK == CREDIT:
            fill_credit(s, port, packet)
    else:
        packet = qp_packet(s, port, ready >> QP_SHIFT, now)
        if packet == 0:
            kick(s, port, now)
            return
    send(s, port, packet, now)


@jit
def send(s: Ints, port: int, packet: int, now: int) -> None:
    """Put a packet on the wire and plan what follows: its arrival, and the next packet."""
    size = s[packet + PKT_INFO] & SIZE_MASK
    done = now + wire_time(s, port, size)
    s[port + PORT_BUSY_UNTIL] = done
    s[port + PORT_TX_PACKETS] += 1
    s[port + PORT_TX_BYTES] += size
    s[LINK_PACKETS] += 1
    if s[INFINIBAND] != 0 and s[packet + PKT_INFO] & KIND_MASK != CREDIT:
        spend_credit(s, port, s[packet + PKT_INFO] >> PRIORITY_SHIFT & 7, size, now)
    arrival = done + s[port + PORT_DELAY]
    s[packet + PKT_NEXT] = 0
    if s[port + PORT_LINK_HEAD] == 0:
        s[port + PORT_LINK_HEAD] = packet
        schedule(s, arrival_of(s, port), arrival)
    else:
        last = s[port + PORT_LINK_TAIL]
        s[last + PKT_NEXT] = packet
        s[last + PKT_NEXT_TIME] = arrival
    s[port + PORT_LINK_TAIL] = packet
    ready = s[port + PORT_READY]
    if ready != 0:
        if ready & ~s[port + PORT_PAUSED] == 0:
            s[port + PORT_WAIT_SINCE] = done
        elif s[port + PORT_TX_SCHEDULED] == 0:
            s[port + PORT_TX_SCHEDULED] = 1
            schedule(s, departure_of(s, port), done)

"""Priority flow control: the shared buffer's ingress side, pause frames out and in, watchdog.

Buffer model (SIGCOMM'15 section 3, SONiC's ingress profiles): each (port, priority) group may use
its reserve, then the shared pool up to a dynamic threshold alpha x (pool - used) or a static one,
then its own headroom. Above the threshold the upstream port is paused.
"""

from __future__ import annotations

from simlab.packet.events import (
    departure_of,
    event_time,
    new_packet,
    pause_timer_of,
    schedule,
)
from simlab.packet.jit import Ints, entry, ints, jit
from simlab.packet.layout import (
    CONTROL,
    CONTROL_BYTES,
    DEAF_SHIFT,
    GROUP_ALPHA,
    GROUP_BIT,
    GROUP_BYTES,
    GROUP_DROPPED,
    GROUP_HEADROOM,
    GROUP_HEADROOM_MAX,
    GROUP_HEADROOM_USED,
    GROUP_LOSSLESS,
    GROUP_MAX,
    GROUP_PAUSE_TX,
    GROUP_PORT,
    GROUP_REFRESH,
    GROUP_RESERVED,
    GROUP_RESUME_TX,
    GROUP_TIME,
    GROUP_WORDS,
    GROUP_XOFF,
    GROUP_XOFF_SENT,
    GROUP_XON_OFFSET,
    IN_HEADROOM,
    NEVER,
    NOW,
    PFC,
    PKT_AUX,
    PKT_GROUP,
    PKT_INFO,
    PKT_NEXT,
    PORT_BUSY_UNTIL,
    PORT_DRAIN_NUM,
    PORT_GROUPS,
    PORT_PAUSE_END,
    PORT_PAUSE_EPISODES,
    PORT_PAUSE_PS,
    PORT_PAUSE_RX,
    PORT_PAUSE_SINCE,
    PORT_PAUSE_TIME,
    PORT_PAUSED,
    PORT_QUEUES,
    PORT_READY,
    PORT_RESUME_RX,
    PORT_RX_XON,
    PORT_STORM,
    PORT_TROUBLE,
    PORT_TX_SCHEDULED,
    PORT_WATCH_END,
    PORT_WATCH_EVENTS,
    PORT_WATCH_RESTORE,
    PORT_WATCH_UNTIL,
    PORT_WATCHDOG,
    QP_SHIFT,
    QUEUE_BYTES,
    QUEUE_HEAD,
    QUEUE_TAIL,
    QUEUE_WATERMARK,
    QUEUE_WORDS,
    RATIO_ONE,
    SIZE_MASK,
    STORMED,
    SWITCH_PAUSE_EACH,
    SWITCH_POOL,
    SWITCH_USED,
    XOFF,
)


@jit
def kick(s: Ints, port: int, now: int) -> None:
    """Let an idle port look at its queues again, at once or when it is done sending."""
    if s[port + PORT_TX_SCHEDULED] == 0:
        s[port + PORT_TX_SCHEDULED] = 1
        schedule(s, departure_of(s, port), max(now, s[port + PORT_BUSY_UNTIL]))


@jit
def append(s: Ints, port: int, queue_bit: int, packet: int, size: int) -> int:
    """Put a packet at the end of an egress queue; return the new length in bytes."""
    queue = port + PORT_QUEUES + queue_bit * QUEUE_WORDS
    s[packet + PKT_NEXT] = 0
    if s[queue + QUEUE_HEAD] == 0:
        s[queue + QUEUE_HEAD] = packet
        s[port + PORT_READY] |= 1 << queue_bit
    else:
        s[s[queue + QUEUE_TAIL] + PKT_NEXT] = packet
    s[queue + QUEUE_TAIL] = packet
    length = s[queue + QUEUE_BYTES] + size
    s[queue + QUEUE_BYTES] = length
    s[queue + QUEUE_WATERMARK] = max(s[queue + QUEUE_WATERMARK], length)
    return length


@jit
def send_control(s: Ints, port: int, kind: int, priority: int, aux: int, now: int) -> None:
    """Queue a PFC frame or credit update in front of everything else on `port`."""
    packet = new_packet(s)
    size = s[CONTROL_BYTES]
    s[packet + PKT_INFO] = size | priority << 16 | kind
    s[packet + PKT_AUX] = aux
    s[packet + PKT_GROUP] = 0
    append(s, port, CONTROL, packet, size)
    kick(s, port, now)


@jit
def send_xoff(s: Ints, group: int, now: int) -> None:
    """Pause the upstream port of this group and remember when to say so again."""
    port = s[group + GROUP_PORT]
    pause_ps = s[port + PORT_PAUSE_PS]
    s[group + GROUP_XOFF_SENT] = 1
    s[group + GROUP_PAUSE_TX] += 1
    send_control(s, port, PFC | XOFF, s[group + GROUP_BIT], pause_ps, now)
    if pause_ps > 0:
        s[group + GROUP_REFRESH] = now + pause_ps // 2
        arm(s, port, now + pause_ps // 2)


@jit
def send_xon(s: Ints, group: int, now: int) -> None:
    """Resume the upstream port of this group."""
    port = s[group + GROUP_PORT]
    s[group + GROUP_XOFF_SENT] = 0
    s[group + GROUP_RESUME_TX] += 1
    s[group + GROUP_REFRESH] = NEVER
    send_control(s, port, PFC, s[group + GROUP_BIT], 0, now)


@jit
def arm(s: Ints, port: int, time: int) -> None:
    """Have the port's pause timer fire no later than `time`."""
    entity = pause_timer_of(s, port)
    if time < event_time(s, entity):
        schedule(s, entity, time)


@jit
def threshold(s: Ints, switch: int, group: int) -> int:
    """Return the shared bytes that this group may hold before it pauses its peer."""
    alpha = s[group + GROUP_ALPHA]
    if alpha < 0:
        return s[group + GROUP_XOFF]
    return alpha * (s[switch + SWITCH_POOL] - s[switch + SWITCH_USED]) // RATIO_ONE


@jit
def admit(s: Ints, switch: int, group: int, packet: int, size: int, now: int) -> bool:
    """Account an arriving packet to its group; False if it must be dropped. May send XOFF."""
    held = s[group + GROUP_BYTES]
    reserved = s[group + GROUP_RESERVED]
    total = held + size
    limit = threshold(s, switch, group)
    if total > reserved:
        if total - reserved > limit:
            in_headroom = s[group + GROUP_HEADROOM_USED] + size
            if in_headroom > s[group + GROUP_HEADROOM]:
                s[group + GROUP_DROPPED] += 1
                return False
            s[group + GROUP_HEADROOM_USED] = in_headroom
            s[group + GROUP_HEADROOM_MAX] = max(s[group + GROUP_HEADROOM_MAX], in_headroom)
            total = held
            s[packet + PKT_INFO] |= IN_HEADROOM
        else:
            s[switch + SWITCH_USED] += min(size, total - reserved)
    s[group + GROUP_BYTES] = total
    s[group + GROUP_MAX] = max(s[group + GROUP_MAX], total + s[group + GROUP_HEADROOM_USED])
    s[packet + PKT_GROUP] = group
    if s[group + GROUP_LOSSLESS] != 0:
        over = s[group + GROUP_HEADROOM_USED] > 0
        if not over and total > reserved:
            over = total - reserved >= threshold(s, switch, group)
        if over and (s[group + GROUP_XOFF_SENT] == 0 or s[switch + SWITCH_PAUSE_EACH] != 0):
            send_xoff(s, group, now)
    return True


@jit
def release(s: Ints, switch: int, group: int, size: int, now: int) -> None:
    """Take a departing packet out of its group, headroom first; may send XON."""
    headroom = min(s[group + GROUP_HEADROOM_USED], size)
    rest = size - headroom
    held = s[group + GROUP_BYTES]
    reserved = s[group + GROUP_RESERVED]
    s[group + GROUP_HEADROOM_USED] -= headroom
    if held > reserved:
        s[switch + SWITCH_USED] -= min(rest, held - reserved)
    held -= rest
    s[group + GROUP_BYTES] = held
    if s[group + GROUP_XOFF_SENT] != 0 and s[group + GROUP_HEADROOM_USED] == 0:
        shared = held - reserved
        if shared <= 0 or shared + s[group + GROUP_XON_OFFSET] <= threshold(s, switch, group):
            send_xon(s, group, now)


@jit
def block(s: Ints, port: int, priority: int, until: int, now: int) -> None:
    """Stop sending this priority until `until` (NEVER: until resumed)."""
    bits = 1 << priority | 1 << (priority + QP_SHIFT)
    if s[port + PORT_PAUSED] & bits == 0:
        s[port + PORT_PAUSED] |= bits
        s[port + PORT_PAUSE_SINCE + priority] = now
        s[port + PORT_PAUSE_EPISODES + priority] += 1
        detection = s[port + PORT_WATCHDOG]
        if detection > 0:
            s[port + PORT_WATCH_END + priority] = now + detection
            arm(s, port, now + detection)
    s[port + PORT_PAUSE_END + priority] = until
    if until != NEVER:
        arm(s, port, until)


@jit
def unblock(s: Ints, port: int, priority: int, now: int) -> None:
    """Let this priority send again."""
    bits = 1 << priority | 1 << (priority + QP_SHIFT)
    s[port + PORT_PAUSE_END + priority] = NEVER
    if s[port + PORT_WATCH_UNTIL] >> priority & 1 == 0:  # else it is when dropping ends
        s[port + PORT_WATCH_END + priority] = NEVER
    if s[port + PORT_PAUSED] & bits != 0:
        s[port + PORT_PAUSED] &= ~bits
        s[port + PORT_PAUSE_TIME + priority] += now - s[port + PORT_PAUSE_SINCE + priority]
        if s[port + PORT_READY] & bits != 0:
            kick(s, port, now)


@jit
def pause_received(s: Ints, port: int, info: int, pause_ps: int, now: int) -> None:
    """Obey a PFC frame that arrived at `port`."""
    priority = info >> 16 & 7
    if info & XOFF != 0:
        s[port + PORT_PAUSE_RX + priority] += 1
        ignored = s[port + PORT_WATCH_UNTIL]
        if (ignored | ignored >> DEAF_SHIFT) >> priority & 1 == 0:
            block(s, port, priority, now + pause_ps if pause_ps > 0 else NEVER, now)
    else:
        s[port + PORT_RESUME_RX] += 1
        unblock(s, port, priority, now)


@jit
def pause_timer(s: Ints, port: int, now: int) -> None:
    """Do everything of this port's pausing that is due, and re-arm for the rest."""
    again = NEVER
    for priority in range(8):
        group = port + PORT_GROUPS + priority * GROUP_WORDS
        if s[port + PORT_WATCH_END + priority] <= now:
            if s[port + PORT_WATCH_UNTIL] >> priority & 1 == 0:
                # The watchdog calls this a storm: ignore pauses and drop until restored.
                s[port + PORT_WATCH_EVENTS] += 1
                unblock(s, port, priority, now)
                s[port + PORT_WATCH_UNTIL] |= 1 << priority
                s[port + PORT_TROUBLE] |= STORMED
                s[port + PORT_WATCH_END + priority] = now + s[port + PORT_WATCH_RESTORE]
            else:
                s[port + PORT_WATCH_UNTIL] &= ~(1 << priority)
                if s[port + PORT_WATCH_UNTIL] & 255 == 0:
                    s[port + PORT_TROUBLE] &= ~STORMED
                s[port + PORT_WATCH_END + priority] = NEVER
        if s[port + PORT_PAUSE_END + priority] <= now:
            unblock(s, port, priority, now)
        if s[port + PORT_STORM] >> priority & 1 != 0:
            if s[group + GROUP_REFRESH] <= now or s[group + GROUP_XOFF_SENT] == 0:
                send_xoff(s, group, now)
        elif s[group + GROUP_XOFF_SENT] != 0 and s[group + GROUP_REFRESH] <= now:
            if s[port + PORT_DRAIN_NUM] > 0:
                drained(s, port, group, now)
            else:
                send_xoff(s, group, now)
        if s[group + GROUP_XOFF_SENT] != 0:
            again = min(again, s[group + GROUP_REFRESH])
        again = min(again, s[port + PORT_PAUSE_END + priority], s[port + PORT_WATCH_END + priority])
    schedule(s, pause_timer_of(s, port), again)


@jit
def drained(s: Ints, port: int, group: int, now: int) -> None:
    """Resume a slow receiver's peer if its buffer has emptied to XON, else pause it further."""
    occupied = s[group + GROUP_BYTES] - (now - s[group + GROUP_TIME]) // s[port + PORT_DRAIN_NUM]
    over = occupied - s[port + PORT_RX_XON]
    if over <= 0:
        send_xon(s, group, now)
        return
    s[group + GROUP_XOFF_SENT] = 0
    pause_ps = s[port + PORT_PAUSE_PS]
    send_xoff(s, group, now)
    empty_at = now + over * s[port + PORT_DRAIN_NUM]
    if pause_ps == 0 or empty_at < s[group + GROUP_REFRESH]:
        s[group + GROUP_REFRESH] = empty_at


@jit
def packet_size(info: int) -> int:
    """Return the bytes on the wire from a packet's info word."""
    return info & SIZE_MASK


@entry
def resume(state: Ints, group: int) -> None:
    """Send XON for a group from outside the event loop."""
    s = ints(state)
    send_xon(s, group, s[NOW])

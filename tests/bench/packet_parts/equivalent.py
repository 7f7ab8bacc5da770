"""Mutants that cannot change a result, with the reason: what `Mutant.key` gives -> why."""

_FLAG = "a flag: every use asks whether it is 0"
_BYTE = "a byte takes at least 1 ps, or the word is -1: it is never 0"
_DONE = "a slot is not closed while packets are alive, and with none it is looked at anyway"
_SLOTS = "there is a slot for every flow"
_PICOSECOND = "a pause of 1 ps would be renewed at once for ever: no run with one ends"
_EMPTY = "word 0 of the state is 0: handle 0 is an empty list"
_SAME = "both sides lead to the same time"
_QUEUE = "it is -1 or the control queue, 8"
_LONG_AGO = "both are longer ago than the 17.6 s that a run may last"
_AHEAD = "only whether memory is fetched ahead"
_CURSOR = "a path is never at word 0 or 1: those are of the header"

EQUIVALENT: dict[str, str] = {
    "egress: if per_byte < 0:: 0 -> 1": _BYTE,
    "egress: if per_byte < 0:: Lt -> LtE: per_byte < 0": _BYTE,
    "engine: if s[row + PORT_TROUBLE] & STORMED != 0:: 0 -> 1": (
        "flush drops nothing in a port whose queues are not being dropped"
    ),
    "engine: deep = depth > CACHED_LEVELS: Gt -> GtE: depth > CACHED_LEVELS": _AHEAD,
    "pause: if pause_ps > 0:: 0 -> 1": _PICOSECOND,
    "pause: block(s, port, priority, now + pause_ps if pause_ps > 0 else NEVER, now): 0 -> 1": (
        _PICOSECOND
    ),
    "pause: if time < event_time(s, entity):: Lt -> LtE: time < event_time(s, entity)": (
        "the event is set to the time that it has"
    ),
    "pause: if held > reserved:: Gt -> GtE: held > reserved": (
        "a group that holds just its reserve gives nothing back to the pool"
    ),
    "posting: if gates != 0:: 0 -> 1": _EMPTY,
    "posting: if successors == 0:: 0 -> 1": _EMPTY,
    "egress: send_control(s, port, CREDIT, (group - port - PORT_GROUPS) // GROUP_WORDS, 0, "
    "now): 0 -> 1": ("fill_credit writes the word when the update leaves"),
    "pause: s[group + GROUP_XOFF_SENT] = 0: 0 -> 1": ("send_xoff sets it in the next step"),
    "pause: if pause_ps == 0 or empty_at < s[group + GROUP_REFRESH]:: Lt -> LtE: empty_at < "
    "s[group + GROUP_REFRESH]": _SAME,
    "posting: while child > 1:: Gt -> GtE: child > 1": (
        "the word in front of the root is 0 and ends it"
    ),
    "posting: if child < size and s[base + 2 * child + 2] < s[base + 2 * child]:: Lt -> LtE: "
    "child < size": ("the word behind the last is the one that moves: it goes no deeper"),
    "reaction: if time < s[qp + QP_TIMER_AT]:: Lt -> LtE: time < s[qp + QP_TIMER_AT]": _SAME,
    "reaction: if left > 0 and rate > before:: Gt -> GtE: left > 0": _SAME,
    "reaction: if left > 0 and rate > before:: Gt -> GtE: rate > before": _SAME,
    "reaction: if period > 0:: Gt -> GtE: period > 0": ("compiled code divides by 0 to 0 steps"),
    "receiver: if s[port + PORT_PAUSE_PS] == 0 or empty_at < s[group + GROUP_REFRESH]:: 0 -> 1": (
        "without quanta the refresh is NEVER, later than any time"
    ),
    "receiver: if s[port + PORT_PAUSE_PS] == 0 or empty_at < s[group + GROUP_REFRESH]:: Lt "
    "-> LtE: empty_at < s[group + GROUP_REFRESH]": _SAME,
    "receiver: if s[message + MSG_RECEIVED] == s[message + MSG_REPEAT] and s[message + "
    "MSG_NEXT] != 0:: 0 -> 1": ("nothing more arrives after the last message"),
    "receiver: return 1: 1 -> 2": _FLAG,
    "receiver: elif psn > expected:: Gt -> GtE: psn > expected": ("equal was asked before"),
    "receiver: if kind != 0 and s[NAK_CNP] != 0:: 0 -> 1": (
        "without an answer the flag goes nowhere"
    ),
    "receiver: append(s, port, priority if queue < 0 else queue, packet, size): 0 -> 1": _QUEUE,
    "receiver: append(s, port, priority if queue < 0 else queue, packet, size): Lt -> LtE: "
    "queue < 0": _QUEUE,
    "sender: if s[qp + QP_RTX] < s[qp + QP_HIGH_SACK]:: Lt -> LtE: s[qp + QP_RTX] < s[qp + "
    "QP_HIGH_SACK]": ("at the end nothing is missing: it asks again"),
    "sender: elif psn < s[qp + QP_NEXT_PSN]:: Lt -> LtE: psn < s[qp + QP_NEXT_PSN]": (
        "nothing is sent again, and the cursor is there already"
    ),
    "sender: if psn > s[qp + QP_NEXT_PSN]:  # acknowledged while going back: no need to send "
    "it again: Gt -> GtE: psn > s[qp + QP_NEXT_PSN]": ("the cursor is there already"),
    "sender: return s[qp + QP_UNACKED] >= s[qp + QP_END]: GtE -> Gt: s[qp + QP_UNACKED] >= "
    "s[qp + QP_END]": _DONE,
    "engine: done = False: False -> True": _DONE,
    "slots: return False: False -> True": _SLOTS,
    "sender: if received < s[qp + QP_UNACKED]:: Lt -> LtE: received < s[qp + QP_UNACKED]": (
        "a packet that arrived is never the first one missing"
    ),
    "sender: while message != 0:: 0 -> 1": ("it leaves in front of a message 0"),
    "sender: if s[message + MSG_NEXT] == 0:: 0 -> 1": (
        "only behind the last packet of all, when nothing is sent any more"
    ),
    "slots: LONG_AGO = -(10**15): 10 -> 11": _LONG_AGO,
    "slots: LONG_AGO = -(10**15): 15 -> 16": _LONG_AGO,
    "slots: if sack != 0:: 0 -> 1": ("without selective repeat the bitmaps have no words"),
    "slots: if sack != 0:: NotEq -> Eq: sack != 0": (
        "the bits are taken out as they are acknowledged"
    ),
    "slots: if s[qp + QP_UNACKED] >= s[message + MSG_PACKETS] and s[qp + QP_NEXT_PSN] > 0:: "
    "Gt -> GtE: s[qp + QP_NEXT_PSN] > 0": ("what is acknowledged was sent"),
    "slots: if qp == 0:: 0 -> 1": _SLOTS,
    "switching: if cursor >= 0:: 0 -> 1": _CURSOR,
    "switching: if cursor >= 0:: GtE -> Gt: cursor >= 0": _CURSOR,
    "switching: stormed = s[port + PORT_TROUBLE] & STORMED != 0: 0 -> 1": (
        "a queue is only being dropped where STORMED is set"
    ),
    "switching: s[queue + QUEUE_OPTIONS] & LIMITED != 0 and over_limit(s, switch, queue, "
    "size): 0 -> 1": ("without a limit none is exceeded"),
    "engine: stop = depth > 0 and s[STOP_WHEN_DONE] != 0: 0 -> 1": (
        "the only tree is deeper than one level: the smallest fabric has a dozen entities"
    ),
    "engine: index = begin if step > 0 else end - 1: Gt -> GtE: step > 0": "it is 1 or -1",
    "engine: if begin <= index + 2 * step < end:: 2 -> 3": _AHEAD,
    "engine: if begin <= index + 2 * step < end:: LtE -> Lt: begin <= index + 2 * step < end": (
        _AHEAD
    ),
    "engine: if begin <= index + 2 * step < end:: Lt -> LtE: begin <= index + 2 * step < end": (
        _AHEAD
    ),
    "engine: fetch_region(s, index + 2 * step): 2 -> 3": _AHEAD,
    "engine: if begin <= index + step < end:: LtE -> Lt: begin <= index + step < end": _AHEAD,
    "engine: if begin <= index + step < end:: Lt -> LtE: begin <= index + step < end": _AHEAD,
    "engine: if s[TREE + s[ROOTS] + index] < bound:: Lt -> LtE: s[TREE + s[ROOTS] + index] < "
    "bound": "a region is entered that has nothing to do before the bound",
    "engine: return PAUSED_FOR_BUDGET if s[EVENTS] >= last else REACHED: GtE -> Gt: s[EVENTS] >= "
    "last": "only how often it looks up",
    "engine: even = odd = -1: 1 -> 2": "the next line raises both to the first event",
    "engine: even = max(even, soonest(s) - 1): 1 -> 2": (
        "the window begins 1 ps sooner, where nothing happens"
    ),
    "hashing: if register & 0x10000 != 0:: 65536 -> 65537": "bit 0 was just shifted in as 0",
    "hashing: if whole < size:: Lt -> LtE: whole < size": "a block of no bytes is 0 and mixes to 0",
    "hashing: key = np.zeros(32, dtype=np.int64): 32 -> 33": "room to work in",
    "hashing: hops = -1: 1 -> 2": "every use asks whether it is below 0",
    "hashing: if count > 1:: Gt -> GtE: count > 1": "the remainder of a division by 1 is 0",
    "engine: for index in range(1, s[REGION_COUNT] + 1):: 1 -> 2 (2)": (
        "the word behind the last root is NEVER or a branch of the first"
    ),
    "engine: stop = run_tree(s, f, trace, s[ROOTS] + s[REGION_COUNT], bound, NEVER, 0): 0 -> 1": (
        "a start or a sample ends no message, and none comes in the window in which all ended"
    ),
}

"""Mutants that cannot change a result, with the reason: what `Mutant.key` gives -> why."""

_FLAG = "a flag: every use asks whether it is 0"
_BYTE = "a byte takes at least 1 ps, or the word is -1: it is never 0"
_RARE = "the two are equal for one draw in two billion"
_DONE = "close_slot looks again: it does not close a QP that is not done or has packets alive"
_PICOSECOND = "no such time is 1 ps"
_RESERVE = "at the reserve itself nothing is taken from the pool or given back"
_EMPTY = "word 0 of the state is 0: handle 0 is an empty list"

EQUIVALENT: dict[str, str] = {
    "egress: if per_byte < 0:: 0 -> 1": _BYTE,
    "egress: if per_byte < 0:: Lt -> LtE: per_byte < 0": _BYTE,
    "egress: return random(s) * span <= s[queue + QUEUE_PMAX] * over: LtE -> Lt: "
    "random(s) * span <= s[queue + QUEUE_PMAX] * over": _RARE,
    "egress: s[group + GROUP_FREED_QUEUED] = 1: 1 -> 2": _FLAG,
    "egress: s[port + PORT_TX_SCHEDULED] = 1: 1 -> 2": _FLAG,
    "engine: return s[port + PORT_ERROR] > 0 and random(s) <= s[port + PORT_ERROR]: 0 -> 1": (
        "1 is a loss probability of one in two billion"
    ),
    "engine: return s[port + PORT_ERROR] > 0 and random(s) <= s[port + PORT_ERROR]: LtE -> Lt: "
    "random(s) <= s[port + PORT_ERROR]": _RARE,
    "engine: if s[RECYCLE] != 0 and (done or s[qp + QP_ALIVE] == 0):: 0 -> 1 (2)": _DONE,
    "engine: if s[RECYCLE] != 0 and (done or s[qp + QP_ALIVE] == 0):: Eq -> NotEq: "
    "s[qp + QP_ALIVE] == 0": _DONE,
    "engine: deep = depth > CACHED_LEVELS: Gt -> GtE: depth > CACHED_LEVELS": (
        "only whether memory is fetched ahead"
    ),
    "engine: if events >= budget:: GtE -> Gt: events >= budget": "only how often it looks up",
    "engine: if s[PACKET_BRK] > s[PACKET_LIMIT]:: Gt -> GtE: s[PACKET_BRK] > s[PACKET_LIMIT]": (
        "only when the pool grows"
    ),
    "events: while node > 1:: Gt -> GtE: node > 1": "the word beside the root is 0 and ends it",
    "events: if z < 1:: 1 -> 2": _RARE,
    "events: if z < 1:: Lt -> LtE: z < 1": _RARE,
    "pause: s[port + PORT_TX_SCHEDULED] = 1: 1 -> 2": _FLAG,
    "pause: s[group + GROUP_XOFF_SENT] = 1: 1 -> 2": _FLAG,
    "pause: if pause_ps > 0:: 0 -> 1": _PICOSECOND,
    "pause: block(s, port, priority, now + pause_ps if pause_ps > 0 else NEVER, now): 0 -> 1": (
        _PICOSECOND
    ),
    "pause: if detection > 0:: 0 -> 1": _PICOSECOND,
    "pause: if s[port + PORT_DRAIN_NUM] > 0:: 0 -> 1": "1 ps per byte would be 8 Tb/s",
    "pause: send_control(s, port, PFC, s[group + GROUP_BIT], 0, now): 0 -> 1": (
        "nobody reads the length in a resume frame"
    ),
    "pause: if time < event_time(s, entity):: Lt -> LtE: time < event_time(s, entity)": (
        "the event is set to the time that it has"
    ),
    "pause: if total > reserved:: Gt -> GtE: total > reserved": _RESERVE,
    "pause: if held > reserved:: Gt -> GtE: held > reserved": _RESERVE,
    "posting: s[message + MSG_FIRST_POST_DONE] = 1: 1 -> 2": _FLAG,
    "posting: if gates != 0:: 0 -> 1": _EMPTY,
    "posting: if successors == 0:: 0 -> 1": _EMPTY,
}

"""Mutants that cannot change a result, with the reason: what `Mutant.key` gives -> why."""

_FLAG = "a flag: every use asks whether it is 0"
_BYTE = "a byte takes at least 1 ps, or the word is -1: it is never 0"
_RARE = "the two are equal for one draw in two billion"
_DONE = "close_slot looks again: it does not close a QP that is not done or has packets alive"

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
}

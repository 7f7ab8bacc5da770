"""The reaction point: DCQCN in the paper's and the firmware's form, and InfiniBand's CCT.

Paper form (SIGCOMM'15): every CNP cuts at once. Firmware form (ConnectX-4 and later, and the HPCC
and conweave simulators): alpha is updated each alpha period by "was there a CNP", and at most one
cut is made per monitor window. Alpha is brought up to date only when it is read, and a monitor
instant exists only when a CNP waits for it: the values are those of periodic timers.
"""

from __future__ import annotations

from simlab.packet.events import schedule
from simlab.packet.jit import Ints, Reals, jit
from simlab.packet.layout import (
    FLOAT_ALPHA,
    HURRY,
    MTU_WIRE,
    NEVER,
    PACING,
    QP_ALPHA_CNP,
    QP_ALPHA_ORIGIN,
    QP_ALPHA_TICKS,
    QP_BYTE_COUNT,
    QP_CCTI,
    QP_CCTI_TIME,
    QP_CNP_RX,
    QP_CNP_SEEN,
    QP_CONGESTED,
    QP_CUT_AT,
    QP_CUTS,
    QP_FLOAT,
    QP_GAP,
    QP_GAP_CARRY,
    QP_GAP_REST,
    QP_HELD_UNTIL,
    QP_ID,
    QP_INCREASE_AT,
    QP_INCREASES,
    QP_NEXT_TIME,
    QP_PROFILE,
    QP_RATE,
    QP_STAGE_B,
    QP_STAGE_T,
    QP_STATE,
    QP_TARGET,
    QP_TIMER_AT,
    TRUNCATE_NS,
)
from simlab.packet.profile_layout import (
    IB_CCT,
    OFF,
    PAPER,
    RP_AI,
    RP_ALPHA_PERIOD,
    RP_ALPHA_START,
    RP_BYTES,
    RP_CCT,
    RP_CCT_INCREASE,
    RP_CCT_LIMIT,
    RP_CCT_MIN,
    RP_CCT_TIMER,
    RP_CLAMP,
    RP_CLAMP_TIMER,
    RP_FIRST,
    RP_FLOAT,
    RP_FORM,
    RP_G,
    RP_GAIN,
    RP_HAI,
    RP_HYPER_SCALED,
    RP_MAX,
    RP_MIN,
    RP_MIN_DECREASE,
    RP_STAGES,
    RP_TIMER,
    RP_WINDOW,
    RP_WINDOW_OFFSET,
)

PS_BITS = 8 * 10**12  # ps per second x bits per byte


@jit
def gap_of(s: Ints, size: int, rate: int) -> int:
    """Return the whole ps between the starts of two packets of `size` bytes at `rate` bit/s."""
    gap = size * PS_BITS // rate
    if s[TRUNCATE_NS] != 0:
        gap -= gap % 1000
    return gap


@jit
def set_rate(s: Ints, qp: int, rate: int) -> None:
    """Change the QP's current rate and the gap that paces it."""
    s[qp + QP_RATE] = rate
    s[qp + QP_GAP] = gap_of(s, s[MTU_WIRE], rate)
    s[qp + QP_GAP_CARRY] = 0
    s[qp + QP_GAP_REST] = 0
    if s[TRUNCATE_NS] == 0:
        s[qp + QP_GAP_REST] = s[MTU_WIRE] * PS_BITS - s[qp + QP_GAP] * rate


@jit
def arm_qp(s: Ints, qp: int, time: int) -> None:
    """Have the QP's timer fire no later than `time`."""
    if time < s[qp + QP_TIMER_AT]:
        s[qp + QP_TIMER_AT] = time
        schedule(s, s[qp + QP_ID] + 1, time)


@jit
def current_alpha(s: Ints, f: Reals, qp: int, now: int) -> float:
    """Bring alpha up to `now`: one step per alpha period since the origin."""
    profile = s[qp + QP_PROFILE]
    at = s[qp + QP_FLOAT] + FLOAT_ALPHA
    alpha = f[at]
    g = f[s[profile + RP_FLOAT] + RP_G]
    ticks = (now - s[qp + QP_ALPHA_ORIGIN]) // s[profile + RP_ALPHA_PERIOD]
    elapsed = ticks - s[qp + QP_ALPHA_TICKS]
    if elapsed > 0:
        if s[qp + QP_ALPHA_CNP] != 0:
            alpha = (1.0 - g) * alpha + g
            s[qp + QP_ALPHA_CNP] = 0
            elapsed -= 1
        alpha *= (1.0 - g) ** elapsed
        s[qp + QP_ALPHA_TICKS] = ticks
        f[at] = alpha
    return alpha


@jit
def cut(s: Ints, f: Reals, qp: int, now: int) -> None:
    """Cut the rate by the current alpha and restart the increase cycle."""
    profile = s[qp + QP_PROFILE]
    floats = s[profile + RP_FLOAT]
    alpha = current_alpha(s, f, qp, now)
    rate = s[qp + QP_RATE]
    timer_last = s[profile + RP_CLAMP_TIMER] != 0 and s[qp + QP_STAGE_T] > 0
    if s[profile + RP_CLAMP] != 0 or timer_last:
        s[qp + QP_TARGET] = rate
    factor = max(1.0 - alpha * f[floats + RP_GAIN], f[floats + RP_MIN_DECREASE])
    set_rate(s, qp, max(s[profile + RP_MIN], int(rate * factor)))
    s[qp + QP_STAGE_T] = 0
    s[qp + QP_STAGE_B] = 0
    s[qp + QP_BYTE_COUNT] = s[profile + RP_BYTES]
    s[qp + QP_CUTS] += 1
    s[qp + QP_INCREASE_AT] = now + s[profile + RP_TIMER]
    arm_qp(s, qp, s[qp + QP_INCREASE_AT])


@jit
def notified(s: Ints, f: Reals, qp: int, now: int) -> None:
    """React to one CNP (IB: BECN) of this QP."""
    profile = s[qp + QP_PROFILE]
    s[qp + QP_CNP_RX] += 1
    form = s[profile + RP_FORM]
    if form == OFF:
        return
    if form == IB_CCT:
        table_index(s, qp, now)
        s[qp + QP_CCTI] = min(
            s[profile + RP_CCT_LIMIT], s[qp + QP_CCTI] + s[profile + RP_CCT_INCREASE]
        )
        return
    first = s[qp + QP_CONGESTED] == 0
    if first:
        s[qp + QP_CONGESTED] = 1
        f[s[qp + QP_FLOAT] + FLOAT_ALPHA] = f[s[profile + RP_FLOAT] + RP_ALPHA_START]
        s[qp + QP_ALPHA_ORIGIN] = now
        s[qp + QP_ALPHA_TICKS] = 0
        s[qp + QP_ALPHA_CNP] = 0
        if s[profile + RP_FIRST] > 0:
            set_rate(s, qp, min(s[qp + QP_RATE], s[profile + RP_FIRST]))
        s[qp + QP_TARGET] = s[qp + QP_RATE]
    if form == PAPER:
        cut(s, f, qp, now)
        g = f[s[profile + RP_FLOAT] + RP_G]
        at = s[qp + QP_FLOAT] + FLOAT_ALPHA
        f[at] = (1.0 - g) * f[at] + g
        s[qp + QP_ALPHA_ORIGIN] = now
        s[qp + QP_ALPHA_TICKS] = 0
        return
    if not first:
        current_alpha(s, f, qp, now)
        s[qp + QP_ALPHA_CNP] = 1
    if s[qp + QP_CNP_SEEN] == 0:
        s[qp + QP_CNP_SEEN] = 1
        window = s[profile + RP_WINDOW]
        origin = s[qp + QP_ALPHA_ORIGIN] + s[profile + RP_WINDOW_OFFSET]
        at_cut = origin + (max(0, now - origin) // window + 1) * window
        s[qp + QP_CUT_AT] = at_cut
        arm_qp(s, qp, at_cut)


@jit
def hurry(s: Ints, qp: int, before: int, now: int) -> None:
    """Shorten the rest of the running gap as the rate has grown, like a token bucket does."""
    left = s[qp + QP_NEXT_TIME] - now
    rate = s[qp + QP_RATE]
    if left > 0 and rate > before:
        s[qp + QP_NEXT_TIME] = now + int(left * (before / rate))
        schedule(s, s[qp + QP_ID], max(s[qp + QP_NEXT_TIME], s[qp + QP_HELD_UNTIL]))


@jit
def increase(s: Ints, qp: int, now: int) -> None:
    """One step of recovery: fast, additive or hyper, by how many increases came since the cut."""
    profile = s[qp + QP_PROFILE]
    stages = s[profile + RP_STAGES]
    t = s[qp + QP_STAGE_T]
    b = s[qp + QP_STAGE_B]
    if s[profile + RP_BYTES] == 0:
        b = t
    target = s[qp + QP_TARGET]
    if max(t, b) >= stages:
        if min(t, b) > stages:
            step = s[profile + RP_HAI]
            if s[profile + RP_HYPER_SCALED] != 0:
                step *= min(t, b) - stages
        else:
            step = s[profile + RP_AI]
        target = min(s[profile + RP_MAX], target + step)
        s[qp + QP_TARGET] = target
    before = s[qp + QP_RATE]
    set_rate(s, qp, (before + target) // 2)
    s[qp + QP_INCREASES] += 1
    if s[HURRY] != 0 and s[qp + QP_STATE] == PACING:
        hurry(s, qp, before, now)


@jit
def bytes_sent(s: Ints, qp: int, size: int, now: int) -> None:
    """Run the byte counter of a QP that has seen congestion."""
    left = s[qp + QP_BYTE_COUNT] - size
    if left <= 0:
        increase(s, qp, now)
        s[qp + QP_STAGE_B] += 1
        left += s[s[qp + QP_PROFILE] + RP_BYTES]
    s[qp + QP_BYTE_COUNT] = left


@jit
def reaction_timer(s: Ints, f: Reals, qp: int, now: int) -> None:
    """Do the timer increase and the cut that are due; the timer, planned first, comes first."""
    profile = s[qp + QP_PROFILE]
    if s[qp + QP_INCREASE_AT] <= now:
        increase(s, qp, now)
        s[qp + QP_STAGE_T] += 1
        s[qp + QP_INCREASE_AT] = now + s[profile + RP_TIMER]
    if s[qp + QP_CUT_AT] <= now:
        s[qp + QP_CUT_AT] = NEVER
        s[qp + QP_CNP_SEEN] = 0
        cut(s, f, qp, now)


@jit
def table_index(s: Ints, qp: int, now: int) -> int:
    """IB: let CCTI fall by one per timer period since the last look, and return it."""
    profile = s[qp + QP_PROFILE]
    index = s[qp + QP_CCTI]
    period = s[profile + RP_CCT_TIMER]
    if period > 0:
        steps = (now - s[qp + QP_CCTI_TIME]) // period
        if steps > 0:
            s[qp + QP_CCTI_TIME] += steps * period
            index = max(s[profile + RP_CCT_MIN], index - steps)
            s[qp + QP_CCTI] = index
    return index


@jit
def pacing_gap(s: Ints, qp: int, size: int, now: int) -> int:
    """Return the ps until this QP may start its next packet after one of `size` bytes."""
    if size == s[MTU_WIRE]:
        gap = s[qp + QP_GAP]
        if s[qp + QP_GAP_REST] != 0:
            carry = s[qp + QP_GAP_CARRY] + s[qp + QP_GAP_REST]
            if carry >= s[qp + QP_RATE]:
                carry -= s[qp + QP_RATE]
                gap += 1
            s[qp + QP_GAP_CARRY] = carry
    else:
        gap = gap_of(s, size, s[qp + QP_RATE])
    if s[s[qp + QP_PROFILE] + RP_FORM] == IB_CCT:
        delay = s[s[s[qp + QP_PROFILE] + RP_CCT] + table_index(s, qp, now)]
        gap += gap * delay // 256
    return gap

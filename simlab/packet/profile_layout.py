"""Reaction-point profiles in the state: what the queue pairs of one kind of NIC share."""

from __future__ import annotations

# Words of a row of `s`; RP_FLOAT says where its row of `f` is.
RP_FORM = 0
RP_ALPHA_PERIOD = 1
RP_WINDOW = 2
RP_WINDOW_OFFSET = 3  # the reference's monitor runs 1 ns after the alpha timer
RP_TIMER = 4
RP_BYTES = 5
RP_STAGES = 6
RP_AI = 7
RP_HAI = 8
RP_MIN = 9
RP_MAX = 10
RP_FIRST = 11
RP_CLAMP = 12
RP_CLAMP_TIMER = 13
RP_FLOAT = 14
RP_CCT = 15  # IB: delay table in 1/256 of the packet time
RP_CCT_LIMIT = 16
RP_CCT_INCREASE = 17
RP_CCT_MIN = 18
RP_CCT_TIMER = 19
RP_HYPER_SCALED = 20
RP_WORDS = 24

RP_G, RP_GAIN, RP_MIN_DECREASE, RP_ALPHA_START, RP_FLOATS = range(5)

OFF, PAPER, FIRMWARE, IB_CCT = range(4)

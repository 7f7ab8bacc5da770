"""InfiniBand: what the subnet manager sets, and what people do with hosts and cables."""

from __future__ import annotations

from typing import Final

from tuner.advice.knobs.knob import Knob, at

_ON: Final = ("host",)  # of the subnet manager, once for the whole subnet
CC_THRESHOLD: Final = 8  # of 0 (off) to 15 (marks first): from half of the buffer on
_STANDBY: Final = "every standby subnet manager: it must take over with the same file"

KNOBS: Final = (
    Knob(
        name="opensm_routing_engine",
        meaning="How the subnet manager computes routes (opensm.conf routing_engine).",
        on=_ON,
        defaults=(("OpenSM 3.3", "minhop"),),
        homes=at(opensm="routing_engine"),
        disruption="routes change: packets in flight on changed routes may be lost and sent again",
        agrees=f"{_STANDBY}; the topology: ftree and its like need a fat tree",
        how="set routing_engine to {value} in opensm.conf of the subnet manager and let it "
        "re-sweep; where switches and manager know adaptive routing, turn it on for the jobs' "
        "service level",
        undo="set routing_engine to {current} again",
    ),
    Knob(
        name="opensm_qos",
        meaning="The subnet manager sets service levels and virtual lanes (opensm.conf qos).",
        on=_ON,
        choices=("TRUE", "FALSE"),
        defaults=(("OpenSM 3.3", "FALSE"),),
        homes=at(opensm="qos"),
        disruption="lanes are set up anew on every link",
        agrees=_STANDBY,
    ),
    Knob(
        name="opensm_adaptive_routing",
        meaning="Adaptive routing by engine (NVIDIA's OpenSM: ar_updn, ar_ftree, ar_dor).",
        on=_ON,
        choices=("ar_updn", "ar_ftree", "ar_dor"),
        homes=at(opensm="routing_engine"),
        disruption="routes change: packets in flight on changed routes may be lost and sent again",
        agrees=f"{_STANDBY}; job_adaptive_routing of the jobs; switches that can do it",
    ),
    Knob(
        name="opensm_congestion_control",
        meaning="Congestion control of the subnet (opensm.conf congestion_control and cc_*).",
        on=_ON,
        choices=("TRUE", "FALSE"),
        defaults=(("OpenSM 3.3", "FALSE"),),
        homes=at(opensm="congestion_control, cc_*"),
        disruption="senders slow down where switches mark",
        agrees=f"{_STANDBY}; adapters and switches that can do it",
        how="set congestion_control to {value} in opensm.conf, with the threshold, marking rate "
        "and timer of the fragment, first on one service level",
        undo="set congestion_control to {current} again",
    ),
    Knob(
        name="opensm_cc_threshold",
        meaning="How soon a switch marks: 0 never, 1 at a full buffer, 15 at an almost empty one "
        "(opensm.conf cc_sw_cong_setting_threshold).",
        unit="count",
        on=_ON,
        low=0,
        high=15,
        homes=at(opensm="cc_sw_cong_setting_threshold"),
        disruption="senders slow down later",
        agrees=_STANDBY,
        setting="ib_cc_threshold",
        how="set cc_sw_cong_setting_threshold to {value}: bursts that fit into the buffer are no "
        "congestion",
        undo="set it to {current} again",
    ),
    Knob(
        name="opensm_cc_marking_rate",
        meaning="Packets between two that a switch marks "
        "(opensm.conf cc_sw_cong_setting_marking_rate).",
        unit="count",
        on=_ON,
        low=0,
        high=65_535,
        homes=at(opensm="cc_sw_cong_setting_marking_rate"),
        disruption="senders slow down less",
        agrees=_STANDBY,
        setting="ib_cc_marking_rate",
        how="raise cc_sw_cong_setting_marking_rate to {value} (fewer marks) and compare; sweep it "
        "with cc_ca_cong_entry_ccti_timer",
        undo="set it to {current} again",
    ),
    Knob(
        name="opensm_hoq_lifetime",
        meaning="How long a packet waits for a credit (opensm.conf leaf_head_of_queue_lifetime).",
        unit="count",
        on=_ON,
        low=0,
        high=20,
        defaults=(("OpenSM 3.3, leaf", 16), ("OpenSM 3.3", 18)),
        homes=at(opensm="leaf_head_of_queue_lifetime, head_of_queue_lifetime"),
        disruption="a longer life spreads congestion, a shorter one discards sooner",
        agrees=_STANDBY,
        setting="ib_hoq_life",
        how="set leaf_head_of_queue_lifetime to {value} (4.096 us x 2^{value}) once the cause of "
        "the missing credits is gone",
        undo="set it to {current} again",
    ),
    Knob(
        name="opensm_vl_arbitration",
        meaning="Weights of the virtual lanes (opensm.conf qos_high_limit, qos_vlarb_high, _low).",
        on=_ON,
        homes=at(opensm="qos, qos_high_limit, qos_vlarb_low"),
        disruption="shares of the lanes change at once",
        agrees=_STANDBY,
        how="give every lane in use a weight and bound the high-priority ones: {value}",
        undo="set the former weights again: {current}",
    ),
    Knob(
        name="ib_host_receive_path",
        meaning="What lets an InfiniBand host drain slowly: PCIe, memory, NUMA, its application.",
        on=("port", "host"),
        disruption="none while it is looked at",
        how="on {place} check PCIe speed and width of the adapter (lspci -vv), ATS and ACS, "
        "relaxed ordering, huge pages and NUMA place of the receive buffers, and whether the "
        "application is stopped or swaps; drain it from jobs meanwhile",
        undo="put the host back into service as it was",
    ),
    Knob(
        name="ib_cabling",
        meaning="Cables of the fabric.",
        on=("interface", "port", "switch", "host"),
        disruption="links that are moved are down meanwhile",
        how="compare {place} with its like and the cabling plan; plug in what is missing or "
        "swapped",
        undo="put the cables back as they were",
    ),
)

"""InfiniBand: what the subnet manager sets, and what people do with hosts and cables."""

from __future__ import annotations

from typing import Any, Final

from tuner.advice.knobs.knob import Knob, at

CC_THRESHOLD: Final = 8  # of 0 (off) to 15 (marks first): from half of the buffer on
_SWITCHED: Final = ("TRUE", "FALSE")
_REROUTES: Final = "routes change: packets in flight on changed routes may be lost and sent again"


def _opensm(name: str, key: str, meaning: str, *, fits: str = "", **more: Any) -> Knob:
    """Return a knob of the subnet manager. key: in opensm.conf. fits: what else must suit it."""
    standby = "every standby subnet manager: it must take over with the same file"
    usual = {"undo": f"set {key} to {{current}} again"} if more.get("how") else {}
    return Knob(
        name=f"opensm_{name}",
        meaning=f"{meaning} (opensm.conf {key}).",
        on=("host",),  # where it runs, once for the whole subnet
        agrees=f"{standby}; {fits}" if fits else standby,
        **usual | {"homes": at(opensm=key)} | more,
    )


def _opensm_number(
    name: str, key: str, meaning: str, highest: int, setting: str, **more: Any
) -> Knob:
    """Return a knob of the subnet manager that is a number from 0 on, which switches show."""
    return _opensm(name, key, meaning, unit="count", low=0, high=highest, setting=setting, **more)


KNOBS: Final = (
    _opensm(
        "routing_engine", "routing_engine",
        "How the subnet manager computes routes",
        fits="the topology: ftree and its like need a fat tree",
        defaults=(("OpenSM 3.3", "minhop"),),
        disruption=_REROUTES,
        how="set routing_engine to {value} in opensm.conf of the subnet manager and let it "
        "re-sweep; where switches and manager know adaptive routing, turn it on for the jobs' "
        "service level",
    ),
    _opensm(
        "qos", "qos",
        "The subnet manager sets service levels and virtual lanes",
        choices=_SWITCHED,
        defaults=(("OpenSM 3.3", "FALSE"),),
        disruption="lanes are set up anew on every link",
    ),
    _opensm(
        "adaptive_routing", "routing_engine",
        "Adaptive routing by an engine of NVIDIA's OpenSM: ar_updn, ar_ftree or ar_dor",
        fits="job_adaptive_routing of the jobs; switches that can do it",
        choices=("ar_updn", "ar_ftree", "ar_dor"),
        disruption=_REROUTES,
    ),
    _opensm(
        "congestion_control", "congestion_control",
        "Congestion control of the subnet, with the cc_* beside it",
        fits="adapters and switches that can do it",
        choices=_SWITCHED,
        defaults=(("OpenSM 3.3", "FALSE"),),
        homes=at(opensm="congestion_control, cc_*"),
        disruption="senders slow down where switches mark",
        how="set congestion_control to {value} in opensm.conf, with the threshold, marking rate "
        "and timer of the fragment, first on one service level",
    ),
    _opensm_number(
        "cc_threshold", "cc_sw_cong_setting_threshold",
        "How soon a switch marks: 0 never, 1 at a full buffer, 15 at an almost empty one",
        15, "ib_cc_threshold",
        disruption="senders slow down later",
        how="set cc_sw_cong_setting_threshold to {value}: bursts that fit into the buffer are no "
        "congestion",
    ),
    _opensm_number(
        "cc_marking_rate", "cc_sw_cong_setting_marking_rate",
        "Packets between two that a switch marks",
        65_535, "ib_cc_marking_rate",
        disruption="senders slow down less",
        how="raise cc_sw_cong_setting_marking_rate to {value} (fewer marks) and compare; sweep it "
        "with cc_ca_cong_entry_ccti_timer",
    ),
    _opensm_number(
        "hoq_lifetime", "leaf_head_of_queue_lifetime",
        "How long a packet waits for a credit",
        20, "ib_hoq_life",
        defaults=(("OpenSM 3.3, leaf", 16), ("OpenSM 3.3", 18)),
        homes=at(opensm="leaf_head_of_queue_lifetime, head_of_queue_lifetime"),
        disruption="a longer life spreads congestion, a shorter one discards sooner",
        how="set leaf_head_of_queue_lifetime to {value} (4.096 us x 2^{value}) once the cause of "
        "the missing credits is gone",
    ),
    _opensm(
        "vl_arbitration", "qos_high_limit, qos_vlarb_high, qos_vlarb_low",
        "Weights of the virtual lanes",
        homes=at(opensm="qos, qos_high_limit, qos_vlarb_low"),
        disruption="shares of the lanes change at once",
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
)  # fmt: skip

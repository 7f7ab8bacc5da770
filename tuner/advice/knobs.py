"""Everything that a recommendation may ask to change, one row a knob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Knob:
    """A knob. how: for people, with {place}, {value} and {current} to fill in.

    setting: name under which facts carry its current value, '' where nothing does. disruption:
    what a change does to running traffic.
    """

    name: str
    unit: str
    meaning: str
    how: str
    undo: str
    disruption: str
    setting: str = ""


_KNOBS: Final = (
    Knob(
        "link_repair",
        "",
        "A cable, transceiver or port to clean, reseat or replace.",
        "drain {place}, clean and reseat the connectors at both ends, then replace the cable or "
        "transceiver if it still loses",
        "put the former cable or transceiver back",
        "the link is down while it is worked on",
    ),
    Knob(
        "roce_ecn_codepoint",
        "",
        "ECN bits that RDMA packets leave with: 0 not ECT, 2 ECT(0).",
        "set the low two bits of the traffic class that jobs on {place} use to {value} "
        "(traffic_class | 2; for NCCL NCCL_IB_TC, for rdma_cm default_roce_tos)",
        "set them to {current} again",
        "none for running connections; new ones take the new value",
    ),
    Knob(
        "receive_queue_depth",
        "count",
        "Receives that the application keeps posted for each queue pair.",
        "let the application on {place} keep {value} receives posted for each queue pair",
        "go back to the former number",
        "the application restarts its connections",
    ),
    Knob(
        "mtu_bytes",
        "bytes",
        "Largest IP packet that the interface sends.",
        "set the MTU of {place} to {value} (Linux: ip link set dev IF mtu {value})",
        "set it to {current} again",
        "RoCE devices re-read the MTU: connections on the port may break",
        "mtu_bytes",
    ),
    Knob(
        "queue_rate_bps",
        "bps",
        "Rate that the egress queue is shaped to.",
        "shape the egress of {place} to {value} bit/s",
        "shape it to {current} bit/s again",
        "none beyond the change of rate",
        "queue_rate_bps",
    ),
    Knob(
        "queue_limit_bytes",
        "bytes",
        "Most bytes that the egress queue holds.",
        "let the egress queue of {place} hold {value} bytes",
        "set it to {current} bytes again",
        "a deeper queue adds delay: at most limit / rate",
        "queue_limit_bytes",
    ),
    Knob(
        "speed_bps",
        "bps",
        "Speed that the interface runs at.",
        "bring {place} to {value} bit/s: check autonegotiation, lanes, breakout and cable",
        "set the speed to {current} again",
        "the link goes down while it is renegotiated",
        "speed_bps",
    ),
    Knob(
        "ib_host_receive_path",
        "",
        "What lets an InfiniBand host drain slowly: PCIe, memory, NUMA, its application.",
        "on {place} check PCIe speed and width of the adapter (lspci -vv), ATS and ACS, relaxed "
        "ordering, huge pages and NUMA place of the receive buffers, and whether the application "
        "is stopped or swaps; drain it from jobs meanwhile",
        "put the host back into service as it was",
        "none while it is looked at",
    ),
    Knob(
        "opensm_routing_engine",
        "",
        "How the subnet manager computes routes (opensm.conf routing_engine).",
        "set routing_engine to {value} in opensm.conf of the subnet manager and let it re-sweep; "
        "where switches and manager know adaptive routing, turn it on for the jobs' service level",
        "set routing_engine to {current} again",
        "routes change: packets in flight on changed routes may be lost and sent again",
    ),
    Knob(
        "opensm_congestion_control",
        "",
        "Congestion control of the subnet (opensm.conf congestion_control and cc_*).",
        "set congestion_control to {value} in opensm.conf, with the threshold, marking rate and "
        "timer of the fragment, first on one service level",
        "set congestion_control to {current} again",
        "senders slow down where switches mark",
    ),
    Knob(
        "opensm_cc_marking_rate",
        "count",
        "Packets between two that a switch marks (opensm.conf cc_sw_cong_setting_marking_rate).",
        "raise cc_sw_cong_setting_marking_rate to {value} (fewer marks) and compare; sweep it with "
        "cc_ca_cong_entry_ccti_timer",
        "set it to {current} again",
        "senders slow down less",
        "ib_cc_marking_rate",
    ),
    Knob(
        "opensm_hoq_lifetime",
        "count",
        "How long a packet waits for a credit (opensm.conf leaf_head_of_queue_lifetime).",
        "set leaf_head_of_queue_lifetime to {value} (4.096 us x 2^{value}) once the cause of the "
        "missing credits is gone",
        "set it to {current} again",
        "a longer life spreads congestion, a shorter one discards sooner",
        "ib_hoq_life",
    ),
    Knob(
        "opensm_vl_arbitration",
        "",
        "Weights of the virtual lanes (opensm.conf qos_high_limit, qos_vlarb_high, _low).",
        "give every lane in use a weight and bound the high-priority ones: {value}",
        "set the former weights again: {current}",
        "shares of the lanes change at once",
    ),
    Knob(
        "ib_cabling",
        "",
        "Cables of the fabric.",
        "compare {place} with its like and the cabling plan; plug in what is missing or swapped",
        "put the cables back as they were",
        "links that are moved are down meanwhile",
    ),
)

KNOBS: Final[Mapping[str, Knob]] = MappingProxyType({knob.name: knob for knob in _KNOBS})

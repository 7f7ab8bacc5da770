"""What only switches expose: buffers, watchdog, WRED, and how a target answers.

Rows that hosts and switches share (bytes, queues, PFC) stand in interface.py with the sources
of both.
"""

from typing import Final

from collectors.model.catalogue.sources import (
    ARISTA_PFC,
    ARISTA_QUEUE,
    ARISTA_XGS,
    CISCO_CBQOS,
    CISCO_PFC,
    CISCO_QOS,
    DOT3,
    EOS_PFC,
    EOS_WATCHDOG,
    IF_HC,
    JUNIPER_COS,
    JUNOS_QUEUE,
    NS,
    NXOS_QUEUE,
    OC_IF,
    OC_QUEUE,
    ONYX_QOS,
    US,
    by_priority,
    gnmi,
    otlp,
    snmp,
    sonic,
)
from collectors.model.metric import Metric, Source, Unit, counter, gauge, state

_INTERFACE: Final = ("interface",)
_QUEUE: Final = ("queue",)
_GROUP: Final = ("priority_group",)
_POOL: Final = ("pool",)
_SWITCH: Final = ("switch",)

# --- interfaces ------------------------------------------------------------------------------
RX_UNICAST = counter(
    "fabric_interface_rx_unicast_packets_total",
    "packets",
    "Unicast packets received by the interface.",
    snmp(f"{IF_HC}.7", "IF-MIB"),
    gnmi(f"{OC_IF}/in-unicast-pkts"),
    sonic("SAI_PORT_STAT_IF_IN_UCAST_PKTS"),
    on=_INTERFACE,
)
TX_UNICAST = counter(
    "fabric_interface_tx_unicast_packets_total",
    "packets",
    "Unicast packets sent by the interface.",
    snmp(f"{IF_HC}.11", "IF-MIB"),
    gnmi(f"{OC_IF}/out-unicast-pkts"),
    sonic("SAI_PORT_STAT_IF_OUT_UCAST_PKTS"),
    on=_INTERFACE,
)
UNKNOWN_CONTROL = counter(
    "fabric_interface_rx_unknown_control_frames_total",
    "frames",
    "MAC control frames with an opcode that is not 802.3x pause; PFC may be counted here.",
    snmp(f"{DOT3}.9.1.3", "EtherLike-MIB"),
    snmp(f"{DOT3}.9.1.2", "EtherLike-MIB", 32),
    on=_INTERFACE,
)
ECN_MARKED = counter(
    "fabric_interface_ecn_marked_packets_total",
    "packets",
    "Packets that the interface sent with congestion experienced, all queues.",
    gnmi("/interfaces/interface/state/counters/errors/out-ecn-ce-marked-pkts", "junos"),
    sonic("SAI_PORT_STAT_ECN_MARKED_PACKETS"),
    otlp("nvswitch_interface_performance_marked_packets"),
    on=_INTERFACE,
)
WRED_DROPS = counter(
    "fabric_interface_wred_drop_packets_total",
    "packets",
    "Packets that the interface dropped by WRED, all queues.",
    sonic("SAI_PORT_STAT_WRED_DROPPED_PACKETS"),
    gnmi("/interfaces/interface/ethernet/state/counters/out-wred-drops", "nvue"),
    on=_INTERFACE,
)
TX_WAIT = counter(
    "fabric_interface_tx_wait_seconds_total",
    "seconds",
    "Time that the port had data to send and was not allowed to.",
    snmp(f"{ONYX_QOS}.5.1.5", "MELLANOX-QOS-MIB", scale=US),
    on=_INTERFACE,
)
HOQ_DISCARDS = counter(
    "fabric_interface_tx_head_of_queue_drop_packets_total",
    "packets",
    "Packets dropped because they waited at the head of the queue for too long.",
    otlp("nvswitch_interface_discards_egress_hoq"),
    on=_INTERFACE,
)

# --- flow control ----------------------------------------------------------------------------
PFC_RX_PAUSE_MAX = gauge(
    "fabric_pfc_rx_pause_max_seconds",
    "seconds",
    "Longest time that the priority was paused in one go.",
    gnmi(f"{EOS_PFC}/pfc-on-max-rx-time", "eos", NS),
    on="priority",
)
PFC_RX_PAUSE_ESTIMATE = counter(
    "fabric_pfc_rx_pause_estimate_seconds_total",
    "seconds",
    "Time paused as a watchdog estimates it: whole polls are counted, so it is too much.",
    *by_priority("sonic_db", "EST_PORT_STAT_PFC_{p}_RX_PAUSE_DURATION_US", "sonic", US),
    on="priority",
)
WATCHDOG_STATE = state(
    "fabric_pfc_watchdog_state_id",
    "PFC watchdog of the queue: 1 active, 2 queue shut down, 3 not available.",
    snmp(f"{CISCO_PFC}.3.1.2", "CISCO-PFC-EXT-MIB", 32),
    sonic("PFC_WD_STATUS", note="operational is 1, stormed is 2"),
    on=_QUEUE,
)
WATCHDOG_STORMS = counter(
    "fabric_pfc_watchdog_storms_total",
    "events",
    "Times that the PFC watchdog declared the queue stuck. A hint: XON storms count here too.",
    snmp(f"{CISCO_PFC}.3.1.3", "CISCO-PFC-EXT-MIB"),
    snmp(f"{ARISTA_PFC}.2.1.4", "ARISTA-PFC-MIB", 31),
    gnmi(f"{EOS_WATCHDOG}/stuck-count", "eos"),
    gnmi(f"{NXOS_QUEUE}/pfcwdShutdownCount", "nxos", note="some releases say 0 always"),
    sonic("PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED"),
    on=_QUEUE,
)
WATCHDOG_RESTORED = counter(
    "fabric_pfc_watchdog_restored_total",
    "events",
    "Times that the PFC watchdog let the queue go on.",
    snmp(f"{CISCO_PFC}.3.1.4", "CISCO-PFC-EXT-MIB"),
    snmp(f"{ARISTA_PFC}.2.1.5", "ARISTA-PFC-MIB", 31),
    gnmi(f"{EOS_WATCHDOG}/recovery-count", "eos"),
    gnmi(f"{NXOS_QUEUE}/pfcwdRestoredCount", "nxos"),
    sonic("PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED"),
    on=_QUEUE,
)
WATCHDOG_TX_DROPS = counter(
    "fabric_pfc_watchdog_tx_drop_packets_total",
    "packets",
    "Packets of the queue that the PFC watchdog dropped on their way out.",
    snmp(f"{CISCO_PFC}.3.1.5", "CISCO-PFC-EXT-MIB"),
    gnmi(f"{NXOS_QUEUE}/pfcwdFlushedPackets", "nxos"),
    sonic("PFC_WD_QUEUE_STATS_TX_DROPPED_PACKETS"),
    on=_QUEUE,
)
WATCHDOG_RX_DROPS = counter(
    "fabric_pfc_watchdog_rx_drop_packets_total",
    "packets",
    "Packets for the queue that the PFC watchdog dropped on their way in.",
    snmp(f"{CISCO_PFC}.3.1.8", "CISCO-PFC-EXT-MIB"),
    sonic("PFC_WD_QUEUE_STATS_RX_DROPPED_PACKETS"),
    on=_QUEUE,
)

# --- egress queues ---------------------------------------------------------------------------
QUEUE_DROP_BYTES = counter(
    "fabric_queue_drop_bytes_total",
    "bytes",
    "Bytes that the egress queue dropped.",
    snmp(f"{ARISTA_QUEUE}.2.1.7{{type=0}}", "ARISTA-QUEUE-MIB"),
    snmp(f"{ARISTA_QUEUE}.2.1.7{{type=2}}", "ARISTA-QUEUE-MIB"),
    snmp(f"{CISCO_QOS}.5.1.4{{dir=2,stat=6}}", "CISCO-SWITCH-QOS-MIB", note="unicast"),
    gnmi(f"{OC_QUEUE}/dropped-octets"),
    gnmi(f"{NXOS_QUEUE}/dropBytes", "nxos"),
    sonic("SAI_QUEUE_STAT_DROPPED_BYTES"),
    on=_QUEUE,
)
QUEUE_WRED_DROPS = counter(
    "fabric_queue_wred_drop_packets_total",
    "packets",
    "Packets that WRED dropped instead of marking: not ECN-capable, or marking is off.",
    snmp(f"{CISCO_CBQOS}.20.1.1.3", "CISCO-CLASS-BASED-QOS-MIB", note="joined by policy objects"),
    snmp(f"{ONYX_QOS}.4.1.9", "MELLANOX-QOS-MIB"),
    snmp(f"{JUNIPER_COS}.13", "JUNIPER-COS-MIB"),
    gnmi(f"{OC_QUEUE}/wred-dropped-pkts"),
    gnmi(f"{NXOS_QUEUE}/randDropPackets", "nxos"),
    gnmi(f"{JUNOS_QUEUE}/red-drop-pkts", "junos"),
    sonic("SAI_QUEUE_STAT_WRED_DROPPED_PACKETS"),
    otlp("nvswitch_interface_tc_tx_wred_discard"),
    on=_QUEUE,
)
QUEUE_TAIL_DROPS = counter(
    "fabric_queue_tail_drop_packets_total",
    "packets",
    "Packets dropped because the egress queue or its buffer was full.",
    snmp(f"{CISCO_CBQOS}.20.1.1.9", "CISCO-CLASS-BASED-QOS-MIB", note="joined by policy objects"),
    snmp(f"{ONYX_QOS}.4.1.8", "MELLANOX-QOS-MIB"),
    snmp(f"{JUNIPER_COS}.11", "JUNIPER-COS-MIB"),
    gnmi(f"{OC_QUEUE}/no-buffer-uc-dropped-pkts", "nvue"),
    otlp("nvswitch_interface_tc_tx_no_buffer_discard_uc"),
    on=_QUEUE,
)
QUEUE_ECN_BYTES = counter(
    "fabric_queue_ecn_marked_bytes_total",
    "bytes",
    "Bytes of the packets that the egress queue marked with congestion experienced.",
    snmp(f"{CISCO_CBQOS}.20.1.1.24", "CISCO-CLASS-BASED-QOS-MIB", note="joined by policy objects"),
    gnmi(f"{OC_QUEUE}/ecn-marked-octets"),
    sonic("SAI_QUEUE_STAT_WRED_ECN_MARKED_BYTES"),
    on=_QUEUE,
)
QUEUE_ECN_SELECTED = counter(
    "fabric_queue_ecn_selected_packets_total",
    "packets",
    "Packets picked for marking, whatever their codepoint was.",
    gnmi(f"{OC_QUEUE}/ecn-selected-pkts"),
    on=_QUEUE,
)
QUEUE_TRIMMED = counter(
    "fabric_queue_trimmed_packets_total",
    "packets",
    "Packets cut to their headers instead of dropped.",
    sonic("SAI_QUEUE_STAT_TRIM_PACKETS"),
    on=_QUEUE,
)
QUEUE_AVERAGE = gauge(
    "fabric_queue_occupancy_average_bytes",
    "bytes",
    "Average depth of the egress queue, as the device averages.",
    snmp(f"{JUNIPER_COS}.57", "JUNIPER-COS-MIB"),
    gnmi(f"{OC_QUEUE}/avg-queue-len"),
    gnmi(f"{JUNOS_QUEUE}/avg-buffer-occupancy", "junos"),
    on=_QUEUE,
)
QUEUE_DELAY_MAX = gauge(
    "fabric_queue_delay_max_seconds",
    "seconds",
    "Longest wait in the egress queue since the device last cleared its watermark.",
    sonic("SAI_QUEUE_STAT_DELAY_WATERMARK_NS", NS),
    on=_QUEUE,
)
QUEUE_BUFFER_MAX = gauge(
    "fabric_queue_shared_buffer_max_bytes",
    "bytes",
    "Most shared buffer that the egress queue used since the watermark was cleared.",
    snmp(f"{ARISTA_XGS}.3{{type=3}}", "ARISTA-XGS-MIB", note="cells"),
    gnmi(f"{OC_QUEUE}/watermark-max", "nvue", note="cells"),
    on=_QUEUE,
)

# --- ingress priority groups and pools ---------------------------------------------------------
GROUP_OCCUPANCY = gauge(
    "fabric_priority_group_occupancy_bytes",
    "bytes",
    "Bytes of the priority group in shared buffer at the time of reading.",
    snmp(f"{CISCO_QOS}.6.1.3", "CISCO-SWITCH-QOS-MIB", note="cells"),
    snmp(f"{ONYX_QOS}.3.1.5", "MELLANOX-QOS-MIB"),
    on=_GROUP,
)
GROUP_MAX = gauge(
    "fabric_priority_group_occupancy_max_bytes",
    "bytes",
    "Most shared buffer that the priority group used since the watermark was cleared.",
    snmp(f"{CISCO_QOS}.6.1.6", "CISCO-SWITCH-QOS-MIB", note="cells"),
    snmp(f"{ARISTA_XGS}.3{{type=2}}", "ARISTA-XGS-MIB", note="cells"),
    gnmi(
        "/qos/interfaces/interface/state/priority-group/counters/watermark-max",
        "nvue",
        note="cells",
    ),
    sonic("SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES"),
    on=_GROUP,
)
GROUP_HEADROOM = gauge(
    "fabric_priority_group_headroom_bytes",
    "bytes",
    "Bytes of the priority group in headroom at the time of reading: sent after XOFF.",
    snmp(f"{CISCO_QOS}.6.1.4", "CISCO-SWITCH-QOS-MIB", note="cells"),
    sonic("SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_CURR_OCCUPANCY_BYTES"),
    on=_GROUP,
)
GROUP_HEADROOM_MAX = gauge(
    "fabric_priority_group_headroom_max_bytes",
    "bytes",
    "Most headroom that the priority group used since the watermark was cleared.",
    snmp(f"{CISCO_QOS}.6.1.7", "CISCO-SWITCH-QOS-MIB", note="cells"),
    snmp(f"{ARISTA_XGS}.3{{type=1}}", "ARISTA-XGS-MIB", note="cells"),
    sonic("SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES"),
    on=_GROUP,
)
GROUP_DROPS = counter(
    "fabric_priority_group_drop_packets_total",
    "packets",
    "Packets received for the priority group and dropped: its buffer and headroom were full.",
    snmp(f"{ONYX_QOS}.3.1.7", "MELLANOX-QOS-MIB"),
    sonic("SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS"),
    otlp("nvswitch_interface_pg_rx_shared_buffer_discard"),
    on=_GROUP,
)
GROUP_BUFFER_DROPS = counter(
    "fabric_priority_group_no_buffer_drop_packets_total",
    "packets",
    "Packets received for the priority group and dropped for want of any buffer.",
    snmp(f"{ONYX_QOS}.3.1.6", "MELLANOX-QOS-MIB"),
    otlp("nvswitch_interface_pg_rx_buffer_discard"),
    on=_GROUP,
)
POOL_OCCUPANCY = gauge(
    "fabric_pool_occupancy_bytes",
    "bytes",
    "Bytes in the shared buffer pool at the time of reading.",
    snmp(f"{CISCO_QOS}.7.1.3", "CISCO-SWITCH-QOS-MIB", note="cells"),
    sonic("SAI_BUFFER_POOL_STAT_CURR_OCCUPANCY_BYTES"),
    on=_POOL,
)
POOL_MAX = gauge(
    "fabric_pool_occupancy_max_bytes",
    "bytes",
    "Most bytes in the shared buffer pool since the watermark was cleared.",
    snmp(f"{CISCO_QOS}.7.1.5", "CISCO-SWITCH-QOS-MIB", note="cells"),
    sonic("SAI_BUFFER_POOL_STAT_WATERMARK_BYTES"),
    on=_POOL,
)


# --- packet samples: estimates, the sampled count times the sampling rate ------------------------
def _sampled(name: str, unit: Unit, meaning: str) -> Metric:
    return counter(
        f"fabric_sampled_{name}_total", unit, meaning, Source("sflow", name), on=_INTERFACE
    )


SAMPLED_ROCE = _sampled(
    "roce_tx_packets", "packets", "RoCE packets that left by the interface, estimated by samples."
)
SAMPLED_BYTES = _sampled(
    "roce_tx_bytes", "bytes", "Bytes of RoCE packets that left by the interface, estimated."
)
SAMPLED_CE = _sampled(
    "roce_tx_ce_packets",
    "packets",
    "RoCE packets that left with congestion experienced, by samples.",
)
SAMPLED_CNP = _sampled("cnp_tx_packets", "packets", "CNPs that left by the interface, estimated.")
SAMPLED_NAK = _sampled("nak_tx_packets", "packets", "NAKs that left by the interface, estimated.")

# --- how a target answers ----------------------------------------------------------------------
TARGET_UP = state("fabric_target_up_id", "1 where the switch answers, 0 where not.", on=_SWITCH)
TARGET_AGE = gauge(
    "fabric_target_age_seconds",
    "seconds",
    "Time since the switch last gave a whole answer.",
    on=_SWITCH,
    number="float",
)
TARGET_POLL = gauge(
    "fabric_target_poll_seconds",
    "seconds",
    "How long the last poll of the switch took.",
    on=_SWITCH,
    number="float",
)
TARGET_ROWS = gauge(
    "fabric_target_values",
    "count",
    "Values that the last poll of the switch brought.",
    on=_SWITCH,
)
TARGET_LOST = counter(
    "fabric_target_lost_updates_total",
    "events",
    "Updates of the switch that were dropped because nobody took them in time.",
    on=_SWITCH,
)

METRICS: Final = tuple(row for row in list(globals().values()) if isinstance(row, Metric))

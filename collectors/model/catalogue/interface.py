"""Interfaces and their queues: netdevs of hosts and interfaces of switches alike."""

from fractions import Fraction
from typing import Final

from collectors.model.catalogue.sources import (
    ARISTA_PFC,
    ARISTA_QOS,
    ARISTA_QUEUE,
    CISCO_CBQOS,
    CISCO_PFC,
    CISCO_QOS,
    CUMULUS,
    DOT3,
    EOS_PFC,
    IF,
    IF_HC,
    JUNIPER_COS,
    JUNOS_PFC,
    JUNOS_QUEUE,
    MS,
    NS,
    NVUE_PRIORITY,
    NXOS_QUEUE,
    OC_ETH,
    OC_IF,
    OC_QUEUE,
    ONYX_QOS,
    PPCNT_UNIT,
    PRIORITIES,
    US,
    by_priority,
    gnmi,
    otlp,
    snmp,
    sonic,
)
from collectors.model.metric import Metric, Source, counter, gauge, state

MBPS: Final = Fraction(1_000_000)
_ENDS: Final = ("netdev", "interface")


def _stat(key: str) -> Source:
    return Source("netdev", f"statistics/{key}")


def ethtool(
    key: str, driver: str, scale: Fraction = Fraction(1), width: int = 64, note: str = ""
) -> Source:
    """Return a statistic of `ethtool -S`; {p} stands for a priority, {lane} for a lane."""
    return Source("ethtool", key, driver, scale=scale, width=width, note=note)


RX_BYTES = counter(
    "fabric_interface_rx_bytes_total",
    "bytes",
    "Bytes received by the interface, all traffic.",
    _stat("rx_bytes"),
    snmp(f"{IF_HC}.6", "IF-MIB"),
    gnmi(f"{OC_IF}/in-octets"),
    sonic("SAI_PORT_STAT_IF_IN_OCTETS"),
    otlp("nvswitch_interface_if_in_octets"),
    on=_ENDS,
)
TX_BYTES = counter(
    "fabric_interface_tx_bytes_total",
    "bytes",
    "Bytes sent by the interface, all traffic.",
    _stat("tx_bytes"),
    snmp(f"{IF_HC}.10", "IF-MIB"),
    gnmi(f"{OC_IF}/out-octets"),
    sonic("SAI_PORT_STAT_IF_OUT_OCTETS"),
    otlp("nvswitch_interface_if_out_octets"),
    on=_ENDS,
)
RX_PACKETS = counter(
    "fabric_interface_rx_packets_total",
    "packets",
    "Packets received by the interface.",
    _stat("rx_packets"),
    gnmi(f"{OC_IF}/in-pkts"),
    on=_ENDS,
)
TX_PACKETS = counter(
    "fabric_interface_tx_packets_total",
    "packets",
    "Packets sent by the interface.",
    _stat("tx_packets"),
    gnmi(f"{OC_IF}/out-pkts"),
    on=_ENDS,
)
RX_ERRORS = counter(
    "fabric_interface_rx_errors_total",
    "packets",
    "Packets received in error.",
    _stat("rx_errors"),
    snmp(f"{IF}.14", "IF-MIB", 32),
    gnmi(f"{OC_IF}/in-errors"),
    sonic("SAI_PORT_STAT_IF_IN_ERRORS"),
    on=_ENDS,
)
TX_ERRORS = counter(
    "fabric_interface_tx_errors_total",
    "packets",
    "Packets that could not be sent because of an error.",
    _stat("tx_errors"),
    snmp(f"{IF}.20", "IF-MIB", 32),
    gnmi(f"{OC_IF}/out-errors"),
    sonic("SAI_PORT_STAT_IF_OUT_ERRORS"),
    on=_ENDS,
)
RX_DROPS = counter(
    "fabric_interface_rx_drops_total",
    "packets",
    "Packets received and dropped.",
    _stat("rx_dropped"),
    snmp(f"{IF}.13", "IF-MIB", 32),
    gnmi(f"{OC_IF}/in-discards"),
    sonic("SAI_PORT_STAT_IF_IN_DISCARDS"),
    otlp("nvswitch_interface_if_in_discards"),
    on=_ENDS,
)
TX_DROPS = counter(
    "fabric_interface_tx_drops_total",
    "packets",
    "Packets dropped instead of sent.",
    _stat("tx_dropped"),
    snmp(f"{IF}.19", "IF-MIB", 32),
    gnmi(f"{OC_IF}/out-discards"),
    sonic("SAI_PORT_STAT_IF_OUT_DISCARDS"),
    otlp("nvswitch_interface_if_out_discards"),
    on=_ENDS,
)
RX_CRC_ERRORS = counter(
    "fabric_interface_rx_crc_errors_total",
    "packets",
    "Frames received with a wrong checksum: cable or optics.",
    _stat("rx_crc_errors"),
    snmp(f"{DOT3}.11.1.2", "EtherLike-MIB"),
    snmp(f"{DOT3}.2.1.3", "EtherLike-MIB", 32),
    gnmi(f"{OC_IF}/in-fcs-errors"),
    otlp("nvswitch_interface_dot3_stats_fcs_errors"),
    on=_ENDS,
)
CARRIER_DOWN = counter(
    "fabric_interface_carrier_down_total",
    "events",
    "Times that the link went down.",
    Source("netdev", "carrier_down_count"),
    on=_ENDS,
    width=32,
)
CARRIER_CHANGES = counter(
    "fabric_interface_carrier_changes_total",
    "events",
    "Times that the link went up or down.",
    Source("netdev", "carrier_changes"),
    gnmi(f"{OC_IF}/carrier-transitions"),
    on=_ENDS,
    width=32,
)
CARRIER = state(
    "fabric_interface_carrier",
    "1 where the link is up, 0 where it is down.",
    Source("netdev", "carrier"),
    on=_ENDS,
)
OPER_STATE = state(
    "fabric_interface_oper_state_id",
    "Operational state as in RFC 2863: 1 up, 2 down, 3 testing, 4 unknown, 5 dormant, "
    "6 not present, 7 lower layer down.",
    Source("netdev", "operstate"),
    snmp(f"{IF}.8", "IF-MIB", 32),
    gnmi("/interfaces/interface/state/oper-status"),
    otlp("nvswitch_interface_oper_state", note="bitmap: 1 up, 2 down"),
    on=_ENDS,
)
SPEED = gauge(
    "fabric_interface_speed_bps",
    "bps",
    "Speed of the link.",
    Source("netdev", "speed", scale=MBPS, note="-1 where unknown"),
    on=_ENDS,
)

# --- egress queues ---------------------------------------------------------------------------
_QUEUE: Final = ("queue",)
QUEUE_TX_BYTES = counter(
    "fabric_queue_tx_bytes_total",
    "bytes",
    "Bytes that left the egress queue for the wire.",
    Source("qdisc", "bytes"),
    snmp(f"{ARISTA_QUEUE}.2.1.5{{type=0}}", "ARISTA-QUEUE-MIB"),
    snmp(f"{ARISTA_QUEUE}.2.1.5{{type=2}}", "ARISTA-QUEUE-MIB"),
    snmp(f"{CISCO_QOS}.5.1.4{{dir=2,stat=2}}", "CISCO-SWITCH-QOS-MIB", note="unicast"),
    gnmi(f"{OC_QUEUE}/transmit-octets"),
    gnmi(f"{NXOS_QUEUE}/txBytes", "nxos"),
    gnmi(f"{JUNOS_QUEUE}/bytes", "junos"),
    sonic("SAI_QUEUE_STAT_BYTES"),
    otlp("nvswitch_interface_tc_tx_octet"),
    on=_QUEUE,
)
QUEUE_TX_PACKETS = counter(
    "fabric_queue_tx_packets_total",
    "packets",
    "Packets that left the egress queue for the wire.",
    Source("qdisc", "packets"),
    snmp(f"{ARISTA_QUEUE}.2.1.4{{type=0}}", "ARISTA-QUEUE-MIB"),
    snmp(f"{ARISTA_QUEUE}.2.1.4{{type=2}}", "ARISTA-QUEUE-MIB"),
    snmp(f"{CISCO_QOS}.5.1.4{{dir=2,stat=1}}", "CISCO-SWITCH-QOS-MIB", note="unicast"),
    snmp(f"{JUNIPER_COS}.7", "JUNIPER-COS-MIB"),
    gnmi(f"{OC_QUEUE}/transmit-pkts"),
    gnmi(f"{NXOS_QUEUE}/txPackets", "nxos"),
    gnmi(f"{JUNOS_QUEUE}/pkts", "junos"),
    sonic("SAI_QUEUE_STAT_PACKETS"),
    otlp("nvswitch_interface_tc_tx_frames"),
    on=_QUEUE,
)
QUEUE_DROPS = counter(
    "fabric_queue_drop_packets_total",
    "packets",
    "Packets that the egress queue dropped: full, or above its drop threshold.",
    Source("qdisc", "drops", width=32),
    snmp(f"{ARISTA_QUEUE}.2.1.6{{type=0}}", "ARISTA-QUEUE-MIB"),
    snmp(f"{ARISTA_QUEUE}.2.1.6{{type=2}}", "ARISTA-QUEUE-MIB"),
    snmp(f"{CISCO_QOS}.5.1.4{{dir=2,stat=5}}", "CISCO-SWITCH-QOS-MIB", note="unicast"),
    snmp(f"{JUNIPER_COS}.53", "JUNIPER-COS-MIB"),
    gnmi(f"{OC_QUEUE}/dropped-pkts"),
    gnmi(f"{NXOS_QUEUE}/dropPackets", "nxos"),
    gnmi(f"{JUNOS_QUEUE}/tail-drop-pkts", "junos", note="RED drops are counted apart"),
    sonic("SAI_QUEUE_STAT_DROPPED_PACKETS"),
    on=_QUEUE,
)
QUEUE_ECN_MARKED = counter(
    "fabric_queue_ecn_marked_packets_total",
    "packets",
    "Packets that the egress queue marked with congestion experienced.",
    Source("qdisc", "red marked", width=32),
    Source("qdisc", "fq_codel ecn_mark", width=32),
    snmp(
        f"{ARISTA_QOS}.9.1.4",
        "ARISTA-QOS-MIB",
        note="0 unless counting is enabled; may hold packets that came marked",
    ),
    snmp(f"{CISCO_CBQOS}.20.1.1.21", "CISCO-CLASS-BASED-QOS-MIB", note="joined by policy objects"),
    gnmi(f"{OC_QUEUE}/ecn-marked-pkts"),
    gnmi(f"{NXOS_QUEUE}/randEcnMarkedPackets", "nxos"),
    sonic("SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS"),
    otlp("nvswitch_interface_tc_tx_ecn_marked_tc"),
    on=_QUEUE,
)
QUEUE_BACKLOG = gauge(
    "fabric_queue_occupancy_bytes",
    "bytes",
    "Bytes waiting in the egress queue at the time of reading.",
    Source("qdisc", "backlog"),
    snmp(f"{ONYX_QOS}.4.1.6", "MELLANOX-QOS-MIB"),
    snmp(f"{JUNIPER_COS}.58", "JUNIPER-COS-MIB"),
    gnmi(f"{NXOS_QUEUE}/currQueueDepth", "nxos"),
    gnmi(f"{JUNOS_QUEUE}/cur-buffer-occupancy", "junos"),
    sonic("SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES"),
    otlp("nvswitch_interface_tc_tx_queue"),
    on=_QUEUE,
)
QUEUE_WATERMARK = gauge(
    "fabric_queue_occupancy_max_bytes",
    "bytes",
    "Most bytes that waited in the egress queue since the device last cleared its watermark.",
    snmp(f"{JUNIPER_COS}.59", "JUNIPER-COS-MIB"),
    gnmi(f"{OC_QUEUE}/max-queue-len"),
    gnmi(f"{JUNOS_QUEUE}/peak-buffer-occupancy", "junos"),
    sonic("SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES"),
    sonic("SAI_QUEUE_STAT_WATERMARK_BYTES"),
    on=_QUEUE,
)

# --- flow control ----------------------------------------------------------------------------
_PRIORITY: Final = ("priority",)
PFC_RX_FRAMES = counter(
    "fabric_pfc_rx_frames_total",
    "frames",
    "PFC frames received for the priority: the peer asked this port to stop.",
    ethtool("rx_prio{p}_pause", "mlx5"),
    ethtool("rx_pfc_ena_frames_pri{p}", "bnxt_en"),
    ethtool("rx_priority_{p}_xoff.nic", "ice"),
    ethtool("mac_rx_pfc_pri{p}_pkt_num", "hns3"),
    Source("dcb", "pfc indications"),
    snmp(f"{CISCO_PFC}.2.1.3", "CISCO-PFC-EXT-MIB", note="indication = received"),
    snmp(f"{ARISTA_PFC}.1.1.4", "ARISTA-PFC-MIB"),
    snmp(f"{ONYX_QOS}.2.1.3", "MELLANOX-QOS-MIB"),
    *(snmp(f"{CUMULUS}.{4 + 2 * p}{{priority={p}}}", "CUMULUS-COUNTERS-MIB") for p in PRIORITIES),
    gnmi(f"{EOS_PFC}/in-frames", "eos"),
    gnmi(f"{JUNOS_PFC}/in-mac-pause-frames", "junos"),
    gnmi(f"{NXOS_QUEUE}/pfcRxPpp", "nxos"),
    *by_priority("gnmi", f"{OC_ETH}/in-pfc{{p}}-packets", "nvue"),
    *by_priority("sonic_db", "SAI_PORT_STAT_PFC_{p}_RX_PKTS", "sonic"),
    otlp("nvswitch_interface_sp_rx_pause"),
    on=_PRIORITY,
)
PFC_TX_FRAMES = counter(
    "fabric_pfc_tx_frames_total",
    "frames",
    "PFC frames sent for the priority: this port asked its peer to stop.",
    ethtool("tx_prio{p}_pause", "mlx5"),
    ethtool("tx_pfc_ena_frames_pri{p}", "bnxt_en"),
    ethtool("tx_priority_{p}_xoff.nic", "ice"),
    ethtool("mac_tx_pfc_pri{p}_pkt_num", "hns3"),
    Source("dcb", "pfc requests"),
    snmp(f"{CISCO_PFC}.2.1.2", "CISCO-PFC-EXT-MIB", note="request = sent"),
    snmp(f"{ARISTA_PFC}.1.1.3", "ARISTA-PFC-MIB"),
    snmp(f"{ONYX_QOS}.2.1.5", "MELLANOX-QOS-MIB"),
    *(snmp(f"{CUMULUS}.{5 + 2 * p}{{priority={p}}}", "CUMULUS-COUNTERS-MIB") for p in PRIORITIES),
    gnmi(f"{EOS_PFC}/out-frames", "eos"),
    gnmi(f"{JUNOS_PFC}/out-mac-pause-frames", "junos"),
    gnmi(f"{NXOS_QUEUE}/pfcTxPpp", "nxos"),
    gnmi(f"{NVUE_PRIORITY}/out-pause-pkts", "nvue"),
    *by_priority("gnmi", f"{OC_ETH}/out-pfc{{p}}-packets", "nvue"),
    *by_priority("sonic_db", "SAI_PORT_STAT_PFC_{p}_TX_PKTS", "sonic"),
    otlp("nvswitch_interface_sp_tx_pause"),
    on=_PRIORITY,
)
PFC_RX_PAUSE = counter(
    "fabric_pfc_rx_pause_seconds_total",
    "seconds",
    "Time that this port was not allowed to send the priority.",
    ethtool("rx_prio{p}_pause_duration", "mlx5", US),
    ethtool("pfc_pri{p}_rx_duration_us", "bnxt_en", US),
    ethtool("rx_pripause_{p}_1us_count", "ionic", US),
    snmp(f"{CISCO_PFC}.4.1.2", "CISCO-PFC-EXT-MIB", scale=US),
    snmp(f"{ONYX_QOS}.2.1.4", "MELLANOX-QOS-MIB", scale=MS),
    gnmi(f"{EOS_PFC}/pfc-on-total-rx-time", "eos", NS),
    *by_priority("sonic_db", "SAI_PORT_STAT_PFC_{p}_RX_PAUSE_DURATION_US", "sonic", US),
    otlp("nvswitch_interface_sp_rx_pause_duration", US, note=PPCNT_UNIT),
    on=_PRIORITY,
)
PFC_TX_PAUSE = counter(
    "fabric_pfc_tx_pause_seconds_total",
    "seconds",
    "Time that this port kept its peer from sending the priority.",
    ethtool("tx_prio{p}_pause_duration", "mlx5", US),
    ethtool("pfc_pri{p}_tx_duration_us", "bnxt_en", US),
    ethtool("tx_pripause_{p}_1us_count", "ionic", US),
    snmp(f"{CISCO_PFC}.4.1.3", "CISCO-PFC-EXT-MIB", scale=US),
    snmp(f"{ONYX_QOS}.2.1.6", "MELLANOX-QOS-MIB", scale=MS),
    *by_priority("sonic_db", "SAI_PORT_STAT_PFC_{p}_TX_PAUSE_DURATION_US", "sonic", US),
    otlp("nvswitch_interface_sp_tx_pause_duration", US, note=PPCNT_UNIT),
    on=_PRIORITY,
)
PAUSE_RX_FRAMES = counter(
    "fabric_pause_rx_frames_total",
    "frames",
    "802.3x pause frames received, all traffic: the peer asked this port to stop.",
    ethtool("rx_pause_ctrl_phy", "mlx5"),
    ethtool("rx_pause_frames", "bnxt_en"),
    ethtool("link_xoff_rx.nic", "ice"),
    ethtool("frames_rx_pause", "ionic"),
    Source("ethtool_nl", "pause rx_frames"),
    snmp(f"{DOT3}.10.1.5", "EtherLike-MIB", note="PFC frames are not counted here"),
    snmp(f"{DOT3}.10.1.3", "EtherLike-MIB", 32),
    gnmi(f"{OC_ETH}/in-mac-pause-frames"),
    sonic("SAI_PORT_STAT_PAUSE_RX_PKTS"),
    otlp("nvswitch_interface_dot3_in_pause_frames"),
    on=_ENDS,
)
PAUSE_TX_FRAMES = counter(
    "fabric_pause_tx_frames_total",
    "frames",
    "802.3x pause frames sent, all traffic: this port asked its peer to stop.",
    ethtool("tx_pause_ctrl_phy", "mlx5"),
    ethtool("tx_pause_frames", "bnxt_en"),
    ethtool("link_xoff_tx.nic", "ice"),
    ethtool("frames_tx_pause", "ionic"),
    Source("ethtool_nl", "pause tx_frames"),
    snmp(f"{DOT3}.10.1.6", "EtherLike-MIB", note="PFC frames are not counted here"),
    snmp(f"{DOT3}.10.1.4", "EtherLike-MIB", 32),
    gnmi(f"{OC_ETH}/out-mac-pause-frames"),
    sonic("SAI_PORT_STAT_PAUSE_TX_PKTS"),
    otlp("nvswitch_interface_dot3_out_pause_frames"),
    on=_ENDS,
)

METRICS: Final = tuple(row for row in list(globals().values()) if isinstance(row, Metric))

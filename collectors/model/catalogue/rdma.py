"""Counters and states of RDMA ports.

Names that node_exporter has (1.12) are kept exactly; the same meaning from another driver goes
under the same name. Widths: kernel core/sysfs.c (PMA attributes), mlx5_ifc.h (Q counters are
32-bit behind a 64-bit text), rxe_hw_counters.c (atomic64). Where two drivers mean different
things, they get two rows.
"""

from typing import Final

from collectors.model.catalogue.rdma_sources import ENDS, MS, WORDS, hw, mad, narrow_pma, pma
from collectors.model.metric import Metric, Source, counter, gauge, state

# --- port state ------------------------------------------------------------------------------
STATE = state(
    "node_infiniband_state_id",
    "State of the port: 0 no change, 1 down, 2 init, 3 armed, 4 active, 5 active defer.",
    Source("sysfs_port", "state"),
    Source("mad", "PortInfo.PortState"),
    on=ENDS,
)
PHYSICAL_STATE = state(
    "node_infiniband_physical_state_id",
    "Physical state: 1 sleep, 2 polling, 3 disabled, 4 training, 5 link up, 6 error recovery, "
    "7 phy test.",
    Source("sysfs_port", "phys_state"),
    Source("mad", "PortInfo.PortPhysicalState"),
    on=ENDS,
)
RATE = gauge(
    "node_infiniband_rate_bytes_per_second",
    "bytes_per_second",
    "Signalling rate of the port.",
    Source("sysfs_port", "rate"),
    Source("mad", "PortInfo.LinkSpeedActive", note="lanes x speed, as the kernel reckons it"),
    on=ENDS,
)
LIFESPAN = gauge(
    "node_infiniband_lifespan_seconds",
    "seconds",
    "How long the kernel serves hardware counters from its cache.",
    Source("hw_counters", "lifespan", scale=MS),
)

# --- traffic ---------------------------------------------------------------------------------
RX_BYTES = counter(
    "node_infiniband_port_data_received_bytes_total",
    "bytes",
    "RDMA bytes received on all virtual lanes; for RoCE, RDMA traffic of this function only.",
    pma("port_rcv_data", 64, WORDS),
    *mad("PortRcvData", 32, WORDS),
    hw("rx_bytes", "bnxt_re"),
    hw("rx_bytes", "efa"),
    hw("rx_rdma_ucast_bytes", "ionic"),
    hw("rx_bytes_cnt", "erdma"),
    on=ENDS,
)
TX_BYTES = counter(
    "node_infiniband_port_data_transmitted_bytes_total",
    "bytes",
    "RDMA bytes sent on all virtual lanes; for RoCE, RDMA traffic of this function only.",
    pma("port_xmit_data", 64, WORDS),
    *mad("PortXmitData", 32, WORDS),
    hw("tx_bytes", "bnxt_re"),
    hw("tx_bytes", "efa"),
    hw("tx_rdma_ucast_bytes", "ionic"),
    hw("tx_bytes_cnt", "erdma"),
    on=ENDS,
)
RX_PACKETS = counter(
    "node_infiniband_port_packets_received_total",
    "packets",
    "RDMA packets received, with those in error.",
    pma("port_rcv_packets", 64),
    *mad("PortRcvPkts", 32),
    hw("rcvd_pkts", "rxe"),
    hw("rx_pkts", "bnxt_re"),
    hw("rx_pkts", "efa"),
    hw("rx_pkt", "hns"),
    hw("rx_rdma_ucast_pkts", "ionic"),
    hw("rx_packets_cnt", "erdma"),
    hw("RxUDP", "irdma"),
    on=ENDS,
)
TX_PACKETS = counter(
    "node_infiniband_port_packets_transmitted_total",
    "packets",
    "RDMA packets sent, with retransmissions.",
    pma("port_xmit_packets", 64),
    *mad("PortXmitPkts", 32),
    hw("sent_pkts", "rxe"),
    hw("tx_pkts", "bnxt_re"),
    hw("tx_pkts", "efa"),
    hw("tx_pkt", "hns"),
    hw("tx_rdma_ucast_pkts", "ionic"),
    hw("tx_packets_cnt", "erdma"),
    hw("TxUDP", "irdma"),
    on=ENDS,
)
UNICAST_RX = counter(
    "node_infiniband_unicast_packets_received_total",
    "packets",
    "Unicast packets received.",
    pma("unicast_rcv_packets", 64),
    *mad("PortUnicastRcvPkts", 0),
    on=ENDS,
)
UNICAST_TX = counter(
    "node_infiniband_unicast_packets_transmitted_total",
    "packets",
    "Unicast packets sent.",
    pma("unicast_xmit_packets", 64),
    *mad("PortUnicastXmitPkts", 0),
    on=ENDS,
)
MULTICAST_RX = counter(
    "node_infiniband_multicast_packets_received_total",
    "packets",
    "Multicast packets received.",
    pma("multicast_rcv_packets", 64),
    *mad("PortMulticastRcvPkts", 0),
    hw("rx_rdma_mcast_pkts", "ionic"),
    on=ENDS,
)
MULTICAST_TX = counter(
    "node_infiniband_multicast_packets_transmitted_total",
    "packets",
    "Multicast packets sent.",
    pma("multicast_xmit_packets", 64),
    *mad("PortMulticastXmitPkts", 0),
    hw("tx_rdma_mcast_pkts", "ionic"),
    on=ENDS,
)
TX_WAIT = counter(
    "node_infiniband_port_transmit_wait_total",
    "ticks",
    "Ticks in which data waited to be sent but no credit or arbitration let it.",
    pma("port_xmit_wait", 32),
    *mad("PortXmitWait", 32),
    width=32,
    on=ENDS,
)

# --- errors of the link ----------------------------------------------------------------------
RX_ERRORS = counter(
    "node_infiniband_port_errors_received_total",
    "packets",
    "Packets received with an error: cable or optics.",
    *narrow_pma("port_rcv_errors", 16),
    *mad("PortRcvErrors", 16),
    hw("rx_roce_errors", "bnxt_re"),
    hw("rx_err_pkt", "hns"),
    on=ENDS,
)
RX_DISCARDS = counter(
    "node_infiniband_port_discards_received_total",
    "packets",
    "Packets received and discarded because the port was down or congested.",
    pma("port_rcv_discards", 64),
    hw("rx_roce_discards", "bnxt_re"),
    hw("rx_drops", "efa"),
    hw("rx_disable_drop_cnt", "erdma"),
)
TX_DISCARDS = counter(
    "node_infiniband_port_discards_transmitted_total",
    "packets",
    "Outbound packets discarded because the port was down or congested.",
    *narrow_pma("port_xmit_discards", 16),
    *mad("PortXmitDiscards", 16),
    hw("tx_roce_discards", "bnxt_re"),
    hw("tx_disable_drop_cnt", "erdma"),
    on=ENDS,
)
RX_CONSTRAINT = counter(
    "node_infiniband_port_constraint_errors_received_total",
    "packets",
    "Packets received and discarded by partition or raw filter.",
    *narrow_pma("port_rcv_constraint_errors", 8),
    *mad("PortRcvConstraintErrors", 8),
    on=ENDS,
)
TX_CONSTRAINT = counter(
    "node_infiniband_port_constraint_errors_transmitted_total",
    "packets",
    "Packets not sent because of partition or raw filter.",
    *narrow_pma("port_xmit_constraint_errors", 8),
    *mad("PortXmitConstraintErrors", 8),
    on=ENDS,
)
RX_REMOTE_PHYSICAL = counter(
    "node_infiniband_port_receive_remote_physical_errors_total",
    "packets",
    "Packets received that a port upstream marked bad.",
    *narrow_pma("port_rcv_remote_physical_errors", 16),
    *mad("PortRcvRemotePhysicalErrors", 16),
    on=ENDS,
)
RX_SWITCH_RELAY = counter(
    "node_infiniband_port_receive_switch_relay_errors_total",
    "packets",
    "Packets received that the switch could not forward.",
    *narrow_pma("port_rcv_switch_relay_errors", 16),
    *mad("PortRcvSwitchRelayErrors", 16),
    on=ENDS,
)
SYMBOL_ERRORS = counter(
    "node_infiniband_symbol_error_total",
    "symbols",
    "Minor link errors on one or more lanes.",
    *narrow_pma("symbol_error", 16),
    *mad("SymbolErrorCounter", 16),
    on=ENDS,
)
LINK_DOWNED = counter(
    "node_infiniband_link_downed_total",
    "events",
    "Times that the link went down.",
    *narrow_pma("link_downed", 8),
    *mad("LinkDownedCounter", 8),
    hw("link_downed", "rxe"),
    on=ENDS,
)
LINK_RECOVERY = counter(
    "node_infiniband_link_error_recovery_total",
    "events",
    "Times that the link recovered by retraining.",
    *narrow_pma("link_error_recovery", 8),
    *mad("LinkErrorRecoveryCounter", 8),
    on=ENDS,
)
LOCAL_INTEGRITY = counter(
    "node_infiniband_local_link_integrity_errors_total",
    "events",
    "Times that local physical errors passed the threshold.",
    *narrow_pma("local_link_integrity_errors", 4),
    *mad("LocalLinkIntegrityErrors", 4),
    on=ENDS,
)
BUFFER_OVERRUN = counter(
    "node_infiniband_excessive_buffer_overrun_errors_total",
    "events",
    "Times that buffer overruns passed the threshold.",
    *narrow_pma("excessive_buffer_overrun_errors", 4),
    *mad("ExcessiveBufferOverrunErrors", 4),
    on=ENDS,
)
VL15_DROPPED = counter(
    "node_infiniband_vl15_dropped_total",
    "packets",
    "Management packets dropped for want of resources.",
    *narrow_pma("VL15_dropped", 16),
    *mad("VL15Dropped", 16),
    on=ENDS,
)

# --- congestion ------------------------------------------------------------------------------
CE_MARKED_RX = counter(
    "node_infiniband_np_ecn_marked_roce_packets_received_total",
    "packets",
    "RoCE packets received with congestion experienced: the path to this host marks.",
    hw("np_ecn_marked_roce_packets", "mlx5"),
    hw("rx_ecn_marked_pkts", "bnxt_re"),
    hw("RxECNMrkd", "irdma"),
    hw("rx_rdma_ecn_pkts", "ionic"),
)
CNP_TX = counter(
    "node_infiniband_np_cnp_packets_sent_total",
    "packets",
    "Congestion notification packets sent by this host as notification point.",
    hw("np_cnp_sent", "mlx5"),
    hw("tx_cnp_pkts", "bnxt_re"),
    hw("cnpSent", "irdma"),
    hw("tx_cnp_pkt", "hns"),
    hw("tx_rdma_cnp_pkts", "ionic"),
)
CNP_HANDLED = counter(
    "node_infiniband_rp_cnp_packets_handled_total",
    "packets",
    "CNPs received that slowed this host as reaction point.",
    hw("rp_cnp_handled", "mlx5", note="with slow restart on, retransmissions count here too"),
    hw("rx_cnp_pkts", "bnxt_re"),
    hw("cnpHandled", "irdma"),
    hw("rx_cnp_pkt", "hns"),
    hw("rx_rdma_cnp_pkts", "ionic"),
)
CNP_IGNORED = counter(
    "node_infiniband_rp_cnp_ignored_packets_received_total",
    "packets",
    "CNPs received and ignored: reaction point off on the priority, or the QP gone.",
    hw("rp_cnp_ignored", "mlx5"),
    hw("cnpIgnored", "irdma"),
)

# --- loss and retransmission -------------------------------------------------------------------
OUT_OF_SEQUENCE_RX = counter(
    "node_infiniband_out_of_sequence_packets_received_total",
    "packets",
    "Packets received out of order, as responder: loss before this host, or spraying.",
    hw("out_of_sequence", "mlx5", 32),
    hw("oos_drop_count", "bnxt_re"),
    hw("out_of_seq_request", "rxe"),
    hw("resp_rx_outouf_seq", "ionic"),
    hw("rq_num_oos", "mlx4", 32),
)
SEQUENCE_NAK_RX = counter(
    "node_infiniband_packet_sequence_errors_total",
    "packets",
    "Sequence-error NAKs received, as requester: data of this host was lost on its way.",
    hw("packet_seq_err", "mlx5", 32),
    hw("seq_err_naks_rcvd", "bnxt_re"),
    hw("rcvd_seq_err", "rxe"),
    hw("req_rx_pkt_seq_err", "ionic"),
    hw("sq_num_oos", "mlx4", 32),
)
IMPLIED_NAK_RX = counter(
    "node_infiniband_implied_nak_seq_errors_total",
    "packets",
    "ACKs or responses with a later sequence number than awaited: loss on the way back.",
    hw("implied_nak_seq_err", "mlx5", 32),
    hw("req_rx_impl_nak_seq_err", "ionic"),
)
ACK_TIMEOUTS = counter(
    "node_infiniband_local_ack_timeout_errors_total",
    "events",
    "ACK timers of the requester that ran out: tail loss, dead path, long pause.",
    hw("local_ack_timeout_err", "mlx5", 32),
    hw("to_retransmits", "bnxt_re"),
    hw("sq_num_to", "mlx4", 32),
)
RETRIES = counter(
    "fabric_rdma_requester_retries_total",
    "events",
    "Times that the requester went back and sent again, for whatever reason.",
    hw("completer_retry_err", "rxe"),
)
DUPLICATE_RX = counter(
    "node_infiniband_duplicate_requests_packets_total",
    "packets",
    "Requests received again, as responder: the peer retransmitted.",
    hw("duplicate_request", "mlx5", 32),
    hw("dup_req", "bnxt_re"),
    hw("duplicate_request", "rxe"),
    hw("resp_rx_dup_request", "ionic"),
    hw("rq_num_dup", "mlx4", 32),
)
RETRY_EXCEEDED = counter(
    "fabric_rdma_retry_exceeded_errors_total",
    "events",
    "Queue pairs that failed because the peer stayed silent through all retries.",
    hw("req_transport_retries_exceeded", "mlx5", 32),
    hw("max_retry_exceeded", "bnxt_re"),
    hw("retry_exceeded_err", "rxe"),
    hw("req_tx_retry_excd_err", "ionic"),
    hw("sq_num_tree", "mlx4", 32),
)
ADAPTIVE_RETRANS = counter(
    "node_infiniband_roce_adp_retransmits_total",
    "events",
    "Adaptive retransmissions: loss repaired before the ACK timer.",
    hw("roce_adp_retrans", "mlx5", 32),
)
ADAPTIVE_RETRANS_TIMEOUT = counter(
    "node_infiniband_roce_adp_retransmits_timeout_total",
    "events",
    "Adaptive retransmissions that reached the full timeout.",
    hw("roce_adp_retrans_to", "mlx5", 32),
)
SLOW_RESTART_USED = counter(
    "node_infiniband_roce_slow_restart_used_total",
    "events",
    "Times that slow restart was used.",
    hw("roce_slow_restart", "mlx5", 32),
)
SLOW_RESTART_CNPS = counter(
    "node_infiniband_roce_slow_restart_cnps_total",
    "packets",
    "CNPs that slow restart generated inside this host.",
    hw("roce_slow_restart_cnps", "mlx5", 32),
)
SLOW_RESTART = counter(
    "node_infiniband_roce_slow_restart_total",
    "events",
    "Times that slow restart changed state.",
    hw("roce_slow_restart_trans", "mlx5", 32),
)
ICRC_ERRORS = counter(
    "node_infiniband_rx_icrc_encapsulated_errors_total",
    "packets",
    "RoCE packets received with a wrong ICRC: corruption or rewriting on the path.",
    hw("rx_icrc_encapsulated", "mlx5"),
)

METRICS: Final = tuple(row for row in list(globals().values()) if isinstance(row, Metric))

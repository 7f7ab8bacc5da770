"""Names of settings of hosts: quality of service, congestion control, PCIe, RDMA defaults.

DCQCN in the paper's terms and base units whatever the vendor calls it (collectors/model/dcqcn.py
has the conversions); 0 in a rate or a byte counter means off or line rate, as the row says.
"""

from typing import Final

from collectors.model.catalogue.named import Named

HOST_SETTINGS: Final = (
    # Data centre bridging (IEEE 802.1Qaz, 802.1Qbb)
    Named("pfc_priorities_max", "count", "Most priorities that may have PFC at once."),
    Named("pfc_delay_bits", "bits", "Round-trip allowance from which headroom is sized."),
    Named("peer_pfc_priorities", "bool", "PFC as the peer announced it over DCBX.", "priority"),
    Named("priority_to_traffic_class", "", "ETS traffic class of the priority.", "priority"),
    Named("ets_algorithm", "", "strict, cbs, ets or vendor.", "traffic class"),
    Named("ets_bandwidth_ratio", "ratio", "Share of the line in ETS.", "traffic class"),
    Named("traffic_class_rate_bps", "bps", "Rate limit, 0: none.", "traffic class"),
    Named("dscp_to_priority", "", "Priority of the DSCP, -1 where none is set.", "dscp"),
    Named("roce_priority_by_port", "", "Priority of UDP 4791 by an APP entry."),
    Named("dscp_rewrite", "", "DSCP written for the priority, -1 where none.", "priority"),
    Named("priority_to_buffer", "", "Receive buffer of the priority.", "priority"),
    Named("buffer_bytes", "bytes", "Size of the receive buffer.", "buffer"),
    Named("buffer_total_bytes", "bytes", "All receive buffers together."),
    Named("dcbx_mode", "", "Who manages DCB (host, firmware) and the version: ieee, cee."),
    # Congestion control
    Named("congestion_control", "", "dcqcn, dctcp-like, programmable, off or unknown."),
    Named("dcqcn_rp_enabled", "bool", "The host slows down on CNPs.", "priority"),
    Named("dcqcn_np_enabled", "bool", "The host sends CNPs.", "priority"),
    Named("dcqcn_g", "ratio", "Gain of the marking estimate alpha."),
    Named("dcqcn_alpha_period_s", "seconds", "Time between updates of alpha."),
    Named("dcqcn_cut_window_s", "seconds", "At most one cut of the rate within this time."),
    Named("dcqcn_increase_timer_s", "seconds", "Timer T of rate increase."),
    Named("dcqcn_byte_counter_bytes", "bytes", "Byte counter B of rate increase; 0: off."),
    Named("dcqcn_recovery_stages", "count", "Stages F of fast recovery."),
    Named("dcqcn_ai_bps", "bps", "Additive increase of the target rate."),
    Named("dcqcn_hai_bps", "bps", "Hyper increase of the target rate."),
    Named("dcqcn_initial_alpha", "ratio", "Alpha of a new flow."),
    Named("dcqcn_cut_gain", "ratio", "The rate is cut by alpha times this."),
    Named("dcqcn_min_decrease_ratio", "ratio", "A cut leaves at least this share of the rate."),
    Named("dcqcn_min_rate_bps", "bps", "The rate is never cut below this."),
    Named("dcqcn_max_rate_bps", "bps", "The rate never grows above this; 0: line rate."),
    Named("dcqcn_first_cnp_rate_bps", "bps", "Rate set on the first CNP; 0: line rate."),
    Named("dcqcn_clamp_target", "bool", "Each CNP lowers the target rate too."),
    Named("dcqcn_clamp_target_after_timer", "bool", "The same, only after a timer increase."),
    Named("dcqcn_cnp_interval_s", "seconds", "Shortest time between two CNPs of a flow."),
    Named("cnp_dscp", "", "DSCP of the CNPs that the host sends."),
    Named("cnp_priority", "", "Priority of the CNPs that the host sends."),
    Named("roce_dscp", "", "DSCP that the device gives to RoCE data."),
    Named("roce_priority", "", "Priority that the device gives to RoCE data."),
    Named("roce_ecn_codepoint", "ecn_codepoint", "Codepoint of RoCE data, 0: not capable."),
    # RDMA defaults
    Named("rdma_cm_tclass", "", "Traffic class of connections made through rdma_cm."),
    Named("rdma_cm_roce_mode", "", "RoCE version of connections made through rdma_cm."),
    Named("forced_tclass", "", "Traffic class forced on all QPs of the port."),
    Named(
        "rdma_netns_mode", "", "RDMA devices belong to one namespace (exclusive) or all (shared)."
    ),
    # PCIe
    Named("pcie_speed_gtps", "", "Speed of the PCIe link now, GT/s per lane."),
    Named("pcie_speed_max_gtps", "", "Speed that the device could do."),
    Named("pcie_width_lanes", "count", "Lanes of the PCIe link now."),
    Named("pcie_width_max_lanes", "count", "Lanes that the device could do."),
    Named("pcie_relaxed_ordering", "bool", "Relaxed ordering is allowed to the device."),
    Named("pcie_max_read_request_bytes", "bytes", "Largest read that the device may ask for."),
    Named("pcie_max_payload_bytes", "bytes", "Largest payload of a PCIe packet."),
    Named("pcie_acs_redirect", "bool", "ACS sends peer-to-peer traffic up to the root."),
    # Jobs
    Named("job_environment", "", "NAME=value of a communication library in a job's process."),
    Named("optional_counters_enabled", "", "Optional hardware counters that are switched on."),
    Named("qp_counter_mode", "", "How queue pairs are bound to counter sets: none, auto, manual."),
)

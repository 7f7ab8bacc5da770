"""What network drivers tell of an interface beyond the kernel's standard statistics.

Names by driver: mlx5 en_stats.c and Documentation/.../mlx5/counters.rst, bnxt_ethtool.c,
ice_ethtool.c, hns3_ethtool.c, ionic's firmware; standard groups in ethtool_netlink.h. Not in
this table: the hundreds of per-queue statistics, and what virtual functions cannot see.
"""

from fractions import Fraction
from typing import Final

from collectors.model.catalogue.interface import ethtool
from collectors.model.catalogue.sources import (
    CISCO_PFC,
    DOT3,
    EOS_PFC,
    IEEE_PFC,
    US,
    by_priority,
    gnmi,
    otlp,
    snmp,
)
from collectors.model.metric import Metric, Source, counter, gauge

PERCENT: Final = Fraction(1, 100)
BIT: Final = Fraction(1, 8)
_NETDEV: Final = ("netdev",)
_ENDS: Final = ("netdev", "interface")
_PRIORITY: Final = ("priority",)

# --- flow control, beside the rows in interface.py ---
PFC_RX_TRANSITIONS = counter(
    "fabric_pfc_rx_transitions_total",
    "events",
    "Times that the priority went from paused to running.",
    ethtool("rx_prio{p}_pause_transition", "mlx5"),
    ethtool("pfc_pri{p}_rx_transitions", "bnxt_en"),
    gnmi(f"{EOS_PFC}/rx-transitions", "eos"),
    *by_priority("sonic_db", "SAI_PORT_STAT_PFC_{p}_ON2OFF_RX_PKTS", "sonic"),
    otlp("nvswitch_interface_sp_rx_pause_transition"),
    on=_PRIORITY,
)
PFC_TX_TRANSITIONS = counter(
    "fabric_pfc_tx_transitions_total",
    "events",
    "Times that this port let the priority of its peer run again.",
    ethtool("pfc_pri{p}_tx_transitions", "bnxt_en"),
    on=_PRIORITY,
)
PFC_RX_ALL = counter(
    "fabric_pfc_rx_all_frames_total",
    "frames",
    "PFC frames received, of all priorities together.",
    ethtool("rx_pfc_frames", "bnxt_en"),
    ethtool("frames_rx_pripause", "ionic"),
    snmp(f"{IEEE_PFC}.3", "IEEE8021-PFC-MIB", 32, note="indications: this port was told to stop"),
    snmp(f"{CISCO_PFC}.1.1.2", "CISCO-PFC-EXT-MIB", note="SONiC: priority 3 only, not read there"),
    on=_ENDS,
)
PFC_TX_ALL = counter(
    "fabric_pfc_tx_all_frames_total",
    "frames",
    "PFC frames sent, of all priorities together.",
    ethtool("tx_pfc_frames", "bnxt_en"),
    ethtool("frames_tx_pripause", "ionic"),
    snmp(f"{IEEE_PFC}.2", "IEEE8021-PFC-MIB", 32, note="requests: this port told its peer to stop"),
    snmp(f"{CISCO_PFC}.1.1.1", "CISCO-PFC-EXT-MIB", note="SONiC: priority 3 only, not read there"),
    on=_ENDS,
)
PAUSE_RX_TIME = counter(
    "fabric_pause_rx_seconds_total",
    "seconds",
    "Time that 802.3x pause kept this port from sending.",
    ethtool("rx_global_pause_duration", "mlx5", US),
    on=_NETDEV,
)
PAUSE_TX_TIME = counter(
    "fabric_pause_tx_seconds_total",
    "seconds",
    "Time that this port kept its peer from sending with 802.3x pause.",
    ethtool("tx_global_pause_duration", "mlx5", US),
    on=_NETDEV,
)
PAUSE_STORM_WARNINGS = counter(
    "fabric_pause_storm_warnings_total",
    "events",
    "Times that this port sent pause for long: a warning of its storm guard.",
    ethtool("tx_pause_storm_warning_events", "mlx5"),
    on=_NETDEV,
)
PAUSE_STORM_ERRORS = counter(
    "fabric_pause_storm_errors_total",
    "events",
    "Times that the storm guard switched sending of pause off; drops are possible.",
    ethtool("tx_pause_storm_error_events", "mlx5"),
    on=_NETDEV,
)

# --- traffic and drops by priority ---
PRIORITY_RX_BYTES = counter(
    "fabric_priority_rx_bytes_total",
    "bytes",
    "Bytes received with the priority.",
    ethtool("rx_prio{p}_bytes", "mlx5"),
    ethtool("rx_bytes_pri{p}", "bnxt_en"),
    on=_PRIORITY,
)
PRIORITY_TX_BYTES = counter(
    "fabric_priority_tx_bytes_total",
    "bytes",
    "Bytes sent with the priority.",
    ethtool("tx_prio{p}_bytes", "mlx5"),
    ethtool("tx_bytes_pri{p}", "bnxt_en"),
    on=_PRIORITY,
)
PRIORITY_RX_FRAMES = counter(
    "fabric_priority_rx_frames_total",
    "frames",
    "Frames received with the priority.",
    ethtool("frames_rx_pri_{p}", "ionic"),
    on=_PRIORITY,
)
PRIORITY_TX_FRAMES = counter(
    "fabric_priority_tx_frames_total",
    "frames",
    "Frames sent with the priority.",
    ethtool("frames_tx_pri_{p}", "ionic"),
    on=_PRIORITY,
)
PRIORITY_RX_DISCARDS = counter(
    "fabric_priority_rx_discards_total",
    "packets",
    "Packets of the priority dropped for want of receive buffer: a lossless one must not.",
    ethtool("rx_prio{p}_discards", "mlx5"),
    on=_PRIORITY,
)
PRIORITY_RX_BUFFER_DISCARDS = counter(
    "fabric_priority_rx_buffer_discards_total",
    "packets",
    "Packets of the priority dropped for want of the buffer of this host.",
    ethtool("rx_prio{p}_buf_discard", "mlx5"),
    on=_PRIORITY,
)
PRIORITY_RX_WRED_DISCARDS = counter(
    "fabric_priority_rx_congestion_discards_total",
    "packets",
    "Packets of the priority dropped by early detection in the device.",
    ethtool("rx_prio{p}_cong_discard", "mlx5"),
    on=_PRIORITY,
)
PRIORITY_RX_MARKED = counter(
    "fabric_priority_rx_ecn_marked_packets_total",
    "packets",
    "Packets of the priority that the device itself marked on the way in.",
    ethtool("rx_prio{p}_marked", "mlx5"),
    on=_PRIORITY,
)

# --- drops of the port ---
PHY_RX_DISCARDS = counter(
    "fabric_interface_rx_buffer_discards_total",
    "packets",
    "Packets dropped in the buffer of the port: host or PCIe cannot drain it.",
    ethtool("rx_discards_phy", "mlx5"),
    ethtool("rx_stat_discard", "bnxt_en"),
    ethtool("rx_dropped.nic", "ice"),
    ethtool("frames_rx_dropped", "ionic"),
    on=_NETDEV,
)
PHY_TX_DISCARDS = counter(
    "fabric_interface_tx_buffer_discards_total",
    "packets",
    "Packets dropped on the way out of the port.",
    ethtool("tx_discards_phy", "mlx5"),
    ethtool("tx_stat_discard", "bnxt_en"),
    ethtool("tx_dropped_link_down.nic", "ice"),
    on=_NETDEV,
)
RX_OUT_OF_BUFFER = counter(
    "fabric_interface_rx_out_of_buffer_total",
    "packets",
    "Packets dropped because no receive descriptor was posted.",
    ethtool("rx_out_of_buffer", "mlx5"),
    on=_NETDEV,
)
RX_STEER_MISSED = counter(
    "fabric_interface_rx_steering_missed_total",
    "packets",
    "Packets that no steering rule took.",
    ethtool("rx_steer_missed_packets", "mlx5"),
    on=_NETDEV,
)
RX_NEAR_FULL = counter(
    "fabric_interface_rx_buffer_near_full_total",
    "events",
    "Times that the receive buffer was above 85 %.",
    ethtool("rx_buffer_passed_thres_phy", "mlx5"),
    ethtool("rx_buffer_passed_threshold", "bnxt_en"),
    on=_NETDEV,
)

# --- physical layer ---
SYMBOL_ERRORS = counter(
    "fabric_interface_rx_symbol_errors_total",
    "symbols",
    "Symbols received in error.",
    ethtool("rx_symbol_err_phy", "mlx5"),
    Source("ethtool_nl", "eth-phy SymbolErrorDuringCarrier"),
    snmp(f"{DOT3}.2.1.18", "EtherLike-MIB", 32),
    on=_ENDS,
)
PCS_SYMBOL_ERRORS = counter(
    "fabric_interface_rx_uncorrected_symbols_total",
    "symbols",
    "Symbols that error correction could not correct.",
    ethtool("rx_pcs_symbol_err_phy", "mlx5"),
    ethtool("rx_pcs_symbol_err", "bnxt_en"),
    on=_NETDEV,
)
CORRECTED_BITS = counter(
    "fabric_interface_rx_fec_corrected_bit_errors_total",
    "errors",
    "Bits that error correction corrected.",
    ethtool("rx_corrected_bits_phy", "mlx5"),
    ethtool("rx_corrected_bits", "bnxt_en"),
    Source("ethtool_nl", "fec corrected_bits"),
    on=_NETDEV,
)
RX_PHY_BYTES = counter(
    "fabric_interface_rx_phy_bytes_total",
    "bytes",
    "Bytes received on the wire, coding included: 8 times this is what corrected bits are part of.",
    ethtool("rx_bits_phy", "mlx5", BIT),
    ethtool("rx_bits", "bnxt_en", BIT),
    on=_NETDEV,
)
FEC_CORRECTED = counter(
    "fabric_interface_rx_fec_corrected_blocks_total",
    "blocks",
    "Blocks that error correction repaired.",
    ethtool("rx_fec_corrected_blocks", "bnxt_en"),
    Source("ethtool_nl", "fec corrected_blocks"),
    on=_NETDEV,
)
FEC_UNCORRECTABLE = counter(
    "fabric_interface_rx_fec_uncorrectable_blocks_total",
    "blocks",
    "Blocks that error correction could not repair: packets were lost.",
    ethtool("rx_fec_uncorrectable_blocks", "bnxt_en"),
    Source("ethtool_nl", "fec uncorrectable_blocks"),
    on=_NETDEV,
)
LANE_ERRORS = counter(
    "fabric_lane_rx_errors_total",
    "bits",
    "Bits received in error on the lane, before correction.",
    ethtool("rx_err_lane_{lane}_phy", "mlx5"),
    on="lane",
)
LINK_DOWN_PHY = counter(
    "fabric_interface_link_down_total",
    "events",
    "Times that the physical layer lost the link.",
    ethtool("link_down_events_phy", "mlx5", width=32),
    ethtool("link_down_events", "bnxt_en"),
    Source("ethtool_nl", "linkstate down_count", width=32),
    on=_NETDEV,
)
OVERSIZE = counter(
    "fabric_interface_rx_oversize_total",
    "frames",
    "Frames received that are longer than the port accepts: an MTU that does not fit.",
    ethtool("rx_oversize_pkts_phy", "mlx5"),
    ethtool("rx_ovrsz_frames", "bnxt_en"),
    ethtool("rx_oversize.nic", "ice"),
    ethtool("frames_rx_oversized", "ionic"),
    Source("ethtool_nl", "rmon etherStatsOversizePkts"),
    on=_NETDEV,
)
MODULE_TEMPERATURE = gauge(
    "fabric_module_temperature_celsius",
    "celsius",
    "Temperature of the optical or copper module.",
    Source("ethtool_nl", "module temperature", number="float"),
    on=_NETDEV,
    number="float",
)
MODULE_RX_POWER = gauge(
    "fabric_module_rx_power_watts",
    "watts",
    "Light received on the lane.",
    Source("ethtool_nl", "module rx_power", number="float"),
    on="lane",
    number="float",
)
MODULE_TX_POWER = gauge(
    "fabric_module_tx_power_watts",
    "watts",
    "Light sent on the lane.",
    Source("ethtool_nl", "module tx_power", number="float"),
    on="lane",
    number="float",
)

# --- PCIe as the device sees it ---
PCI_SIGNAL_RX = counter(
    "fabric_pci_rx_signal_integrity_errors_total",
    "events",
    "PCIe errors on the way to the device that needed recovery.",
    ethtool("rx_pci_signal_integrity", "mlx5"),
    on=_NETDEV,
)
PCI_SIGNAL_TX = counter(
    "fabric_pci_tx_signal_integrity_errors_total",
    "events",
    "PCIe errors on the way from the device that needed recovery.",
    ethtool("tx_pci_signal_integrity", "mlx5"),
    on=_NETDEV,
)
PCI_STALLED_READ = gauge(
    "fabric_pci_read_stalled_ratio",
    "ratio",
    "Share of the last second in which reads of host memory waited for PCIe credits.",
    ethtool("outbound_pci_stalled_rd", "mlx5", PERCENT),
    on=_NETDEV,
)
PCI_STALLED_WRITE = gauge(
    "fabric_pci_write_stalled_ratio",
    "ratio",
    "Share of the last second in which writes to host memory waited for PCIe credits.",
    ethtool("outbound_pci_stalled_wr", "mlx5", PERCENT),
    on=_NETDEV,
)
PCI_STALLED_READ_TIME = counter(
    "fabric_pci_read_stalled_seconds_total",
    "seconds",
    "Seconds in which reads of host memory waited for credits for over 30 % of the time.",
    ethtool("outbound_pci_stalled_rd_events", "mlx5"),
    on=_NETDEV,
)
PCI_STALLED_WRITE_TIME = counter(
    "fabric_pci_write_stalled_seconds_total",
    "seconds",
    "Seconds in which writes to host memory waited for credits for over 30 % of the time.",
    ethtool("outbound_pci_stalled_wr_events", "mlx5"),
    on=_NETDEV,
)
PCI_BUFFER_OVERFLOW = counter(
    "fabric_pci_buffer_overflow_packets_total",
    "packets",
    "Packets dropped because PCIe could not take them.",
    ethtool("outbound_pci_buffer_overflow", "mlx5"),
    on=_NETDEV,
)

# --- RDMA traffic of the function, as its interface counts it ---
VPORT_RDMA_RX_BYTES = counter(
    "fabric_vport_rdma_rx_bytes_total",
    "bytes",
    "RDMA bytes received by this function; the same traffic as the RDMA port counts.",
    ethtool("rx_vport_rdma_unicast_bytes", "mlx5"),
    on=_NETDEV,
)
VPORT_RDMA_TX_BYTES = counter(
    "fabric_vport_rdma_tx_bytes_total",
    "bytes",
    "RDMA bytes sent by this function; the same traffic as the RDMA port counts.",
    ethtool("tx_vport_rdma_unicast_bytes", "mlx5"),
    on=_NETDEV,
)

METRICS: Final = tuple(row for row in list(globals().values()) if isinstance(row, Metric))

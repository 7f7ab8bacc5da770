"""What only management datagrams tell of InfiniBand ports: virtual lanes, discards, congestion.

Field names and widths: IBTA vol. 1, 16.1.4 and annex A10; all of them stop at their maximum.
"""

from fractions import Fraction
from typing import Final

from collectors.model.metric import Metric, Source, counter, gauge

_ENDS: Final = ("port", "interface")
_WORDS: Final = Fraction(4)


def _mad(key: str, width: int, scale: Fraction = Fraction(1)) -> Source:
    return Source("mad", key, scale=scale, width=width, overflow="saturates")


# --- link ------------------------------------------------------------------------------------
LANES = gauge(
    "fabric_ib_link_lanes",
    "count",
    "Lanes that the link runs on: 1, 2, 4, 8 or 12.",
    Source("mad", "PortInfo.LinkWidthActive"),
    on=_ENDS,
)
DATA_RATE = gauge(
    "fabric_ib_link_data_rate_bps",
    "bps",
    "Data bits per second that the link carries each way, coding taken off.",
    Source("derived", "ib_data_rate"),
    on=_ENDS,
)
WAIT_TICK = gauge(
    "fabric_ib_tx_wait_tick_seconds",
    "seconds",
    "Length of one tick of the transmit-wait counters of this port.",
    Source("derived", "ib_tick", note="(Tick+1) x 8 data bits at the rate of the link"),
    on=_ENDS,
    number="float",
)

# --- why packets were discarded --------------------------------------------------------------
DISCARDS_INACTIVE = counter(
    "fabric_ib_tx_discards_inactive_total",
    "packets",
    "Outbound packets discarded because the port was not active.",
    _mad("PortXmitDiscardDetails.PortInactiveDiscards", 16),
    on=_ENDS,
)
DISCARDS_MTU = counter(
    "fabric_ib_tx_discards_neighbour_mtu_total",
    "packets",
    "Outbound packets discarded because they were longer than the neighbour's MTU.",
    _mad("PortXmitDiscardDetails.PortNeighborMTUDiscards", 16),
    on=_ENDS,
)
DISCARDS_LIFETIME = counter(
    "fabric_ib_tx_discards_switch_lifetime_total",
    "packets",
    "Outbound packets discarded because they stayed in the switch for too long.",
    _mad("PortXmitDiscardDetails.PortSwLifetimeLimitDiscards", 16),
    on=_ENDS,
)
DISCARDS_HOQ = counter(
    "fabric_ib_tx_discards_hoq_lifetime_total",
    "packets",
    "Outbound packets discarded at the head of the queue, after HOQLife without credits.",
    _mad("PortXmitDiscardDetails.PortSwHOQLifetimeLimitDiscards", 16),
    on=_ENDS,
)

# --- why packets were received in error ------------------------------------------------------
RX_LOCAL_PHYSICAL = counter(
    "fabric_ib_rx_errors_local_physical_total",
    "packets",
    "Packets received with a physical error: CRC, length, delimiter.",
    _mad("PortRcvErrorDetails.PortLocalPhysicalErrors", 16),
    on=_ENDS,
)
RX_MALFORMED = counter(
    "fabric_ib_rx_errors_malformed_total",
    "packets",
    "Packets received malformed.",
    _mad("PortRcvErrorDetails.PortMalformedPacketErrors", 16),
    on=_ENDS,
)
RX_BUFFER_OVERRUN = counter(
    "fabric_ib_rx_errors_buffer_overrun_total",
    "packets",
    "Packets received that overran the buffer: the sender ignored its credits.",
    _mad("PortRcvErrorDetails.PortBufferOverrunErrors", 16),
    on=_ENDS,
)
RX_DLID_MAPPING = counter(
    "fabric_ib_rx_errors_dlid_mapping_total",
    "packets",
    "Packets received whose destination LID leads nowhere.",
    _mad("PortRcvErrorDetails.PortDLIDMappingErrors", 16),
    on=_ENDS,
)
RX_VL_MAPPING = counter(
    "fabric_ib_rx_errors_vl_mapping_total",
    "packets",
    "Packets received whose service level has no virtual lane.",
    _mad("PortRcvErrorDetails.PortVLMappingErrors", 16),
    on=_ENDS,
)
RX_LOOPING = counter(
    "fabric_ib_rx_errors_looping_total",
    "packets",
    "Packets received that would leave by the port that they came in by.",
    _mad("PortRcvErrorDetails.PortLoopingErrors", 16),
    on=_ENDS,
)
QP1_DROPPED = counter(
    "fabric_ib_qp1_dropped_total",
    "packets",
    "Management packets to QP1 dropped for want of resources.",
    _mad("PortCountersExtended.QP1Dropped", 64),
    _mad("PortCounters.QP1Dropped", 16),
    on=_ENDS,
)

# --- flow and congestion control -------------------------------------------------------------
FLOW_TX = counter(
    "fabric_ib_flow_control_tx_packets_total",
    "packets",
    "Credit updates sent.",
    _mad("PortFlowCtlCounters.PortXmitFlowPkts", 32),
    on=_ENDS,
)
FLOW_RX = counter(
    "fabric_ib_flow_control_rx_packets_total",
    "packets",
    "Credit updates received.",
    _mad("PortFlowCtlCounters.PortRcvFlowPkts", 32),
    on=_ENDS,
)
FECN_RX = counter(
    "fabric_ib_fecn_rx_packets_total",
    "packets",
    "Packets received with forward congestion notification: the path to this port is congested.",
    _mad("PortRcvConCtrl.PortPktRcvFECN", 32),
    on=_ENDS,
)
BECN_RX = counter(
    "fabric_ib_becn_rx_packets_total",
    "packets",
    "Backward congestion notifications received: this port was told to slow down.",
    _mad("PortRcvConCtrl.PortPktRcvBECN", 32),
    on=_ENDS,
)
TX_CONGESTED = counter(
    "fabric_ib_tx_congested_ticks_total",
    "ticks",
    "Time that the port was a root or victim of congestion, in the device's own ticks.",
    _mad("PortXmitConCtrl.PortXmitTimeCong", 32),
    on=_ENDS,
)

# --- forward error correction ----------------------------------------------------------------
FEC_CORRECTED = counter(
    "fabric_ib_fec_corrected_blocks_total",
    "blocks",
    "FEC blocks of the port that were corrected.",
    _mad("PortExtendedSpeedsCounters.PortFECCorrectableBlockCounter", 32),
    on=_ENDS,
)
FEC_UNCORRECTED = counter(
    "fabric_ib_fec_uncorrected_blocks_total",
    "blocks",
    "FEC blocks of the port that could not be corrected: their packets are lost.",
    _mad("PortExtendedSpeedsCounters.PortFECUncorrectableBlockCounter", 32),
    on=_ENDS,
)
FEC_SYMBOLS = counter(
    "fabric_ib_fec_corrected_symbols_total",
    "symbols",
    "FEC symbols that were corrected: the raw error rate of the link.",
    _mad("PortExtendedSpeedsCounters.PortFECCorrectedSymbolCounter", 32),
    on=_ENDS,
)
SYNC_HEADER_ERRORS = counter(
    "fabric_ib_sync_header_errors_total",
    "errors",
    "Wrong synchronisation headers received.",
    _mad("PortExtendedSpeedsCounters.SyncHeaderErrorCounter", 16),
    on=_ENDS,
)
LANE_ERRORS = counter(
    "fabric_ib_lane_errors_total",
    "errors",
    "Errors that the lane's receiver detected.",
    _mad("PortExtendedSpeedsCounters.ErrorDetectionCounterLane", 16),
    on="lane",
)
LANE_FEC_CORRECTED = counter(
    "fabric_ib_lane_fec_corrected_total",
    "blocks",
    "FEC blocks (RS-FEC: symbols) of the lane that were corrected.",
    _mad("PortExtendedSpeedsCounters.FECCorrectableBlockCounterLane", 32),
    on="lane",
)
LANE_FEC_UNCORRECTED = counter(
    "fabric_ib_lane_fec_uncorrected_blocks_total",
    "blocks",
    "FEC blocks of the lane that could not be corrected.",
    _mad("PortExtendedSpeedsCounters.FECUncorrectableBlockCounterLane", 32),
    on="lane",
)

# --- virtual lanes and service levels --------------------------------------------------------
VL_TX_WAIT = counter(
    "fabric_ib_vl_tx_wait_total",
    "ticks",
    "Ticks in which data of the virtual lane waited for credits or arbitration.",
    _mad("PortVLXmitWaitCounters.PortVLXmitWait", 16),
    on="vl",
)
VL_CONGESTION = counter(
    "fabric_ib_vl_congestion_total",
    "events",
    "Congestion of the virtual lane as the switch counts it.",
    _mad("SwPortVLCongestion.SwPortVLCongestion", 16),
    on="vl",
)
VL_TX_CONGESTED = counter(
    "fabric_ib_vl_tx_congested_ticks_total",
    "ticks",
    "Time that the virtual lane was congested, in the device's own ticks.",
    _mad("PortVLXmitTimeCong.PortVLXmitTimeCong", 32),
    on="vl",
)
SL_TX_BYTES = counter(
    "fabric_ib_sl_tx_bytes_total",
    "bytes",
    "Bytes sent in the service level.",
    _mad("PortXmitDataSL.PortXmitDataSL", 32, _WORDS),
    on="sl",
)
SL_RX_BYTES = counter(
    "fabric_ib_sl_rx_bytes_total",
    "bytes",
    "Bytes received in the service level.",
    _mad("PortRcvDataSL.PortRcvDataSL", 32, _WORDS),
    on="sl",
)
SL_FECN_RX = counter(
    "fabric_ib_sl_fecn_rx_packets_total",
    "packets",
    "Packets of the service level received with forward congestion notification.",
    _mad("PortSLRcvFECN.PortSLRcvFECN", 32),
    on="sl",
)
SL_BECN_RX = counter(
    "fabric_ib_sl_becn_rx_packets_total",
    "packets",
    "Backward congestion notifications received in the service level.",
    _mad("PortSLRcvBECN.PortSLRcvBECN", 32),
    on="sl",
)

# --- static routing --------------------------------------------------------------------------
ROUTE_LOAD = gauge(
    "fabric_ib_route_load_flows",
    "count",
    "Flows of all-to-all traffic between all adapters that static routing sends out of the port.",
    Source("derived", "ib_all_to_all"),
    on=_ENDS,
)

METRICS: Final = tuple(row for row in list(globals().values()) if isinstance(row, Metric))

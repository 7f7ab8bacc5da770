"""Performance management attributes (IBTA vol. 1, 16.1.3 mandatory, 16.1.4 optional; A10 for CC).

Counters stop at their maximum; they do not wrap (16.1.3.5). Data counters count 32-bit words.
"""

from __future__ import annotations

from collectors.codec.mad_layout import Field, Layout, repeated

F = Field
_SELECT = (F("PortSelect", 8, 8), F("CounterSelect", 16, 16))
_SIZE = 192

CLASS_PORT_INFO = Layout(
    "ClassPortInfo",
    0x01,
    "13.4.8.1",
    _SIZE,
    F("BaseVersion", 0, 8),
    F("ClassVersion", 8, 8),
    F("CapabilityMask", 16, 16),
    F("CapabilityMask2", 32, 27),
    F("RespTimeValue", 59, 5),
    F("RedirectLID", 224, 16),
    F("RedirectP_Key", 240, 16),
    F("RedirectQP", 264, 24),
    F("RedirectQ_Key", 288, 32),
    F("TrapLID", 480, 16),
)

PORT_SAMPLES_CONTROL = Layout(
    "PortSamplesControl",
    0x10,
    "16.1.3.2",
    _SIZE,
    F("OpCode", 0, 8),
    F("PortSelect", 8, 8),
    F("Tick", 16, 8),
    F("CounterWidth", 29, 3),
    F("CounterMask0", 34, 3),
    F("CounterMasks1to9", 37, 27),
    F("CounterMasks10to14", 65, 15),
    F("SampleMechanisms", 80, 8),
    F("SampleStatus", 94, 2),
    F("OptionMask", 96, 64),
    F("VendorMask", 160, 64),
    F("SampleStart", 224, 32),
    F("SampleInterval", 256, 32),
    F("Tag", 288, 16),
)

PORT_COUNTERS = Layout(
    "PortCounters",
    0x12,
    "16.1.3.5",
    _SIZE,
    *_SELECT,
    F("SymbolErrorCounter", 32, 16),
    F("LinkErrorRecoveryCounter", 48, 8),
    F("LinkDownedCounter", 56, 8),
    F("PortRcvErrors", 64, 16),
    F("PortRcvRemotePhysicalErrors", 80, 16),
    F("PortRcvSwitchRelayErrors", 96, 16),
    F("PortXmitDiscards", 112, 16),
    F("PortXmitConstraintErrors", 128, 8),
    F("PortRcvConstraintErrors", 136, 8),
    F("CounterSelect2", 144, 8),
    F("LocalLinkIntegrityErrors", 152, 4),
    F("ExcessiveBufferOverrunErrors", 156, 4),
    F("QP1Dropped", 160, 16),
    F("VL15Dropped", 176, 16),
    F("PortXmitData", 192, 32),
    F("PortRcvData", 224, 32),
    F("PortXmitPkts", 256, 32),
    F("PortRcvPkts", 288, 32),
    F("PortXmitWait", 320, 32),
)

PORT_RCV_ERROR_DETAILS = Layout(
    "PortRcvErrorDetails",
    0x15,
    "16.1.4.1",
    _SIZE,
    *_SELECT,
    F("PortLocalPhysicalErrors", 32, 16),
    F("PortMalformedPacketErrors", 48, 16),
    F("PortBufferOverrunErrors", 64, 16),
    F("PortDLIDMappingErrors", 80, 16),
    F("PortVLMappingErrors", 96, 16),
    F("PortLoopingErrors", 112, 16),
)

PORT_XMIT_DISCARD_DETAILS = Layout(
    "PortXmitDiscardDetails",
    0x16,
    "16.1.4.2",
    _SIZE,
    *_SELECT,
    F("PortInactiveDiscards", 32, 16),
    F("PortNeighborMTUDiscards", 48, 16),
    F("PortSwLifetimeLimitDiscards", 64, 16),
    F("PortSwHOQLifetimeLimitDiscards", 80, 16),
)

PORT_OP_RCV_COUNTERS = Layout(
    "PortOpRcvCounters",
    0x17,
    "16.1.4.3",
    _SIZE,
    *_SELECT,
    F("PortOpRcvPkts", 32, 32),
    F("PortOpRcvData", 64, 32),
)
PORT_FLOW_CTL_COUNTERS = Layout(
    "PortFlowCtlCounters",
    0x18,
    "16.1.4.4",
    _SIZE,
    *_SELECT,
    F("PortXmitFlowPkts", 32, 32),
    F("PortRcvFlowPkts", 64, 32),
)
PORT_VL_OP_PACKETS = Layout(
    "PortVLOpPackets", 0x19, "16.1.4.5", _SIZE, *_SELECT, repeated("PortVLOpPackets", 32, 16, 16)
)
PORT_VL_OP_DATA = Layout(
    "PortVLOpData", 0x1A, "16.1.4.6", _SIZE, *_SELECT, repeated("PortVLOpData", 32, 32, 16)
)
PORT_VL_XMIT_FLOW_CTL_UPDATE_ERRORS = Layout(
    "PortVLXmitFlowCtlUpdateErrors",
    0x1B,
    "16.1.4.7",
    _SIZE,
    *_SELECT,
    repeated("PortVLXmitFlowCtlUpdateErrors", 32, 2, 16),
)
PORT_VL_XMIT_WAIT_COUNTERS = Layout(
    "PortVLXmitWaitCounters",
    0x1C,
    "16.1.4.8",
    _SIZE,
    *_SELECT,
    repeated("PortVLXmitWait", 32, 16, 16),
)

PORT_COUNTERS_EXTENDED = Layout(
    "PortCountersExtended",
    0x1D,
    "16.1.4.11",
    _SIZE,
    *_SELECT,
    F("CounterSelect2", 32, 32),
    F("PortXmitData", 64, 64),
    F("PortRcvData", 128, 64),
    F("PortXmitPkts", 192, 64),
    F("PortRcvPkts", 256, 64),
    F("PortUnicastXmitPkts", 320, 64),
    F("PortUnicastRcvPkts", 384, 64),
    F("PortMulticastXmitPkts", 448, 64),
    F("PortMulticastRcvPkts", 512, 64),
    # below only with CapabilityMask2.AdditionalPortCountersExtended
    F("SymbolErrorCounter", 576, 64),
    F("LinkErrorRecoveryCounter", 640, 64),
    F("LinkDownedCounter", 704, 64),
    F("PortRcvErrors", 768, 64),
    F("PortRcvRemotePhysicalErrors", 832, 64),
    F("PortRcvSwitchRelayErrors", 896, 64),
    F("PortXmitDiscards", 960, 64),
    F("PortXmitConstraintErrors", 1024, 64),
    F("PortRcvConstraintErrors", 1088, 64),
    F("LocalLinkIntegrityErrors", 1152, 64),
    F("ExcessiveBufferOverrunErrors", 1216, 64),
    F("VL15Dropped", 1280, 64),
    F("PortXmitWait", 1344, 64),
    F("QP1Dropped", 1408, 64),
)

PORT_EXTENDED_SPEEDS_COUNTERS = Layout(
    "PortExtendedSpeedsCounters",
    0x1F,
    "16.1.4",
    _SIZE,
    F("PortSelect", 8, 8),
    F("CounterSelect", 64, 64),
    F("SyncHeaderErrorCounter", 128, 16),
    F("UnknownBlockCounter", 144, 16),
    repeated("ErrorDetectionCounterLane", 160, 16, 12),
    # with RS-FEC active the same words count corrected symbols
    repeated("FECCorrectableBlockCounterLane", 352, 32, 12),
    repeated("FECUncorrectableBlockCounterLane", 736, 32, 12),
    # RS-FEC whole-port counters (CapabilityMask bit 14)
    F("PortFECCorrectableBlockCounter", 1120, 32),
    F("PortFECUncorrectableBlockCounter", 1152, 32),
    F("PortFECCorrectedSymbolCounter", 1184, 32),
)

SW_PORT_VL_CONGESTION = Layout(
    "SwPortVLCongestion",
    0x30,
    "A10.5",
    _SIZE,
    *_SELECT,
    repeated("SwPortVLCongestion", 32, 16, 16),
)
PORT_RCV_CON_CTRL = Layout(
    "PortRcvConCtrl",
    0x31,
    "A10.5",
    _SIZE,
    *_SELECT,
    F("PortPktRcvFECN", 32, 32),
    F("PortPktRcvBECN", 64, 32),
)
PORT_SL_RCV_FECN = Layout(
    "PortSLRcvFECN", 0x32, "A10.5", _SIZE, *_SELECT, repeated("PortSLRcvFECN", 32, 32, 16)
)
PORT_SL_RCV_BECN = Layout(
    "PortSLRcvBECN", 0x33, "A10.5", _SIZE, *_SELECT, repeated("PortSLRcvBECN", 32, 32, 16)
)
PORT_XMIT_CON_CTRL = Layout(
    "PortXmitConCtrl", 0x34, "A10.5", _SIZE, *_SELECT, F("PortXmitTimeCong", 32, 32)
)
PORT_VL_XMIT_TIME_CONG = Layout(
    "PortVLXmitTimeCong",
    0x35,
    "A10.5",
    _SIZE,
    *_SELECT,
    repeated("PortVLXmitTimeCong", 32, 32, 15),
)
PORT_XMIT_DATA_SL = Layout(
    "PortXmitDataSL", 0x36, "A13.6.5", _SIZE, *_SELECT, repeated("PortXmitDataSL", 32, 32, 16)
)
PORT_RCV_DATA_SL = Layout(
    "PortRcvDataSL", 0x37, "A13.6.5", _SIZE, *_SELECT, repeated("PortRcvDataSL", 32, 32, 16)
)

LAYOUTS = (
    CLASS_PORT_INFO,
    PORT_SAMPLES_CONTROL,
    PORT_COUNTERS,
    PORT_RCV_ERROR_DETAILS,
    PORT_XMIT_DISCARD_DETAILS,
    PORT_OP_RCV_COUNTERS,
    PORT_FLOW_CTL_COUNTERS,
    PORT_VL_OP_PACKETS,
    PORT_VL_OP_DATA,
    PORT_VL_XMIT_FLOW_CTL_UPDATE_ERRORS,
    PORT_VL_XMIT_WAIT_COUNTERS,
    PORT_COUNTERS_EXTENDED,
    PORT_EXTENDED_SPEEDS_COUNTERS,
    SW_PORT_VL_CONGESTION,
    PORT_RCV_CON_CTRL,
    PORT_SL_RCV_FECN,
    PORT_SL_RCV_BECN,
    PORT_XMIT_CON_CTRL,
    PORT_VL_XMIT_TIME_CONG,
    PORT_XMIT_DATA_SL,
    PORT_RCV_DATA_SL,
)

# ClassPortInfo.CapabilityMask of PerfMgt (16.1.3.1)
CAP_ALL_PORT_SELECT = 1 << 8
CAP_EXTENDED_WIDTH = 1 << 9
CAP_EXTENDED_WIDTH_NOIETF = 1 << 10  # extended, but without unicast/multicast packet counts
CAP_XMIT_WAIT = 1 << 12
CAP_RS_FEC = 1 << 14
CAP_QP1_DROPPED = 1 << 15
CAP2_ADDITIONAL_EXTENDED = 1 << 1  # 64-bit errors and XmitWait in PortCountersExtended

EXTENDED_IETF = PORT_COUNTERS_EXTENDED.names[7:11]
EXTENDED_ADDITIONAL = PORT_COUNTERS_EXTENDED.names[11:]
RS_FEC_ONLY = PORT_EXTENDED_SPEEDS_COUNTERS.names[-3:]

DEFAULT_TICK = 7  # of current switches that do not tell: 64 bits
BITS_PER_SYMBOL = 8


def tick_seconds(tick: int, rate_bps: float) -> float:
    """Return the length of a tick of a link that carries `rate_bps` of data.

    A tick is Tick + 1 symbol times (16.1.3.2), and a symbol is a byte of data at the rate of the
    link: 4 ns on one SDR lane, 0.04 ns on 4xHDR. Devices differ; compare within a family.
    """
    return (tick + 1) * BITS_PER_SYMBOL / rate_bps if rate_bps else 0.0

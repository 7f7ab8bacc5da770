"""Subnet management attributes (IBTA vol. 1, 14.2.5) and the words of their values."""

from __future__ import annotations

from collectors.codec.mad_layout import Field, Layout, raw, repeated

F = Field

NODE_DESCRIPTION = Layout("NodeDescription", 0x10, "14.2.5.2", 64, raw("NodeString", 0, 512))

NODE_INFO = Layout(
    "NodeInfo",
    0x11,
    "14.2.5.3",
    64,
    F("BaseVersion", 0, 8),
    F("ClassVersion", 8, 8),
    F("NodeType", 16, 8),
    F("NumPorts", 24, 8),
    F("SystemImageGUID", 32, 64),
    F("NodeGUID", 96, 64),
    F("PortGUID", 160, 64),
    F("PartitionCap", 224, 16),
    F("DeviceID", 240, 16),
    F("Revision", 256, 32),
    F("LocalPortNum", 288, 8),
    F("VendorID", 296, 24),
)

SWITCH_INFO = Layout(
    "SwitchInfo",
    0x12,
    "14.2.5.4",
    64,
    F("LinearFDBCap", 0, 16),
    F("RandomFDBCap", 16, 16),
    F("MulticastFDBCap", 32, 16),
    F("LinearFDBTop", 48, 16),
    F("DefaultPort", 64, 8),
    F("DefaultMulticastPrimaryPort", 72, 8),
    F("DefaultMulticastNotPrimaryPort", 80, 8),
    F("LifeTimeValue", 88, 5),
    F("PortStateChange", 93, 1),
    F("OptimizedSLtoVLMappingProgramming", 94, 2),
    F("LIDsPerPort", 96, 16),
    F("PartitionEnforcementCap", 112, 16),
    F("InboundEnforcementCap", 128, 1),
    F("OutboundEnforcementCap", 129, 1),
    F("FilterRawInboundCap", 130, 1),
    F("FilterRawOutboundCap", 131, 1),
    F("EnhancedPort0", 132, 1),
    F("MulticastFDBTop", 144, 16),
)

GUID_INFO = Layout("GUIDInfo", 0x14, "14.2.5.5", 64, repeated("GUID", 0, 64, 8))

PORT_INFO = Layout(
    "PortInfo",
    0x15,
    "14.2.5.6",
    64,
    F("M_Key", 0, 64),
    F("GidPrefix", 64, 64),
    F("LID", 128, 16),
    F("MasterSMLID", 144, 16),
    F("CapabilityMask", 160, 32),
    F("DiagCode", 192, 16),
    F("M_KeyLeasePeriod", 208, 16),
    F("LocalPortNum", 224, 8),
    F("LinkWidthEnabled", 232, 8),
    F("LinkWidthSupported", 240, 8),
    F("LinkWidthActive", 248, 8),
    F("LinkSpeedSupported", 256, 4),
    F("PortState", 260, 4),
    F("PortPhysicalState", 264, 4),
    F("LinkDownDefaultState", 268, 4),
    F("M_KeyProtectBits", 272, 2),
    F("LMC", 277, 3),
    F("LinkSpeedActive", 280, 4),
    F("LinkSpeedEnabled", 284, 4),
    F("NeighborMTU", 288, 4),
    F("MasterSMSL", 292, 4),
    F("VLCap", 296, 4),
    F("InitType", 300, 4),
    F("VLHighLimit", 304, 8),
    F("VLArbitrationHighCap", 312, 8),
    F("VLArbitrationLowCap", 320, 8),
    F("InitTypeReply", 328, 4),
    F("MTUCap", 332, 4),
    F("VLStallCount", 336, 3),
    F("HOQLife", 339, 5),
    F("OperationalVLs", 344, 4),
    F("PartitionEnforcementInbound", 348, 1),
    F("PartitionEnforcementOutbound", 349, 1),
    F("FilterRawInbound", 350, 1),
    F("FilterRawOutbound", 351, 1),
    F("M_KeyViolations", 352, 16),
    F("P_KeyViolations", 368, 16),
    F("Q_KeyViolations", 384, 16),
    F("GUIDCap", 400, 8),
    F("ClientReregister", 408, 1),
    F("MulticastPKeyTrapSuppressionEnabled", 409, 2),
    F("SubnetTimeOut", 411, 5),
    F("RespTimeValue", 419, 5),
    F("LocalPhyErrors", 424, 4),
    F("OverrunErrors", 428, 4),
    F("MaxCreditHint", 432, 16),
    # 1.7 (XDR) put these between MaxCreditHint and LinkRoundTripLatency
    F("LinkSpeedExtActive2", 449, 2),
    F("LinkSpeedExtSupported2", 451, 2),
    F("LinkSpeedExtEnabled2", 453, 3),
    F("LinkRoundTripLatency", 456, 24),
    F("CapabilityMask2", 480, 16),
    F("LinkSpeedExtActive", 496, 4),
    F("LinkSpeedExtSupported", 500, 4),
    F("LinkSpeedExtEnabled", 507, 5),
)

P_KEY_TABLE = Layout("P_KeyTable", 0x16, "14.2.5.7", 64, repeated("P_Key", 0, 16, 32))
SL_TO_VL = Layout("SLtoVLMappingTable", 0x17, "14.2.5.8", 64, repeated("SLtoVL", 0, 4, 16))
# 32 pairs of (VL, weight in 64-byte units): the pair's first byte has the VL in its low nibble
VL_ARBITRATION = Layout("VLArbitrationTable", 0x18, "14.2.5.9", 64, repeated("VLWeight", 0, 16, 32))
LINEAR_FORWARDING = Layout("LinearForwardingTable", 0x19, "14.2.5.10", 64, raw("Port", 0, 512))
MULTICAST_FORWARDING = Layout(
    "MulticastForwardingTable", 0x1B, "14.2.5.12", 64, repeated("PortMask", 0, 16, 32)
)
SM_INFO = Layout(
    "SMInfo",
    0x20,
    "14.2.5.13",
    64,
    F("GUID", 0, 64),
    F("SM_Key", 64, 64),
    F("ActCount", 128, 32),
    F("Priority", 160, 4),
    F("SMState", 164, 4),
)
PORT_INFO_EXTENDED = Layout(
    "PortInfoExtended",
    0x33,
    "14.2.5.19",
    64,
    F("CapMask", 0, 32),
    F("FECModeActive", 32, 16),
    F("FDRFECModeSupported", 48, 16),
    F("FDRFECModeEnabled", 64, 16),
    F("EDRFECModeSupported", 80, 16),
    F("EDRFECModeEnabled", 96, 16),
    F("HDRFECModeSupported", 112, 16),
    F("HDRFECModeEnabled", 128, 16),
    F("NDRFECModeSupported", 144, 16),
    F("NDRFECModeEnabled", 160, 16),
)

LAYOUTS = (
    NODE_DESCRIPTION,
    NODE_INFO,
    SWITCH_INFO,
    GUID_INFO,
    PORT_INFO,
    P_KEY_TABLE,
    SL_TO_VL,
    VL_ARBITRATION,
    LINEAR_FORWARDING,
    MULTICAST_FORWARDING,
    SM_INFO,
    PORT_INFO_EXTENDED,
)

LFT_BLOCK = 64  # LIDs per LinearForwardingTable block
LFT_DROP = 0xFF  # egress port of a LID without a route

# PortState; 3 is armed
PORT_DOWN, PORT_INIT, PORT_ACTIVE = 1, 2, 4
# PortPhysicalState
POLLING, LINK_UP = 2, 5

# PortInfo.CapabilityMask
CAP_EXTENDED_SPEEDS = 1 << 14
CAP_CAPABILITY_MASK2 = 1 << 15
# PortInfo.CapabilityMask2
CAP2_EXTENDED_SPEEDS2 = 1 << 11

# LinkWidthActive is one bit (14.2.5.6)
LINK_WIDTH = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
# Signalling names and the data rate of one lane in bit/s
LINK_SPEED = {1: ("SDR", 2.5e9), 2: ("DDR", 5e9), 4: ("QDR", 10e9)}
LINK_SPEED_EXT = {
    1: ("FDR", 14.0625e9),
    2: ("EDR", 25.78125e9),
    4: ("HDR", 53.125e9),
    8: ("NDR", 106.25e9),
}
LINK_SPEED_EXT2 = {1: ("XDR", 212.5e9)}
# Data bits per signalled bit: 8b/10b up to QDR, 64b/66b (or RS-FEC) above
DATA_RATE_PER_LANE = {
    "SDR": 2.0e9,
    "DDR": 4.0e9,
    "QDR": 8.0e9,
    "FDR": 14.0625e9 * 64 / 66,
    "FDR10": 10.3125e9 * 64 / 66,
    "EDR": 25.0e9,
    "HDR": 50.0e9,
    "NDR": 100.0e9,
    "XDR": 200.0e9,
}


def link_speed(info: dict[str, int], capable: dict[str, int] | None = None) -> str:
    """Return the active speed's name from a PortInfo; "" when the code is not known.

    capable: the PortInfo with the capability masks where that is another one: a switch keeps
    them in port 0 only (14.2.5.6, CapabilityMask).
    """
    masks = capable or info
    if masks["CapabilityMask"] & CAP_EXTENDED_SPEEDS:
        if masks["CapabilityMask2"] & CAP2_EXTENDED_SPEEDS2 and info["LinkSpeedExtActive2"]:
            return LINK_SPEED_EXT2.get(info["LinkSpeedExtActive2"], ("", 0.0))[0]
        if info["LinkSpeedExtActive"]:
            return LINK_SPEED_EXT.get(info["LinkSpeedExtActive"], ("", 0.0))[0]
    return LINK_SPEED.get(info["LinkSpeedActive"], ("", 0.0))[0]


def mtu_bytes(code: int) -> int:
    """Return the MTU in bytes of the code 1-5 (256 … 4096), else 0."""
    return 128 << code if 1 <= code <= 5 else 0


def parse_node_string(payload: bytes | memoryview) -> str:
    """Return a NodeDescription as text: up to the first NUL, undecodable bytes replaced."""
    text: bytes = NODE_DESCRIPTION.parse(payload)["NodeString"]
    return text.split(b"\0", 1)[0].decode("utf-8", "replace").strip()

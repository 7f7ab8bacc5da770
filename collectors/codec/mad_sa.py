"""Subnet administration records (IBTA vol. 1, 15.2.5): what the subnet manager knows."""

from __future__ import annotations

from collectors.codec.mad_layout import Field, Layout, raw

F = Field

NODE_RECORD = Layout(
    "NodeRecord",
    0x11,
    "15.2.5.2",
    112,
    F("LID", 0, 16),
    raw("NodeInfo", 32, 320),
    raw("NodeDescription", 352, 512),
)
PORT_INFO_RECORD = Layout(
    "PortInfoRecord",
    0x12,
    "15.2.5.3",
    72,
    F("EndPortLID", 0, 16),
    F("PortNum", 16, 8),
    raw("PortInfo", 32, 512),
)
LINK_RECORD = Layout(
    "LinkRecord",
    0x20,
    "15.2.5.13",
    8,
    F("FromLID", 0, 16),
    F("FromPort", 16, 8),
    F("ToPort", 24, 8),
    F("ToLID", 32, 16),
)
LFT_RECORD = Layout(
    "LinearForwardingTableRecord",
    0x15,
    "15.2.5.6",
    72,
    F("LID", 0, 16),
    F("BlockNum", 16, 16),
    raw("LinearForwardingTable", 64, 512),
)
PATH_RECORD = Layout(
    "PathRecord",
    0x35,
    "15.2.5.16",
    64,
    F("ServiceID", 0, 64),
    raw("DGID", 64, 128),
    raw("SGID", 192, 128),
    F("DLID", 320, 16),
    F("SLID", 336, 16),
    F("NumbPath", 393, 7),
    F("P_Key", 400, 16),
    F("SL", 428, 4),
    F("MtuSelector", 432, 2),
    F("Mtu", 434, 6),
    F("RateSelector", 440, 2),
    F("Rate", 442, 6),
)
LAYOUTS = (NODE_RECORD, PORT_INFO_RECORD, LINK_RECORD, LFT_RECORD, PATH_RECORD)

# PathRecord component mask bits (15.2.5.16)
PATH_DLID = 1 << 4
PATH_SLID = 1 << 5
PATH_NUMB_PATH = 1 << 12

"""Congestion control attributes (IBTA vol. 1, annex A10.4): class 0x21, version 2."""

from __future__ import annotations

from typing import NamedTuple

from collectors.codec.mad_layout import Field, Layout, raw, repeated

F = Field
_SIZE = 192

CONGESTION_INFO = Layout(
    "CongestionInfo",
    0x11,
    "A10.4.3.3",
    _SIZE,
    F("CongestionInfo", 0, 16),
    F("ControlTableCap", 16, 8),
)
CONGESTION_KEY_INFO = Layout(
    "CongestionKeyInfo",
    0x12,
    "A10.4.3.4",
    _SIZE,
    F("CC_Key", 0, 64),
    F("CC_KeyProtectBit", 64, 1),
    F("CC_KeyLeasePeriod", 80, 16),
    F("CC_KeyViolations", 96, 16),
)
SWITCH_CONGESTION_SETTING = Layout(
    "SwitchCongestionSetting",
    0x14,
    "A10.4.3.6",
    _SIZE,
    F("Control_Map", 0, 32),
    raw("Victim_Mask", 32, 256),
    raw("Credit_Mask", 288, 256),
    F("Threshold", 544, 4),
    F("Packet_Size", 552, 8),
    F("CS_Threshold", 560, 4),
    F("CS_ReturnDelay", 576, 16),
    F("Marking_Rate", 592, 16),
)
# 32 elements a block: Valid 1, Control_Type 1, -, Threshold 4, Packet_Size 8, Marking_Rate 16
SWITCH_PORT_CONGESTION_SETTING = Layout(
    "SwitchPortCongestionSetting", 0x15, "A10.4.3.7", _SIZE, repeated("Element", 0, 32, 32)
)
# 16 entries, one a service level; see CaEntry
CA_CONGESTION_SETTING = Layout(
    "CACongestionSetting",
    0x16,
    "A10.4.3.8",
    _SIZE,
    F("Port_Control", 0, 16),
    F("Control_Map", 16, 16),
    repeated("Entry", 32, 64, 16),
)
# 64 entries a block: Shift 2, Multiplier 14
CONGESTION_CONTROL_TABLE = Layout(
    "CongestionControlTable",
    0x17,
    "A10.4.3.9",
    _SIZE,
    F("CCTI_Limit", 0, 16),
    repeated("Entry", 32, 16, 64),
)
TIME_STAMP = Layout("TimeStamp", 0x18, "A10.4.3.10", _SIZE, F("TimeStamp", 0, 32))

LAYOUTS = (
    CONGESTION_INFO,
    CONGESTION_KEY_INFO,
    SWITCH_CONGESTION_SETTING,
    SWITCH_PORT_CONGESTION_SETTING,
    CA_CONGESTION_SETTING,
    CONGESTION_CONTROL_TABLE,
    TIME_STAMP,
)


class CaEntry(NamedTuple):
    """Congestion control of one service level at a channel adapter."""

    ccti_timer: int
    ccti_increase: int
    trigger_threshold: int
    ccti_min: int


def ca_entries(payload: bytes | memoryview) -> tuple[CaEntry, ...]:
    """Return the 16 per-SL entries of a CACongestionSetting."""
    words = CA_CONGESTION_SETTING.parse(payload)["Entry"]
    return tuple(
        CaEntry(word >> 48, word >> 40 & 0xFF, word >> 32 & 0xFF, word >> 24 & 0xFF)
        for word in words
    )


def control_table(payload: bytes | memoryview) -> tuple[tuple[int, int], ...]:
    """Return (shift, multiplier) of the 64 entries of one CongestionControlTable block."""
    words = CONGESTION_CONTROL_TABLE.parse(payload)["Entry"]
    return tuple((word >> 14, word & 0x3FFF) for word in words)

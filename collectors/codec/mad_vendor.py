"""Attributes that no book has: one vendor's own, read only where its NodeInfo names the vendor."""

from __future__ import annotations

from collectors.codec.mad_layout import Field, Layout

VENDOR_MELLANOX = frozenset({0x0002C9, 0x00258B, 0x000119})

# SMP attribute 0xFF90: FDR10, which the standard PortInfo shows as QDR
MLNX_EXTENDED_PORT_INFO = Layout(
    "MellanoxExtendedPortInfo",
    0xFF90,
    "vendor",
    64,
    Field("StateChangeEnable", 24, 8),
    Field("LinkSpeedSupported", 56, 8),
    Field("LinkSpeedEnabled", 88, 8),
    Field("LinkSpeedActive", 120, 8),
)
FDR10 = 1

LAYOUTS = (MLNX_EXTENDED_PORT_INFO,)

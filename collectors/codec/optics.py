"""Diagnostics of pluggable modules: SFF-8636 (QSFP+, QSFP28) and CMIS (QSFP-DD, OSFP).

Sources: SFF-8636 rev 2.10 table 6-7, CMIS 5.2 tables 8-7 and 8-73. Powers are units of 0.1 µW,
temperature is a signed 1/256 degree Celsius.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from collectors.model.errors import Malformed

_SFF8636: Final = frozenset({0x0C, 0x0D, 0x11})
_CMIS: Final = frozenset({0x18, 0x19, 0x1E})
_TENTH_MICROWATT: Final = 1e-7


@dataclass(frozen=True, slots=True)
class ModuleReadings:
    """Temperature and light of a module; an empty tuple where the module does not tell."""

    temperature_celsius: float | None
    rx_power_watts: tuple[float, ...] = ()
    tx_power_watts: tuple[float, ...] = ()


def is_cmis(lower: bytes) -> bool:
    """Tell whether the lower memory of a module is CMIS; Malformed if it is cut."""
    _whole(lower)
    return lower[0] in _CMIS


def has_pages(lower: bytes) -> bool:
    """Tell whether a CMIS module has pages (a copper cable is flat)."""
    _whole(lower)
    return not lower[2] & 0x80


def _whole(lower: bytes) -> None:
    if len(lower) < 128:
        raise Malformed("module", "parse memory", f"{len(lower)} of 128 bytes", lower)


def _powers(data: bytes, offset: int, lanes: int) -> tuple[float, ...]:
    raw = struct.unpack_from(f">{lanes}H", data, offset)
    return tuple(value * _TENTH_MICROWATT for value in raw) if any(raw) else ()


def parse_module_readings(lower: bytes, page_11h: bytes = b"") -> ModuleReadings | None:
    """Return the readings of a module; None for a kind without them.

    lower: bytes 0-127. page_11h: bytes 128-255 of page 11h of a CMIS module, b"" if not read.
    """
    _whole(lower)
    if lower[0] in _SFF8636:
        temperature = struct.unpack_from(">h", lower, 22)[0] / 256
        return ModuleReadings(temperature, _powers(lower, 34, 4), _powers(lower, 50, 4))
    if lower[0] in _CMIS:
        temperature = struct.unpack_from(">h", lower, 14)[0] / 256
        if len(page_11h) < 128:
            return ModuleReadings(temperature)
        # Byte 154 (transmit) and 186 (receive) of the page, which starts at 128.
        return ModuleReadings(temperature, _powers(page_11h, 58, 8), _powers(page_11h, 26, 8))
    return None

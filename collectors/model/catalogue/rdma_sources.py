"""Where counters of RDMA ports stand: shapes of the sources that the rows beside this one share."""

from fractions import Fraction
from typing import Final

from collectors.model.metric import Source

WORDS: Final = Fraction(4)  # InfiniBand data counters count 32-bit words, whatever the lanes
MS: Final = Fraction(1, 1000)
ENDS: Final = ("port", "interface")  # interfaces of InfiniBand switches have the same counters


def pma(key: str, width: int, scale: Fraction = Fraction(1)) -> Source:
    """Return a PMA counter: sticks at its maximum."""
    return Source("sysfs_counters", key, scale=scale, width=width, overflow="saturates")


def narrow_pma(key: str, width: int) -> tuple[Source, ...]:
    """Return a narrow PMA counter; bnxt_re cuts 64 bits to the width, so there it wraps."""
    cut = Source("sysfs_counters", key, "bnxt_re", width=width, overflow="wraps")
    return (pma(key, width), cut)


def mad(field: str, narrow: int, scale: Fraction = Fraction(1)) -> tuple[Source, ...]:
    """Return a PMA counter as a datagram has it: 64 bits wide, or narrow (0: not at all)."""
    wide = Source(
        "mad",
        f"PortCountersExtended.{field}",
        scale=scale,
        width=64,
        overflow="saturates",
        note="errors and XmitWait only with ClassPortInfo.CapabilityMask2 bit 1",
    )
    if not narrow:
        return (wide,)
    key = f"PortCounters.{field}"
    return (wide, Source("mad", key, scale=scale, width=narrow, overflow="saturates"))


def hw(key: str, driver: str, width: int = 64, note: str = "") -> Source:
    """Return a hardware counter of a driver: under hw_counters/ and in netlink's STAT_GET."""
    return Source("hw_counters", key, driver, width=width, note=note)

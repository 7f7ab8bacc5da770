"""Bitmaps of selective repeat: 32 packets a word, a ring as long as the send window."""

from __future__ import annotations

from simlab.packet.jit import Ints, jit
from simlab.packet.layout import SR_WORDS


@jit
def _word(s: Ints, field: int, psn: int) -> int:
    return s[field] + (psn >> 5) % s[SR_WORDS]


@jit
def set_bit(s: Ints, field: int, psn: int) -> None:
    """Remember packet `psn` in the bitmap whose row is in `s[field]`."""
    at = _word(s, field, psn)
    s[at] |= 1 << (psn & 31)


@jit
def test_clear(s: Ints, field: int, psn: int) -> bool:
    """Return whether `psn` is in the bitmap, and take it out."""
    at = _word(s, field, psn)
    bit = 1 << (psn & 31)
    found = s[at] & bit != 0
    s[at] &= ~bit
    return found


@jit
def test_bit(s: Ints, field: int, psn: int) -> bool:
    """Return whether `psn` is in the bitmap."""
    return s[_word(s, field, psn)] >> (psn & 31) & 1 != 0


@jit
def next_missing(s: Ints, field: int, psn: int, end: int) -> int:
    """Return the first packet from `psn` on that is not in the bitmap; `end` if all are."""
    while psn < end and test_bit(s, field, psn):
        psn += 1
    return psn


@jit
def clear_range(s: Ints, field: int, start: int, end: int) -> None:
    """Take the packets start .. end-1 out, so that the ring can hold later ones."""
    for psn in range(start, end):
        at = _word(s, field, psn)
        s[at] &= ~(1 << (psn & 31))

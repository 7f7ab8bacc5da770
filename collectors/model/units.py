"""Numbers with their units as people write them: 4 µs, 298 KB, 100 Gbit/s, 39%.

Documents for machines keep base units; this is for tables, pages and prose.
"""

from __future__ import annotations

import math
from typing import Final

_SCALES: Final = {
    "seconds": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "bytes": ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "bytes")),
    "bps": ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")),
}
_PLAIN_BYTES: Final = 10_000  # MTUs and the like are known by their bytes
_BARE: Final = ("", "id", "bool", "count")
_COUNTED: Final = (
    "packets", "frames", "events", "requests", "messages", "errors", "symbols", "blocks",
)  # fmt: skip
_CODEPOINTS: Final = ("not ECT", "ECT(1)", "ECT(0)", "CE")  # RFC 3168, section 5


def quantity(number: float, unit: str, *, exact: bool = False) -> str:
    """Return a number of a catalogue's unit for people.

    exact: all digits; else four, and of what is counted no more than two of a fraction.
    """
    if math.isinf(number):
        return "never" if unit == "seconds" else "unlimited"
    if unit == "ratio":
        return f"{_digits(100 * number, exact)}%"
    base = unit.removesuffix("/s")
    if unit == "seconds/s":
        return f"{_digits(100 * number, exact)}% of the time"
    if base != unit and base in _SCALES:
        return f"{quantity(number, base, exact=exact)}/s"
    if unit == "ecn_codepoint" and number in range(len(_CODEPOINTS)):
        return _CODEPOINTS[int(number)]
    scales = _SCALES.get(unit)
    if scales is None and base in _COUNTED and not exact:
        return f"{_counted(number)} {unit}"
    if scales is None:
        return _digits(number, exact) + ("" if unit in _BARE else f" {unit}")
    size = abs(number)
    if unit == "bytes" and size < _PLAIN_BYTES:
        scales = scales[-1:]
    fits = (row for row in scales if size >= row[0])
    scale, word = next(fits, scales[-1] if number else scales[0 if unit == "seconds" else -1])
    return f"{_digits(number / scale, exact)} {word}"


def _digits(number: float, exact: bool) -> str:
    if exact:
        return f"{number:,.12g}" if abs(number) < 1e12 else f"{number:,.0f}"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def _counted(number: float) -> str:
    """Return an average or a bound of things that come one at a time."""
    return f"{number:,.0f}" if abs(number) >= 10 else f"{number:.2g}"

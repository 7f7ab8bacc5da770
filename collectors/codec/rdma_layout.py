"""Reads the counters of a port from replies that differ from the last one in their values only.

The kernel names every counter in every STAT_GET reply. The names of a port stay the same, so
after one reply is parsed the places of the values are known, and reading the next is a compare
and an unpack: a fiftieth of the work.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Final

from collectors.codec.netlink import ATTRIBUTE, parse_messages
from collectors.codec.rdma_netlink import STAT_HWCOUNTER_ENTRY_VALUE, parse_counters

_STAMP: Final = slice(8, 16)  # of a message's header: sequence number and asking port
_VALUE: Final = re.compile(
    re.escape(ATTRIBUTE.pack(ATTRIBUTE.size + 8, STAT_HWCOUNTER_ENTRY_VALUE)), re.DOTALL
)


@dataclass(frozen=True, slots=True)
class CounterLayout:
    """The names of a reply, the places of their values, and all the bytes between."""

    names: tuple[str, ...]
    values: struct.Struct
    mask: int
    fixed: int

    def read(self, reply: bytes) -> dict[str, int] | None:
        """Return name -> value; None where more than values and stamp differs: parse that one."""
        if len(reply) != self.values.size:
            return None
        if int.from_bytes(reply, "little") & self.mask != self.fixed:
            return None
        return dict(zip(self.names, self.values.unpack(reply), strict=True))


def counter_layout(reply: bytes) -> CounterLayout | None:
    """Return the layout of a datagram that is one STAT_GET reply, all values 64 bits wide.

    None for any other datagram. Raises Malformed where parsing it does.
    """
    messages = list(parse_messages(reply))
    if len(messages) != 1 or not (counters := parse_counters(messages[0])):
        return None
    places = [found.end() for found in _VALUE.finditer(reply)]
    form, kept, end = "=", bytearray(b"\xff" * len(reply)), 0
    for place in places:
        form += f"{place - end}xQ"
        end = place + 8
        if end > len(reply):
            return None
        kept[place:end] = bytes(8)
    kept[_STAMP] = bytes(8)
    form += f"{len(reply) - end}x"
    mask = int.from_bytes(kept, "little")
    fixed = int.from_bytes(reply, "little") & mask
    if len(places) != len(counters):
        return None  # a name stands twice, or a value looks like the start of one
    layout = CounterLayout(tuple(counters), struct.Struct(form), mask, fixed)
    return layout if layout.read(reply) == counters else None

"""Which interfaces of a switch to read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

LAG_TYPE: Final = 161  # ieee8023adLag: its counters are the sum of its members'
_LAG = re.compile(r"(?i)(port-?channel|po\d|bond|ae\d)")
_BACKPLANE = re.compile(r"Ethernet-(BP|IB|Rec)")
_NO_PORT = re.compile(
    r"(?i)(vlan|loopback|lo\d*$|null|mgmt|management|irb|vxlan|tunnel|docker|veth)"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which interfaces to read, by regular expression on the whole name.

    include: read also what is left out otherwise (aggregates, backplane, virtual interfaces).
    exclude: wins over all.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def wants(self, name: str, if_type: int | None = None) -> bool:
        """Tell whether to read an interface of this name and ifType."""
        if any(re.fullmatch(pattern, name) for pattern in self.exclude):
            return False
        if any(re.fullmatch(pattern, name) for pattern in self.include):
            return True
        if if_type == LAG_TYPE or _LAG.match(name) or _BACKPLANE.match(name):
            return False
        return not _NO_PORT.match(name)

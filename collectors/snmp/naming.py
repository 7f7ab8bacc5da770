"""Interfaces of a switch by ifIndex: names, what to leave out, when their counters began."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from collectors.model.entities import Interface, Switch

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


def text(value: Any) -> str:
    """Return octets as text; what is no UTF-8 as hexadecimal."""
    if isinstance(value, bytes):
        try:
            return value.decode().rstrip("\x00")
        except UnicodeDecodeError:
            return value.hex(":")
    return str(value)


def interfaces(
    switch: Switch,
    names: dict[int, Any],
    descriptions: dict[int, Any],
    types: dict[int, Any],
    wanted: Wanted,
) -> dict[int, Interface | None]:
    """Return ifIndex -> interface, None where it is not to be read.

    The name is ifName; where that is empty or absent, ifDescr.
    """
    found: dict[int, Interface | None] = {}
    for index in names.keys() | descriptions.keys():
        name = text(names.get(index, "")) or text(descriptions.get(index, "")) or f"if{index}"
        kind = types.get(index)
        is_wanted = wanted.wants(name, kind if isinstance(kind, int) else None)
        found[index] = Interface(switch, name) if is_wanted else None
    return found

"""Interfaces of a switch by ifIndex: names, what to leave out, when their counters began."""

from __future__ import annotations

from typing import Any

from collectors.model.entities import Interface, Switch
from collectors.targets.wanted import Wanted


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
    aliases: dict[str, str],
) -> dict[int, Interface | None]:
    """Return ifIndex -> interface, None where it is not to be read.

    The name is ifName; where that is empty or absent, ifDescr. aliases: SONiC shows the vendor's
    name of a port here; where CONFIG_DB was read, its own name is known.
    """
    found: dict[int, Interface | None] = {}
    for index in names.keys() | descriptions.keys():
        name = text(names.get(index, "")) or text(descriptions.get(index, "")) or f"if{index}"
        name = aliases.get(name, name)
        kind = types.get(index)
        is_wanted = wanted.wants(name, kind if isinstance(kind, int) else None)
        found[index] = Interface(switch, name) if is_wanted else None
    return found

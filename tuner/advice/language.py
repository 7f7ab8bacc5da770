"""Which configuration language a device speaks, from what is known of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from collectors.model.entities import Host, Interface, Switch, wire_of
from collectors.model.facts import Attribute, Setting
from tuner.advice.knobs.knob import PLATFORMS

# What a switch says of its software (sysDescr, image name) -> language.
_SAYS: Final = (
    (re.compile(r"sonic", re.IGNORECASE), "sonic"),
    (re.compile(r"arista|\beos\b", re.IGNORECASE), "eos"),
    (re.compile(r"\bnx-?os|nexus", re.IGNORECASE), "nxos"),
    (re.compile(r"junos|juniper", re.IGNORECASE), "junos"),
    (re.compile(r"cumulus", re.IGNORECASE), "nvue"),
    (re.compile(r"onyx|mlnx-?os|mellanox", re.IGNORECASE), "onyx"),
)
# How a language spells its ports, where that is unmistakable.
_PORTS: Final = (
    (re.compile(r"swp\d"), "nvue"),
    (re.compile(r"(et|xe|ge)-\d+/\d+/\d+"), "junos"),
    (re.compile(r"Eth\d+/\d+"), "onyx"),
)


def platform_of(
    device: Host | Switch, settings: Iterable[Setting], attributes: Iterable[Attribute]
) -> str:
    """Return the language of a device, '' where nothing tells it."""
    if isinstance(device, Host):
        return "linux"
    said = {row.name: str(row.value) for row in attributes if row.entity == device}
    if said.get("config_language") in PLATFORMS:
        return said["config_language"]
    for pattern, platform in _SAYS:
        if pattern.search(said.get("software", "")):
            return platform
    for row in settings:
        wire = wire_of(row.entity)
        for pattern, platform in _PORTS:
            if isinstance(wire, Interface) and pattern.match(wire.name):
                return platform
        if row.where.startswith("/sys/"):  # a Linux box that forwards: its agent read it
            return "linux"
    return ""

"""All families of scenarios, by name, and how to draw from one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from collectors.model.errors import ConfigInvalid
from simlab.scenarios.draw import Draw
from simlab.scenarios.families import (
    balance,
    config,
    control_loop,
    double,
    flow_control,
    healthy,
    host,
    link,
    placement,
)
from simlab.scenarios.family import Family, seeded

_PARTS: Final = (
    link, config, flow_control, balance, control_loop, host, placement, double, healthy,
)  # fmt: skip

FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {family.name: family for part in _PARTS for family in part.FAMILIES}
)


def draw(family: str, seed: int) -> Draw:
    """Draw a scenario; the same name and seed give the same. ConfigInvalid: no such family."""
    found = FAMILIES.get(family)
    if found is None:
        close = ", ".join(difflib.get_close_matches(family, FAMILIES, 3))
        hint = f"is one of {close} meant?" if close else f"known: {', '.join(FAMILIES)}"
        raise ConfigInvalid(repr(family), "family", f"unknown; {hint}")
    return seeded(found, seed)

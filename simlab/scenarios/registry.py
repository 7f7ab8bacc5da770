"""All families of scenarios, by name, and how to draw from one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from collectors.model.errors import ConfigInvalid
from simlab.scenarios.draw import Draw
from simlab.scenarios.families import config, flow_control, healthy, link
from simlab.scenarios.family import Family, seeded

FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        family.name: family
        for part in (link, config, flow_control, healthy)
        for family in part.FAMILIES
    }
)


def draw(family: str, seed: int) -> Draw:
    """Draw a scenario; the same name and seed give the same. ConfigInvalid: no such family."""
    found = FAMILIES.get(family)
    if found is None:
        raise ConfigInvalid(family, "family", f"unknown; known: {', '.join(FAMILIES)}")
    return seeded(found, seed)

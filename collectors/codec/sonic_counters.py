"""Hashes of SONiC's COUNTERS_DB as values: the same from Redis and from SONiC's gNMI.

Every value is a string. A field that is absent is not supported or not enabled; it is not zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from collectors.model.catalogue.registry import sources_of
from collectors.model.catalogue.sources import parse_key
from collectors.model.metric import Column

WATCHDOG_STATUS: Final = {"operational": 1, "stormed": 2}


@dataclass(frozen=True, slots=True)
class Field:
    """kind: `interface`, `queue`, `priority`, `priority_group`, `pool`. index: in the name."""

    column: Column
    kind: str
    index: int | None


@cache
def fields() -> Mapping[str, Field]:
    """Return every field of COUNTERS_DB that the catalogue knows."""
    found = {}
    for metric, source in sources_of("sonic_db"):
        name, braces = parse_key(source.key)
        kind = next(kind for kind in metric.on if kind != "netdev")
        found[name] = Field(metric.column(source), kind, braces.get("priority"))
    return found


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a hash. value None: it is no number; text says what it was."""

    field: Field
    name: str
    value: int | float | None
    text: str = ""


def parse_hash(hash_fields: Mapping[str, str]) -> Iterator[Value]:
    """Yield the values that the catalogue knows, for the object whose hash this is."""
    known = fields()
    for name, text in hash_fields.items():
        field = known.get(name)
        if field is None:
            continue
        if name == "PFC_WD_STATUS":
            yield Value(field, name, WATCHDOG_STATUS.get(text), text)
            continue
        try:
            number = int(text)
        except (ValueError, TypeError):
            yield Value(field, name, None, str(text)[:60])
            continue
        yield Value(field, name, number if number >= 0 else None, text)


def split_name(name: str) -> tuple[str, int | None, bool]:
    """Return port, number and whether it is a periodic watermark: `Ethernet68/1:3:periodic`."""
    periodic = name.endswith(":periodic")
    port, colon, number = name.removesuffix(":periodic").rpartition(":")
    if colon and number.isdigit():
        return port, int(number), periodic
    return name.removesuffix(":periodic"), None, periodic

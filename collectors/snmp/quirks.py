"""What is known to be wrong in the SNMP agents of certain images, as data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from collectors.model.catalogue.sources import CISCO_PFC


@dataclass(frozen=True, slots=True)
class Quirk:
    """platform and image (searched in sysDescr) that it holds for; skip: columns not to read.

    swapped: pairs of columns whose rx and tx are exchanged. why: where it is known from.
    """

    platform: str
    image: str
    why: str
    skip: tuple[str, ...] = ()
    swapped: tuple[tuple[str, str], ...] = ()


_TOTALS: Final = (f"{CISCO_PFC}.1.1.1", f"{CISCO_PFC}.1.1.2")
_PRIORITIES: Final = ((f"{CISCO_PFC}.2.1.2", f"{CISCO_PFC}.2.1.3"),)

QUIRKS: Final = (
    Quirk("sonic", ".*", "port totals hold priority 3 only (sonic-snmpagent)", skip=_TOTALS),
    Quirk(
        "sonic",
        r"SONiC\.20(18|1907|1908)\d*",
        "requests and indications exchanged (sonic-snmpagent pull 89)",
        swapped=_PRIORITIES,
    ),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What holds for one device."""

    skip: frozenset[str]
    swapped: dict[str, str]
    why: tuple[str, ...]


def quirks_of(platform: str, description: str) -> Verdict:
    """Return what to do differently for a platform whose sysDescr reads so."""
    rows = [
        quirk
        for quirk in QUIRKS
        if quirk.platform == platform and re.search(quirk.image, description)
    ]
    swapped = {one: other for quirk in rows for one, other in quirk.swapped}
    swapped |= {other: one for one, other in swapped.items()}
    skip = frozenset(oid for quirk in rows for oid in quirk.skip)
    return Verdict(skip, swapped, tuple(quirk.why for quirk in rows))

"""What `mstconfig query` says of congestion control: firmware settings now and after a reset.

Only NVIDIA's tool reads them. Plain, it prints one column, what the next reset brings; with
`-e` three: default, current, next boot (mstflint's manual). Names and meanings: mstflint's
mlxconfig database (nv_roce_cc_ecn and beside it).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from collectors.model.dcqcn import FIRMWARE_KNOBS
from collectors.model.facts import Applies

_COLUMNS: Final[Mapping[Applies, str]] = {"running": "Current", "next_boot": "Next"}
_HEADER: Final = "Configurations:"
_ALGORITHM_ECN: Final = 0


def parse_mstconfig(text: str, port: int, applies: Applies = "next_boot") -> dict[str, int]:
    """Return register -> value for a port, under MLNX_OFED's names where it has one.

    Values may be words with their number in brackets, `True(1)`; other lines are passed over.
    A query without `-e` tells nothing of what is running.
    """
    names = {f"{knob.mlxconfig}_P{port}": knob.name for knob in FIRMWARE_KNOBS}
    names |= {
        f"CNP_DSCP_P{port}": "cnp_dscp",
        f"CNP_802P_PRIO_P{port}": "cnp_802p_prio",
        f"ROCE_CC_PRIO_MASK_P{port}": "prio_mask",
        f"ROCE_CC_ALGORITHM_P{port}": "algorithm",
        "ROCE_CC_LEGACY_DCQCN": "legacy_dcqcn",
        "USER_PROGRAMMABLE_CC": "user_programmable_cc",
    }
    titles = ["Next"]
    found: dict[str, int] = {}
    for line in text.splitlines():
        fields = line.removeprefix("*").split()
        if fields[:1] == [_HEADER]:
            told = [word for word in fields[1:] if word != "Boot"]
            titles = told if len(told) > 1 else ["Next"]
        elif len(fields) == 1 + len(titles) and fields[0] in names:
            title = _COLUMNS[applies]
            if title not in titles:
                continue
            value = fields[1 + titles.index(title)].rpartition("(")[2].rstrip(")")
            if value.isascii() and value.isdecimal():
                found[names[fields[0]]] = int(value)
    return found


def algorithm_of(registers: Mapping[str, int]) -> str | None:
    """Return off, dcqcn or programmable; None where the settings leave it open.

    A user's program takes the place of DCQCN only where the firmware is not held to its own.
    """
    legacy = registers.get("legacy_dcqcn")
    if legacy == 0 and registers.get("user_programmable_cc") == 1:
        return "programmable"
    mask = registers.get("prio_mask")
    if mask == 0:
        return "off"
    if mask and (legacy == 1 or registers.get("algorithm") == _ALGORITHM_ECN):
        return "dcqcn"
    return None

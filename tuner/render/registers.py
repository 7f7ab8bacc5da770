"""DCQCN and CNP settings of a port as numbers of NVIDIA's registers, under every spelling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final

from collectors.model.dcqcn import (
    FIRMWARE_KNOBS,
    NVIDIA_FIRMWARE,
    DcqcnParameters,
    DcqcnRangeError,
    firmware_of_parameters,
)
from collectors.model.entities import Port
from collectors.model.facts import Value
from tuner.render.form import Change

MARKS: Final = ("dcqcn_rp_enabled", "dcqcn_np_enabled")
_PARAMETERS: Final = {f"dcqcn_{knob.paper_field}": knob for knob in FIRMWARE_KNOBS}
_OFF: Final = ("byte_counter_bytes", "max_rate_bps", "first_cnp_rate_bps")  # 0 stands for None


@dataclass(frozen=True, slots=True)
class Register:
    """One register with its value. side: roce_rp or roce_np in MLNX_OFED's sysfs."""

    setting: str
    side: str
    ofed: str
    debugfs: str
    mlxconfig: str
    value: int | None


_CNP: Final = {
    "cnp_dscp": Register("cnp_dscp", "roce_np", "cnp_dscp", "np_cnp_dscp", "CNP_DSCP", None),
    "cnp_priority": Register(
        "cnp_priority", "roce_np", "cnp_802p_prio", "np_cnp_prio", "CNP_802P_PRIO", None
    ),
}
SETTINGS: Final = (*_PARAMETERS, *_CNP)


def registers_of(change: Change, port: Port) -> Iterator[Register]:
    """Yield the registers of a port that change; value None where it is not known any more.

    A parameter that no register can hold is noted in the change.
    """
    changed = change.changed(port, *_PARAMETERS)
    if changed:
        try:
            firmware = firmware_of_parameters(_parameters(change, port), wide_fields=True)
        except DcqcnRangeError as error:
            change.lacks([port], _PARAMETERS, f"no register holds it: {error}")
            changed = []
    for name in changed:
        knob = _PARAMETERS[name]
        side = "roce_np" if knob.debugfs.startswith("np_") else "roce_rp"
        value = getattr(firmware, knob.name) if (port, name) in change.after else None
        yield Register(name, side, knob.name, knob.debugfs, knob.mlxconfig, value)
    for name in change.changed(port, *_CNP):
        row = _CNP[name]
        value = change.whole(port, name)
        yield Register(name, row.side, row.ofed, row.debugfs, row.mlxconfig, value)


def _parameters(change: Change, port: Port) -> DcqcnParameters:
    """Return the parameters of a port; those unknown as NVIDIA's firmware has them."""
    known: dict[str, Value | None] = {}
    for field in fields(DcqcnParameters):
        value = change.after.get((port, f"dcqcn_{field.name}"))
        if value is not None:
            known[field.name] = None if field.name in _OFF and not value else value
    return DcqcnParameters(
        **{f.name: getattr(NVIDIA_FIRMWARE, f.name) for f in fields(DcqcnParameters)} | known
    )


def ports_of(change: Change) -> list[Port]:
    """Return the RDMA ports that something changes at, in order."""
    return [
        place
        for place in dict.fromkeys(place for place, _ in change.keys)
        if isinstance(place, Port)
    ]

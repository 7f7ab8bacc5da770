"""NVIDIA firmware configuration: mstconfig lines. Kept over reboots, in force after a reset."""

from __future__ import annotations

import shlex
from typing import Final

from collectors.model.entities import Device, Port
from tuner.advice.knobs.catalogue import KNOBS
from tuner.render.form import Change, Renderer, on
from tuner.render.registers import MARKS, ports_of, registers_of

# Switches of a whole device, by their own name in firmware.
_FLAGS: Final = {
    name: home.place
    for name, knob in KNOBS.items()
    if (home := knob.home("mlxconfig")) and knob.unit == "bool" and not knob.places
    if not home.place.endswith("_P1")
}


def write(change: Change) -> str:
    """Return one line for each device: all of its values together, since a reset is needed."""
    values: dict[Device, list[str]] = {}
    unknown: list[str] = []
    for port in ports_of(change):
        driver = change.attribute(port.device, "driver")
        if driver not in ("mlx5", ""):
            names = [name for place, name in change.keys if place == port]
            change.lacks([port], names, f"the driver is {driver}: this is for NVIDIA adapters")
            continue
        rows = values.setdefault(port.device, [])
        for row in registers_of(change, port):
            name = f"{row.mlxconfig}_P{port.number}"
            if row.value is None:
                unknown.append(f"# {name}: its former value was not visible")
            else:
                rows.append(f"{name}={row.value}")
        mask = _mask(change, port)
        if mask is not None:
            rows.append(f"ROCE_CC_PRIO_MASK_P{port.number}={mask}")
        elif change.way == "undo" and change.changed(port, *MARKS):
            unknown.append(f"# ROCE_CC_PRIO_MASK_P{port.number}: it was not visible")
    for place, name in change.keys:
        device = place.device if isinstance(place, Port) else place
        if name in _FLAGS and isinstance(device, Device) and (place, name) not in change.missing:
            if (place, name) in change.after:
                flag = f"{_FLAGS[name]}={int(bool(change.flag(place, name)))}"
                values.setdefault(device, []).append(flag)
            else:
                unknown.append(f"# {_FLAGS[name]}: its former value was not visible")
    lines = [
        f"mstconfig -y -d {address(change, device)} set {' '.join(rows)}"
        for device, rows in values.items()
        if rows
    ]
    return "".join(f"{line}\n" for line in (*unknown, *lines))


def _mask(change: Change, port: Port) -> int | None:
    """Return the one mask that firmware has for both sides, which must be alike."""
    changed = change.changed(port, *MARKS)
    rows = {change.row(port, name) for name in MARKS} - {()}
    if not changed or not rows:
        return None
    if len(rows) > 1:
        change.lacks([port], changed, "firmware has one mask for both sides, and these differ")
        return None
    return sum(1 << priority for priority in on(rows.pop()))


def address(change: Change, device: Device) -> str:
    """Return what mstconfig knows a device by, as a word of a shell."""
    return shlex.quote(change.attribute(device, "pci_address") or device.name or device.key)


def verify(change: Change) -> str:
    """Return the commands that show what the next boot will have."""
    devices = dict.fromkeys(
        place.device if isinstance(place, Port) else place
        for place, _ in change.keys
        if isinstance(place, (Port, Device))
    )
    return "".join(
        f"mstconfig -d {address(change, device)} query | grep -E 'RPG|DCE_TCP|CNP|CC_|ORDERING'\n"
        for device in devices
    )


RENDERER: Final = Renderer(
    "mlxconfig",
    "host",
    write,
    verify,
    "#",
    "sh",
    before="set -eu\n",
    after="# needs reset: in force after `mstfwreset -d DEVICE reset` or a cold boot, which takes\n"
    "# the links of the device down\n",
    undo_before="set -eu\n",
)

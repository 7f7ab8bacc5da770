"""Writes the part of sysfs and procfs that RDMA telemetry reads, for hosts that do not exist.

Layout as in Linux 6.12 (drivers/infiniband/core/sysfs.c, net/core/net-sysfs.c): class folders
are links into devices/, empty GID entries have the zero GID and no readable type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class FakePort:
    """A port. counters, hw_counters: file -> value or whatever text the file shall hold.

    counters None: the driver has no such folder. gids: index -> (gid, type, netdev).
    """

    number: int = 1
    link_layer: str = "Ethernet"
    state: str = "4: ACTIVE"
    phys_state: str = "5: LinkUp"
    rate: str = "400 Gb/sec (4X NDR)"
    counters: Mapping[str, int | str] | None = None
    hw_counters: Mapping[str, int | str] | None = None
    gids: Mapping[int, tuple[str, str, str]] = field(default_factory=dict)
    cm: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FakeDevice:
    """An RDMA device. module: PCI driver, '' for a device of no bus. files: beside node_guid."""

    name: str
    module: str = "mlx5_core"
    pci_address: str = "0000:17:00.0"
    node_guid: str = "b83f:d203:0012:3400"
    ports: tuple[FakePort, ...] = (FakePort(),)
    files: Mapping[str, str] = field(default_factory=dict)
    hw_counters: Mapping[str, int | str] | None = None
    virtual_function: bool = False
    pci: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FakeNetdev:
    """An interface. pci_address: of its device, '' if it has none. snmp6: lines of dev_snmp6."""

    name: str
    index: int = 2
    pci_address: str = ""
    statistics: Mapping[str, int | str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    snmp6: Mapping[str, int] | None = None


def _write(path: Path, text: int | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(target)


def pci_folder(root: Path, pci_address: str) -> Path:
    """Return where the tree keeps a PCI device."""
    return root / "sys/devices/pci0000:00" / pci_address


def write_device(root: Path, device: FakeDevice) -> Path:
    """Write one RDMA device below root/sys and return its folder."""
    sys = root / "sys"
    if device.module:
        pci = pci_folder(root, device.pci_address)
        home = pci / "infiniband" / device.name
        uevent = f"DRIVER={device.module}\nPCI_SLOT_NAME={device.pci_address}"
        _write(pci / "uevent", uevent)
        _link(pci / "driver", sys / "bus/pci/drivers" / device.module)
        _link(sys / "bus/pci/devices" / device.pci_address, pci)
        if device.virtual_function:
            _link(pci / "physfn", pci.parent / "physical")
        for name, text in device.pci.items():
            _write(pci / name, text)
        home.mkdir(parents=True, exist_ok=True)
        _link(home / "device", pci)
    else:
        home = sys / "devices/virtual/infiniband" / device.name
        home.mkdir(parents=True, exist_ok=True)
    _link(sys / "class/infiniband" / device.name, home)
    files = {
        "node_guid": device.node_guid,
        "sys_image_guid": device.node_guid,
        "node_type": "1: CA",
        "fw_ver": "28.39.1002",
        **device.files,
    }
    for name, text in files.items():
        _write(home / name, text)
    for name, value in (device.hw_counters or {}).items():
        _write(home / "hw_counters" / name, value)
    for port in device.ports:
        _write_port(home / "ports" / str(port.number), port)
    return home


def _write_port(home: Path, port: FakePort) -> None:
    files = {
        "link_layer": port.link_layer,
        "state": port.state,
        "phys_state": port.phys_state,
        "rate": port.rate,
        **port.files,
    }
    for name, text in files.items():
        _write(home / name, text)
    for group, values in (("counters", port.counters), ("hw_counters", port.hw_counters)):
        if values is not None:
            (home / group).mkdir(parents=True, exist_ok=True)
            for name, value in values.items():
                _write(home / group / name, value)
    for group, messages in port.cm.items():
        for message, count in messages.items():
            _write(home / group / message, count)
    for index, (gid, kind, netdev) in port.gids.items():
        _write(home / "gids" / str(index), gid)
        if kind:
            _write(home / "gid_attrs/types" / str(index), kind)
            _write(home / "gid_attrs/ndevs" / str(index), netdev)


def write_netdev(root: Path, netdev: FakeNetdev) -> Path:
    """Write one interface below root/sys/class/net and root/proc/net and return its folder."""
    if netdev.pci_address:
        pci = pci_folder(root, netdev.pci_address)
        home = pci / "net" / netdev.name
        home.mkdir(parents=True, exist_ok=True)
        _link(home / "device", pci)
    else:
        home = root / "sys/devices/virtual/net" / netdev.name
        home.mkdir(parents=True, exist_ok=True)
    _link(root / "sys/class/net" / netdev.name, home)
    files = {
        "ifindex": str(netdev.index),
        "operstate": "up",
        "carrier": "1",
        "carrier_changes": "2",
        "carrier_down_count": "1",
        "mtu": "9000",
        "speed": "400000",
        "address": f"b8:3f:d2:00:00:{netdev.index & 0xFF:02x}",
        **netdev.files,
    }
    for name, text in files.items():
        _write(home / name, text)
    for name, value in netdev.statistics.items():
        _write(home / "statistics" / name, value)
    if netdev.snmp6 is not None:
        lines = [f"ifIndex                         \t{netdev.index}"]
        lines += [f"{name:<32}\t{value}" for name, value in netdev.snmp6.items()]
        _write(root / "proc/net/dev_snmp6" / netdev.name, "\n".join(lines))
    return home

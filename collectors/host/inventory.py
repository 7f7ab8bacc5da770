"""RDMA devices of this host: entity, driver, ports and their interfaces, filtered before touching.

The driver is never guessed from the device's name, because udev renames devices. A PCI device
tells it by its `driver` link; software devices have no PCI device and are told apart by what
their drivers alone put into sysfs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from collectors.host.context import HostContext
from collectors.host.kernel_file import (
    Unreadable,
    exists,
    folder,
    identity,
    names_in,
    read_optional,
    read_text,
    target,
)
from collectors.model.entities import Device, Netdev, Port
from collectors.model.reading import Clock, GapLog

# PCI driver -> RDMA driver of the catalogue.
RDMA_DRIVERS: Final[Mapping[str, str]] = {
    "mlx5_core": "mlx5",
    "mlx4_core": "mlx4",
    "bnxt_en": "bnxt_re",
    "ice": "irdma",
    "i40e": "irdma",
    "idpf": "irdma",
    "ionic": "ionic",
    "hns3": "hns",
    "hns_roce_hw_v2": "hns",
    "erdma": "erdma",
    "efa": "efa",
    "mana": "mana",
    "hfi1": "hfi1",
    "ib_qib": "qib",
    "ib_mthca": "mthca",
    "qede": "qedr",
}
_GIDS_TRIED: Final = 16
_RESCAN_NS: Final = 30_000_000_000
_NETDEVS_KEEP: Final = 50  # times as long as devices: members of bonds change by hand


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """A port and where it is in sysfs. netdev: '' where it has none in this namespace."""

    entity: Port
    path: str
    link_layer: str
    netdev: str


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    """A device. incarnation: changes when its driver loads anew."""

    name: str
    entity: Device
    path: str
    driver: str
    pci_address: str
    is_vf: bool
    incarnation: str
    ports: tuple[RdmaPort, ...]


@dataclass(frozen=True, slots=True)
class _Look:
    """When something was looked up, what could not be read then, and for which devices."""

    at_ns: int | None = None
    gaps: GapLog = field(default_factory=lambda: GapLog(""))
    at_devices: tuple[RdmaDevice, ...] = ()

    def holds(self, now_ns: int, keep_ns: int) -> bool:
        """Tell whether it is too early to look again."""
        return self.at_ns is not None and now_ns - self.at_ns < keep_ns

    def tell(self, gaps: GapLog) -> None:
        """Note the gaps for another collector."""
        for gap in self.gaps.gaps():
            gaps.add(gap.subject, gap.what, gap.reason, gap.detail)


def incarnation_of(context: HostContext, netdev: str) -> str:
    """Return what changes when an interface is made anew: the boot and its ifindex."""
    index = read_optional(folder(context.sysfs, "class", "net", netdev, "ifindex"))
    return f"{context.boot_id}:{index}"


def netdev_names(devices: tuple[RdmaDevice, ...]) -> dict[str, str]:
    """Return interface -> RDMA device, for the ports that have one."""
    return {port.netdev: device.name for device in devices for port in device.ports if port.netdev}


class Inventory:
    """The devices of a host, looked up again when the list of them changes or grows old.

    keep_ns: how long a look holds. Collectors that share an inventory and a beat look once.
    """

    def __init__(self, context: HostContext, keep_ns: int = 0) -> None:
        self._context = context
        self._root = folder(context.sysfs, "class", "infiniband")
        self._keep_ns = keep_ns
        self._lock = threading.Lock()
        self._known: tuple[RdmaDevice, ...] = ()
        self._listed: tuple[tuple[str, int], ...] | None = None
        self._scanned_ns = 0
        self._looked = _Look()
        self._netdevs: dict[str, Netdev] = {}
        self._netdevs_looked = _Look()

    @staticmethod
    def of(context: HostContext) -> Inventory:
        """Return the inventory that the context's collectors share, or one for this one alone."""
        return context.inventory or Inventory(context)

    def devices(self, clock: Clock, gaps: GapLog) -> tuple[RdmaDevice, ...]:
        """Return the wanted devices; a host without RDMA has none. Excluded ones stay closed."""
        with self._lock:
            return self._devices(clock().mono_ns, gaps)

    def netdevs(self, clock: Clock, gaps: GapLog) -> dict[str, Netdev]:
        """Return the interfaces to read: of RDMA ports, bond members, those named in include.

        A host may have thousands of veth interfaces; none is read unless it is asked for.
        """
        with self._lock:
            now_ns = clock().mono_ns
            devices = self._devices(now_ns, gaps)
            look = self._netdevs_looked
            fresh = look.holds(now_ns, _NETDEVS_KEEP * self._keep_ns)
            if not fresh or look.at_devices is not devices:
                look = _Look(now_ns, GapLog(gaps.collector), devices)
                self._netdevs = _wanted_netdevs(self._context, devices, look.gaps)
                self._netdevs_looked = look
            look.tell(gaps)
            return dict(self._netdevs)

    def _devices(self, now_ns: int, gaps: GapLog) -> tuple[RdmaDevice, ...]:
        if not self._looked.holds(now_ns, self._keep_ns):
            self._looked = _Look(now_ns, GapLog(gaps.collector))
            self._look(now_ns)
        self._looked.tell(gaps)
        return self._known

    def _look(self, now_ns: int) -> None:
        listed = tuple(self._list(self._looked.gaps))
        if listed == self._listed and now_ns - self._scanned_ns < _RESCAN_NS:
            return
        known: list[RdmaDevice] = []
        keys: set[str] = set()
        for name, inode in listed:
            device = _read_device(self._context, self._root, name, inode, keys)
            keys.add(device.entity.key)
            known.append(device)
        self._known, self._listed, self._scanned_ns = tuple(known), listed, now_ns

    def _list(self, gaps: GapLog) -> Iterator[tuple[str, int]]:
        try:
            names = names_in(self._root)
        except Unreadable as why:
            if why.reason != "ENOENT":
                gaps.add(self._context.host, "class/infiniband", why.reason, why.detail)
            return
        for name in names:
            if not self._context.wants(name):
                continue
            try:
                # The inode of a sysfs folder is new each time the device is registered.
                yield name, identity(f"{self._root}/{name}")
            except OSError:
                hint = "link leads nowhere: mount the whole /sys, not single folders of it"
                gaps.add(self._context.host, f"class/infiniband/{name}", "dangling link", hint)


def _read_device(
    context: HostContext, root: str, name: str, inode: int, taken: set[str]
) -> RdmaDevice:
    path = f"{root}/{name}"
    uevent = dict(
        line.split("=", 1)
        for line in read_optional(f"{path}/device/uevent").splitlines()
        if "=" in line
    )
    pci_address = uevent.get("PCI_SLOT_NAME", "") or _pci_of(path)
    driver = _driver(path, uevent.get("DRIVER", ""))
    guid = read_optional(f"{path}/node_guid").replace(":", "").lower()
    candidates = (guid if guid.strip("0") else "", pci_address, name)
    key = next(text for text in candidates if text and text not in taken)
    entity = Device(context.host, key, name)
    return RdmaDevice(
        name,
        entity,
        path,
        driver,
        pci_address,
        exists(f"{path}/device/physfn"),
        f"{context.boot_id}:{inode}",
        tuple(_read_ports(path, entity)),
    )


def _pci_of(path: str) -> str:
    name = target(f"{path}/device")
    return name if name.count(":") == 2 else ""


def _driver(path: str, uevent_driver: str) -> str:
    if exists(f"{path}/device"):
        module = target(f"{path}/device/driver") or uevent_driver
        return RDMA_DRIVERS.get(module, module)
    if exists(f"{path}/parent"):  # only rxe_verbs.c makes this file
        return "rxe"
    if read_optional(f"{path}/node_type").startswith("4"):  # RNIC: iWARP in software
        return "siw"
    # A copy of sysfs without its links: mlx5 names itself after the chip, from MT4113 on.
    kind = read_optional(f"{path}/hca_type")
    return (
        "mlx5" if kind.startswith("MT") and kind[2:].isdecimal() and int(kind[2:]) >= 4113 else ""
    )


def _read_ports(path: str, device: Device) -> Iterator[RdmaPort]:
    try:
        numbers = sorted(int(name) for name in names_in(f"{path}/ports") if name.isdigit())
    except Unreadable:
        return
    for number in numbers:
        port_path = f"{path}/ports/{number}"
        yield RdmaPort(
            Port(device, number),
            port_path,
            read_optional(f"{port_path}/link_layer"),
            _netdev(path, port_path, number),
        )


def _netdev(path: str, port_path: str, number: int) -> str:
    for index in range(_GIDS_TRIED):
        try:
            return read_text(f"{port_path}/gid_attrs/ndevs/{index}")
        except Unreadable as why:
            if why.reason == "ENOENT":
                break  # EINVAL is an empty entry, others may follow
    parent = read_optional(f"{path}/parent")
    if parent:
        return parent
    try:
        names = names_in(f"{path}/device/net")
    except Unreadable:
        return ""
    if len(names) == 1:
        return names[0]
    wanted = str(number - 1)  # dev_port counts from 0
    for name in names:
        if read_optional(f"{path}/device/net/{name}/dev_port") == wanted:
            return name
    return ""


def _wanted_netdevs(
    context: HostContext, devices: tuple[RdmaDevice, ...], gaps: GapLog
) -> dict[str, Netdev]:
    found: dict[str, Netdev] = {}
    owners = netdev_names(devices)
    for name, device in owners.items():
        for member in (name, *_bond_members(context, name)):
            if context.wants(member, device):
                found.setdefault(member, Netdev(context.host, member))
    if context.include:
        try:
            listed = names_in(folder(context.sysfs, "class", "net"))
        except Unreadable as why:
            gaps.add(context.host, "class/net", why.reason, why.detail)
            listed = ()
        for name in listed:
            if context.wants(name):
                found.setdefault(name, Netdev(context.host, name))
    return found


def _bond_members(context: HostContext, name: str) -> tuple[str, ...]:
    text = read_optional(folder(context.sysfs, "class/net", name, "bonding/slaves"))
    return tuple(text.split())

"""Interfaces of RDMA ports: statistics, carrier, speed; MTU and addresses as facts."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Final

from collectors.codec.netlink import NETLINK_ROUTE, parse_replies
from collectors.codec.rtnetlink import pack_get_addresses, parse_address
from collectors.host.context import HostCollector, HostContext, NetlinkSocket
from collectors.host.inventory import RDMA_DRIVERS, Inventory
from collectors.host.kernel_file import (
    Unreadable,
    exists,
    folder,
    parse_count,
    read_count,
    read_optional,
    read_text,
    target,
)
from collectors.model.catalogue.registry import columns
from collectors.model.entities import Interface, Netdev
from collectors.model.errors import FabricError
from collectors.model.facts import Attribute, Facts, Setting
from collectors.model.metric import Column
from collectors.model.reading import Clock, GapLog, Pass, Reading

# RFC 2863 ifOperStatus, as the kernel spells it (net/core/net-sysfs.c).
OPER_STATES: Final[Mapping[str, int]] = {
    "up": 1,
    "down": 2,
    "testing": 3,
    "unknown": 4,
    "dormant": 5,
    "notpresent": 6,
    "lowerlayerdown": 7,
}
_FACTS_NS: Final = 10_000_000_000  # a wrong MTU must not look right for long
# The kernel refuses these while the interface is down, and speed where there is none.
_MAY_REFUSE: Final = frozenset({"carrier", "speed"})


def read_values(
    path: str, end: Netdev | Interface, gaps: GapLog
) -> Iterator[tuple[Column, int | float]]:
    """Yield what the files of an interface say; what cannot be read is a gap of `end`."""
    for key, column in columns("netdev").items():
        try:
            value = _read_value(f"{path}/{key}", key)
        except Unreadable as why:
            if not (why.reason == "EINVAL" and key in _MAY_REFUSE):
                gaps.add(end, key, why.reason, why.detail)
            continue
        if value is not None:
            yield column, value


def _read_value(file: str, key: str) -> int | None:
    """Return what a file of an interface says, None where it says that it does not know."""
    if key == "operstate":
        return OPER_STATES.get(read_text(file))
    if key == "speed":
        text = read_text(file)
        unknown = text in ("-1", "4294967295")  # as new and old kernels say
        return None if unknown else parse_count(text.encode())
    return read_count(file)


class NetdevCollector:
    """Reads the interfaces of wanted RDMA ports and those named in include."""

    name = "netdev"

    def __init__(self, context: HostContext) -> None:
        self._context = context
        self._inventory = Inventory.of(context)
        self._socket: NetlinkSocket | None = None
        self._facts_ns: int | None = None

    def read(self, clock: Clock) -> Pass:
        """Read once; an interface that vanishes meanwhile is a gap."""
        gaps = GapLog(self.name)
        netdevs = self._inventory.netdevs(clock, gaps)
        readings: list[Reading] = []
        for name, netdev in netdevs.items():
            path = folder(self._context.sysfs, "class", "net", name)
            index = read_optional(f"{path}/ifindex")
            if not index:
                gaps.add(netdev, "interface", "gone", f"{path} is not there")
                continue
            values = dict(read_values(path, netdev, gaps))
            if values:
                readings.append(
                    Reading(netdev, values, clock(), f"{self._context.boot_id}:{index}")
                )
        facts = None
        now = clock().mono_ns
        if self._facts_ns is None or now - self._facts_ns >= _FACTS_NS:
            self._facts_ns = now
            facts = self._facts(netdevs, gaps)
        return Pass(tuple(readings), gaps.gaps(), facts)

    def close(self) -> None:
        """Close the netlink socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _facts(self, netdevs: dict[str, Netdev], gaps: GapLog) -> Facts:
        settings: list[Setting] = []
        attributes: list[Attribute] = []
        addresses = self._addresses(gaps) if netdevs else {}
        for name, netdev in netdevs.items():
            path = folder(self._context.sysfs, "class", "net", name)
            mtu = read_optional(f"{path}/mtu")
            if mtu.isdecimal():
                settings.append(Setting(netdev, "mtu_bytes", int(mtu), f"{path}/mtu"))
            mac = read_optional(f"{path}/address")
            if mac:
                attributes.append(Attribute(netdev, "mac", mac))
            driver = target(f"{path}/device/driver")
            if driver:
                attributes.append(Attribute(netdev, "driver", RDMA_DRIVERS.get(driver, driver)))
            pci = target(f"{path}/device")
            if pci.count(":") == 2:
                attributes.append(Attribute(netdev, "pci_address", pci))
                attributes.append(Attribute(netdev, "is_vf", exists(f"{path}/device/physfn")))
            if name in addresses:
                attributes.append(Attribute(netdev, "address", tuple(addresses[name])))
        return Facts(tuple(settings), tuple(attributes))

    def _addresses(self, gaps: GapLog) -> dict[str, list[str]]:
        """Return interface -> addresses with prefix: IPv6 from procfs, IPv4 over rtnetlink."""
        found: dict[str, list[str]] = {}
        text = read_optional(folder(self._context.procfs, "net", "if_inet6"))
        for line in text.splitlines():
            fields = line.split()
            if len(fields) != 6:
                continue
            try:
                address = ipaddress.IPv6Address(bytes.fromhex(fields[0]))
                found.setdefault(fields[5], []).append(f"{address}/{int(fields[2], 16)}")
            except ValueError:
                gaps.add(self._context.host, "if_inet6", "not numeric", line[:80])
        if self._context.open_netlink is None:
            return found
        try:
            if self._socket is None:
                self._socket = self._context.open_netlink(NETLINK_ROUTE)
            for entry in parse_replies(self._socket.request(pack_get_addresses()), parse_address):
                found.setdefault(entry.netdev, []).append(f"{entry.address}/{entry.prefix}")
        except FabricError as error:
            gaps.add(self._context.host, "RTM_GETADDR", type(error).__name__, str(error))
            self.close()
        return found


NETDEV: Final = HostCollector(
    "netdev",
    "interfaces of RDMA ports: traffic, drops, carrier, speed, MTU, addresses",
    NetdevCollector,
    interval_s=5.0,
)

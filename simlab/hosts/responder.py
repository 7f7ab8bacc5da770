"""Answers netlink requests as a kernel with these RDMA devices would, and counts what they cost.

`RdmaResponder` stands where a collector expects its netlink socket. It answers from the same
fake devices that `tree.py` writes, so that both ways to one counter can be compared.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field

from collectors.codec import rdma_netlink as rdma
from collectors.codec.netlink import (
    NLM_F_MULTI,
    Message,
    number,
    pack_message,
    pack_nest,
    pack_text,
    pack_u8,
    pack_u32,
    pack_u64,
    parse_attributes,
    parse_messages,
)
from collectors.model.errors import NotSupported, Unavailable
from simlab.hosts.tree import FakeDevice

COMMANDS_OF_STAT_GET = 3  # mlx5: QUERY_Q_COUNTER, PPCNT, QUERY_CONG_STATISTICS


@dataclass
class RdmaResponder:
    """A NETLINK_RDMA socket of a host that does not exist.

    refuse: device -> errno that its STAT_GET answers. commands: device commands so far, by
    (device, port).
    """

    devices: tuple[FakeDevice, ...]
    refuse: Mapping[str, int] = field(default_factory=dict)
    commands: dict[tuple[str, int], int] = field(default_factory=dict)
    closed: bool = False

    def request(self, message: bytes) -> list[bytes]:
        """Answer one request; NotSupported and Unavailable as the real socket raises them."""
        (asked,) = parse_messages(message)
        attributes = dict(parse_attributes(asked.payload))
        if asked.type == rdma.message_type(rdma.GET):
            return [self._devices()]
        index = number(attributes[rdma.DEV_INDEX])
        if index >= len(self.devices):
            raise Unavailable("NETLINK_RDMA", "request", "EINVAL (Invalid argument)")
        device = self.devices[index]
        if asked.type == rdma.message_type(rdma.PORT_GET):
            return [self._ports(index, device)]
        if asked.type == rdma.message_type(rdma.STAT_GET):
            return [self._counters(index, device, number(attributes[rdma.PORT_INDEX]))]
        raise NotSupported("NETLINK_RDMA", "request", "EOPNOTSUPP (Operation not supported)")

    def close(self) -> None:
        """Note that the socket was closed."""
        self.closed = True

    def _devices(self) -> bytes:
        replies = []
        for index, device in enumerate(self.devices):
            payload = pack_u32(rdma.DEV_INDEX, index) + pack_text(rdma.DEV_NAME, device.name)
            payload += pack_u32(rdma.PORT_INDEX, len(device.ports))
            payload += pack_u64(rdma.NODE_GUID, int(device.node_guid.replace(":", ""), 16))
            payload += pack_u8(rdma.DEV_NODE_TYPE, 1) + pack_text(rdma.DEV_PROTOCOL, "roce")
            replies.append(pack_message(rdma.message_type(rdma.GET), NLM_F_MULTI, payload))
        return b"".join(replies)

    def _ports(self, index: int, device: FakeDevice) -> bytes:
        replies = []
        for port in device.ports:
            self._count(device, port.number, 1)
            payload = pack_u32(rdma.DEV_INDEX, index) + pack_u32(rdma.PORT_INDEX, port.number)
            payload += pack_u8(rdma.PORT_STATE, int(port.state.split(":")[0]))
            payload += pack_u8(rdma.PORT_PHYS_STATE, int(port.phys_state.split(":")[0]))
            for _, _, netdev in list(port.gids.values())[:1]:
                payload += pack_text(rdma.NDEV_NAME, netdev)
            replies.append(pack_message(rdma.message_type(rdma.PORT_GET), NLM_F_MULTI, payload))
        return b"".join(replies)

    def _counters(self, index: int, device: FakeDevice, number_: int) -> bytes:
        if device.name in self.refuse:
            code = self.refuse[device.name]
            raise Unavailable("NETLINK_RDMA", "request", errno.errorcode[code])
        port = next((port for port in device.ports if port.number == number_), None)
        if port is None or port.hw_counters is None:
            raise Unavailable("NETLINK_RDMA", "request", "EINVAL (Invalid argument)")
        self._count(device, number_, COMMANDS_OF_STAT_GET)
        entries = [
            pack_nest(
                rdma.STAT_HWCOUNTER_ENTRY,
                [
                    pack_text(rdma.STAT_HWCOUNTER_ENTRY_NAME, name),
                    pack_u64(rdma.STAT_HWCOUNTER_ENTRY_VALUE, value),
                ],
            )
            for name, value in port.hw_counters.items()
            if isinstance(value, int) and name != "lifespan"
        ]
        payload = pack_u32(rdma.DEV_INDEX, index) + pack_u32(rdma.PORT_INDEX, number_)
        payload += pack_nest(rdma.STAT_HWCOUNTERS, entries)
        return pack_message(rdma.message_type(rdma.STAT_GET), 0, payload)

    def _count(self, device: FakeDevice, port: int, commands: int) -> None:
        key = (device.name, port)
        self.commands[key] = self.commands.get(key, 0) + commands


def messages(datagrams: list[bytes]) -> list[Message]:
    """Return all messages of several datagrams."""
    return [message for data in datagrams for message in parse_messages(data)]


@dataclass
class FakeEthtool:
    """Drivers that answer `ethtool -S`. drivers: interface -> driver. statistics: likewise.

    A statistic given as an exception is raised when asked for.
    """

    drivers: Mapping[str, str]
    tables: Mapping[str, list[tuple[str, int]] | Exception]
    asked: list[str] = field(default_factory=list)

    def driver(self, netdev: str) -> str:
        """Return the driver's name."""
        self.asked.append(netdev)
        return self.drivers.get(netdev, "")

    def statistics(self, netdev: str) -> list[tuple[str, int]]:
        """Return the statistics, or raise what stands for them."""
        self.asked.append(netdev)
        table = self.tables.get(netdev)
        if table is None:
            raise NotSupported(netdev, "ETHTOOL_GSTATS", "EOPNOTSUPP (Operation not supported)")
        if isinstance(table, Exception):
            raise table
        return table

    def close(self) -> None:
        """Hold nothing, close nothing."""

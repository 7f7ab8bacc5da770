"""Answers netlink requests as a kernel with these RDMA devices would, and counts what they cost.

`RdmaResponder` stands where a collector expects its netlink socket. It answers from the same
fake devices that `tree.py` writes, so that both ways to one counter can be compared.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from collectors.codec import dcb
from collectors.codec import rdma_netlink as rdma
from collectors.codec.netlink import (
    NLM_F_MULTI,
    Message,
    number,
    pack_attribute,
    pack_message,
    pack_nest,
    pack_text,
    pack_u8,
    pack_u32,
    pack_u64,
    parse_attributes,
    parse_messages,
    text,
)
from collectors.model.errors import NotSupported, Unavailable
from simlab.hosts.tree import FakeDevice


@dataclass(frozen=True)
class FakeQueuePair:
    """A queue pair. type, state: the kernel's numbers. peer: (source, destination) of rdma_cm."""

    local_qpn: int
    remote_qpn: int | None = None
    type: int = 2
    state: int = 3
    pid: int | None = None
    kernel_name: str = ""
    peer: tuple[str, str] | None = None
    counters: Mapping[str, int] | None = None


COMMANDS_OF_STAT_GET = 3  # mlx5: QUERY_Q_COUNTER, PPCNT, QUERY_CONG_STATISTICS


@dataclass
class RdmaResponder:
    """A NETLINK_RDMA socket of a host that does not exist.

    refuse: device -> errno that its STAT_GET answers. commands: device commands so far, by
    (device, port).
    """

    devices: tuple[FakeDevice, ...]
    refuse: Mapping[str, int] = field(default_factory=dict)
    queue_pairs: tuple[FakeQueuePair, ...] = ()
    optional: Mapping[str, bool] | None = None
    exclusive: bool = False
    commands: dict[tuple[str, int], int] = field(default_factory=dict)
    closed: bool = False

    def request(self, message: bytes) -> list[bytes]:
        """Answer one request; NotSupported and Unavailable as the real socket raises them."""
        (asked,) = parse_messages(message)
        attributes = dict(parse_attributes(asked.payload))
        if asked.type == rdma.message_type(rdma.GET):
            return [self._devices()]
        if asked.type == rdma.message_type(rdma.SYS_GET):
            shared = pack_u8(rdma.SYS_NETNS_MODE, int(not self.exclusive))
            return [pack_message(rdma.message_type(rdma.SYS_GET), 0, shared)]
        index = number(attributes[rdma.DEV_INDEX])
        if index >= len(self.devices):
            raise Unavailable("NETLINK_RDMA", "request", "EINVAL (Invalid argument)")
        device = self.devices[index]
        if asked.type == rdma.message_type(rdma.PORT_GET):
            return [self._ports(index, device)]
        if asked.type == rdma.message_type(rdma.RES_QP_GET):
            return [self._queue_pair(index, pair) for pair in self.queue_pairs]
        if asked.type == rdma.message_type(rdma.RES_CM_ID_GET):
            return [self._connection(pair) for pair in self.queue_pairs if pair.peer]
        if asked.type == rdma.message_type(rdma.STAT_GET_STATUS) and self.optional is not None:
            return [self._status()]
        if asked.type == rdma.message_type(rdma.STAT_GET) and rdma.STAT_RES in attributes:
            if rdma.STAT_MODE in attributes:
                payload = pack_u32(rdma.STAT_MODE, 2)
                return [pack_message(rdma.message_type(rdma.STAT_GET), 0, payload)]
            return [self._counter_set(pair) for pair in self.queue_pairs if pair.counters]
        if asked.type == rdma.message_type(rdma.STAT_GET):
            return [self._counters(index, device, number(attributes[rdma.PORT_INDEX]))]
        raise NotSupported("NETLINK_RDMA", "request", "EOPNOTSUPP (Operation not supported)")

    def dump(self, message: bytes, max_bytes: int, max_seconds: float) -> tuple[list[bytes], bool]:
        """Answer a dump within its budget of bytes."""
        got: list[bytes] = []
        for data in self.request(message):
            if sum(map(len, got)) > max_bytes or max_seconds <= 0:
                return got, False
            got.append(data)
        return got, True

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
        entries = _entries(
            {
                name: value
                for name, value in port.hw_counters.items()
                if isinstance(value, int) and name != "lifespan"
            }
        )
        payload = pack_u32(rdma.DEV_INDEX, index) + pack_u32(rdma.PORT_INDEX, number_)
        payload += pack_nest(rdma.STAT_HWCOUNTERS, entries)
        return pack_message(rdma.message_type(rdma.STAT_GET), 0, payload)

    def _queue_pair(self, index: int, pair: FakeQueuePair) -> bytes:
        parts = [pack_u32(rdma.PORT_INDEX, 1), pack_u32(rdma.RES_LQPN, pair.local_qpn)]
        if pair.remote_qpn is not None:
            parts.append(pack_u32(rdma.RES_RQPN, pair.remote_qpn))
        parts += [pack_u8(rdma.RES_TYPE, pair.type), pack_u8(rdma.RES_STATE, pair.state)]
        if pair.pid is not None:
            parts.append(pack_u32(rdma.RES_PID, pair.pid))
        if pair.kernel_name:
            parts.append(pack_text(rdma.RES_KERN_NAME, pair.kernel_name))
        table = pack_nest(rdma.RES_QP, [pack_nest(rdma.RES_QP_ENTRY, parts)])
        payload = pack_u32(rdma.DEV_INDEX, index) + table
        return pack_message(rdma.message_type(rdma.RES_QP_GET), NLM_F_MULTI, payload)

    @staticmethod
    def _connection(pair: FakeQueuePair) -> bytes:
        ends = [
            pack_attribute(kind, struct.pack("=HH4s", 2, 0, socket.inet_aton(address)))
            for kind, address in zip(
                (rdma.RES_SRC_ADDR, rdma.RES_DST_ADDR), pair.peer or (), strict=True
            )
        ]
        entry = pack_nest(rdma.RES_CM_ID_ENTRY, [pack_u32(rdma.RES_LQPN, pair.local_qpn), *ends])
        payload = pack_nest(rdma.RES_CM_ID, [entry])
        return pack_message(rdma.message_type(rdma.RES_CM_ID_GET), NLM_F_MULTI, payload)

    @staticmethod
    def _counter_set(pair: FakeQueuePair) -> bytes:
        bound = pack_nest(rdma.RES_QP_ENTRY, [pack_u32(rdma.RES_LQPN, pair.local_qpn)])
        parts = [
            pack_u32(rdma.PORT_INDEX, 1),
            pack_u32(rdma.STAT_COUNTER_ID, 5),
            pack_nest(rdma.RES_QP, [bound]),
            pack_nest(rdma.STAT_HWCOUNTERS, _entries(pair.counters or {})),
        ]
        payload = pack_nest(rdma.STAT_COUNTER, [pack_nest(rdma.STAT_COUNTER_ENTRY, parts)])
        return pack_message(rdma.message_type(rdma.STAT_GET), NLM_F_MULTI, payload)

    def _status(self) -> bytes:
        entries = [
            pack_nest(
                rdma.STAT_HWCOUNTER_ENTRY,
                [
                    pack_u32(rdma.STAT_HWCOUNTER_INDEX, index),
                    pack_text(rdma.STAT_HWCOUNTER_ENTRY_NAME, name),
                    pack_u8(rdma.STAT_HWCOUNTER_DYNAMIC, int(on)),
                ],
            )
            for index, (name, on) in enumerate((self.optional or {}).items())
        ]
        payload = pack_nest(rdma.STAT_HWCOUNTERS, entries)
        return pack_message(rdma.message_type(rdma.STAT_GET_STATUS), 0, payload)

    def _count(self, device: FakeDevice, port: int, commands: int) -> None:
        key = (device.name, port)
        self.commands[key] = self.commands.get(key, 0) + commands


def _entries(counters: Mapping[str, int]) -> list[bytes]:
    return [
        pack_nest(
            rdma.STAT_HWCOUNTER_ENTRY,
            [
                pack_text(rdma.STAT_HWCOUNTER_ENTRY_NAME, name),
                pack_u64(rdma.STAT_HWCOUNTER_ENTRY_VALUE, value),
            ],
        )
        for name, value in counters.items()
    ]


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


@dataclass(frozen=True)
class FakeDcb:
    """Quality of service of an interface. dscp: DSCP -> priority. pfc: lossless priorities."""

    pfc: tuple[int, ...] = ()
    dscp: Mapping[int, int] = field(default_factory=dict)
    traffic_class: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7)
    algorithm: tuple[int, ...] = (2,) * 8
    bandwidth: tuple[int, ...] = (13, 13, 13, 13, 12, 12, 12, 12)
    delay: int = 7
    rx_frames: tuple[int, ...] = (0,) * 8
    tx_frames: tuple[int, ...] = (0,) * 8
    prio_to_buffer: tuple[int, ...] | None = None
    buffer_bytes: tuple[int, ...] = (0,) * 8
    mode: int = 0x09


@dataclass
class RouteResponder:
    """A NETLINK_ROUTE socket: DCB of some interfaces, addresses of none."""

    dcb: Mapping[str, FakeDcb]

    def request(self, message: bytes) -> list[bytes]:
        """Answer one request as the kernel does."""
        (asked,) = parse_messages(message)
        if asked.type != dcb.RTM_GETDCB:
            return []
        command = asked.payload[1]
        name = text(dict(parse_attributes(asked.payload, dcb.HEADER.size))[dcb.ATTR_IFNAME])
        fake = self.dcb.get(name)
        if fake is None:
            raise NotSupported("NETLINK_ROUTE", "request", "EOPNOTSUPP (Operation not supported)")
        payload = dcb.HEADER.pack(0, command) + pack_text(dcb.ATTR_IFNAME, name)
        if command == dcb.CMD_GDCBX:
            payload += pack_u8(dcb.ATTR_DCBX, fake.mode)
        else:
            payload += pack_nest(dcb.ATTR_IEEE, _ieee(fake))
        return [pack_message(dcb.RTM_GETDCB, 0, payload)]

    def dump(self, message: bytes, max_bytes: int, max_seconds: float) -> tuple[list[bytes], bool]:
        """Answer a dump; there is never much."""
        return self.request(message), max_bytes > 0 and max_seconds > 0

    def close(self) -> None:
        """Hold nothing, close nothing."""


def _ieee(fake: FakeDcb) -> list[bytes]:
    zeros = (0,) * 8
    bandwidth = fake.bandwidth
    ets = dcb.ETS.pack(0, 8, 0, *bandwidth, *bandwidth, *fake.algorithm, *fake.traffic_class,
                       *zeros, *zeros, *zeros)  # fmt: skip
    bits = sum(1 << priority for priority in fake.pfc)
    pfc = dcb.PFC.pack(8, bits, 0, fake.delay, *fake.tx_frames, *fake.rx_frames)
    apps = [
        pack_attribute(1, dcb.APP.pack(dcb.SELECTOR_DSCP, priority, code))
        for code, priority in fake.dscp.items()
    ]
    parts = [pack_attribute(1, ets), pack_attribute(2, pfc), pack_nest(3, apps)]
    if fake.prio_to_buffer is not None:
        sizes = fake.buffer_bytes
        parts.append(pack_attribute(10, dcb.BUFFER.pack(*fake.prio_to_buffer, *sizes, sum(sizes))))
    return parts

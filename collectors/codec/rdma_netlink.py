"""RDMA netlink (family 20, client nldev): requests out, devices, ports and counters in.

Numbers from Linux uapi/rdma/rdma_netlink.h; behaviour from drivers/infiniband/core/nldev.c.
GET messages need no privilege. STAT_GET without a resource type returns all hardware counters
of a port in one message, at the price of one query of the device.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from collectors.codec.netlink import (
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_REQUEST,
    Message,
    number,
    pack_message,
    pack_u32,
    parse_attributes,
    text,
)

NLDEV = 5

GET = 1
PORT_GET = 5
SYS_GET = 6
RES_QP_GET = 10
RES_CM_ID_GET = 11
STAT_GET = 17
STAT_GET_STATUS = 24

DEV_INDEX = 1
DEV_NAME = 2
PORT_INDEX = 3
FW_VERSION = 5
NODE_GUID = 6
SYS_IMAGE_GUID = 7
PORT_STATE = 12
PORT_PHYS_STATE = 13
DEV_NODE_TYPE = 14
RES_QP = 19
RES_QP_ENTRY = 20
RES_LQPN = 21
RES_RQPN = 22
RES_TYPE = 26
RES_STATE = 27
RES_PID = 28
RES_KERN_NAME = 29
RES_CM_ID = 30
RES_CM_ID_ENTRY = 31
RES_SRC_ADDR = 33
RES_DST_ADDR = 34
NDEV_INDEX = 50
NDEV_NAME = 51
SYS_NETNS_MODE = 66
DEV_PROTOCOL = 67
STAT_MODE = 74
STAT_RES = 75
STAT_COUNTER = 77
STAT_COUNTER_ENTRY = 78
STAT_COUNTER_ID = 79
STAT_HWCOUNTERS = 80
STAT_HWCOUNTER_ENTRY = 81
STAT_HWCOUNTER_ENTRY_NAME = 82
STAT_HWCOUNTER_ENTRY_VALUE = 83
STAT_HWCOUNTER_INDEX = 94
STAT_HWCOUNTER_DYNAMIC = 95


@dataclass(frozen=True, slots=True)
class RdmaDeviceInfo:
    """A device as the kernel lists it. ports: their count. node_guid: 0 if not told."""

    index: int
    name: str
    ports: int = 0
    firmware: str = ""
    node_guid: int = 0
    node_type: int = 0
    protocol: str = ""


QP_TYPES: Final[Mapping[int, str]] = MappingProxyType(
    {0: "SMI", 1: "GSI", 2: "RC", 3: "UC", 4: "UD", 8: "RAW_PACKET", 9: "XRC_INI", 10: "XRC_TGT",
     255: "DRIVER"}
)  # fmt: skip
QP_STATES: Final = ("RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR")
COUNTER_MODES: Final = ("none", "auto", "manual")


@dataclass(frozen=True, slots=True)
class QueuePairInfo:
    """A queue pair as the kernel lists it. process: of the kernel's own, else ''.

    pid: None where the process is in another pid namespace or the kernel owns the pair.
    """

    local_qpn: int
    port: int = 0
    remote_qpn: int | None = None
    type: str = ""
    state: str = ""
    pid: int | None = None
    process: str = ""


@dataclass(frozen=True, slots=True)
class CounterSet:
    """A counter set that queue pairs are bound to."""

    identifier: int
    port: int
    queue_pairs: tuple[int, ...]
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RdmaPortInfo:
    """A port as the kernel lists it. netdev: '' where it is in another network namespace."""

    device_index: int
    number: int
    state: int | None = None
    physical_state: int | None = None
    netdev: str = ""
    netdev_index: int | None = None


def message_type(command: int) -> int:
    """Return the message type of an nldev command."""
    return (NLDEV << 10) + command


def pack_get_devices() -> bytes:
    """Return the request for all devices."""
    return pack_message(message_type(GET), NLM_F_REQUEST | NLM_F_DUMP, b"")


def pack_get_ports(device_index: int) -> bytes:
    """Return the request for all ports of a device; costs the device one query a port."""
    payload = pack_u32(DEV_INDEX, device_index)
    return pack_message(message_type(PORT_GET), NLM_F_REQUEST | NLM_F_DUMP, payload)


def pack_get_counters(device_index: int, port: int) -> bytes:
    """Return the request for all hardware counters of a port."""
    payload = pack_u32(DEV_INDEX, device_index) + pack_u32(PORT_INDEX, port)
    return pack_message(message_type(STAT_GET), NLM_F_REQUEST | NLM_F_ACK, payload)


def pack_get_system() -> bytes:
    """Return the request for the mode of RDMA network namespaces."""
    return pack_message(message_type(SYS_GET), NLM_F_REQUEST | NLM_F_ACK, b"")


def pack_get_queue_pairs(device_index: int) -> bytes:
    """Return the request for all queue pairs of a device; costs the device one query a pair."""
    payload = pack_u32(DEV_INDEX, device_index)
    return pack_message(message_type(RES_QP_GET), NLM_F_REQUEST | NLM_F_DUMP, payload)


def pack_get_connections(device_index: int) -> bytes:
    """Return the request for the connections that rdma_cm made on a device."""
    payload = pack_u32(DEV_INDEX, device_index)
    return pack_message(message_type(RES_CM_ID_GET), NLM_F_REQUEST | NLM_F_DUMP, payload)


def pack_get_counter_sets(device_index: int, port: int) -> bytes:
    """Return the request for the counter sets bound to queue pairs of a port."""
    payload = pack_u32(DEV_INDEX, device_index) + pack_u32(PORT_INDEX, port)
    payload += pack_u32(STAT_RES, RES_QP)
    return pack_message(message_type(STAT_GET), NLM_F_REQUEST | NLM_F_DUMP, payload)


def pack_get_counter_mode(device_index: int, port: int) -> bytes:
    """Return the request for how queue pairs of a port are bound to counter sets."""
    payload = pack_u32(DEV_INDEX, device_index) + pack_u32(PORT_INDEX, port)
    payload += pack_u32(STAT_MODE, 0) + pack_u32(STAT_RES, RES_QP)
    return pack_message(message_type(STAT_GET), NLM_F_REQUEST | NLM_F_ACK, payload)


def pack_get_counter_status(device_index: int, port: int) -> bytes:
    """Return the request for which optional counters there are and are on (Linux 5.16)."""
    payload = pack_u32(DEV_INDEX, device_index) + pack_u32(PORT_INDEX, port)
    return pack_message(message_type(STAT_GET_STATUS), NLM_F_REQUEST | NLM_F_ACK, payload)


def parse_device(message: Message) -> RdmaDeviceInfo | None:
    """Return the device of a GET reply; None for another message. Raises Malformed."""
    if message.type != message_type(GET):
        return None
    found = dict(parse_attributes(message.payload))
    if DEV_INDEX not in found or DEV_NAME not in found:
        return None
    return RdmaDeviceInfo(
        number(found[DEV_INDEX]),
        text(found[DEV_NAME]),
        number(found[PORT_INDEX]) if PORT_INDEX in found else 0,
        text(found.get(FW_VERSION, b"")),
        number(found[NODE_GUID]) if NODE_GUID in found else 0,
        number(found[DEV_NODE_TYPE]) if DEV_NODE_TYPE in found else 0,
        text(found.get(DEV_PROTOCOL, b"")),
    )


def parse_port(message: Message) -> RdmaPortInfo | None:
    """Return the port of a PORT_GET reply; None for another message. Raises Malformed."""
    if message.type != message_type(PORT_GET):
        return None
    found = dict(parse_attributes(message.payload))
    if DEV_INDEX not in found or PORT_INDEX not in found:
        return None

    def maybe(kind: int) -> int | None:
        return number(found[kind]) if kind in found else None

    return RdmaPortInfo(
        number(found[DEV_INDEX]),
        number(found[PORT_INDEX]),
        maybe(PORT_STATE),
        maybe(PORT_PHYS_STATE),
        text(found.get(NDEV_NAME, b"")),
        maybe(NDEV_INDEX),
    )


def parse_counters(message: Message) -> dict[str, int] | None:
    """Return name -> value of a STAT_GET reply; None for another message. Raises Malformed."""
    if message.type != message_type(STAT_GET):
        return None
    return {
        name: value
        for kind, payload in parse_attributes(message.payload)
        if kind == STAT_HWCOUNTERS
        for name, value in _entries(payload)
    }


def _entries(payload: bytes) -> Iterator[tuple[str, int]]:
    for kind, entry in parse_attributes(payload):
        if kind != STAT_HWCOUNTER_ENTRY:
            continue
        found = dict(parse_attributes(entry))
        if STAT_HWCOUNTER_ENTRY_NAME in found and STAT_HWCOUNTER_ENTRY_VALUE in found:
            name = text(found[STAT_HWCOUNTER_ENTRY_NAME])
            yield name, number(found[STAT_HWCOUNTER_ENTRY_VALUE])


def parse_netns_exclusive(message: Message) -> bool | None:
    """Tell whether devices belong to one network namespace each; None if not told."""
    if message.type != message_type(SYS_GET):
        return None
    found = dict(parse_attributes(message.payload))
    # The kernel reports 1 for shared mode and 0 for exclusive.
    return not number(found[SYS_NETNS_MODE]) if SYS_NETNS_MODE in found else None


def parse_queue_pairs(message: Message) -> tuple[QueuePairInfo, ...]:
    """Return the queue pairs of a RES_QP_GET reply. Raises Malformed."""
    if message.type != message_type(RES_QP_GET):
        return ()
    return tuple(
        _queue_pair(dict(parse_attributes(entry)))
        for kind, table in parse_attributes(message.payload)
        if kind == RES_QP
        for entry_kind, entry in parse_attributes(table)
        if entry_kind == RES_QP_ENTRY
    )


def _queue_pair(found: Mapping[int, bytes]) -> QueuePairInfo:
    def maybe(kind: int) -> int | None:
        return number(found[kind]) if kind in found else None

    kind, state = maybe(RES_TYPE), maybe(RES_STATE)
    return QueuePairInfo(
        maybe(RES_LQPN) or 0,
        maybe(PORT_INDEX) or 0,
        maybe(RES_RQPN),
        "" if kind is None else QP_TYPES.get(kind, str(kind)),
        "" if state is None else QP_STATES[state] if state < len(QP_STATES) else str(state),
        maybe(RES_PID),
        text(found.get(RES_KERN_NAME, b"")),
    )


def parse_connections(message: Message) -> dict[int, tuple[str, str]]:
    """Return local QPN -> (source, destination) of a RES_CM_ID_GET reply. Raises Malformed."""
    if message.type != message_type(RES_CM_ID_GET):
        return {}
    connections = {}
    for kind, table in parse_attributes(message.payload):
        if kind != RES_CM_ID:
            continue
        for entry_kind, entry in parse_attributes(table):
            found = dict(parse_attributes(entry)) if entry_kind == RES_CM_ID_ENTRY else {}
            if RES_LQPN in found:
                source = parse_socket_address(found.get(RES_SRC_ADDR, b""))
                destination = parse_socket_address(found.get(RES_DST_ADDR, b""))
                connections[number(found[RES_LQPN])] = (source, destination)
    return connections


def parse_socket_address(data: bytes) -> str:
    """Return the IP address of a sockaddr, '' for another family or a cut one."""
    if len(data) < 2:
        return ""
    (family,) = struct.unpack_from("=H", data)
    if family == 2 and len(data) >= 8:
        return str(ipaddress.IPv4Address(data[4:8]))
    if family == 10 and len(data) >= 24:
        return str(ipaddress.IPv6Address(data[8:24]))
    return ""


def parse_counter_sets(message: Message) -> tuple[CounterSet, ...]:
    """Return the bound counter sets of a STAT_GET dump. Raises Malformed."""
    if message.type != message_type(STAT_GET):
        return ()
    return tuple(
        _counter_set(entry)
        for kind, table in parse_attributes(message.payload)
        if kind == STAT_COUNTER
        for entry_kind, entry in parse_attributes(table)
        if entry_kind == STAT_COUNTER_ENTRY
    )


def _counter_set(entry: bytes) -> CounterSet:
    found = dict(parse_attributes(entry))
    pairs = tuple(
        number(dict(parse_attributes(pair)).get(RES_LQPN, bytes(4)))
        for kind, pair in parse_attributes(found.get(RES_QP, b""))
        if kind == RES_QP_ENTRY
    )
    return CounterSet(
        number(found[STAT_COUNTER_ID]) if STAT_COUNTER_ID in found else 0,
        number(found[PORT_INDEX]) if PORT_INDEX in found else 0,
        pairs,
        dict(_entries(found.get(STAT_HWCOUNTERS, b""))),
    )


def parse_counter_mode(message: Message) -> str | None:
    """Return none, auto or manual; None where the reply does not tell. Raises Malformed."""
    if message.type != message_type(STAT_GET):
        return None
    found = dict(parse_attributes(message.payload))
    if STAT_MODE not in found:
        return None
    mode = number(found[STAT_MODE])
    return COUNTER_MODES[mode] if mode < len(COUNTER_MODES) else str(mode)


def parse_counter_status(message: Message) -> dict[str, bool]:
    """Return optional counter -> whether it is on. Raises Malformed."""
    if message.type != message_type(STAT_GET_STATUS):
        return {}
    optional = {}
    for kind, table in parse_attributes(message.payload):
        if kind != STAT_HWCOUNTERS:
            continue
        for entry_kind, entry in parse_attributes(table):
            found = dict(parse_attributes(entry)) if entry_kind == STAT_HWCOUNTER_ENTRY else {}
            if STAT_HWCOUNTER_DYNAMIC in found and STAT_HWCOUNTER_ENTRY_NAME in found:
                on = bool(number(found[STAT_HWCOUNTER_DYNAMIC]))
                optional[text(found[STAT_HWCOUNTER_ENTRY_NAME])] = on
    return optional

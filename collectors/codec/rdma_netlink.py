"""RDMA netlink (family 20, client nldev): requests out, devices, ports and counters in.

Numbers from Linux uapi/rdma/rdma_netlink.h; behaviour from drivers/infiniband/core/nldev.c.
GET messages need no privilege. STAT_GET without a resource type returns all hardware counters
of a port in one message, at the price of one query of the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
NDEV_INDEX = 50
NDEV_NAME = 51
SYS_NETNS_MODE = 66
DEV_PROTOCOL = 67
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

"""Runs inside the lab VM: reads with our collectors, prints JSON. Arguments: pattern, names..."""

import json
import socket
import struct
import sys
import time

from collectors.codec import rdma_netlink as codec
from collectors.codec.netlink import NETLINK_RDMA, parse_messages
from collectors.host.context import HostContext
from collectors.host.ethtool_ioctl import open_ethtool
from collectors.host.frame_socket import open_frames
from collectors.host.netlink_socket import open_netlink
from collectors.host.registry import HOST_COLLECTORS
from collectors.model.errors import FabricError
from collectors.model.reading import Instant


def clock() -> Instant:
    return Instant(time.time_ns(), time.monotonic_ns())


def rdma_list() -> dict:
    """Devices and ports as our codec reads them from the kernel."""
    socket = open_netlink(NETLINK_RDMA)
    devices, ports = [], []
    for data in socket.request(codec.pack_get_devices()):
        devices += [d for m in parse_messages(data) if (d := codec.parse_device(m))]
    for device in devices:
        for data in socket.request(codec.pack_get_ports(device.index)):
            ports += [
                (device.name, p.number, p.state, p.physical_state, p.netdev)
                for m in parse_messages(data)
                if (p := codec.parse_port(m))
            ]
    socket.close()
    return {"devices": [(d.name, d.node_guid, d.ports) for d in devices], "ports": ports}


def source_ports(netdev: str, seconds: float = 2.0) -> list[int]:
    """UDP source ports of RoCE packets that leave an interface (IPv6)."""
    found = set()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003)) as sniffer:
        sniffer.bind((netdev, 3))
        sniffer.settimeout(0.5)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                frame, address = sniffer.recvfrom(200)
            except TimeoutError:
                continue
            outgoing = address[2] == 4
            if outgoing and frame[12:14] == b"\x86\xdd" and frame[20] == 17:
                source, target = struct.unpack_from(">HH", frame, 54)
                if target == 4791:
                    found.add(source)
    return sorted(found)


def main() -> None:
    pattern, *names = sys.argv[1:]
    context = HostContext(
        "vm",
        include=tuple(pattern.split(",")),
        open_netlink=open_netlink,
        open_ethtool=open_ethtool,
        open_frames=open_frames,
    )
    told = {}
    for row in HOST_COLLECTORS:
        if row.name not in names:
            continue
        try:
            result = row.build(context).read(clock)
        except FabricError as error:
            told[row.name] = {"error": str(error)}
            continue
        facts = result.facts
        told[row.name] = {
            "values": [
                [str(reading.entity), column.metric, value]
                for reading in result.readings
                for column, value in reading.values.items()
            ],
            "settings": [
                [str(s.entity), s.name, s.value] for s in (facts.settings if facts else ())
            ],
            "names": {str(r.entity): getattr(r.entity, "name", "") for r in result.readings},
            "queue_pairs": [
                {"device": q.device.name, "lqpn": q.local_qpn, "rqpn": q.remote_qpn,
                 "type": q.type, "state": q.state, "pid": q.pid, "sport": q.udp_source_port}
                for q in (facts.queue_pairs if facts else ())
            ],
            "gaps": [[g.subject, g.what, g.reason, g.detail] for g in result.gaps],
        }  # fmt: skip
    if "rdma_list" in names:
        told["rdma_list"] = rdma_list()
    for name in names:
        if name.startswith("sports:"):
            told[name] = source_ports(name.removeprefix("sports:"))
    print(json.dumps(told))


main()

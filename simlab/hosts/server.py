"""Answers for the kernel of a fake host: netlink of three families, ethtool, LLDP frames."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from collectors.codec import ethtool as codec
from collectors.codec import lldp
from collectors.codec.genetlink import CONTROL, command_of, generic_attributes, pack_generic
from collectors.codec.netlink import (
    NETLINK_GENERIC,
    NETLINK_RDMA,
    NETLINK_ROUTE,
    pack_nest,
    pack_text,
    pack_u8,
    pack_u16,
    pack_u32,
    parse_attributes,
    parse_messages,
    text,
)
from collectors.model.errors import FabricError, NotSupported
from simlab.hosts.profile import FakeHost
from simlab.hosts.responder import FakeEthtool, RdmaResponder, RouteResponder

_FAMILY: Final = 20


class GenericResponder:
    """A NETLINK_GENERIC socket whose only family is ethtool: pause and link modes."""

    def __init__(self, pause: Mapping[str, tuple[bool, bool]], speed_mbps: int = 400_000) -> None:
        self._pause = pause
        self._speed = speed_mbps

    def request(self, message: bytes) -> list[bytes]:
        """Answer one request as a driver with pause settings does."""
        (asked,) = parse_messages(message)
        if asked.type == CONTROL:
            payload = pack_u16(1, _FAMILY) + pack_text(2, codec.FAMILY)
            return [pack_generic(CONTROL, 1, 1, payload)]
        header = dict(generic_attributes(asked)).get(1, b"")
        name = text(dict(parse_attributes(header)).get(2, b""))
        command = command_of(asked)
        if name not in self._pause or command not in (codec.PAUSE_GET, codec.LINKMODES_GET):
            raise NotSupported("NETLINK_GENERIC", "request", "EOPNOTSUPP (Operation not supported)")
        payload = pack_nest(1, [pack_text(2, name)])
        if command == codec.PAUSE_GET:
            rx, tx = self._pause[name]
            payload += pack_u8(2, 0) + pack_u8(3, rx) + pack_u8(4, tx)
            return [pack_generic(_FAMILY, codec.PAUSE_REPLY, 1, payload)]
        payload += pack_u8(2, 1) + pack_u32(5, self._speed) + pack_u8(6, 1)
        return [pack_generic(_FAMILY, codec.LINKMODES_REPLY, 1, payload)]

    def dump(self, message: bytes, max_bytes: int, max_seconds: float) -> tuple[list[bytes], bool]:
        """Answer a dump; there is never much."""
        return self.request(message), max_bytes > 0 and max_seconds > 0

    def close(self) -> None:
        """Hold nothing, close nothing."""


def lldp_frame(switch: str, mac: bytes, port: str) -> bytes:
    """Return the LLDP frame of a switch port."""
    tlvs = [
        lldp.pack_tlv(1, b"\x04" + mac),
        lldp.pack_tlv(2, b"\x05" + port.encode()),
        lldp.pack_tlv(3, (120).to_bytes(2, "big")),
        lldp.pack_tlv(5, switch.encode()),
        b"\0\0",
    ]
    return lldp.MULTICAST + bytes(6) + lldp.ETHERTYPE.to_bytes(2, "big") + b"".join(tlvs)


class FakeKernel:
    """The kernel of one host; `host` may be replaced while it answers."""

    def __init__(self, host: FakeHost, number: int = 1) -> None:
        self.host = host
        self._number = number

    def open_netlink(self, family: int) -> RdmaResponder | RouteResponder | GenericResponder:
        """Return a socket of a family; NotSupported for one that it has not."""
        host = self.host
        if family == NETLINK_RDMA:
            return RdmaResponder(host.devices)
        if family == NETLINK_ROUTE:
            return RouteResponder(host.dcb)
        if family == NETLINK_GENERIC:
            return GenericResponder(host.pause)
        raise NotSupported(f"netlink {family}", "open socket", "EPROTONOSUPPORT")

    def open_ethtool(self) -> FakeEthtool:
        """Return what stands for SIOCETHTOOL."""
        host = self.host
        drivers = {netdev.name: host.ethernet_driver for netdev in host.netdevs}
        return FakeEthtool(drivers, {name: list(table) for name, table in host.tables.items()})

    def frames(self, netdev: str) -> list[bytes]:
        """Return the frame that the leaf of a rail sends to this host."""
        index = [n.name for n in self.host.netdevs].index(netdev)
        mac = bytes((0x44, 0x4C, 0xA8, 0, 0, index + 1))
        return [lldp_frame(f"leaf{index + 1}", mac, f"Ethernet{self._number}/1")]

    def answer(self, question: Mapping[str, Any]) -> Any:
        """Answer one question of a RemoteKernel. Raises FabricError as the kernel refuses."""
        if "netlink" in question:
            responder = self.open_netlink(int(question["netlink"]))
            message = bytes.fromhex(question["message"])
            if "budget" in question:
                replies, whole = responder.dump(message, int(question["budget"]), 1.0)
                return [[data.hex() for data in replies], whole]
            return [data.hex() for data in responder.request(message)]
        if "ethtool" in question:
            ethtool = self.open_ethtool()
            if question["what"] == "driver":
                return ethtool.driver(question["ethtool"])
            return ethtool.statistics(question["ethtool"])
        return [data.hex() for data in self.frames(question["frames"])]


class KernelServer(socketserver.ThreadingUnixStreamServer):
    """Serves a fake kernel on a UNIX socket, any number of questions a connection."""

    daemon_threads = True

    def __init__(self, path: Path, kernel: FakeKernel) -> None:
        self.kernel = kernel
        path.unlink(missing_ok=True)
        super().__init__(str(path), _Question)

    def start(self) -> None:
        """Serve in a thread until shutdown() is called."""
        threading.Thread(target=self.serve_forever, name="fake-kernel", daemon=True).start()


class _Question(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Answer line after line until the other side leaves."""
        server = self.server
        if isinstance(server, KernelServer):
            for line in self.rfile:
                self.wfile.write(json.dumps(_answer(server.kernel, line)).encode() + b"\n")


def _answer(kernel: FakeKernel, line: bytes) -> dict[str, Any]:
    try:
        return {"answer": kernel.answer(json.loads(line))}
    except FabricError as error:
        kind = type(error).__name__
        return {"error": kind, "subject": error.subject, "what": error.what, "why": error.why}
    except (ValueError, KeyError, TypeError) as error:
        return {"error": "Unavailable", "subject": "fake kernel", "what": "read question",
                "why": str(error)}  # fmt: skip

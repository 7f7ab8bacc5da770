"""A kernel behind a UNIX socket: what `simlab hosts serve` answers, in place of the real one.

One JSON object a line each way; bytes are hex. Used by labs and tests only; an agent is told of
it by `paths.kernel` in its configuration.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from collectors.model.errors import Denied, FabricError, NotSupported, Unavailable

_KINDS: dict[str, type[FabricError]] = {
    "NotSupported": NotSupported,
    "Unavailable": Unavailable,
    "Denied": Denied,
}
_TIMEOUT_S = 5.0


class _Line:
    """A connection on which questions are asked one after the other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._link: socket.socket | None = None
        self._lines: Any = None

    def ask(self, question: dict[str, Any]) -> Any:
        """Return the answer to one question. Raises what the kernel would have made us raise."""
        try:
            if self._link is None:
                self._link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self._link.settimeout(_TIMEOUT_S)
                self._link.connect(str(self._path))
                self._lines = self._link.makefile("rb")
            self._link.sendall(json.dumps(question).encode() + b"\n")
            answer = json.loads(self._lines.readline())
        except (OSError, ValueError) as error:
            self.close()
            raise Unavailable(str(self._path), "ask the fake kernel", str(error)) from error
        if "error" in answer:
            kind = _KINDS.get(answer["error"], Unavailable)
            raise kind(answer["subject"], answer["what"], answer["why"])
        return answer["answer"]

    def close(self) -> None:
        """Close the connection; the next question opens another."""
        if self._lines is not None:
            self._lines.close()
        if self._link is not None:
            self._link.close()
        self._link = self._lines = None


class RemoteKernel:
    """Netlink and ethtool of a host that does not exist."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def ask(self, question: dict[str, Any]) -> Any:
        """Return the answer to one question, on a connection of its own."""
        line = _Line(self._path)
        try:
            return line.ask(question)
        finally:
            line.close()

    def open_netlink(self, family: int) -> RemoteNetlink:
        """Return a netlink socket of a family."""
        return RemoteNetlink(_Line(self._path), family)

    def open_ethtool(self) -> RemoteEthtool:
        """Return what stands for SIOCETHTOOL."""
        return RemoteEthtool(self)

    def open_frames(self, netdev: str) -> RemoteFrames:
        """Return the LLDP frames of an interface."""
        return RemoteFrames(self, netdev)


class RemoteNetlink:
    """Stands for a netlink socket."""

    def __init__(self, line: _Line, family: int) -> None:
        self._line = line
        self._family = family

    def request(self, message: bytes) -> list[bytes]:
        """Return the datagrams of the reply."""
        question = {"netlink": self._family, "message": message.hex()}
        return [bytes.fromhex(data) for data in self._line.ask(question)]

    def dump(self, message: bytes, max_bytes: int, max_seconds: float) -> tuple[list[bytes], bool]:
        """Return the datagrams of a dump and whether they are all."""
        question = {"netlink": self._family, "message": message.hex(), "budget": max_bytes}
        replies, whole = self._line.ask(question)
        return [bytes.fromhex(data) for data in replies], bool(whole) and max_seconds > 0

    def close(self) -> None:
        """Close the connection."""
        self._line.close()


class RemoteEthtool:
    """Stands for SIOCETHTOOL."""

    def __init__(self, kernel: RemoteKernel) -> None:
        self._kernel = kernel

    def driver(self, netdev: str) -> str:
        """Return the driver's name."""
        return str(self._kernel.ask({"ethtool": netdev, "what": "driver"}))

    def statistics(self, netdev: str) -> list[tuple[str, int]]:
        """Return (name, value) in the driver's order."""
        table = self._kernel.ask({"ethtool": netdev, "what": "statistics"})
        return [(str(name), int(value)) for name, value in table]

    def close(self) -> None:
        """Hold nothing, close nothing."""


class RemoteFrames:
    """Stands for a packet socket."""

    def __init__(self, kernel: RemoteKernel, netdev: str) -> None:
        self._kernel = kernel
        self._netdev = netdev

    def take(self) -> list[bytes]:
        """Return the frames that came."""
        return [bytes.fromhex(data) for data in self._kernel.ask({"frames": self._netdev})]

    def close(self) -> None:
        """Hold nothing, close nothing."""

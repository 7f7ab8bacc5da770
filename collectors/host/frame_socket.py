"""A packet socket that takes LLDP frames of one interface and nothing else."""

from __future__ import annotations

import socket
import struct
from typing import Final

from collectors.codec.lldp import ETHERTYPE, MULTICAST
from collectors.host.kernel_file import errno_name
from collectors.model.errors import Denied, Unavailable

_SOL_PACKET: Final = 263
_ADD_MEMBERSHIP: Final = 1
_MR_MULTICAST: Final = 0
_MOST: Final = 64


class LldpSocket:
    """Never blocks; frames wait in the socket's buffer until they are taken."""

    def __init__(self, netdev: str) -> None:
        """Bind to an interface. Raises Denied without CAP_NET_RAW, Unavailable otherwise."""
        self._netdev = netdev
        try:
            kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
            self._socket = socket.socket(socket.AF_PACKET, kind, socket.htons(ETHERTYPE))
            self._socket.bind((netdev, ETHERTYPE))
            member = struct.pack(
                "IHH8s", socket.if_nametoindex(netdev), _MR_MULTICAST, 6, MULTICAST
            )
            self._socket.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, member)
        except PermissionError as error:
            raise Denied(netdev, "open packet socket", "needs CAP_NET_RAW or root") from error
        except OSError as error:
            raise Unavailable(netdev, "open packet socket", errno_name(error.errno)) from error

    def take(self) -> list[bytes]:
        """Return the frames that came since the last call, at most a few dozen."""
        frames: list[bytes] = []
        while len(frames) < _MOST:
            try:
                frames.append(self._socket.recv(2048))
            except BlockingIOError:
                break
            except OSError as error:
                raise Unavailable(self._netdev, "receive", errno_name(error.errno)) from error
        return frames

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def open_frames(netdev: str) -> LldpSocket:
    """Open one; what an agent puts into HostContext.open_frames."""
    return LldpSocket(netdev)

"""SIOCETHTOOL: the driver's own statistics and its name (net/ethtool/ioctl.c). No privilege.

The set of names changes at run time (mlx5 adds PFC names with each lossless priority), so the
buffer is sized by a fresh count on every call and the count is passed to the kernel, which
answers 0 when the set grew meanwhile.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from typing import Final

from collectors.host.netlink_socket import error_of
from collectors.model.errors import Unavailable

_SIOCETHTOOL: Final = 0x8946
_GDRVINFO: Final = 0x03
_GSTRINGS: Final = 0x1B
_GSTATS: Final = 0x1D
_SS_STATS: Final = 1
_STRING: Final = 32
_DRVINFO_BYTES: Final = 196
_MOST: Final = 20_000
_RETRIES: Final = 3


class EthtoolIoctl:
    """The real thing. Each call opens nothing: one socket serves all interfaces."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _call(self, netdev: str, what: str, buffer: array.array[int]) -> None:
        address, _ = buffer.buffer_info()
        request = struct.pack("16sP16x", netdev.encode()[:15], address)
        try:
            fcntl.ioctl(self._socket, _SIOCETHTOOL, request)
        except OSError as error:
            raise error_of(netdev, what, error.errno or 0) from error

    def _information(self, netdev: str) -> bytes:
        buffer = array.array("B", struct.pack("=I", _GDRVINFO) + bytes(_DRVINFO_BYTES - 4))
        self._call(netdev, "ETHTOOL_GDRVINFO", buffer)
        return buffer.tobytes()

    def driver(self, netdev: str) -> str:
        """Return the driver's name."""
        return self._information(netdev)[4:36].split(b"\0", 1)[0].decode("utf-8", "replace")

    def statistics(self, netdev: str) -> list[tuple[str, int]]:
        """Return all statistics; Unavailable where the set keeps changing."""
        for _ in range(_RETRIES):
            (count,) = struct.unpack_from("=I", self._information(netdev), 180)
            if count == 0:
                return []
            if count > _MOST:
                raise Unavailable(netdev, "ETHTOOL_GDRVINFO", f"claims {count} statistics")
            names = self._strings(netdev, count)
            values = array.array("B", struct.pack("=II", _GSTATS, count) + bytes(8 * count))
            self._call(netdev, "ETHTOOL_GSTATS", values)
            raw = values.tobytes()
            (written,) = struct.unpack_from("=I", raw, 4)
            if written == count == len(names):
                return list(zip(names, struct.unpack_from(f"={count}Q", raw, 8), strict=True))

        raise Unavailable(netdev, "ETHTOOL_GSTATS", f"the set changed {_RETRIES} times")

    def _strings(self, netdev: str, count: int) -> list[str]:
        # Read anew each time: a set of the same size may have other names.
        head = struct.pack("=III", _GSTRINGS, _SS_STATS, count)
        buffer = array.array("B", head + bytes(_STRING * count))
        self._call(netdev, "ETHTOOL_GSTRINGS", buffer)
        raw = buffer.tobytes()[12:]
        return [
            raw[at : at + _STRING].split(b"\0", 1)[0].decode("utf-8", "replace").strip()
            for at in range(0, _STRING * count, _STRING)
        ]


def open_ethtool() -> EthtoolIoctl:
    """Open the real thing; what an agent puts into HostContext.open_ethtool."""
    return EthtoolIoctl()

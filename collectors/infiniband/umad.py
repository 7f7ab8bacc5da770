"""Management datagrams of the kernel: libibumad by ctypes, on a real port or an emulated one.

The user header of 64 bytes and its ABI (version 5) are include/uapi/rdma/ib_user_mad.h. The
kernel writes its agent number over the top half of the transaction id, and gives a request that
nobody answered back with ETIMEDOUT.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from collectors.codec import mad as frame
from collectors.codec.mad_smp import PORT_ACTIVE
from collectors.infiniband.transport import Received
from collectors.model.errors import Denied, FabricError, NotSupported, Unavailable

ABI_VERSION: Final = 5
_HEADER: Final = struct.Struct("=5I")  # agent, status, timeout, retries, length: host order
_ADDRESS: Final = struct.Struct(">IIHBB")  # qpn, qkey, lid, sl, path bits: network order
_HEADER_BYTES: Final = 64
_OLD_HEADER_BYTES: Final = 56
_PKEY_AT: Final = 56  # host-order u16
_CLASSES: Final = tuple(frame.CLASS_VERSION)


class _PortStruct(ctypes.Structure):
    """umad_port_t of libibumad's <infiniband/umad.h>."""

    _fields_ = (
        ("ca_name", ctypes.c_char * 20),
        ("portnum", ctypes.c_int),
        ("base_lid", ctypes.c_uint),
        ("lmc", ctypes.c_uint),
        ("sm_lid", ctypes.c_uint),
        ("sm_sl", ctypes.c_uint),
        ("state", ctypes.c_uint),
        ("phys_state", ctypes.c_uint),
        ("rate", ctypes.c_uint),
        ("capmask", ctypes.c_uint32),
        ("gid_prefix", ctypes.c_uint64),
        ("port_guid", ctypes.c_uint64),
        ("pkeys_size", ctypes.c_uint),
        ("pkeys", ctypes.c_void_p),
        ("link_layer", ctypes.c_char * 20),
    )


@dataclass(frozen=True, slots=True)
class UmadPort:
    """A local port that can speak MADs. lid, sm_lid: 0 before a subnet manager came by."""

    device: str
    port: int
    link_layer: str = "InfiniBand"
    state: int = 0
    lid: int = 0
    sm_lid: int = 0

    @property
    def is_infiniband(self) -> bool:
        """False on an Ethernet port: RoCE has no subnet and no MADs to sweep with."""
        return self.link_layer in ("", "IB", "InfiniBand")


def check_abi(root: str = "/sys/class/infiniband_mad") -> None:
    """Raise NotSupported where the kernel's umad ABI is not the one spoken here.

    A missing file is left to libibumad to judge: an emulated port has it elsewhere.
    """
    with contextlib.suppress(OSError):
        version = (Path(root) / "abi_version").read_text(encoding="ascii").strip()
        if version != str(ABI_VERSION):
            raise NotSupported(root, "open umad", f"ABI {version}, needs {ABI_VERSION}")
    if struct.calcsize("P") != 8:
        raise NotSupported(root, "open umad", "needs a 64-bit Python on a 64-bit kernel")


def _load() -> tuple[Any, Any]:
    """Return libibumad twice: calls that cannot block, and calls that can.

    PyDLL keeps the interpreter lock; taking it back after each quick call costs more than the
    call. Raises NotSupported where the library is missing.
    """
    try:
        return (
            ctypes.PyDLL("libibumad.so.3", use_errno=True),
            ctypes.CDLL("libibumad.so.3", use_errno=True),
        )
    except OSError as error:
        raise NotSupported(
            "libibumad.so.3", "load", "not installed; apt install libibumad3"
        ) from error


def read_umad_ports() -> list[UmadPort]:
    """List the local ports that libibumad knows; empty where there are none.

    Raises NotSupported without libibumad or with an unknown ABI.
    """
    check_abi()
    _, library = _load()
    if library.umad_init() < 0:
        raise NotSupported("umad", "list ports", "no umad devices; modprobe ib_umad")
    names = ((ctypes.c_char * 20) * 32)()
    count = library.umad_get_cas_names(names, len(names))
    ports = []
    for raw in names[: max(count, 0)]:
        for number in range(1, 10):
            found = _PortStruct()
            if library.umad_get_port(raw.value, number, ctypes.byref(found)) < 0:
                continue
            ports.append(
                UmadPort(
                    raw.value.decode("ascii", "replace"),
                    number,
                    found.link_layer.decode("ascii", "replace"),
                    found.state,
                    found.base_lid,
                    found.sm_lid,
                )
            )
            library.umad_release_port(ctypes.byref(found))
    return ports


def choose_port(ports: list[UmadPort], device: str = "", number: int = 0) -> UmadPort:
    """Return the wanted port, or the first InfiniBand port that is active.

    Raises NotSupported with the reason when there is none.
    """
    fitting = [
        port
        for port in ports
        if (not device or port.device == device) and (not number or port.port == number)
    ]
    if not fitting:
        wanted = f"{device or 'any device'} port {number or 'any'}"
        have = ", ".join(f"{port.device}/{port.port}" for port in ports) or "none"
        raise NotSupported(wanted, "open umad port", f"not here; this host has {have}")
    infiniband = [port for port in fitting if port.is_infiniband]
    if not infiniband:
        names = ", ".join(f"{port.device}/{port.port}" for port in fitting)
        raise NotSupported(names, "open umad port", "Ethernet link layer, no MAD to ask with")
    active = [port for port in infiniband if port.state == PORT_ACTIVE]
    return (active or infiniband)[0]


class Umad:
    """A Transport over libibumad. One process may hold one under ibsim's preload."""

    def __init__(self, device: str, port: int, *, sl: int = 0, pkey_index: int = 0) -> None:
        """Open a local port and register for the classes of this product.

        Raises NotSupported without libibumad, Denied without access to /dev/infiniband/umad*,
        Unavailable when the port cannot be opened.
        """
        self.name = f"{device}/{port}"
        check_abi()
        self._quick, self._slow = _load()
        if self._slow.umad_init() < 0:
            raise Unavailable(self.name, "umad_init", os.strerror(ctypes.get_errno()))
        self._fd = self._slow.umad_open_port(device.encode(), port)
        if self._fd < 0:
            raise self._error("open umad port", -self._fd)
        # known only now: 64 bytes with a partition key index, 56 where the kernel has none
        self._header_bytes: int = self._slow.umad_size()
        if self._header_bytes not in (_OLD_HEADER_BYTES, _HEADER_BYTES):
            self._slow.umad_close_port(self._fd)
            raise NotSupported(
                self.name, "umad_size", f"header of {self._header_bytes} bytes, needs 56 or 64"
            )
        self._sl, self._pkey_index = sl, pkey_index
        self._agents: dict[int, int] = {}
        self._receive_buffer = ctypes.create_string_buffer(_HEADER_BYTES + frame.MAD_BYTES)
        self._length = ctypes.c_int()
        self._register()

    def _error(self, what: str, code: int) -> FabricError:
        if code in (errno.EACCES, errno.EPERM):
            return Denied(
                self.name, what, "no access to /dev/infiniband/umad*; run as root or give it 0666"
            )
        return Unavailable(self.name, what, os.strerror(code) if code else "unknown error")

    def _register(self) -> None:
        for cls in _CLASSES:
            rmpp = 1 if cls == frame.CLASS_SA else 0
            agent = self._slow.umad_register(self._fd, cls, frame.CLASS_VERSION[cls], rmpp, None)
            if agent < 0:
                code = ctypes.get_errno()
                self.close()
                raise self._error(f"register for class 0x{cls:02x}", code)
            self._agents[cls] = agent

    def send(self, mad: bytes, lid: int, timeout_s: float) -> None:
        """Send one datagram; see Transport."""
        cls = mad[1]
        if cls in (frame.CLASS_SMP_DIRECT, frame.CLASS_SMP_LID):
            address = _ADDRESS.pack(0, 0, lid, 0, 0)
        else:
            address = _ADDRESS.pack(1, frame.QKEY_GSI, lid, self._sl, 0)
        timeout_ms = max(int(timeout_s * 1000), 1)
        agent = self._agents[cls]
        head = _HEADER.pack(agent, 0, timeout_ms, 0, 0) + address
        pkey = self._pkey_index.to_bytes(2, sys.byteorder)
        umad = (head + bytes(_PKEY_AT - len(head)) + pkey + bytes(6))[: self._header_bytes] + mad
        code = self._quick.umad_send(self._fd, agent, umad, len(mad), timeout_ms, 0)
        if code:
            raise self._error("umad_send", ctypes.get_errno() or abs(code))

    def receive(self, wait_s: float) -> Received | None:
        """Return the next datagram; see Transport."""
        buffer = self._receive_buffer
        if wait_s > 0:
            # rounded up, so that a wait of half a millisecond does not spin
            code = self._slow.umad_poll(self._fd, int(wait_s * 1000) + 1)
            if code < 0:
                return None
        self._length.value = frame.MAD_BYTES
        code = self._quick.umad_recv(self._fd, buffer, ctypes.byref(self._length), 0)
        if code == -errno.ENOSPC:
            # a table that the kernel joined: the length is now what it needs
            buffer = ctypes.create_string_buffer(self._header_bytes + self._length.value)
            code = self._quick.umad_recv(self._fd, buffer, ctypes.byref(self._length), 0)
        if code < 0:
            return None
        raw = buffer.raw
        return Received(
            int.from_bytes(raw[4:8], sys.byteorder),
            int.from_bytes(raw[28:30], "big"),
            raw[self._header_bytes : self._header_bytes + max(self._length.value, frame.MAD_BYTES)],
        )

    @staticmethod
    def now() -> float:
        """Return the monotonic clock."""
        return time.monotonic()

    def close(self) -> None:
        """Unregister and close; harmless when repeated."""
        if self._fd < 0:
            return
        for agent in self._agents.values():
            with contextlib.suppress(OSError):
                self._slow.umad_unregister(self._fd, agent)
        self._slow.umad_close_port(self._fd)
        self._fd = -1


def open_umad(device: str = "", port: int = 0, *, sl: int = 0, pkey_index: int = 0) -> Umad:
    """Open the wanted local port, or the first InfiniBand port that is active.

    Raises NotSupported, Denied or Unavailable, each with what to do.
    """
    chosen = choose_port(read_umad_ports(), device, port)
    return Umad(chosen.device, chosen.port, sl=sl, pkey_index=pkey_index)

"""The one real netlink socket: sends a request, collects its replies, translates errno."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import time

from collectors.codec.netlink import (
    HEADER,
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLMSG_DONE,
    NLMSG_ERROR,
    Message,
    parse_messages,
)
from collectors.host.kernel_file import errno_name
from collectors.model.errors import Denied, FabricError, NotSupported, Unavailable

_FAMILIES = {0: "NETLINK_ROUTE", 16: "NETLINK_GENERIC", 20: "NETLINK_RDMA"}
_RECEIVE_BYTES = 1 << 16
_NEVER = {errno.EOPNOTSUPP, errno.EPROTONOSUPPORT, errno.ENOSYS, errno.EAFNOSUPPORT}
_RESTARTS = 3


def error_of(subject: str, what: str, code: int) -> FabricError:
    """Return the typed error of an errno."""
    why = f"{errno_name(code)} ({os.strerror(code)})"
    if code in _NEVER:
        return NotSupported(subject, what, why)
    if code in (errno.EPERM, errno.EACCES):
        return Denied(subject, what, f"{why}; needs CAP_NET_ADMIN or root")
    return Unavailable(subject, what, why)


class KernelSocket:
    """A socket of one netlink family. Not for use by two threads at once."""

    def __init__(self, family: int, timeout_s: float = 2.0) -> None:
        """Open the socket; NotSupported where the kernel has no such family."""
        self._subject = _FAMILIES.get(family, f"netlink {family}")
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family)
        except OSError as error:
            raise error_of(self._subject, "open socket", error.errno or 0) from error
        self._socket.settimeout(timeout_s)
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.bind((0, 0))
        self._sequence = 0

    def request(self, message: bytes) -> list[bytes]:
        """Send one message and return the datagrams of its replies.

        A dump that changed under way is asked for again. Raises NotSupported, Denied or
        Unavailable for errno replies and time-outs.
        """
        for _ in range(_RESTARTS):
            try:
                replies = self._exchange(message)
            except OSError as error:
                if error.errno == errno.ENOBUFS:  # replies were lost: drain and ask again
                    self._drain()
                    continue
                if isinstance(error, TimeoutError):
                    raise Unavailable(self._subject, "await reply", "timed out") from error
                raise error_of(self._subject, "exchange", error.errno or 0) from error
            if replies is not None:
                return replies
        raise Unavailable(self._subject, "read dump", f"changed or overran {_RESTARTS} times")

    def dump(self, message: bytes, max_bytes: int, max_seconds: float) -> tuple[list[bytes], bool]:
        """Return the datagrams of a dump and whether they are all.

        Stops at the first datagram beyond the budget; the socket is then of no more use than to
        be closed, because the kernel may still have replies for it. Raises as request does.
        """
        until = time.monotonic() + max_seconds
        got: list[bytes] = []
        size = 0
        try:
            sequence = self._send(message)
            while True:
                data = self._receive()
                mine = [m for m in parse_messages(data) if m.sequence == sequence]
                self._raise_errors(mine)
                if any(m.type not in (NLMSG_ERROR, NLMSG_DONE) for m in mine):
                    got.append(data)
                    size += len(data)
                if any(m.type in (NLMSG_ERROR, NLMSG_DONE) for m in mine):
                    return got, True
                if size > max_bytes or time.monotonic() > until:
                    return got, False
        except TimeoutError:
            return got, False
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                return got, False
            raise error_of(self._subject, "exchange", error.errno or 0) from error

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _send(self, message: bytes) -> int:
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        length, kind, flags, _, port = HEADER.unpack_from(message)
        stamped = HEADER.pack(length, kind, flags, self._sequence, port) + message[HEADER.size :]
        self._socket.send(stamped)
        return self._sequence

    def _raise_errors(self, mine: list[Message]) -> None:
        for m in mine:
            code = m.error
            if m.type == NLMSG_DONE and len(m.payload) >= 4:
                code = -struct.unpack_from("=i", m.payload)[0]
            if code is not None and code > 0:
                raise error_of(self._subject, "request", code)

    def _exchange(self, message: bytes) -> list[bytes] | None:
        flags = HEADER.unpack_from(message)[2]
        sequence = self._send(message)
        dump = flags & NLM_F_DUMP == NLM_F_DUMP
        until_ack = dump or bool(flags & NLM_F_ACK)
        replies: list[bytes] = []
        interrupted = False
        while True:
            data = self._receive()
            mine = [m for m in parse_messages(data) if m.sequence == sequence]
            if not mine:
                continue  # an answer that came after its time-out
            interrupted = interrupted or any(m.flags & NLM_F_DUMP_INTR for m in mine)
            self._raise_errors(mine)
            if any(m.type not in (NLMSG_ERROR, NLMSG_DONE) for m in mine):
                replies.append(data)
            if not until_ack or any(m.type in (NLMSG_ERROR, NLMSG_DONE) for m in mine):
                return None if interrupted else replies

    def _receive(self) -> bytes:
        data, _, flags, _ = self._socket.recvmsg(_RECEIVE_BYTES)
        if flags & socket.MSG_TRUNC:
            raise Unavailable(self._subject, "receive", f"reply above {_RECEIVE_BYTES} bytes")
        return data

    def _drain(self) -> None:
        timeout = self._socket.gettimeout()
        self._socket.setblocking(False)
        with contextlib.suppress(OSError):
            while self._socket.recv(_RECEIVE_BYTES):
                pass
        self._socket.settimeout(timeout)


def open_netlink(family: int) -> KernelSocket:
    """Open a socket of a family; what an agent puts into HostContext.open_netlink."""
    return KernelSocket(family)

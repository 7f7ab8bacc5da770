"""systemd's notification socket (sd_notify(3)): READY, STATUS, WATCHDOG, STOPPING."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping


def notify(text: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send lines like `READY=1` to systemd; False where nobody listens."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
    ):
        sender.connect("\0" + address[1:] if address.startswith("@") else address)
        sender.sendall(text.encode())
        return True
    return False


def watchdog_seconds(environment: Mapping[str, str] = os.environ) -> float | None:
    """Return how often systemd wants to hear WATCHDOG=1 at least, None where it does not."""
    text = environment.get("WATCHDOG_USEC", "")
    mine = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(text) / 1e6 if text.isdigit() and int(text) and mine else None

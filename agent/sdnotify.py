"""The service manager's notification socket (sd_notify(3)): READY, WATCHDOG, STOPPING, STATUS."""

from __future__ import annotations

import contextlib
import os
import socket


def notify(*lines: str) -> bool:
    """Send lines such as `READY=1` to the service manager; False where there is none."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(
            "\n".join(lines).encode(), "\0" + address[1:] if address[0] == "@" else address
        )
        return True
    return False


def watchdog_s() -> float | None:
    """Return how often the watchdog is to be fed (half its time-out), None where there is none."""
    timeout_us = os.environ.get("WATCHDOG_USEC", "")
    own = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(timeout_us) / 2e6 if own and timeout_us.isdigit() else None

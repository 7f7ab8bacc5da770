"""What moves management datagrams: the seam between the sweep and a device, lab or fake."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Received(NamedTuple):
    """A datagram that came back.

    status: 0, or the errno with which the transport gives a request back (ETIMEDOUT).
    lid: source LID as the transport saw it, 0 where it cannot tell. mad: the datagram.
    """

    status: int
    lid: int
    mad: bytes


class Transport(Protocol):
    """Sends and receives datagrams on one local port; knows nothing of their contents."""

    def send(self, mad: bytes, lid: int, timeout_s: float) -> None:
        """Send to a LID, or along the directed route in the datagram when lid is 0xFFFF.

        Raises Unavailable when the port takes nothing more now.
        """

    def receive(self, wait_s: float) -> Received | None:
        """Return the next datagram, or None when none came within `wait_s` (0: do not wait)."""

    def now(self) -> float:
        """Return this transport's monotonic clock in seconds."""

    def close(self) -> None:
        """Give the local port back."""

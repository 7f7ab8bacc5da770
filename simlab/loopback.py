"""Ports of the loopback that nobody uses at the moment."""

from __future__ import annotations

import contextlib
import socket


def free_ports(count: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> list[int]:
    """Return different free TCP ports, or UDP ports with SOCK_DGRAM."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket(socket.AF_INET, kind)) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Return one free port."""
    return free_ports(1, kind)[0]

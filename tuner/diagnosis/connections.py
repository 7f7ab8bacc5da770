"""Who talks to whom: queue pairs joined by their addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from socket import AF_INET, AF_INET6, inet_pton
from typing import Final

from collectors.model.entities import Port, Switch
from tuner.diagnosis.once import once
from tuner.diagnosis.place import far_end
from tuner.diagnosis.view import FabricView, HostTelemetry

_MAPPED: Final = bytes(10) + b"\xff\xff"
"""Begin of an IPv6 address that stands for one of IPv4 (RFC 4291, 2.5.5.2)."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A queue pair of a port towards another port of the fabric."""

    src: Port
    dst: Port
    tclass: int | None
    udp_source_port: int | None


def connections(telemetry: HostTelemetry) -> tuple[Connection, ...]:
    """Return every queue pair whose both ends are known ports, each direction once."""
    return once(telemetry, "connections", lambda: _connections(telemetry))


def _connections(telemetry: HostTelemetry) -> tuple[Connection, ...]:
    pairs = [pair for pair in telemetry.queue_pairs() if pair.remote_address]
    by_address = {
        address: port
        for port in dict.fromkeys(Port(pair.device, pair.port) for pair in pairs)
        for gid in telemetry.gids(port)
        if (address := _address(gid.gid)) is not None
    }
    made = []
    for pair in pairs:
        remote, local = _address(pair.remote_address), _address(pair.local_address)
        dst = by_address.get(remote) if remote is not None else None
        if dst is not None:
            src = by_address.get(local) if local is not None else None
            src = Port(pair.device, pair.port) if src is None else src
            made.append(Connection(src, dst, pair.tclass, pair.udp_source_port))
    return tuple(made)


@lru_cache(maxsize=1 << 17)
def _address(text: str) -> bytes | None:
    """Return an address packed, one mapped into IPv6 as IPv4; None for what is none or link-local.

    One with a zone (`fe80::1%eth0`) is of one link, too.
    """
    try:
        packed = inet_pton(AF_INET6 if ":" in text else AF_INET, text)
    except (OSError, ValueError):
        return None
    if packed.startswith(_MAPPED):
        return packed[len(_MAPPED) :]
    of_link = packed.startswith(b"\xa9\xfe") if len(packed) == 4 else _is_fe80(packed)
    return None if of_link else packed


def _is_fe80(packed: bytes) -> bool:
    """Tell whether an IPv6 address is of fe80::/10 (RFC 4291, 2.5.6)."""
    return packed[0] == 0xFE and packed[1] & 0xC0 == 0x80


def senders_by_receiver(telemetry: HostTelemetry) -> Mapping[Port, Mapping[Port, int]]:
    """Return for each port who sends to it, and over how many queue pairs."""

    def found() -> dict[Port, dict[Port, int]]:
        counted: dict[Port, dict[Port, int]] = {}
        for one in connections(telemetry):
            if one.src != one.dst:
                of = counted.setdefault(one.dst, {})
                of[one.src] = of.get(one.src, 0) + 1
        return counted

    return once(telemetry, "senders_by_receiver", found)


def flows_leaving(telemetry: HostTelemetry, fabric: FabricView) -> Mapping[Switch, int]:
    """Return for each switch the flows that leave its hosts for those of other switches."""

    def found() -> dict[Switch, int]:
        at: dict[Port, Switch] = {}
        for port in fabric.ports():
            interface = far_end(fabric, port)
            if interface is not None:
                at[port] = interface.switch
        counted: dict[Switch, int] = {}
        for one in connections(telemetry):
            here, there = at.get(one.src), at.get(one.dst)
            if here is not None and there is not None and here != there:
                counted[here] = counted.get(here, 0) + 1
        return counted

    return once(telemetry, "flows_leaving", found)

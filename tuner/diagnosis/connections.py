"""Who talks to whom: queue pairs joined by their addresses."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from collectors.model.entities import Port, Switch
from tuner.diagnosis.address import packed
from tuner.diagnosis.once import once
from tuner.diagnosis.place import far_end
from tuner.diagnosis.view import FabricView, HostTelemetry


class Connection(msgspec.Struct, frozen=True, gc=False):
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
    # By identity: the queue pairs of a device mostly share it.
    ends = {(id(pair.device), pair.port): pair for pair in pairs}.values()
    by_address = {
        address: port
        for port in dict.fromkeys(Port(pair.device, pair.port) for pair in ends)
        for gid in telemetry.gids(port)
        if (address := packed(gid.gid)) is not None
    }
    made = []
    for pair in pairs:
        remote, local = packed(pair.remote_address), packed(pair.local_address)
        dst = by_address.get(remote) if remote is not None else None
        if dst is not None:
            src = by_address.get(local) if local is not None else None
            src = Port(pair.device, pair.port) if src is None else src
            made.append(Connection(src, dst, pair.tclass, pair.udp_source_port))
    return tuple(made)


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

"""What a twin's hosts send: the queue pairs that are known, with the bytes that ports counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collectors.model.catalogue import rdma
from collectors.model.entities import Port
from collectors.model.errors import NotSupported
from collectors.model.roce import dscp_of_tclass, source_port
from simlab.packet.parameters import Transport
from simlab.packet.traffic import DATA_PRIORITY, Connection, Message, Traffic
from tuner.advice.twin.wiring import Wiring
from tuner.diagnosis.view import FabricView, Telemetry

Floats = NDArray[np.float64]
IDLE: Final = 0.05  # of its highest rate: below it a port does not work on the job
_ROUNDS: Final = 30  # of fitting connections to what ports sent and received
_WORTH: Final = 0.05  # of the most: a connection that carries less only answers (ACKs, CNPs)
RTO_S: Final = 4e-3


@dataclass(frozen=True, slots=True)
class Load:
    """The traffic of a span, to be replayed as fast as the fabric lets it.

    `seconds`: how long the ports took for it. `share`: part of the bytes that is replayed.
    """

    traffic: Traffic
    seconds: float
    share: float
    assumed: tuple[str, ...]


def load_of(
    telemetry: Telemetry,
    fabric: FabricView,
    wiring: Wiring,
    wire: Transport,
    slice_s: float,
) -> Load:
    """Return what the hosts of a twin sent, at most as much as `slice_s` of it.

    Ports count bytes both ways, ACKs included; with one ACK a packet the two directions tell data
    from ACKs. Iterative proportional fitting spreads data over the queue pairs so that every
    port sends and receives what it counted. Raises NotSupported without byte counters.
    """
    sent, received, seconds = _data_bytes(telemetry, wiring, wire)
    if not sent.sum():
        raise NotSupported("twin", "load", "no port counted RDMA bytes twice in this span")
    pairs, assumed = _pairs(telemetry, fabric, wiring)
    if not pairs:
        pairs, assumed = _everyone(sent, received)
    bytes_of = _fitted(pairs, sent, received)
    share = min(1.0, slice_s / seconds) if seconds > 0 else 1.0
    floor = _WORTH * float(bytes_of.max(initial=0.0))
    connections: list[Connection] = []
    messages: list[Message] = []
    for pair, amount in zip(pairs, bytes_of.tolist(), strict=True):
        size = round(amount * share)
        if amount <= floor or size <= 0:
            continue
        messages.append(Message(connection=len(connections), size_bytes=size))
        connections.append(pair)
    if share < 1:
        assumed = (*assumed, f"{share:.3%} of the span's bytes stand for all of them")
    assumed = (
        *assumed,
        "every queue pair posts its bytes at once and sends as fast as it may: no compute between",
    )
    return Load(Traffic(tuple(connections), tuple(messages), name="twin"), seconds, share, assumed)


def _data_bytes(
    telemetry: Telemetry, wiring: Wiring, wire: Transport
) -> tuple[Floats, Floats, float]:
    """Return payload bytes sent and received by each host node, and for how long they moved."""
    counted = np.zeros((2, len(wiring.hosts)))
    seconds = 0.0
    for node, port in enumerate(wiring.hosts):
        for row, metric in enumerate((rdma.TX_BYTES, rdma.RX_BYTES)):
            growth = telemetry.growth(metric.name, port)
            if growth is not None:
                counted[row, node] = growth.total
                seconds = max(seconds, active_seconds(telemetry, metric.name, port))
    packet, ack = wire.payload_bytes + wire.header_bytes, wire.ack_bytes / wire.ack_every
    sent = (packet * counted[0] - ack * counted[1]) / (packet**2 - ack**2)
    received = (packet * counted[1] - ack * counted[0]) / (packet**2 - ack**2)
    return (
        np.maximum(sent, 0.0) * wire.payload_bytes,
        np.maximum(received, 0.0) * wire.payload_bytes,
        seconds,
    )


def active_seconds(telemetry: Telemetry, metric: str, port: Port) -> float:
    """Return for how long a counter grew: its busy intervals, the last one by its part.

    Idle intervals between busy ones (compute) do not count.
    """
    growth = telemetry.growth(metric, port)
    seen = telemetry.rates(metric, port)
    if growth is None or not growth.total:
        return 0.0
    if seen is None:
        return growth.seconds
    times = np.fromiter(seen[0], dtype=np.int64)
    rates = np.fromiter(seen[1], dtype=np.float64)
    if not len(rates):
        return growth.seconds
    lengths = np.diff(times, prepend=growth.first_at_ns) / 1e9
    busy = rates > IDLE * rates.max()
    parts = busy.astype(float)
    edges = np.flatnonzero(busy)[[0, -1]]
    usual = float(np.median(rates[busy]))
    parts[edges] = np.minimum(1.0, rates[edges] / usual)
    return float(parts @ lengths)


def _pairs(
    telemetry: Telemetry, fabric: FabricView, wiring: Wiring
) -> tuple[list[Connection], tuple[str, ...]]:
    """Return the queue pairs of which both ends are in the twin, and what was assumed."""
    by_address = _addresses(telemetry, fabric, wiring)
    found: list[Connection] = []
    strangers = 0
    for pair in telemetry.queue_pairs():
        src = wiring.node_of.get(Port(pair.device, pair.port))
        if src is None or (pair.state and pair.state not in ("RTS", "SQD")):
            continue
        dst = by_address.get(_plain(pair.remote_address))
        if dst is None or dst == src:
            strangers += 1
            continue
        remote = pair.remote_qpn or 0
        sport = pair.udp_source_port
        found.append(
            Connection(
                src=src,
                dst=dst,
                sport=source_port(pair.local_qpn, remote) if sport is None else sport,
                priority=_priority(telemetry, wiring.hosts[src], fabric, pair.tclass),
                src_qp=pair.local_qpn,
                dst_qp=remote,
            )
        )
    texts = []
    if strangers:
        texts.append(f"{strangers} queue pairs to peers outside the twin are left out")
    if found:
        texts.append("queue pairs of a port share its bytes as its peers' counters allow")
    return found, tuple(texts)


def _everyone(sent: Floats, received: Floats) -> tuple[list[Connection], tuple[str, ...]]:
    """Return one connection from every sender to every receiver: no queue pair is known."""
    heavy = sent > IDLE * sent.max()
    takes = received > IDLE * received.max()
    found = [
        Connection(
            src=int(a), dst=int(b), src_qp=0x100 + int(b), dst_qp=0x100 + int(a),
            sport=source_port(0x100 + int(b), 0x100 + int(a)),
        )
        for a in np.flatnonzero(heavy)
        for b in np.flatnonzero(takes)
        if a != b
    ]  # fmt: skip
    return found, ("no queue pairs are known: every sender sends to every receiver (gravity)",)


def _fitted(pairs: Sequence[Connection], sent: Floats, received: Floats) -> Floats:
    """Return bytes of each connection so that rows and columns sum to what ports counted."""
    src = np.array([pair.src for pair in pairs], dtype=np.int64)
    dst = np.array([pair.dst for pair in pairs], dtype=np.int64)
    amount = np.ones(len(pairs))
    for _ in range(_ROUNDS):
        for ends, wanted in ((dst, received), (src, sent)):
            sums = np.bincount(ends, amount, minlength=len(wanted))
            factor = np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0)
            amount = amount * factor[ends]
    return amount


def _addresses(telemetry: Telemetry, fabric: FabricView, wiring: Wiring) -> dict[str, int]:
    known: dict[str, int] = {}
    for node, port in enumerate(wiring.hosts):
        for gid in telemetry.gids(port):
            known.setdefault(_plain(gid.gid), node)
        netdev = fabric.netdev_of(port)
        named = telemetry.attributes(netdev).get("address") if netdev else None
        values = named.value if named else ()
        for value in values if isinstance(values, tuple) else (values,):
            known.setdefault(_plain(str(value)), node)
    return known


def _plain(address: str) -> str:
    return address.partition("/")[0].removeprefix("::ffff:")


def _priority(telemetry: Telemetry, port: Port, fabric: FabricView, tclass: int | None) -> int:
    """Return the PFC priority of a queue pair's packets, from its class and the host's map."""
    if tclass is None:
        chosen = telemetry.settings(port).get("roce_priority")
        return int(chosen.value) if chosen and isinstance(chosen.value, int) else DATA_PRIORITY
    dscp = dscp_of_tclass(tclass)
    netdev = fabric.netdev_of(port)
    table = telemetry.settings(netdev).get("dscp_to_priority") if netdev else None
    if table is not None and isinstance(table.value, tuple) and dscp < len(table.value):
        mapped = table.value[dscp]
        if isinstance(mapped, int) and 0 <= mapped < 8:
            return mapped
    return dscp >> 3


def with_flows(load: Load, factor: float) -> Load:
    """Return the same bytes to each receiver over `factor` times as many connections."""
    old = load.traffic
    towards: dict[int, list[int]] = {}
    for index, one in enumerate(old.connections):
        towards.setdefault(one.dst, []).append(index)
    connections: list[Connection] = []
    messages: list[Message] = []
    for members in towards.values():
        wanted = max(1, round(len(members) * factor))
        size = sum(old.messages[i].size_bytes for i in members) // wanted
        chosen = [members[i * len(members) // wanted] for i in range(wanted)]
        for copy, index in enumerate(chosen):
            one = old.connections[index]
            if copy and chosen[copy - 1] == index:  # again: a queue pair of its own
                qpn = (one.src_qp + 0x10001 * copy) & 0xFFFFFF
                one = replace(one, src_qp=qpn, sport=source_port(qpn, one.dst_qp))
            messages.append(Message(connection=len(connections), size_bytes=max(1, size)))
            connections.append(one)
    traffic = replace(old, connections=tuple(connections), messages=tuple(messages))
    return replace(load, traffic=traffic)


def with_queue_pairs(load: Load, count: int) -> Load:
    """Return the same bytes of each pair of hosts over `count` queue pairs."""
    old = load.traffic
    pairs: dict[tuple[int, int, int], list[int]] = {}
    for index, one in enumerate(old.connections):
        pairs.setdefault((one.src, one.dst, one.priority), []).append(index)
    connections: list[Connection] = []
    messages: list[Message] = []
    for members in pairs.values():
        size = sum(old.messages[i].size_bytes for i in members) // count
        for number in range(count):
            one = old.connections[members[min(number, len(members) - 1)]]
            if number >= len(members):
                qpn = (one.src_qp + 0x10001 * number) & 0xFFFFFF
                one = replace(one, src_qp=qpn, sport=source_port(qpn, one.dst_qp))
            messages.append(Message(connection=len(connections), size_bytes=max(1, size)))
            connections.append(one)
    traffic = replace(old, connections=tuple(connections), messages=tuple(messages))
    return replace(load, traffic=traffic)

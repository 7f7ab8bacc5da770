"""Next-hop tables of a fabric and the paths that hashing gives to connections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from collectors.model.ecmp_hash import HashField
from collectors.model.errors import ConfigInvalid
from collectors.model.roce import UDP_PORT
from simlab.packet import hashing
from simlab.packet.parameters import Balancing
from simlab.packet.topology import Topology, next_hops
from simlab.packet.traffic import Connection

Ints = NDArray[np.int64]
LONGEST_PATH = 16


def host_address(node: int) -> int:
    """Return the IPv4 address of a host as the HPCC files number it: 11.x.y.1."""
    return 0x0B000001 + (node // 256) * 0x10000 + (node % 256) * 0x100


@dataclass(frozen=True, slots=True)
class Routes:
    """Equal-cost next hops: `table[switch index, host index]` is an index into `groups`, where
    the count stands and then the directed ports (repeated by weight).
    """

    table: Ints
    groups: Ints
    switch_of: Ints  # node -> switch index, -1 for a host
    host_of: Ints  # node -> host index, -1 for a switch


def build_routes(topology: Topology, balancing: Balancing, dead: Iterable[int] = ()) -> Routes:
    """Compute the routing tables; `dead` cables are left out."""
    switch_of = np.full(topology.node_count, -1, dtype=np.int64)
    host_of = switch_of.copy()
    switch_of[list(topology.switches)] = np.arange(len(topology.switches))
    hosts = topology.hosts
    host_of[list(hosts)] = np.arange(len(hosts))
    groups: list[int] = [0]
    known: dict[tuple[int, ...], int] = {(): 0}
    table = np.zeros((len(topology.switches), len(hosts)), dtype=np.int64)
    hops = next_hops(topology, descending=balancing.descending, dead=dead)
    for (switch, host), ports in hops.items():
        if ports not in known:
            known[ports] = len(groups)
            spread = [p for p in ports for _ in range(balancing.weights.get(p, 1))]
            groups += [len(spread), *spread]
        table[switch_of[switch], host_of[host]] = known[ports]
    return Routes(table, np.array(groups, dtype=np.int64), switch_of, host_of)


def _specs(topology: Topology, balancing: Balancing) -> Ints:
    rows = []
    for node in topology.switches:
        tier = topology.tier[node] if topology.tier else 1
        spec = balancing.spec_at(node, tier)
        rows.append(hashing.pack_spec(spec, spec.seed))
    return np.array(rows, dtype=np.int64).reshape(len(rows), hashing.SPEC_WORDS + 1)


def answer(one: Connection) -> Connection:
    """Return the connection as the ACKs see it; RoCEv2 sends both ways to port 4791."""
    if one.dport == UDP_PORT:
        return replace(one, src=one.dst, dst=one.src)
    return replace(one, src=one.dst, dst=one.src, sport=one.dport, dport=one.sport)


def hashed_paths(
    topology: Topology,
    balancing: Balancing,
    routes: Routes,
    connections: Sequence[Connection],
    *,
    reverse: bool = False,
) -> list[tuple[int, ...]]:
    """Return the switch egress ports of every connection, or of its ACKs with `reverse`.

    ConfigInvalid names the first pair of hosts without a route.
    """
    ports = topology.ports_of()
    count = len(connections)
    flows = np.zeros((count, len(hashing.FIELDS) + 1), dtype=np.int64)
    first = np.zeros(count, dtype=np.int64)
    fields = {name: i for i, name in enumerate(hashing.FIELDS)}
    for i, one in enumerate(connections):
        this = answer(one) if reverse else one
        flows[i, fields[HashField.SRC_IP]] = host_address(this.src)
        flows[i, fields[HashField.DST_IP]] = host_address(this.dst)
        flows[i, fields[HashField.SRC_PORT]] = this.sport
        flows[i, fields[HashField.DST_PORT]] = this.dport
        flows[i, fields[HashField.DST_QP]] = one.src_qp if reverse else one.dst_qp
        flows[i, -1] = routes.host_of[this.dst]
        first[i] = ports[this.src][0]
    peer = np.array([topology.peer(p) for p in range(2 * len(topology.cables))], dtype=np.int64)
    interface = np.array(topology.interface_numbers(), dtype=np.int64)
    out = np.zeros((count, LONGEST_PATH), dtype=np.int64)
    lengths = np.zeros(count, dtype=np.int64)
    hashing.trace_paths(
        flows, first, _specs(topology, balancing), routes.switch_of, routes.table, routes.groups,
        peer, interface, out, lengths,
    )  # fmt: skip
    for lost in np.flatnonzero(lengths < 0).tolist():
        one = connections[lost]
        raise ConfigInvalid(topology.name, "routing", f"no path from host {one.src} to {one.dst}")
    return [tuple(out[i, : lengths[i]].tolist()) for i in range(count)]

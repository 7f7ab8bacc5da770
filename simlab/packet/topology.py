"""Fabrics as nodes and cables: star, leaf-spine, three-tier Clos, rail-optimised, or free-form."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from collectors.model.errors import ConfigInvalid
from simlab.packet.layout import ENTITY_MASK

GBPS = 1e9
MOST_CABLES = ENTITY_MASK // 6  # three events a directed port


@dataclass(frozen=True, slots=True)
class Cable:
    """A full-duplex link; `a` and `b` are node numbers, the error rate is per packet."""

    a: int
    b: int
    rate_bps: float
    delay_s: float
    error_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Topology:
    """Nodes 0..node_count-1 of which `switches` forward; every other node is one host NIC.

    Directed port 2*i is the `a` end of cable i, sending to `b`; 2*i + 1 is the `b` end. A node's
    interfaces are numbered 1, 2, ... in the order of the cables, as in the HPCC files.
    """

    node_count: int
    switches: tuple[int, ...]
    cables: tuple[Cable, ...]
    tier: tuple[int, ...] = ()  # per node: 0 host, 1 leaf, 2 spine, 3 core
    nics_per_host: int = 1
    name: str = "fabric"

    @property
    def hosts(self) -> tuple[int, ...]:
        """Host NICs in node order."""
        forwarding = set(self.switches)
        return tuple(node for node in range(self.node_count) if node not in forwarding)

    def end(self, port: int) -> int:
        """Return the node that a directed port belongs to."""
        cable = self.cables[port // 2]
        return cable.b if port & 1 else cable.a

    def peer(self, port: int) -> int:
        """Return the node that a directed port sends to."""
        return self.end(port ^ 1)

    def port_to(self, node: int, peer: int) -> int:
        """Return the first directed port of a node that sends to a peer; KeyError: no cable."""
        for index, cable in enumerate(self.cables):
            if (cable.a, cable.b) == (node, peer):
                return 2 * index
            if (cable.b, cable.a) == (node, peer):
                return 2 * index + 1
        raise KeyError(f"no cable from node {node} to node {peer}")

    def ports_of(self) -> list[list[int]]:
        """Return the directed ports of every node, in interface order."""
        ports: list[list[int]] = [[] for _ in range(self.node_count)]
        for index, cable in enumerate(self.cables):
            ports[cable.a].append(2 * index)
            ports[cable.b].append(2 * index + 1)
        return ports

    def interface_numbers(self) -> list[int]:
        """Return the 1-based interface number of every directed port at its node."""
        numbers = [0] * (2 * len(self.cables))
        for ports in self.ports_of():
            for number, port in enumerate(ports, start=1):
                numbers[port] = number
        return numbers

    def with_cables(self, change: dict[int, Cable]) -> Topology:
        """Return the fabric with some cables replaced, by index."""
        cables = tuple(change.get(i, cable) for i, cable in enumerate(self.cables))
        return replace(self, cables=cables)


def next_hops(
    topology: Topology, *, descending: bool = False, dead: Iterable[int] = ()
) -> dict[tuple[int, int], tuple[int, ...]]:
    """Return the shortest-path egress ports of every (switch, host), in interface order.

    `dead` are cables that routing no longer uses. ConfigInvalid if a host has no cable.
    """
    gone = set(dead)
    ports = [[p for p in row if p // 2 not in gone] for row in topology.ports_of()]
    forwarding = set(topology.switches)
    table: dict[tuple[int, int], tuple[int, ...]] = {}
    cache: dict[tuple[int, ...], dict[int, tuple[int, ...]]] = {}
    for host in topology.hosts:
        if not ports[host]:
            if gone:
                continue
            raise ConfigInvalid(topology.name, "routing", f"host {host} has no cable")
        edge = tuple(topology.peer(port) for port in ports[host])
        if edge not in cache:
            cache[edge] = _toward(topology, edge, ports, forwarding, descending=descending)
        for switch, hops in cache[edge].items():
            if switch not in edge:
                table[switch, host] = hops
        for switch in edge:
            direct = tuple(p for p in ports[switch] if topology.peer(p) == host)
            table[switch, host] = direct[::-1] if descending else direct
    return table


def _toward(
    topology: Topology,
    targets: Sequence[int],
    ports: list[list[int]],
    forwarding: set[int],
    *,
    descending: bool,
) -> dict[int, tuple[int, ...]]:
    """Breadth-first search from the target switches over switches only."""
    distance = dict.fromkeys(targets, 0)
    queue = deque(targets)
    while queue:
        node = queue.popleft()
        for port in ports[node]:
            peer = topology.peer(port)
            if peer in forwarding and peer not in distance:
                distance[peer] = distance[node] + 1
                queue.append(peer)
    hops: dict[int, tuple[int, ...]] = {}
    for node, away in distance.items():
        closer = tuple(p for p in ports[node] if distance.get(topology.peer(p), away) == away - 1)
        hops[node] = closer[::-1] if descending else closer
    return hops


def _check_cables(count: int) -> None:
    """Raise ConfigInvalid for more cables than the engine has numbers for, before making them."""
    if count > MOST_CABLES:
        raise ConfigInvalid("topology", "size", f"{count} cables are more than {MOST_CABLES}")


def _at_least(least: int, **counts: int | None) -> None:
    for name, value in counts.items():
        if value is not None and value < least:
            raise ConfigInvalid("topology", name, f"{value} is not at least {least}")


def star(hosts: int, *, rate_bps: float = 100 * GBPS, delay_s: float = 1e-6) -> Topology:
    """All hosts on one switch, which is the last node."""
    _at_least(1, hosts=hosts)
    _check_cables(hosts)
    cables = tuple(Cable(host, hosts, rate_bps, delay_s) for host in range(hosts))
    return Topology(hosts + 1, (hosts,), cables, (0,) * hosts + (1,), name=f"star{hosts}")


def leaf_spine(
    leaves: int,
    spines: int,
    hosts_per_leaf: int,
    *,
    rate_bps: float = 100 * GBPS,
    fabric_bps: float | None = None,
    delay_s: float = 1e-6,
    parallel: int = 1,
) -> Topology:
    """Two tiers; each leaf has `parallel` cables to every spine."""
    _at_least(1, leaves=leaves, hosts_per_leaf=hosts_per_leaf, parallel=parallel)
    _at_least(0, spines=spines)
    count = leaves * hosts_per_leaf
    _check_cables(count + leaves * spines * parallel)
    first_spine = count + leaves
    cables = [Cable(h, count + h // hosts_per_leaf, rate_bps, delay_s) for h in range(count)]
    for leaf in range(leaves):
        for spine in range(spines):
            cable = Cable(
                count + leaf,
                first_spine + spine,
                rate_bps if fabric_bps is None else fabric_bps,
                delay_s,
            )
            cables += [cable] * parallel
    tier = (0,) * count + (1,) * leaves + (2,) * spines
    total = first_spine + spines
    name = f"leafspine{leaves}x{spines}"
    return Topology(total, tuple(range(count, total)), tuple(cables), tier, name=name)


def fat_tree(
    ports: int,
    *,
    rate_bps: float = 100 * GBPS,
    fabric_bps: float | None = None,
    delay_s: float = 1e-6,
    hosts_per_leaf: int | None = None,
) -> Topology:
    """Three-tier Clos of k-port switches: k pods, k³/4 hosts unless fewer per leaf are asked."""
    if ports % 2 or ports < 2:
        raise ConfigInvalid("topology", "fat tree", f"needs an even number of ports, not {ports}")
    _at_least(1, hosts_per_leaf=hosts_per_leaf)
    half = ports // 2
    per_leaf = half if hosts_per_leaf is None else hosts_per_leaf
    hosts = ports * half * per_leaf
    _check_cables(hosts + 2 * ports * half * half)
    leaf0, spine0 = hosts, hosts + ports * half
    core0 = spine0 + ports * half
    up = rate_bps if fabric_bps is None else fabric_bps
    cables = [Cable(h, leaf0 + h // per_leaf, rate_bps, delay_s) for h in range(hosts)]
    for pod in range(ports):
        for leaf in range(half):
            for spine in range(half):
                a, b = leaf0 + pod * half + leaf, spine0 + pod * half + spine
                cables.append(Cable(a, b, up, delay_s))
        for spine in range(half):
            for core in range(half):
                a, b = spine0 + pod * half + spine, core0 + spine * half + core
                cables.append(Cable(a, b, up, delay_s))
    total = core0 + half * half
    tier = (0,) * hosts + (1,) * (ports * half) + (2,) * (ports * half) + (3,) * (half * half)
    return Topology(total, tuple(range(hosts, total)), tuple(cables), tier, name=f"fattree{ports}")


def rail_optimised(
    hosts: int,
    rails: int,
    spines: int,
    *,
    rate_bps: float = 100 * GBPS,
    fabric_bps: float | None = None,
    delay_s: float = 1e-6,
    hosts_per_block: int | None = None,
) -> Topology:
    """NIC r of every host in a block goes to the block's rail switch r; spines join the rails.

    Node host*rails + r is NIC r of the host.
    """
    _at_least(1, hosts=hosts, rails=rails, hosts_per_block=hosts_per_block)
    _at_least(0, spines=spines)
    block = hosts_per_block or hosts
    blocks = -(-hosts // block)
    count = hosts * rails
    _check_cables(count + blocks * rails * spines)
    first_spine = count + blocks * rails
    cables = []
    for nic in range(count):
        host, rail = divmod(nic, rails)
        cables.append(Cable(nic, count + host // block * rails + rail, rate_bps, delay_s))
    for leaf in range(blocks * rails):
        up = (first_spine + spine for spine in range(spines))
        cables += [
            Cable(count + leaf, spine, rate_bps if fabric_bps is None else fabric_bps, delay_s)
            for spine in up
        ]
    tier = (0,) * count + (1,) * (blocks * rails) + (2,) * spines
    total = first_spine + spines
    return Topology(
        total, tuple(range(count, total)), tuple(cables), tier, rails, f"rail{hosts}x{rails}"
    )

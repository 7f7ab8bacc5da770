"""Fabrics to build: fat trees of any size, their LIDs and min-hop forwarding tables."""

from __future__ import annotations

from collections import deque

from collectors.codec import mad_smp
from collectors.infiniband.tiers import infer_tiers
from collectors.infiniband.topology import End, IbPort, Node, Topology
from collectors.model.errors import ConfigInvalid

_SWITCH_GUID = 0x200000
_ADAPTER_GUID = 0x100000


def _unplugged(number: int, guid: int) -> IbPort:
    return IbPort(number, mad_smp.PORT_DOWN, mad_smp.POLLING, guid=guid)


class Builder:
    """Adds nodes and cables; GUIDs count up as ibsim's do."""

    def __init__(self, width: int = 4, speed: str = "HDR") -> None:
        """Take the width and speed of the cables to come."""
        self.topology = Topology()
        self.width, self.speed = width, speed
        self._next = {"switch": _SWITCH_GUID, "ca": _ADAPTER_GUID}

    def switch(self, name: str, ports: int) -> Node:
        """Add a switch."""
        guid = self._next["switch"]
        self._next["switch"] += 1
        node = Node(guid, "switch", name, ports, guid)
        node.ports[0] = IbPort(0, mad_smp.PORT_ACTIVE, mad_smp.LINK_UP, guid=guid)
        for number in range(1, ports + 1):
            node.ports[number] = _unplugged(number, guid)
        self.topology.nodes[guid] = node
        return node

    def adapter(self, name: str, ports: int = 1) -> Node:
        """Add a channel adapter."""
        guid = self._next["ca"]
        self._next["ca"] += ports + 1
        node = Node(guid, "ca", name, ports, guid)
        for number in range(1, ports + 1):
            node.ports[number] = _unplugged(number, guid + number)
        self.topology.nodes[guid] = node
        return node

    def cable(
        self, a: Node, a_port: int, b: Node, b_port: int, *, speed: str = "", width: int = 0
    ) -> None:
        """Plug a cable in."""
        for node, number, peer in (
            (a, a_port, End(b.guid, b_port)),
            (b, b_port, End(a.guid, a_port)),
        ):
            port = node.ports[number]
            port.state, port.physical, port.mtu = mad_smp.PORT_ACTIVE, mad_smp.LINK_UP, 4096
            port.width, port.speed, port.peer = width or self.width, speed or self.speed, peer


def two_tier(
    leaves: int, spines: int, hosts: int, links: int = 1, *, speed: str = "HDR"
) -> Topology:
    """Build leaves x spines with `hosts` hosts a leaf and `links` cables per leaf and spine."""
    build = Builder(speed=speed)
    leaf = [build.switch(f"Leaf{i}", hosts + spines * links) for i in range(leaves)]
    spine = [build.switch(f"Spine{i}", leaves * links) for i in range(spines)]
    for i, low in enumerate(leaf):
        for h in range(hosts):
            build.cable(build.adapter(f"H{i * hosts + h}"), 1, low, h + 1)
        for s, high in enumerate(spine):
            for k in range(links):
                build.cable(low, hosts + s * links + k + 1, high, i * links + k + 1)
    return build.topology


def fat_tree(k: int, nodes: int = 0, *, speed: str = "HDR") -> Topology:
    """Build the k-ary three-tier fat tree (k pods, k^3/4 hosts), or its first `nodes` hosts.

    Pods without hosts are left out, and with them the core ports that led there.
    """
    if k < 2 or k % 2:
        raise ConfigInvalid("fattree", "build", f"k is {k}, must be even and at least 2")
    half, full = k // 2, k**3 // 4
    nodes = nodes or full
    if nodes > full:
        raise ConfigInvalid("fattree", "build", f"k={k} has {full} hosts, asked for {nodes}")
    pods = -(-nodes // (half * half))
    build = Builder(speed=speed)
    core = [build.switch(f"Core{i}", k) for i in range(half * half)]
    host = 0
    for pod in range(pods):
        leaves = [build.switch(f"Leaf{pod}-{i}", k) for i in range(half)]
        spines = [build.switch(f"Spine{pod}-{i}", k) for i in range(half)]
        for i, leaf in enumerate(leaves):
            for h in range(min(half, nodes - host)):
                build.cable(build.adapter(f"H{host}"), 1, leaf, h + 1)
                host += 1
            for s, spine in enumerate(spines):
                build.cable(leaf, half + s + 1, spine, i + 1)
        for s, spine in enumerate(spines):
            for c in range(half):
                build.cable(spine, half + c + 1, core[s * half + c], pod + 1)
    return build.topology


def three_tier(
    pods: int, leaves: int, spines: int, cores_per_spine: int, hosts: int, *, speed: str = "NDR"
) -> Topology:
    """Build pods of leaves x spines, each spine with a cable to every core of its own plane."""
    build = Builder(speed=speed)
    core = [
        [build.switch(f"Core{s}-{c}", pods) for c in range(cores_per_spine)] for s in range(spines)
    ]
    for pod in range(pods):
        leaf = [build.switch(f"Leaf{pod}-{i}", hosts + spines) for i in range(leaves)]
        spine = [build.switch(f"Spine{pod}-{i}", leaves + cores_per_spine) for i in range(spines)]
        for i, low in enumerate(leaf):
            for h in range(hosts):
                build.cable(build.adapter(f"H{(pod * leaves + i) * hosts + h}"), 1, low, h + 1)
            for s, high in enumerate(spine):
                build.cable(low, hosts + s + 1, high, i + 1)
        for s, high in enumerate(spine):
            for c in range(cores_per_spine):
                build.cable(high, leaves + c + 1, core[s][c], pod + 1)
    return build.topology


def parse_topology(text: str, nodes: int = 0) -> Topology:
    """Build what `fattree:K`, `clos:LEAVESxSPINESxHOSTS[xLINKS]` says; raises ConfigInvalid."""
    kind, _, rest = text.partition(":")
    try:
        numbers = [int(part) for part in rest.split("x")]
    except ValueError:
        numbers = []
    if kind == "fattree" and len(numbers) == 1:
        return fat_tree(numbers[0], nodes)
    if kind == "clos" and len(numbers) in (3, 4):
        return two_tier(*numbers)
    raise ConfigInvalid(
        text, "topology", "not fattree:K, clos:LEAVESxSPINESxHOSTS[xLINKS] or a file"
    )


def assign_lids(topology: Topology) -> None:
    """Give every adapter port and switch a LID, from 1."""
    lid = 0
    for node in topology.nodes.values():
        for number, port in node.ports.items():
            if node.is_switch and number:
                continue
            lid += 1
            port.lid = lid


def route_minhop(topology: Topology) -> None:
    """Fill the forwarding tables with shortest paths, balanced as a fat tree wants them.

    Of equal ports a switch of tier t takes the one that digit t of the destination's number says
    (d-mod-k, Zahavi 2012), so that all-to-all traffic is even in a complete tree; good enough for
    a lab without a subnet manager.
    """
    owners = topology.by_lid()
    top = max(owners, default=0)
    tables = {node.guid: bytearray(b"\xff" * (top + 1)) for node in topology.switches()}
    cables = _switch_cables(topology)
    tiers = infer_tiers(topology)
    hosts = [lid for lid, end in sorted(owners.items()) if not topology.nodes[end.guid].is_switch]
    rank = {lid: number for number, lid in enumerate(hosts)}
    for target, lids in _lids_by_switch(topology, owners).items():
        for lid, number in lids:
            tables[target][lid] = number
        distance = _distances(cables, target)
        for guid, here in distance.items():
            equal = [number for number, peer in cables[guid] if distance[peer] == here - 1]
            divisor = len(equal) ** tiers.get(guid, 0)
            for lid, _ in lids if equal else ():
                tables[guid][lid] = equal[rank.get(lid, 0) // divisor % len(equal)]
    for guid, table in tables.items():
        topology.nodes[guid].lft = bytes(table)
        topology.nodes[guid].lft_top = top


def _switch_cables(topology: Topology) -> dict[int, list[tuple[int, int]]]:
    """Return switch -> (port, neighbouring switch)."""
    return {
        node.guid: [
            (number, port.peer.guid)
            for number, port in node.ports.items()
            if port.peer is not None and topology.nodes[port.peer.guid].is_switch
        ]
        for node in topology.switches()
    }


def _lids_by_switch(topology: Topology, owners: dict[int, End]) -> dict[int, list[tuple[int, int]]]:
    """Return switch -> (LID, port) of what is plugged into it; port 0 is the switch itself."""
    found: dict[int, list[tuple[int, int]]] = {}
    for lid, end in sorted(owners.items()):
        node = topology.nodes[end.guid]
        peer = node.ports[end.port].peer
        if node.is_switch:
            found.setdefault(node.guid, []).append((lid, 0))
        elif peer is not None and topology.nodes[peer.guid].is_switch:
            found.setdefault(peer.guid, []).append((lid, peer.port))
    return found


def _distances(cables: dict[int, list[tuple[int, int]]], target: int) -> dict[int, int]:
    distance = {target: 0}
    queue = deque((target,))
    while queue:
        guid = queue.popleft()
        for _, peer in cables[guid]:
            if peer not in distance:
                distance[peer] = distance[guid] + 1
                queue.append(peer)
    return distance

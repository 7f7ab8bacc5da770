"""An InfiniBand subnet as found: nodes, ports, cables, forwarding tables; and its differences.

A topology is plain data. GUIDs are integers here and 16 hex digits in the vocabulary; ports of
switches count from 0 (the management port), of channel adapters and routers from 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

from collectors.codec import mad_smp
from collectors.model.entities import Device, Interface, Port, Switch

Kind: TypeAlias = Literal["ca", "switch", "router"]
KINDS: dict[int, Kind] = {1: "ca", 2: "switch", 3: "router"}

AGGREGATION_NODE = "Aggregation Node"  # how SHARP's in-switch adapters describe themselves


class End(NamedTuple):
    """A port of a node."""

    guid: int
    port: int


@dataclass(slots=True)
class IbPort:
    """A port as its PortInfo says. state, physical: codes of mad_smp; width: lanes."""

    number: int
    state: int = 0
    physical: int = 0
    lid: int = 0
    lmc: int = 0
    guid: int = 0
    width: int = 0
    speed: str = ""
    mtu: int = 0
    info: dict[str, int] = field(default_factory=dict)
    peer: End | None = None

    @property
    def is_up(self) -> bool:
        """Tell whether the cable is alive, with or without a subnet manager's blessing."""
        return self.state >= mad_smp.PORT_INIT

    @property
    def rate_bps(self) -> float:
        """Data bits per second that the link carries each way; 0 when unknown."""
        return self.width * mad_smp.DATA_RATE_PER_LANE.get(self.speed, 0.0)

    @property
    def label(self) -> str:
        """Return width and speed as people say them: 4xHDR."""
        return f"{self.width}x{self.speed}" if self.width and self.speed else "?"


@dataclass(slots=True)
class Node:
    """A switch, channel adapter or router.

    path: a directed route that leads to it; None where only its LID is known.
    """

    guid: int
    kind: Kind
    name: str = ""
    port_count: int = 0
    system_guid: int = 0
    vendor: int = 0
    device: int = 0
    revision: int = 0
    enhanced_port0: bool = False
    lft_top: int = 0
    lft: bytes = b""
    path: bytes | None = b""
    ports: dict[int, IbPort] = field(default_factory=dict)

    @property
    def is_switch(self) -> bool:
        """Tell whether the node forwards."""
        return self.kind == "switch"

    @property
    def is_aggregation(self) -> bool:
        """Tell whether this adapter is a SHARP aggregation node inside a switch."""
        return self.kind == "ca" and AGGREGATION_NODE in self.name

    @property
    def lid(self) -> int:
        """LID that management datagrams to this node go to; 0 before it has one."""
        if self.is_switch:
            port = self.ports.get(0)
            return port.lid if port else 0
        return next((port.lid for port in self.ports.values() if port.lid), 0)

    def lid_of(self, port: int) -> int:
        """LID whose agent answers for a port: a switch has one, an adapter one a port."""
        if self.is_switch:
            return self.lid
        found = self.ports.get(port)
        return found.lid if found else 0

    @property
    def host(self) -> str:
        """Host name in an adapter's description (`node7 mlx5_0` or `node7 HCA-1`).

        An adapter that nobody named describes its make; its GUID has to do then.
        """
        if self.is_aggregation:
            return f"sharp-{self.system_guid:016x}"
        if not self.name or "Technologies" in self.name:
            return f"{self.guid:016x}"
        return self.name.split(" ", 1)[0]

    @property
    def device_name(self) -> str:
        """Device name in an adapter's description, '' where it has none."""
        return "" if "Technologies" in self.name else self.name.partition(" ")[2].strip()

    def entity(self, port: int) -> Port | Interface:
        """Return the vocabulary's word for one of this node's ports."""
        key = f"{self.guid:016x}"
        if self.is_switch:
            return Interface(Switch(key, self.name), str(port))
        return Port(Device(self.host, key, self.device_name), port)


@dataclass(slots=True)
class Topology:
    """All nodes by GUID. partial: nodes or ports that did not answer are missing from it."""

    nodes: dict[int, Node] = field(default_factory=dict)
    origin: int = 0
    partial: bool = False

    def port(self, end: End) -> IbPort | None:
        """Return the port of an end, None where the node or the port is not known."""
        node = self.nodes.get(end.guid)
        return node.ports.get(end.port) if node else None

    def links(self) -> Iterator[tuple[End, End]]:
        """Yield each cable once, its lower end first; a loop back to one port is no cable."""
        for guid, node in self.nodes.items():
            for number, port in node.ports.items():
                here = End(guid, number)
                if port.peer is not None and here < port.peer:
                    yield here, port.peer

    def switches(self) -> Iterator[Node]:
        """Yield the switches."""
        return (node for node in self.nodes.values() if node.is_switch)

    def adapters(self) -> Iterator[Node]:
        """Yield channel adapters and routers, without SHARP's aggregation nodes."""
        return (
            node for node in self.nodes.values() if not node.is_switch and not node.is_aggregation
        )

    def by_lid(self) -> dict[int, End]:
        """Return LID -> port that owns it, all 2^LMC of them."""
        owners: dict[int, End] = {}
        for guid, node in self.nodes.items():
            for number, port in node.ports.items():
                if port.lid and (number == 0 or not node.is_switch):
                    lids = range(port.lid, port.lid + (1 << port.lmc))
                    owners |= dict.fromkeys(lids, End(guid, number))
        return owners

    def find(self, text: str) -> Node | None:
        """Return the node of a LID, GUID (0x…), node name or host name; None when not unique."""
        text = text.strip()
        if text.isdigit():
            end = self.by_lid().get(int(text))
            return self.nodes.get(end.guid) if end else None
        if text.startswith("0x"):
            try:
                wanted = int(text, 16)
            except ValueError:
                return None
            if wanted in self.nodes:
                return self.nodes[wanted]
            return next(
                (n for n in self.nodes.values() if any(p.guid == wanted for p in n.ports.values())),
                None,
            )
        exact = [node for node in self.nodes.values() if node.name == text]
        if not exact:
            exact = [node for node in self.adapters() if node.host == text]
        return exact[0] if len(exact) == 1 else None


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two topologies of a subnet."""

    what: Literal[
        "node appeared",
        "node gone",
        "link appeared",
        "link gone",
        "link moved",
        "width or speed changed",
        "renamed",
    ]
    where: str
    detail: str = ""


def name_of(topology: Topology, end: End) -> str:
    """Return `name/port` of an end, the GUID where the node has no name."""
    node = topology.nodes.get(end.guid)
    return f"{node.name if node and node.name else f'0x{end.guid:016x}'}/{end.port}"


def diff(before: Topology, after: Topology) -> list[Change]:
    """Return what changed, nodes first; nothing is `gone` from a partial sweep."""
    changes: list[Change] = []
    for guid, node in after.nodes.items():
        old = before.nodes.get(guid)
        if old is None:
            changes.append(Change("node appeared", node.name, f"0x{guid:016x}"))
        elif old.name != node.name:
            changes.append(Change("renamed", old.name, node.name))
    if not after.partial:
        changes += [
            Change("node gone", node.name, f"0x{guid:016x}")
            for guid, node in before.nodes.items()
            if guid not in after.nodes
        ]
    old_links = {end: peer for a, b in before.links() for end, peer in ((a, b), (b, a))}
    new_links = {end: peer for a, b in after.links() for end, peer in ((a, b), (b, a))}
    for a, b in after.links():
        was_a, was_b = old_links.get(a), old_links.get(b)
        where = f"{name_of(after, a)} - {name_of(after, b)}"
        if was_a == b:
            old_port, new_port = before.port(a), after.port(a)
            if old_port and new_port and old_port.label != new_port.label:
                changes.append(
                    Change("width or speed changed", where, f"{old_port.label} -> {new_port.label}")
                )
        elif was_a is None and was_b is None:
            changes.append(Change("link appeared", where))
        else:
            was = ", ".join(name_of(before, end) for end in (was_a, was_b) if end)
            changes.append(Change("link moved", where, f"was to {was}"))
    if not after.partial:
        changes += [
            Change("link gone", f"{name_of(before, a)} - {name_of(before, b)}")
            for a, b in before.links()
            if a not in new_links and b not in new_links
        ]
    return changes


def parse_node_names(text: str) -> dict[int, str]:
    """Parse an OpenSM/infiniband-diags node-name-map: `0xGUID "name" # comment` a line.

    Lines that are not of this form are skipped, as the diags do.
    """
    names: dict[int, str] = {}
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        guid, _, rest = line.partition(" ")
        rest = rest.strip()
        if rest.startswith('"'):
            name = rest[1:].partition('"')[0]
        else:
            name = rest.partition("#")[0].strip()
        try:
            number = int(guid, 16)
        except ValueError:
            continue
        if name:
            names[number] = name
    return names


def with_names(topology: Topology, names: Mapping[int, str]) -> Topology:
    """Return the topology with the names of a map in place of the nodes' descriptions."""
    return Topology(
        {
            guid: replace(node, name=names.get(guid, node.name))
            for guid, node in topology.nodes.items()
        },
        topology.origin,
        topology.partial,
    )

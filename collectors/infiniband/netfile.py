"""Topology files: what ibnetdiscover prints and ibsim and OpenSM's tools read.

A line that cannot be read costs itself and is reported, never the fabric: unconnected ports,
`???` peers, split ports and width/speed words of later generations all occur in the wild.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from collectors.codec import mad_smp
from collectors.infiniband.topology import End, IbPort, Kind, Node, Topology

_NODE = re.compile(r'^(Switch|Ca|Hca|Rt)\s+(\d+)\s+"([^"]*)"(.*)$')
_PORT = re.compile(r'^\[(\d+)\](?:\(([0-9a-fA-F]+)\))?\s*(?:\[ext \d+\]\s*)?"([^"]*)"(.*)$')
_PEER_PORT = re.compile(r"^\[(\d+)\](?:\(([0-9a-fA-F]+)\))?")
_RATE = re.compile(r"\b(\d+)x([A-Z]+\d*)\b")
_LID = re.compile(r"\blid (\d+)\b")
_LMC = re.compile(r"\blmc (\d+)\b")
_QUOTED = re.compile(r'"([^"]*)"')
_ASSIGN = re.compile(r"^(vendid|devid|sysimgguid|switchguid|caguid|rtguid)=(0x[0-9a-fA-F]+)")
_KINDS: dict[str, Kind] = {"Switch": "switch", "Ca": "ca", "Hca": "ca", "Rt": "router"}


def _guid_of(label: str) -> int | None:
    """Return the GUID in ibnetdiscover's `S-…`, `H-…`, `R-…`; None for an ibsim name."""
    match = re.fullmatch(r"[SHR]-([0-9a-fA-F]{16})", label)
    return int(match[1], 16) if match else None


class _Builder:
    """Reads line by line; GUIDs of ibsim files are given out as ibsim does."""

    def __init__(self) -> None:
        self.topology = Topology()
        self.by_label: dict[str, Node] = {}
        self.peers: list[tuple[int, int, str, int]] = []
        self.skipped: list[tuple[int, str]] = []
        self.header: dict[str, int] = {}
        self.next_guid = {"switch": 0x200000, "ca": 0x100000, "router": 0x300000}

    def node(self, match: re.Match[str]) -> Node:
        kind, count, label = _KINDS[match[1]], int(match[2]), match[3]
        guid = _guid_of(label)
        if guid is None:
            guid = self.next_guid[kind]
            self.next_guid[kind] += 1 if kind == "switch" else count + 1
        comment = match[4].partition("#")[2]
        quoted = _QUOTED.search(comment)
        node = Node(
            guid,
            kind,
            quoted[1] if quoted else label,
            count,
            self.header.get("sysimgguid", guid),
            self.header.get("vendid", 0),
            self.header.get("devid", 0),
            enhanced_port0="enhanced port 0" in comment,
        )
        if kind == "switch":
            lid, lmc = _LID.search(comment), _LMC.search(comment)
            node.ports[0] = IbPort(
                0,
                mad_smp.PORT_ACTIVE,
                5,
                int(lid[1]) if lid else 0,
                int(lmc[1]) if lmc else 0,
                guid,
            )
        self.header = {}
        self.topology.nodes[guid] = node
        self.by_label[label] = node
        return node

    def port(self, node: Node, match: re.Match[str]) -> None:
        number, guid, label, rest = int(match[1]), match[2], match[3], match[4]
        before, _, comment = rest.partition("#")
        peer = _PEER_PORT.match(before.strip())
        rate = _RATE.search(comment)
        port = IbPort(number, mad_smp.PORT_ACTIVE, 5)
        if rate:
            port.width, port.speed = int(rate[1]), rate[2]
        if not node.is_switch:
            # `# lid 14 lmc 0 "peer" lid 6 4xHDR`: the first lid is this port's own
            own = comment.partition('"')[0]
            lid, lmc = _LID.search(own), _LMC.search(own)
            port.lid, port.lmc = int(lid[1]) if lid else 0, int(lmc[1]) if lmc else 0
            port.guid = int(guid, 16) if guid else node.guid + number
        else:
            port.guid = node.guid
        node.ports[number] = port
        # ibsim reads a peer without a port as its port 1
        self.peers.append((node.guid, number, label, int(peer[1]) if peer else 1))

    def connect(self) -> None:
        for guid, number, label, peer_port in self.peers:
            peer_guid = _guid_of(label)
            if peer_guid is None:
                found = self.by_label.get(label)
                peer_guid = found.guid if found else None
            port = self.topology.nodes[guid].ports[number]
            if peer_guid is None or peer_guid not in self.topology.nodes:
                port.state, port.physical = mad_smp.PORT_DOWN, mad_smp.POLLING
                self.skipped.append((0, f"{label}: peer of 0x{guid:x}/{number} is not in the file"))
                continue
            port.peer = End(peer_guid, peer_port)


def parse_net(text: str) -> tuple[Topology, list[tuple[int, str]]]:
    """Parse a topology file; returns it and the lines that were skipped as (number, text)."""
    builder = _Builder()
    node: Node | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.rstrip()
        if not line or line.startswith("#"):
            continue
        assign = _ASSIGN.match(line)
        if assign:
            builder.header[assign[1]] = int(assign[2], 16)
            continue
        found = _NODE.match(line)
        if found:
            node = builder.node(found)
            continue
        port = _PORT.match(line)
        if port and node is not None:
            builder.port(node, port)
        else:
            builder.skipped.append((number, line))
    builder.connect()
    return builder.topology, builder.skipped


def format_net(topology: Topology) -> str:
    """Write a topology in the form that ibsim reads: node names as ids, rates as comments."""
    return "\n".join(_lines(topology)) + "\n"


def _lines(topology: Topology) -> Iterator[str]:
    words = {"switch": "Switch", "ca": "Hca", "router": "Rt"}
    for node in topology.nodes.values():
        yield ""
        yield f"{'switchguid' if node.is_switch else 'caguid'}=0x{node.guid:x}"
        yield f'{words[node.kind]}\t{node.port_count} "{node.name}"'
        for number in sorted(node.ports):
            port = node.ports[number]
            if port.peer is None or number == 0:
                continue
            peer = topology.nodes[port.peer.guid].name
            rate = f'\t\t# "x" lid 0 {port.width}x{port.speed}' if port.speed else ""
            yield f'[{number}]\t"{peer}"[{port.peer.port}]{rate}'

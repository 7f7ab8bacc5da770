"""Discovery by directed route: the subnet as the cables say, whatever the subnet manager thinks.

Breadth first from the local port: NodeInfo through every live port, PortInfo of every port,
SwitchInfo, NodeDescription, then the linear forwarding tables. A cable is asked once, from the
end found first. What does not answer is a `Miss`; the rest of the subnet is found all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from collectors.codec import mad as frame
from collectors.codec import mad_smp
from collectors.codec.mad_vendor import FDR10, MLNX_EXTENDED_PORT_INFO, VENDOR_MELLANOX
from collectors.infiniband.topology import KINDS, End, IbPort, Node, Topology, name_of, with_names
from collectors.infiniband.transactor import Answer, Failure, Transactor
from collectors.model.errors import Malformed, Unavailable

UNICAST_LIDS = 0xC000


@dataclass(frozen=True, slots=True)
class Miss:
    """What could not be read.

    subject: name/port or directed route, for people; end: the same where the node is known,
    port -1 for the node itself. what: the attribute.
    """

    subject: str
    what: str
    failure: Failure
    end: End | None = None


@dataclass(slots=True)
class Discovered:
    """A topology and what is missing from it; seconds per phase."""

    topology: Topology
    misses: list[Miss] = field(default_factory=list)
    discovery_s: float = 0.0
    forwarding_s: float = 0.0


def route_text(path: bytes) -> str:
    """Write a directed route as the diags do: `DR path 0,1,17`."""
    return "DR path " + ",".join(str(hop) for hop in (0, *path))


class _Walk:
    def __init__(self, transactor: Transactor) -> None:
        self.ask = transactor
        self.topology = Topology()
        self.misses: list[Miss] = []
        # ends whose PortInfo is still under way, with their known peer
        self.peers: dict[End, End] = {}
        self.port_guids: dict[End, int] = {}

    # --- the root and the walk ---------------------------------------------------------------
    def start(self) -> None:
        def root(answer: Answer) -> None:
            if isinstance(answer, Failure):
                raise Unavailable("local port", "NodeInfo", answer.detail)
            self.arrived(answer, b"", None)

        self.ask.smp_direct(b"", mad_smp.NODE_INFO.attribute, 0, root)

    def miss(self, subject: str, what: str, failure: Failure, end: End | None = None) -> None:
        self.topology.partial = True
        self.misses.append(Miss(subject, what, failure, end))

    def miss_node(self, node: Node, what: str, failure: Failure, port: int = -1) -> None:
        subject = node.name or f"0x{node.guid:016x} ({route_text(node.path or b'')})"
        where = subject if port < 0 else f"{subject}/{port}"
        self.miss(where, what, failure, End(node.guid, port))

    def probe(self, node: Node, number: int) -> None:
        """Ask who is at the other end of a live port."""
        origin = End(node.guid, number)
        path = (node.path or b"") + bytes((number,))
        if len(path) > frame.MAX_HOPS:
            return

        def reply(answer: Answer) -> None:
            if isinstance(answer, Failure):
                port = self.topology.port(origin)
                if port is None or port.peer is None:  # else the other end has told meanwhile
                    self.miss(
                        f"{name_of(self.topology, origin)} ({route_text(path)})",
                        "NodeInfo",
                        answer,
                        origin,
                    )
                return
            self.arrived(answer, path, origin)

        self.ask.smp_direct(path, mad_smp.NODE_INFO.attribute, 0, reply)

    def arrived(self, payload: bytes, path: bytes, origin: End | None) -> None:
        info = mad_smp.NODE_INFO.parse(payload)
        guid, local = info["NodeGUID"], info["LocalPortNum"]
        kind = KINDS.get(info["NodeType"])
        if kind is None or guid == 0 or info["NumPorts"] == 0 or local > info["NumPorts"]:
            subject = route_text(path)
            self.miss(subject, "NodeInfo", Failure("malformed", "no such node can exist"))
            return
        node = self.topology.nodes.get(guid)
        fresh = node is None
        if node is None:
            node = Node(
                guid,
                kind,
                "",
                info["NumPorts"],
                info["SystemImageGUID"],
                info["VendorID"],
                info["DeviceID"],
                info["Revision"],
                path=path,
            )
            self.topology.nodes[guid] = node
        self.port_guids[End(guid, local)] = info["PortGUID"]
        if origin is not None:
            self.connect(origin, End(guid, local))
        else:
            self.topology.origin = guid
        if fresh:
            self.ask_node(node, local)
        elif local not in node.ports and not node.is_switch:
            self.ask_port(node, local)

    def connect(self, a: End, b: End) -> None:
        port = self.topology.port(a)
        if port is not None:
            port.peer = b
        port = self.topology.port(b)
        if port is not None:
            port.peer = a
        else:
            self.peers[b] = a

    # --- one node ----------------------------------------------------------------------------
    def ask_node(self, node: Node, local: int) -> None:
        def named(answer: Answer) -> None:
            if isinstance(answer, Failure):
                self.miss_node(node, "NodeDescription", answer)
            else:
                node.name = mad_smp.parse_node_string(answer)

        self.ask.smp(
            node.path, node.lid, mad_smp.NODE_DESCRIPTION.attribute, 0, named, device=node.guid
        )
        if node.is_switch:

            def switch(answer: Answer) -> None:
                if isinstance(answer, Failure):
                    self.miss_node(node, "SwitchInfo", answer)
                    return
                info = mad_smp.SWITCH_INFO.parse(answer)
                node.lft_top = min(info["LinearFDBTop"], UNICAST_LIDS - 1)
                node.enhanced_port0 = bool(info["EnhancedPort0"])

            self.ask.smp(
                node.path, node.lid, mad_smp.SWITCH_INFO.attribute, 0, switch, device=node.guid
            )
            for number in range(node.port_count + 1):
                self.ask_port(node, number)
        else:
            # the port that was reached first: the walk goes on through it from the local node
            for number in sorted(range(1, node.port_count + 1), key=lambda n: n != local):
                self.ask_port(node, number, expand=node.path == b"" and number == local)

    def ask_port(self, node: Node, number: int, *, expand: bool = True) -> None:
        def reply(answer: Answer) -> None:
            if isinstance(answer, Failure):
                # the far port of a two-port adapter may be out of this agent's reach
                if node.is_switch or not answer.permanent:
                    self.miss_node(node, "PortInfo", answer, number)
                return
            port = parse_port(answer, number)
            port.guid = node.guid if node.is_switch else 0
            end = End(node.guid, number)
            port.peer = self.peers.pop(end, None)
            node.ports[number] = port
            forwards = (node.is_switch and number > 0) or (node.path == b"" and expand)
            if forwards and port.peer is None and port.is_up:
                self.probe(node, number)

        self.ask.smp(
            node.path, node.lid, mad_smp.PORT_INFO.attribute, number, reply, device=node.guid
        )

    def settle_speeds(self) -> None:
        """Name the speeds, now that every switch's port 0 is known."""
        for node in self.topology.nodes.values():
            masks = node.ports[0].info if node.is_switch and 0 in node.ports else None
            for port in node.ports.values():
                port.speed = mad_smp.link_speed(port.info, masks)
                if port.is_up and port.speed == "QDR" and node.vendor in VENDOR_MELLANOX:
                    self.ask_fdr10(node, port)

    def ask_fdr10(self, node: Node, port: IbPort) -> None:
        def reply(answer: Answer) -> None:
            if isinstance(answer, Failure):
                return  # QDR then: the attribute is the vendor's own and optional
            extended = MLNX_EXTENDED_PORT_INFO.parse(answer)
            if extended["LinkSpeedActive"] & FDR10:
                port.speed = "FDR10"

        self.ask.smp(
            node.path,
            node.lid,
            MLNX_EXTENDED_PORT_INFO.attribute,
            port.number,
            reply,
            device=node.guid,
        )

    # --- forwarding tables -------------------------------------------------------------------
    def ask_forwarding(self) -> None:
        for node in self.topology.switches():
            if node.lft_top:
                self.ask_table(node)

    def ask_table(self, node: Node) -> None:
        blocks = node.lft_top // mad_smp.LFT_BLOCK + 1
        table = bytearray(b"\xff" * (blocks * mad_smp.LFT_BLOCK))
        left = [blocks]

        def block(index: int) -> Callable[[Answer], None]:
            def reply(answer: Answer) -> None:
                if isinstance(answer, Failure):
                    self.miss_node(node, f"LinearForwardingTable block {index}", answer)
                else:
                    at = index * mad_smp.LFT_BLOCK
                    table[at : at + mad_smp.LFT_BLOCK] = answer[: mad_smp.LFT_BLOCK]
                left[0] -= 1
                if left[0] == 0:
                    node.lft = bytes(table[: node.lft_top + 1])

            return reply

        for index in range(blocks):
            self.ask.smp(
                node.path,
                node.lid,
                mad_smp.LINEAR_FORWARDING.attribute,
                index,
                block(index),
                device=node.guid,
            )


def parse_port(payload: bytes, number: int) -> IbPort:
    """Read a PortInfo payload, all but the speed's name; raises Malformed when it is short."""
    if len(payload) < mad_smp.PORT_INFO.need:
        raise Malformed(f"port {number}", "PortInfo", f"{len(payload)} bytes", payload)
    info = mad_smp.PORT_INFO.parse(payload)
    del info["M_Key"]  # a secret that no later code needs
    return IbPort(
        number,
        info["PortState"],
        info["PortPhysicalState"],
        info["LID"] if info["LID"] < UNICAST_LIDS else 0,
        info["LMC"],
        0,
        mad_smp.LINK_WIDTH.get(info["LinkWidthActive"], 0),
        "",
        mad_smp.mtu_bytes(info["NeighborMTU"]),
        info,
    )


def discover(
    transactor: Transactor,
    *,
    names: Mapping[int, str] | None = None,
    forwarding: bool = True,
    budget_s: float | None = None,
) -> Discovered:
    """Find the whole subnet from the transactor's local port.

    names: a node-name-map that beats the nodes' own descriptions. Raises Unavailable when even
    the local port does not answer; everything else is a miss in the result.
    """
    walk = _Walk(transactor)
    now = transactor.transport.now
    began = now()
    walk.start()
    transactor.run(budget_s)
    walk.settle_speeds()
    found = now()
    if forwarding:
        walk.ask_forwarding()
    transactor.run(None if budget_s is None else max(budget_s - (found - began), 0.0))
    topology = walk.topology
    for end, guid in walk.port_guids.items():
        port = topology.port(end)
        if port is not None:
            port.guid = guid
    if names:
        topology = with_names(topology, names)
    return Discovered(topology, walk.misses, found - began, now() - found)

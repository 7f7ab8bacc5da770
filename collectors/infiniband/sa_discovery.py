"""Discovery from the subnet manager's own data: four table queries instead of many SMPs.

The subnet administrator (IBTA vol. 1, 15) answers with nodes, ports, links and forwarding tables
as the last sweep of the manager left them. That is quick and spares the switches, but only what the
manager knows, as old as its sweep, and only ports that share a partition with this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from collectors.codec import mad, mad_sa, mad_smp
from collectors.codec.mad_layout import Layout
from collectors.infiniband.discovery import UNICAST_LIDS, Discovered, Miss, parse_port
from collectors.infiniband.topology import KINDS, End, Node, Topology, with_names
from collectors.infiniband.transactor import Answer, Failure, Transactor
from collectors.model.errors import Malformed, Unavailable


def find_subnet_manager(transactor: Transactor) -> tuple[int, int]:
    """Return (own LID, LID of the master subnet manager) from the local port.

    Raises Unavailable where no subnet manager has been by.
    """
    seen: dict[str, Any] = {}

    def node(answer: Answer) -> None:
        if isinstance(answer, Failure):
            raise Unavailable("local port", "NodeInfo", answer.detail)
        seen["guid"] = mad_smp.NODE_INFO.parse(answer)["NodeGUID"]
        local = mad_smp.NODE_INFO.parse(answer)["LocalPortNum"]
        transactor.smp_direct(b"", mad_smp.PORT_INFO.attribute, local, port)

    def port(answer: Answer) -> None:
        if isinstance(answer, Failure):
            raise Unavailable("local port", "PortInfo", answer.detail)
        seen.update(mad_smp.PORT_INFO.parse(answer))

    transactor.smp_direct(b"", mad_smp.NODE_INFO.attribute, 0, node)
    transactor.run()
    if not seen["LID"] or not seen["MasterSMLID"]:
        raise Unavailable("local port", "find subnet manager", "the port has no LID yet")
    return seen["LID"], seen["MasterSMLID"]


def fetch_path(transactor: Transactor, sm_lid: int, slid: int, dlid: int) -> dict[str, Any]:
    """Return the subnet manager's PathRecord from one LID to another: SL, MTU, rate, P_Key.

    Raises Unavailable when it does not answer or has no such path.
    """
    found: list[Answer] = []
    record = mad_sa.PATH_RECORD.pack({"SLID": slid, "DLID": dlid, "NumbPath": 1})
    mask = mad_sa.PATH_SLID | mad_sa.PATH_DLID | mad_sa.PATH_NUMB_PATH
    transactor.subnet_administration(
        sm_lid, mad_sa.PATH_RECORD.attribute, found.append, record=record, mask=mask, table=False
    )
    transactor.run()
    answer = found[0]
    if isinstance(answer, Failure):
        raise Unavailable(f"subnet manager at LID {sm_lid}", "PathRecord", answer.detail)
    [path] = mad.parse_sa_records(answer, mad_sa.PATH_RECORD.need)
    return mad_sa.PATH_RECORD.parse(path)


def discover_from_sa(
    transactor: Transactor,
    *,
    names: Mapping[int, str] | None = None,
    forwarding: bool = True,
) -> Discovered:
    """Build the topology from the subnet manager's tables.

    Raises Unavailable when the local port has no subnet manager or it gives no nodes.
    """
    now = transactor.transport.now
    began = now()
    _, sm_lid = find_subnet_manager(transactor)
    misses: list[Miss] = []
    tables: dict[str, list[bytes]] = {}

    def take(layout: Layout) -> Callable[[Answer], None]:
        def done(answer: Answer) -> None:
            failure = answer if isinstance(answer, Failure) else None
            try:
                if not isinstance(answer, Failure):
                    tables[layout.name] = mad.parse_sa_records(answer, layout.need)
            except Malformed as error:
                failure = Failure("malformed", str(error))
            if failure is not None:
                misses.append(Miss(f"subnet manager at LID {sm_lid}", layout.name, failure))

        return done

    wanted = [mad_sa.NODE_RECORD, mad_sa.PORT_INFO_RECORD, mad_sa.LINK_RECORD]
    if forwarding:
        wanted.append(mad_sa.LFT_RECORD)
    for layout in wanted:
        transactor.subnet_administration(sm_lid, layout.attribute, take(layout), table=True)
    transactor.run()
    if not tables.get(mad_sa.NODE_RECORD.name):
        why = misses[0].failure.detail if misses else "it knows no node"
        raise Unavailable(f"subnet manager at LID {sm_lid}", "NodeRecord", why)
    topology = _build(tables)
    topology.partial = bool(misses)
    if names:
        topology = with_names(topology, names)
    return Discovered(topology, misses, now() - began, 0.0)


def _build(tables: Mapping[str, list[bytes]]) -> Topology:
    topology = Topology()
    by_lid: dict[int, End] = {}
    for raw in tables[mad_sa.NODE_RECORD.name]:
        record = mad_sa.NODE_RECORD.parse(raw)
        info = mad_smp.NODE_INFO.parse(record["NodeInfo"].ljust(64, b"\0"))
        kind = KINDS.get(info["NodeType"])
        if kind is None:
            continue
        node = topology.nodes.setdefault(
            info["NodeGUID"],
            Node(
                info["NodeGUID"],
                kind,
                mad_smp.parse_node_string(record["NodeDescription"]),
                info["NumPorts"],
                info["SystemImageGUID"],
                info["VendorID"],
                info["DeviceID"],
                info["Revision"],
                path=None,
            ),
        )
        # a record a port for adapters, one for the whole switch
        by_lid[record["LID"]] = End(node.guid, 0 if node.is_switch else info["LocalPortNum"])
    _add_ports(topology, by_lid, tables.get(mad_sa.PORT_INFO_RECORD.name, []))
    for raw in tables.get(mad_sa.LINK_RECORD.name, []):
        record = mad_sa.LINK_RECORD.parse(raw)
        a, b = by_lid.get(record["FromLID"]), by_lid.get(record["ToLID"])
        port = topology.port(End(a.guid, record["FromPort"])) if a else None
        if port is not None and b is not None:
            port.peer = End(b.guid, record["ToPort"])
    for raw in tables.get(mad_sa.LFT_RECORD.name, []):
        record = mad_sa.LFT_RECORD.parse(raw)
        owner = by_lid.get(record["LID"])
        if owner is not None and record["BlockNum"] < UNICAST_LIDS // mad_smp.LFT_BLOCK:
            node = topology.nodes[owner.guid]
            at = record["BlockNum"] * mad_smp.LFT_BLOCK
            node.lft = node.lft[:at].ljust(at, b"\xff") + record["LinearForwardingTable"]
            node.lft_top = len(node.lft) - 1
    return topology


def _add_ports(topology: Topology, by_lid: Mapping[int, End], records: list[bytes]) -> None:
    for raw in records:
        record = mad_sa.PORT_INFO_RECORD.parse(raw)
        owner = by_lid.get(record["EndPortLID"])
        if owner is None:
            continue
        node = topology.nodes[owner.guid]
        number = record["PortNum"]
        port = parse_port(record["PortInfo"], number)
        if not node.is_switch or number == 0:
            port.lid = record["EndPortLID"]
        node.ports[number] = port
    for node in topology.nodes.values():
        masks = node.ports[0].info if node.is_switch and 0 in node.ports else None
        for port in node.ports.values():
            port.speed = mad_smp.link_speed(port.info, masks)

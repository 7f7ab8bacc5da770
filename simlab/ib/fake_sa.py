"""What a fake subnet's nodes and its subnet administrator say of themselves, as bytes."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.codec import mad as frame
from collectors.codec import mad_sa, mad_smp
from collectors.infiniband.topology import IbPort, Node, Topology

_WIDTH_CODE = {lanes: code for code, lanes in mad_smp.LINK_WIDTH.items()}
_KIND_CODE = {"ca": 1, "switch": 2, "router": 3}
SM_LID = 1
_NO_RECORDS = 3 << 8  # class-specific status ERR_NO_RECORDS (IBTA vol. 1, 15.4.4)


def pack_node_info(node: Node, into: int) -> bytes:
    """Write the NodeInfo that a node gives to who comes in by a port."""
    return mad_smp.NODE_INFO.pack(
        {
            "BaseVersion": 1,
            "ClassVersion": 1,
            "NodeType": _KIND_CODE[node.kind],
            "NumPorts": node.port_count,
            "SystemImageGUID": node.system_guid or node.guid,
            "NodeGUID": node.guid,
            "PortGUID": node.guid if node.is_switch else node.guid + into,
            "DeviceID": node.device,
            "LocalPortNum": into,
            "VendorID": node.vendor,
        }
    )


def pack_port_info(port: IbPort, *, masks: bool = True) -> bytes:
    """Write the PortInfo of a port, with the speed where each generation puts it.

    masks: with capability masks, which a switch has in port 0 only.
    """
    if port.info:
        return mad_smp.PORT_INFO.pack({**port.info, "PortState": port.state, "LID": port.lid})
    values = {
        "LID": port.lid,
        "MasterSMLID": SM_LID,
        "LocalPortNum": port.number,
        "LinkWidthEnabled": _WIDTH_CODE.get(port.width, 2),
        "LinkWidthSupported": 0x1F,
        "LinkWidthActive": _WIDTH_CODE.get(port.width, 2),
        "LinkSpeedSupported": 7,
        "PortState": port.state,
        "PortPhysicalState": port.physical,
        "LMC": port.lmc,
        "LinkSpeedActive": 4,
        "LinkSpeedEnabled": 7,
        "NeighborMTU": {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}.get(port.mtu, 5),
        "VLCap": 4,
        "OperationalVLs": 4,
        "HOQLife": 18,
        "VLStallCount": 7,
    }
    if masks:
        values["CapabilityMask"] = mad_smp.CAP_EXTENDED_SPEEDS | mad_smp.CAP_CAPABILITY_MASK2
        values["CapabilityMask2"] = mad_smp.CAP2_EXTENDED_SPEEDS2
    speed = port.speed or "SDR"
    for code, (name, _) in mad_smp.LINK_SPEED.items():
        if name == speed:
            values["LinkSpeedActive"] = code
    for code, (name, _) in mad_smp.LINK_SPEED_EXT.items():
        if name == speed:
            values["LinkSpeedExtActive"] = code
            values["LinkSpeedExtSupported"] = code
    for code, (name, _) in mad_smp.LINK_SPEED_EXT2.items():
        if name == speed:
            values["LinkSpeedExtActive2"] = code
    return mad_smp.PORT_INFO.pack(values)


def sa_answer(topology: Topology, request: bytes) -> bytes:
    """Answer a table query of the subnet administrator, or a PathRecord of two LIDs."""
    attribute = int.from_bytes(request[16:18], "big")
    made = {
        mad_sa.NODE_RECORD.attribute: _nodes,
        mad_sa.PORT_INFO_RECORD.attribute: _ports,
        mad_sa.LINK_RECORD.attribute: _links,
        mad_sa.LFT_RECORD.attribute: _tables,
    }.get(attribute)
    head = bytearray(request[: frame.SA_PAYLOAD_AT])
    table = request[3] == frame.METHOD_GET_TABLE
    head[3] = frame.METHOD_GET_TABLE_RESPONSE if table else frame.METHOD_GET_RESPONSE
    records = [record + bytes(-len(record) % 8) for record in made(topology)] if made else []
    if not table and attribute == mad_sa.PATH_RECORD.attribute:
        records = [request[frame.SA_PAYLOAD_AT :]]
    if not records:
        head[4:6] = _NO_RECORDS.to_bytes(2, "big")
    else:
        head[44:46] = (len(records[0]) // 8).to_bytes(2, "big")
    body = bytes(head) + b"".join(records)
    return body + bytes(max(frame.MAD_BYTES - len(body), 0))


def _lids(node: Node) -> Iterator[tuple[int, int]]:
    """Yield (port, LID) of the ports that have one."""
    for number, port in node.ports.items():
        if port.lid and (number == 0 or not node.is_switch):
            yield number, port.lid


def _nodes(topology: Topology) -> Iterator[bytes]:
    for node in topology.nodes.values():
        for number, lid in _lids(node):
            yield mad_sa.NODE_RECORD.pack(
                {
                    "LID": lid,
                    "NodeInfo": pack_node_info(node, number)[:40],
                    "NodeDescription": node.name.encode()[:64].ljust(64, b"\0"),
                }
            )


def _ports(topology: Topology) -> Iterator[bytes]:
    for node in topology.nodes.values():
        for number, port in node.ports.items():
            yield mad_sa.PORT_INFO_RECORD.pack(
                {
                    "EndPortLID": node.lid_of(number),
                    "PortNum": number,
                    "PortInfo": pack_port_info(port, masks=not node.is_switch or number == 0),
                }
            )


def _links(topology: Topology) -> Iterator[bytes]:
    for a, b in topology.links():
        for one, other in ((a, b), (b, a)):
            yield mad_sa.LINK_RECORD.pack(
                {
                    "FromLID": topology.nodes[one.guid].lid_of(one.port),
                    "FromPort": one.port,
                    "ToPort": other.port,
                    "ToLID": topology.nodes[other.guid].lid_of(other.port),
                }
            )


def _tables(topology: Topology) -> Iterator[bytes]:
    for node in topology.switches():
        for block in range(-(-len(node.lft) // mad_smp.LFT_BLOCK)):
            part = node.lft[block * 64 : block * 64 + 64]
            yield mad_sa.LFT_RECORD.pack(
                {
                    "LID": node.lid,
                    "BlockNum": block,
                    "LinearForwardingTable": part + b"\xff" * (64 - len(part)),
                }
            )

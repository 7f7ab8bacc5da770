"""Cables as other tools wrote them down: SONiC minigraph, config_db.json, Containerlab."""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree as ET

from collectors.codec.sonic_config import parse_config_db, parse_config_json
from collectors.model.entities import Interface, Netdev, Switch, Wire
from collectors.model.errors import ConfigInvalid, Malformed
from collectors.model.facts import Neighbour
from collectors.user_input.yaml_text import parse_yaml

# Containerlab kinds that are no switches: everything else is.
HOST_KINDS: Final = frozenset({"linux", "host", "bridge"})


def parse_minigraph(text: str, file: str) -> tuple[Neighbour, ...]:
    """Return the links of a SONiC minigraph (PngDec / DeviceInterfaceLinks). Raises Malformed."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise Malformed(file, "minigraph", "a document type has no place in a minigraph")
    try:
        root = ET.fromstring(text)  # noqa: S314  entities are refused above
    except ET.ParseError as error:
        raise Malformed(file, "minigraph", f"not XML: {error}") from error
    kinds = {
        _text(device, "Hostname"): next(
            (value for name, value in device.attrib.items() if name.endswith("type")),
            _text(device, "ElementType"),
        )
        for device in _all(root, "Device")
    }
    found = []
    for row in _all(root, "DeviceLinkBase"):
        ends = [(_text(row, f"{end}Device"), _text(row, f"{end}Port")) for end in ("Start", "End")]
        if all(device and port for device, port in ends):
            one, other = (_wire(device, port, kinds.get(device, "")) for device, port in ends)
            found.append(Neighbour(one, other, "minigraph"))
    return tuple(found)


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _all(root: ET.Element, name: str) -> list[ET.Element]:
    return [element for element in root.iter() if _local(element.tag) == name]


def _text(element: ET.Element, name: str) -> str:
    return next(((child.text or "").strip() for child in element if _local(child.tag) == name), "")


def _wire(device: str, port: str, kind: str) -> Wire:
    if "server" in kind.lower():
        return Netdev(device, port)
    return Interface(Switch(device, device), port)


def parse_containerlab(text: str, file: str) -> tuple[Neighbour, ...]:
    """Return the links of a Containerlab file. Raises Malformed naming the link."""
    try:
        content = parse_yaml(text, file)
    except ConfigInvalid as error:
        raise Malformed(error.subject, "containerlab", error.why) from error
    topology = content.get("topology") if isinstance(content, dict) else None
    nodes = links = None
    if isinstance(topology, dict):
        nodes, links = topology.get("nodes") or {}, topology.get("links") or []
    if not isinstance(nodes, dict) or not isinstance(links, list):
        raise Malformed(file, "containerlab", "needs topology with nodes and links")
    found = []
    for place, row in enumerate(links):
        ends = row.get("endpoints") if isinstance(row, dict) else None
        if not isinstance(ends, list) or len(ends) != 2:
            raise Malformed(file, "containerlab", f"topology.links[{place}]: needs two endpoints")
        one, other = (_endpoint(end, nodes, file, place) for end in ends)
        if one is not None and other is not None:
            found.append(Neighbour(one, other, "containerlab"))
    return tuple(found)


def _endpoint(end: object, nodes: dict[str, object], file: str, place: int) -> Wire | None:
    if isinstance(end, dict):  # the extended form
        node, port = str(end.get("node", "")), str(end.get("interface", ""))
    else:
        node, _, port = str(end).partition(":")
    if node in ("host", "mgmt-net", "macvlan"):
        return None
    if not node or not port:
        raise Malformed(file, "containerlab", f"topology.links[{place}]: {end!r} is no node:port")
    if node not in nodes:
        raise Malformed(file, "containerlab", f"topology.links[{place}]: no node {node!r}")
    row = nodes[node]
    kind = str(row.get("kind", "")) if isinstance(row, dict) else ""
    if kind in HOST_KINDS:
        return Netdev(node, port)
    return Interface(Switch(node, node), port)


def parse_config_db_links(text: str, file: str) -> tuple[Neighbour, ...]:
    """Return DEVICE_NEIGHBOR of a config_db.json, under the host name that it has itself."""
    config = parse_config_json(text, file)
    row = config.get("DEVICE_METADATA", {}).get("localhost", {})
    name = row.get("hostname", "")
    if not name:
        raise Malformed(file, "config_db", "DEVICE_METADATA|localhost has no hostname")
    facts, _ = parse_config_db(config, Switch(name, name), file)
    return facts.neighbours

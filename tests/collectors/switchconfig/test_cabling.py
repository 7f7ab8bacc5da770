"""Cabling of other tools."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.model.entities import Interface, Netdev, Switch
from collectors.model.errors import FabricError, Malformed
from collectors.switchconfig.cabling import (
    parse_config_db_links,
    parse_containerlab,
    parse_minigraph,
)

LEAF = Interface(Switch("leaf1"), "Ethernet0")
MINIGRAPH = """<DeviceMiniGraph xmlns="Microsoft.Search.Autopilot.Evolution"
  xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><PngDec><DeviceInterfaceLinks>
  <DeviceLinkBase><ElementType>DeviceInterfaceLink</ElementType>
    <EndDevice>leaf1</EndDevice><EndPort>Ethernet0</EndPort>
    <StartDevice>spine1</StartDevice><StartPort>Ethernet1/1</StartPort></DeviceLinkBase>
  <DeviceLinkBase><EndDevice>leaf1</EndDevice><EndPort>Ethernet4</EndPort>
    <StartDevice>node1</StartDevice><StartPort>eth0</StartPort></DeviceLinkBase>
  <DeviceLinkBase><EndDevice>leaf1</EndDevice></DeviceLinkBase>
</DeviceInterfaceLinks><Devices>
  <Device i:type="LeafRouter"><Hostname>spine1</Hostname></Device>
  <Device i:type="Server"><Hostname>node1</Hostname></Device>
</Devices></PngDec></DeviceMiniGraph>"""
LAB = """
name: lab
topology:
  nodes:
    leaf1: {kind: arista_ceos}
    node1: {kind: linux}
  links:
    - endpoints: ["leaf1:Ethernet0", "node1:eth1"]
    - endpoints: ["leaf1:mgmt", "mgmt-net:x"]
    - {type: veth, endpoints: [{node: leaf1, interface: Ethernet4}, {node: node1, interface: eth2}]}
"""


def test_minigraph():
    first, second = parse_minigraph(MINIGRAPH, "minigraph.xml")
    assert {first.local, first.remote} == {LEAF, Interface(Switch("spine1"), "Ethernet1/1")}
    assert Netdev("node1", "eth0") in {second.local, second.remote}


def test_containerlab():
    first, second = parse_containerlab(LAB, "lab.clab.yml")
    assert (first.local, first.remote) == (LEAF, Netdev("node1", "eth1"))
    assert second.remote == Netdev("node1", "eth2")


def test_config_db():
    row = {"name": "spine1", "port": "Ethernet1/1"}
    metadata = {"localhost": {"hostname": "leaf1"}}
    text = json.dumps({"DEVICE_METADATA": metadata, "DEVICE_NEIGHBOR": {"Ethernet0": row}})
    (only,) = parse_config_db_links(text, "config_db.json")
    assert (only.local, only.remote) == (LEAF, Interface(Switch("spine1"), "Ethernet1/1"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "topology: {nodes: {a: {}}, links: [{endpoints: ['a:x', 'b:y']}]}",
            r"links\[0\]: no node 'b'",
        ),
        ("topology: {nodes: {}, links: [{endpoints: ['a:x']}]}", r"links\[0\]: needs two"),
        ("x: 1", "needs topology"),
        ("topology: {links: 5}", "needs topology"),
        ("topology:\n  nodes: [", r"lab\.yml:2: containerlab: expected"),
    ],
)
def test_a_broken_lab_names_the_link(text, why):
    with pytest.raises(Malformed, match=why):
        parse_containerlab(text, "lab.yml")


def test_entities_are_refused():
    with pytest.raises(Malformed, match="document type"):
        parse_minigraph('<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', "m.xml")


@given(st.text(max_size=80), st.sampled_from([parse_minigraph, parse_containerlab]))
def test_any_text_is_read_or_refused(text, parse):
    try:
        parse(text, "file")
    except FabricError:
        pass

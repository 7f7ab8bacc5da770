"""Topology files: their forms, and how their claims join what the ends see."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from collectors.model.entities import Interface, Switch
from collectors.model.errors import FabricError, Malformed
from collectors.model.facts import Neighbour
from tests.tuner.diagnosis.audit_fabric import Clos, interface
from tests.tuner.recorded import record
from tuner.cli.main import app
from tuner.fabric.cables import claims, parse_cables, read_cables
from tuner.fabric.graph import build_fabric

PAIR = [(("leaf1", "Ethernet1"), ("h1", "eth0"))]
MINIGRAPH = """<DeviceMiniGraph><PngDec><DeviceInterfaceLinks><DeviceLinkBase>
<StartDevice>leaf1</StartDevice><StartPort>Ethernet1</StartPort>
<EndDevice>h1</EndDevice><EndPort>eth0</EndPort>
</DeviceLinkBase></DeviceInterfaceLinks></PngDec></DeviceMiniGraph>"""
CONFIG_DB = json.dumps(
    {
        "DEVICE_METADATA": {"localhost": {"hostname": "leaf1"}},
        "DEVICE_NEIGHBOR": {"Ethernet1": {"name": "h1", "port": "eth0"}},
    }
)
CONTAINERLAB = """name: lab
topology:
  nodes: {leaf1: {kind: arista_ceos}, h1: {kind: linux}}
  links: [{endpoints: ["leaf1:Ethernet1", "h1:eth0"]}]
"""


@pytest.mark.parametrize(
    "text",
    [
        "leaf1 Ethernet1 h1 eth0\n",
        "# plan\nleaf1, Ethernet1, h1, eth0   # rack 7\n\n",
        "leaf1 Ethernet1 -- h1 eth0",
        "leaf1 Ethernet1 <-> h1 eth0",
        'graph dc {\n "leaf1":"Ethernet1" -- "h1":"eth0"\n}',
        '{"links": [{"a": "leaf1 Ethernet1", "b": "h1 eth0", "seen_by": ""}]}',
        "schema: fabric-tuner/topology/1\nlinks:\n- a: leaf1 Ethernet1\n  b: h1 eth0\n",
        MINIGRAPH,
        CONFIG_DB,
        CONTAINERLAB,
    ],
)
def test_forms_of_files(text):
    assert parse_cables(text) == PAIR


@pytest.mark.parametrize(
    "text",
    [
        "leaf1 Ethernet1 h1",
        '{"links": 3}',
        '{"links": [{"a": "x"}]}',
        "{",
        "links: [\n",
        '{"links": [7]}',
    ],
)
def test_what_is_no_list_of_cables_is_refused(text):
    with pytest.raises(Malformed):
        parse_cables(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(FabricError, match="gone"):
        read_cables(tmp_path / "gone")


def test_a_listed_cable_fills_a_hole():
    made = Clos()
    near, far = made.netdev(3), made.leaf_port(3)
    made.telemetry.cables = [c for c in made.telemetry.cables if near not in (c.local, c.remote)]
    assert made.fabric.peer(near) is None
    listed = claims([(("h3", "eth0"), ("leaf00", "h3"))], made.telemetry.known_entities())
    assert build_fabric(made.telemetry, listed).peer(near) == far


def test_a_listed_cable_that_an_end_contradicts_is_a_conflict():
    made = Clos()
    listed = claims([(("h3", "eth0"), ("leaf00", "h2"))], made.telemetry.known_entities())
    fabric = build_fabric(made.telemetry, listed)
    assert made.netdev(3) in {conflict.wire for conflict in fabric.conflicts}
    assert fabric.peer(made.netdev(3)) is None


def test_ends_that_nobody_knows_keep_the_names_of_the_file():
    [claim] = claims([(("leaf9", "E1"), ("leaf8", "E2"))], [])
    assert claim == Neighbour(
        interface("leaf9", "E1"), Interface(Switch("leaf8"), "E2"), "topology file"
    )


def test_what_topology_writes_it_reads(tmp_path):
    folder = record(tmp_path / "r", {})
    run = CliRunner().invoke
    written = run(app, ["topology", "--source", f"dir={folder}", "--format", "json"]).output
    file = tmp_path / "plan.json"
    file.write_text(written)
    args = ["topology", "--source", f"dir={folder}", "--cables", str(file), "--format", "json"]
    again = json.loads(run(app, args).output)
    assert again["conflicts"] == []
    links = {(row["a"], row["b"]) for row in again["links"]}
    assert links == {(row["a"], row["b"]) for row in json.loads(written)["links"]}
    assert all("topology file" in row["seen_by"] for row in again["links"])


@given(st.text(max_size=80))
def test_any_text_is_cables_or_one_typed_error(text):
    try:
        found = parse_cables(text)
    except Malformed:
        return
    assert all(len(end) == 2 for pair in found for end in pair)

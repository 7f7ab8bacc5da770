"""tuner ib on a recording: tables, JSON, exit codes, opensm.conf."""

import json

import pytest
from typer.testing import CliRunner

from collectors.wire.segment import SegmentWriter
from simlab.ib.fabrics import fat_tree
from simlab.ib.faults import Flow, settle, steps
from simlab.ib.script import Step
from tests.tuner.diagnosis.ib_fabric import end, prepared, swept_items
from tuner.cli.main import app

RATE = 200e9


def record(folder, planted):
    folder.mkdir()
    topology = prepared(fat_tree(4))
    writer = SegmentWriter(folder / "000001.ftseg")
    for item in swept_items(topology, planted(topology)):
        writer.append(item)
    writer.close()
    return f"dir={folder}"


def slow(topology):
    target = end(topology, "H5")
    flows = [Flow(end(topology, f"H{i}"), target, 0.2 * RATE) for i in (0, 8, 12)]
    return steps(topology, settle(topology, flows, drains={target: 0.1 * RATE}))


def dropping(topology):
    leaf = topology.find("Leaf0-0")
    return [Step(0, "rate", leaf.name, 1, values=(("PortSwHOQLifetimeLimitDiscards", 2.0),))]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    base = tmp_path_factory.mktemp("ib")
    return {
        "slow": record(base / "slow", slow),
        "dropping": record(base / "dropping", dropping),
        "quiet": record(base / "quiet", lambda _: []),
    }


def run(*args):
    return CliRunner().invoke(app, ["ib", *args])


def test_congestion_as_json(sources):
    shown = run("congestion", "--source", sources["slow"], "--format", "json")
    assert shown.exit_code == 3
    document = json.loads(shown.stdout)
    [root] = document["roots"]
    assert root["kind"] == "slow_receiver"
    assert root["root"].startswith("H5 ")
    assert root["load"] == pytest.approx(0.1, abs=0.01)
    assert {v["port"].split()[0] for v in root["victims"]} >= {"H0", "H8", "H12"}
    assert [f["rule"] for f in document["findings"] if not f["explained_by"]] == [
        "ib-slow-receiver"
    ]
    assert document["recommendations"][0]["knob"] == "ib_host_receive_path"


def test_congestion_for_people(sources):
    shown = run("congestion", "--source", sources["slow"])
    assert "Roots of congestion" in shown.stdout
    assert max(len(line) for line in shown.stdout.splitlines()) <= 100
    calm = run("congestion", "--source", sources["quiet"])
    assert calm.exit_code == 0
    assert "nobody waits" in calm.stdout


def test_opensm_fragment_and_diff(sources, tmp_path):
    shown = run("opensm", "--source", sources["dropping"])
    assert shown.exit_code == 3
    assert "leaf_head_of_queue_lifetime 0x14" in shown.stdout.splitlines()
    conf = tmp_path / "opensm.conf"
    conf.write_text("# mine\nleaf_head_of_queue_lifetime 0x10\nsm_priority 3\n")
    diff = run("opensm", "--source", sources["dropping"], "--current", str(conf)).stdout
    assert "-leaf_head_of_queue_lifetime 0x10" in diff
    assert "+leaf_head_of_queue_lifetime 0x14" in diff
    assert " sm_priority 3" in diff
    assert conf.read_text().startswith("# mine\nleaf_head_of_queue_lifetime 0x10")  # untouched
    assert run("opensm", "--source", sources["quiet"]).exit_code == 0


def test_errors_are_one_line(tmp_path):
    shown = run("opensm", "--source", f"dir={tmp_path / 'none'}")
    assert shown.exit_code in (1, 2)
    assert shown.stderr.count("\n") == 1

"""`fabric-agent capture` on written files."""

import json

from typer.testing import CliRunner

from agent.commands import app
from simlab.switches.roce_pcap import write_large


def test_flows_of_a_file(tmp_path):
    file = tmp_path / "x.pcap"
    write_large(file, 640, flows=4)
    result = CliRunner().invoke(app, ["capture", str(file), "--format", "json"])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["frames"], found["roce_packets"], len(found["flows"])) == (640, 640, 4)
    assert sum(flow["ce"] for flow in found["flows"]) == 80
    table = CliRunner().invoke(app, ["capture", str(file)])
    assert "640 RoCEv2 packets, 4 flows" in table.stdout
    assert max(map(len, table.stdout.splitlines())) <= 100


def test_a_file_without_roce_or_no_file(tmp_path):
    empty = tmp_path / "empty.pcap"
    write_large(empty, 0)
    assert CliRunner().invoke(app, ["capture", str(empty)]).exit_code == 1
    result = CliRunner().invoke(app, ["capture", str(tmp_path / "gone")])
    assert result.exit_code == 1
    assert "No such file" in result.output

"""What earlier runs and sweeps left in a folder, and what is told when it takes nothing."""

import errno
import json

import pytest

from simlab.packet import output
from simlab.packet.hpcc_files import format_flows, format_topology
from simlab.packet.sweep import grid, sweep
from simlab.packet.topology import star
from simlab.packet.workloads import incast
from tests.simlab.packet.test_cli import call, write


def test_a_run_replaces_the_files_of_the_one_before_and_no_others(tmp_path):
    out = tmp_path / "out"
    assert call("packet", "run", write(tmp_path), "--out", out, "--plot").exit_code == 0
    (out / "notes.txt").write_text("mine")
    path = write(tmp_path, watch=None)
    assert call("packet", "run", path, "--out", out, "--tables", "parquet").exit_code == 0
    tables = {f"{name}.parquet" for name in ("flows", "qps", "ports", "queues")}
    assert {one.name for one in out.iterdir()} == tables | {"summary.json", "notes.txt"}


def test_a_run_that_cannot_start_leaves_the_results_of_the_one_before(tmp_path):
    out = tmp_path / "out"
    assert call("packet", "run", write(tmp_path), "--out", out).exit_code == 0
    before = {one.name: one.read_bytes() for one in out.iterdir()}
    path = write(tmp_path, workload={"kind": "incast", "receiver": 77, "size_bytes": 1})
    assert call("packet", "run", path, "--out", out).exit_code == 1
    assert {one.name: one.read_bytes() for one in out.iterdir()} == before


@pytest.mark.parametrize("options", [(), ("--plot",)])
def test_what_cannot_be_written_is_told_all_the_same(tmp_path, monkeypatch, options):
    def full(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    if options:
        monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    else:
        monkeypatch.setattr(output, "_write_csv", full)
    words = ("--out", tmp_path / "out", "--format", "json", *options)
    done = call("packet", "run", write(tmp_path), *words)
    assert done.exit_code == 1
    assert json.loads(done.stdout)["messages_done"] == 4
    assert done.stderr.count("\n") == 1
    assert "No space left" in done.stderr


def test_a_broken_result_of_a_sweep_is_made_again(tmp_path):
    path, out = write(tmp_path, watch=None), tmp_path / "sweep"
    points = grid({"seed": [1, 2]})
    first = sweep(path, points, out)
    broken, other = sorted(out.glob("*.json"))
    kept = other.stat().st_mtime_ns
    for text in ("", '{"changes": {', "[]", "{}"):
        broken.write_text(text)
        again = sweep(path, points, out)
        assert [one["changes"] for one in again] == [one["changes"] for one in first]
        assert "result" in json.loads(broken.read_text())
    assert other.stat().st_mtime_ns == kept


def test_a_sweep_knows_when_a_file_that_it_reads_has_changed(tmp_path):
    (tmp_path / "star.topology").write_text(format_topology(star(3)))
    flows = tmp_path / "some.flows"
    flows.write_text(format_flows(incast([0, 1], 2, 20_000)))
    path = write(
        tmp_path, watch=None, model={}, topology={"kind": "file", "path": "star.topology"},
        workload={"kind": "file", "path": "some.flows"},
    )  # fmt: skip
    points, out = grid({"seed": [1]}), tmp_path / "sweep"
    assert sweep(path, points, out)[0]["result"]["messages"] == 2
    flows.write_text(format_flows(incast([0], 2, 20_000)))
    assert sweep(path, points, out)[0]["result"]["messages"] == 1


def test_an_axis_given_twice_and_a_pace_that_is_no_number_are_refused(tmp_path):
    words = ("--axis", "seed=1", "--axis", "seed=2", "--out", tmp_path / "out")
    done = call("packet", "sweep", write(tmp_path), *words)
    assert done.exit_code == 1
    assert "seed: given twice" in done.stderr
    words = ("--record", tmp_path / "rec", "--pace", "nan")
    done = call("fabric", "run", write(tmp_path), *words)
    assert done.exit_code == 1
    assert "--pace" in done.stderr
    assert not (tmp_path / "rec").exists()

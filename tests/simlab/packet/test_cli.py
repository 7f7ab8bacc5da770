"""The commands as a user types them: files, tables, exit codes, errors that name the place."""

import csv
import json
import re
from dataclasses import replace

import pytest
import yaml
from typer.testing import CliRunner

from collectors.model.dcqcn import NVIDIA_FIRMWARE
from collectors.model.errors import ConfigInvalid
from simlab.cli import app
from simlab.packet.config import load_config, plan_of
from simlab.packet.interventions import Schedule
from simlab.packet.parameters import Form, Model, Spread
from simlab.packet.simulation import Simulation
from simlab.packet.sweep import Point, grid, run_point, sweep

BASIC = {
    "name": "small",
    "duration_s": 0.001,
    "topology": {"kind": "star", "hosts": 5},
    "workload": {"kind": "incast", "receiver": 4, "size_bytes": 200_000},
    "model": {"transport": {"payload_bytes": 1000}, "switch": {"buffer_bytes": 8_000_000}},
    "watch": {},
}


def write(tmp_path, **changes):
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({**BASIC, **changes}))
    return path


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_run_writes_tables_and_plots_and_prints_json(tmp_path):
    out = tmp_path / "out"
    done = call("packet", "run", write(tmp_path), "--out", out, "--plot", "--format", "json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["messages_done"] == told["messages"] == 4
    assert json.loads((out / "summary.json").read_text())["fct_s"]["max"] == told["fct_s"]["max"]
    with (out / "flows.csv").open() as stream:
        flows = list(csv.DictReader(stream))
    assert [row["src"] for row in flows] == ["0", "1", "2", "3"]
    assert float(flows[0]["fct_s"]) > 4 * 200_000 * 8 / 100e9 / 4
    assert (out / "queues.svg").read_text().startswith("<?xml")
    assert {path.name for path in out.glob("*.svg")} >= {"utilisation.svg", "slowdown.svg"}


def test_a_seed_of_the_command_line_draws_the_workload_too(tmp_path):
    path = write(tmp_path, workload={"kind": "poisson", "load": 0.3, "duration_s": 3e-4})
    told = [
        json.loads(call("packet", "run", path, "--seed", seed, "--format", "json").stdout)
        for seed in (1, 1, 2)
    ]
    assert told[0]["messages"] == told[1]["messages"] != told[2]["messages"]
    wrong = call("packet", "run", path, "--seed", 2**64)
    assert wrong.exit_code == 1
    assert "seed" in wrong.stderr


def test_parquet_holds_the_same_columns(tmp_path):
    from pyarrow import parquet

    out = tmp_path / "out"
    done = call("packet", "run", write(tmp_path), "--out", out, "--tables", "parquet")
    assert done.exit_code == 0, done.output
    assert "messages_done" in done.stdout
    table = parquet.read_table(out / "queues.parquet")
    assert max(table["max_bytes"].to_pylist()) > 100_000
    assert max(len(line) for line in done.stdout.splitlines()) <= 100


def test_unfinished_messages_give_exit_code_3(tmp_path):
    path = write(tmp_path, duration_s=20e-6)
    assert call("packet", "run", path).exit_code == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"topolgy": {}}, ["topolgy"]),
        ({"model": {"switch": {"bufer_bytes": 3}}}, ["model.switch", "bufer_bytes", "unknown key"]),
        ({"model": {"congestion": {"form": "swift"}}}, ["model.congestion.form", "swift"]),
        ({"model": {"congestion": {"profile": "nobody"}}}, ["profile", "nobody"]),
        ({"workload": {"kind": "incast", "receiver": 9, "size_bytes": 1}}, ["node 9"]),
        ({"events": [{"at_s": 0, "what": "link_down", "cabel": 1}]}, ["events[0]", "cabel"]),
        ({"events": [{"at_s": 0, "what": "link_down", "cable": 77}]}, ["no cable 77"]),
        ({"topology": {"kind": "file", "path": "nowhere.txt"}}, ["nowhere.txt"]),
        ({"topology": {"kind": "torus", "hosts": 2}}, ["topology.kind", "torus", "known: star"]),
        ({"topology": {"kind": "star", "hosts": 5, "rate_bps": 0}}, ["cable 0", "rate_bps", "0"]),
        ({"topology": {"kind": "star", "hosts": 5, "delay_s": -1}}, ["cable 0", "delay_s", "-1"]),
        ({"topology": {"kind": "fat_tree", "ports": 3}}, ["even number of ports"]),
        ({"duration_s": "10us"}, ["duration_s", "plain number", "unit"]),
        ({"duration_s": 0}, ["duration_s", "above 0"]),
        ({"duration_s": 99}, ["duration_s", "17"]),
        ({"telemetry": {"interval_s": 0}}, ["telemetry.interval_s"]),
        ({"model": {"switch": {"buffer_bytes": -4}}}, ["model.switch", "buffer_bytes", "-4"]),
        ({"model": {"transport": {"payload_bytes": 0}}}, ["payload_bytes", "1 to 65535"]),
        ({"model": {"transport": {"payload_bytes": 65500}}}, ["payload_bytes and header_bytes"]),
        ({"model": {"switch": {"lossless": [3, 9]}}}, ["lossless[1]", "0 to 7"]),
        ({"model": {"switch": {"weights": {"9": 1}}}}, ["priority of weights", "9"]),
        ({"model": {"switch": {"weights": {"3": 0}}}}, ["weights[3]", "0", "1 to 4096"]),
        ({"model": {"congestion": {"registers": {"rpg_gd": 99}}}}, ["rpg_gd = 99", "10..11"]),
        ({"model": {"congestion": {"registers": {"rpg_xx": 1}}}}, ["registers", "rpg_xx"]),
        (
            {"model": {"congestion": {"registers": {}, "profile": "hpcc"}}},
            ["both profile and registers"],
        ),
        ({"watch": {"queues": [[99, 3]]}}, ["watch", "queue [99, 3]", "0..9"]),
        ({"watch": {"period_s": 0}}, ["watch", "period"]),
        ({"seed": -1}, ["seed", "-1 is not in 0..2**64-1"]),
        ({"watch": {"period_s": 1e-12}}, ["watch", "period", "at least"]),
        ({"watch": {"period_s": float("nan")}}, ["watch", "period", "nan"]),
        ({"telemetry": {"interval_s": 1e-15}}, ["telemetry.interval_s", "1e-15 s is not"]),
        ({"telemetry": {"interval_s": float("nan")}}, ["telemetry.interval_s", "nan s is not"]),
        ({"telemetry": {"switch_refresh_s": -1}}, ["telemetry.switch_refresh_s", "-1 s is not"]),
        ({"topology": {"kind": "fat_tree", "ports": 2000}}, ["topology: size", "cables"]),
        ({"model": {"nics": {77: {"pfc": False}}}}, ["nics[77]", "it has 0..4"]),
        ({"workload": {"kind": "permutation", "size_bytes": 9, "qps": 0}}, ["qps", "at least 1"]),
        ({"workload": {"kind": "incast", "receiver": 4, "size_bytes": 0}}, ["size", "at least 1"]),
        ({"events": [{"at_s": -1, "what": "link_up", "cable": 1}]}, ["at_s -1"]),
        ({"events": [{"at_s": 0, "what": "rate", "cable": 1}]}, ["rate", "0 bit/s is not 100000"]),
        (
            {"events": [{"at_s": 0, "what": "error_rate", "cable": 1, "value": 2}]},
            ["error_rate", "2 is not a probability"],
        ),
    ],
)
def test_a_wrong_configuration_is_one_line_that_names_the_place(tmp_path, changes, words):
    done = call("packet", "run", write(tmp_path, **changes))
    assert done.exit_code == 1
    assert done.stderr.startswith("simlab: ")
    assert done.stderr.count("\n") == 1
    assert "run.yaml" in done.stderr
    for word in words:
        assert word in done.stderr


def test_results_never_land_among_other_files_and_are_refused_before_the_run(tmp_path):
    path = write(tmp_path)
    out = tmp_path / "out"
    for _ in range(2):  # a second run takes the place of the first
        assert call("packet", "run", path, "--out", out).exit_code == 0
    assert json.loads((out / "summary.json").read_text())["messages_done"] == 4
    with_others = tmp_path / "mine"
    with_others.mkdir()
    (with_others / "thesis.tex").write_text("x")
    for options, word in (
        (("--out", with_others), "not empty"),
        (("--out", path / "below"), "write"),
        (("--out", out, "--tables", "xls"), "xls"),
        (("--plot-format", "gif"), "gif"),
        (("--format", "xml"), "xml"),
    ):
        done = call("packet", "run", path, *options)
        assert done.exit_code == 1
        assert word in done.stderr
    assert [one.name for one in with_others.iterdir()] == ["thesis.tex"]


def test_ctrl_c_gives_what_there_is(tmp_path, monkeypatch):
    steps = []

    def interrupt(*_arguments, **_options):
        steps.append(1)
        if len(steps) == 600:
            raise KeyboardInterrupt
        return step(*_arguments, **_options)

    step = Schedule.run
    monkeypatch.setattr(Schedule, "run", interrupt)
    out = tmp_path / "out"
    done = call("packet", "run", write(tmp_path, stop_when_done=False), "--out", out)
    assert done.exit_code == 3
    assert "interrupted" in done.stdout
    told = json.loads((out / "summary.json").read_text())
    likely = 2 * 4 * 200_000 * 8 / 100e9  # 400 steps until then, 400 to the end
    assert told["simulated_s"] == pytest.approx(likely + 199 / 400 * (BASIC["duration_s"] - likely))
    assert told["messages_done"] == 4


def test_registers_are_read_in_the_firmware_s_own_units(tmp_path):
    registers = {"rpg_time_reset": 150, "rpg_ai_rate": 50, "rpg_byte_reset": 0}
    congestion = {"registers": registers, "dcqcn": {"hai_bps": 1e9}}
    found = load_config(write(tmp_path, model={"congestion": congestion})).model.congestion.dcqcn
    assert (found.increase_timer_s, found.ai_bps) == (pytest.approx(150e-6), 50e6)
    assert (found.hai_bps, found.byte_counter_bytes) == (1e9, None)
    assert found.g == 5 / 1024  # the firmware's default, not the paper's


def test_the_file_reaches_the_model(tmp_path):
    model = {
        "congestion": {"profile": "hpcc", "form": "firmware", "dcqcn": {"ai_bps": 7e6}},
        "switch": {"lossless": [3, 4], "weights": {"3": 5}},
        "balancing": {
            "spread": "flowlet",
            "hash": {"algorithm": "crc", "fields": ["dst_qp"]},
            "weights": {"9": 2},  # of directed ports
        },
        "infiniband": {"credits_bytes": 9000},
    }
    events = [{"at_s": 1e-5, "what": "rate", "cable": 1, "value": 25e9}]
    plan = load_config(write(tmp_path, model=model, events=events))
    assert plan.model.congestion.form is Form.FIRMWARE
    assert plan.model.congestion.dcqcn.ai_bps == 7e6
    assert plan.model.congestion.dcqcn.g == 1 / 256
    assert plan.model.balancing.spread is Spread.FLOWLET
    assert plan.model.switch.lossless == (3, 4)
    assert plan.model.switch.weights == {3: 5}
    assert plan.model.infiniband.credits_bytes == 9000
    assert plan.events[0].value == 25e9
    assert call("packet", "run", tmp_path / "run.yaml").exit_code == 0


@pytest.mark.parametrize(
    "workload",
    [
        {"kind": "incast", "receiver": 4, "size_bytes": 9},
        {"kind": "permutation", "size_bytes": 9},
        {"kind": "poisson", "load": 0.3, "duration_s": 1e-4},
        {"kind": "collective", "operation": "tree_all_reduce", "size_bytes": 9000},
    ],
)
def test_every_workload_may_go_on_another_priority_and_from_chosen_ports(tmp_path, workload):
    plain = load_config(write(tmp_path, workload=workload)).traffic.connections
    assert {one.priority for one in plain} == {3}
    chosen = {**workload, "priority": 1, "sports": [77, 78]}
    moved = load_config(write(tmp_path, workload=chosen)).traffic.connections
    assert {one.priority for one in moved} == {1}
    assert {one.sport for one in moved} <= {77, 78}
    assert [(one.src, one.dst) for one in moved] == [(one.src, one.dst) for one in plain]


def test_a_place_differs_from_the_others_only_where_the_file_says_so(tmp_path):
    model = {
        "congestion": {"profile": "hpcc"},
        "switch": {"buffer_bytes": 9_000_000, "lossless": [4]},
        "switches": {"5": {"alpha": 0.5}},
        "ports": {1: {"xoff_bytes": 70_000}},
        "nics": {"0": {"congestion": {"form": "paper"}, "pfc": False}},
        "balancing": {"hash": {"algorithm": "crc"}, "tiers": {"1": {"seed": 7}}},
    }
    made = load_config(write(tmp_path, model=model)).model
    assert made.switches[5] == replace(made.switch, alpha=0.5)
    assert made.ports[1] == replace(made.switch, xoff_bytes=70_000)
    assert made.switch.buffer_bytes == 9_000_000
    assert made.nics[0].congestion == replace(made.congestion, form=Form.PAPER)
    assert made.congestion.dcqcn.ai_bps == 20e6
    assert made.balancing.tiers[1] == replace(made.balancing.hash, seed=7)
    for wrong, words in (
        ({"switches": {"5": {"alfa": 1}}}, "model.switches[5]: alfa: unknown key"),
        ({"switches": {"leaf": {}}}, "model.switches"),
        ({"nics": [1]}, "model.nics"),
    ):
        with pytest.raises(ConfigInvalid, match=re.escape(words)):
            load_config(write(tmp_path, model=wrong))


def test_the_settings_printed_are_those_that_a_configuration_takes(tmp_path):
    done = call("packet", "settings")
    assert done.exit_code == 0
    sections = dict(part.split("\n", 1) for part in done.stdout.removeprefix("# ").split("\n# "))
    model = yaml.safe_load(next(text for name, text in sections.items() if name[:6] == "model;"))
    plan = load_config(write(tmp_path, model=model))
    read, default = (Simulation(plan.topology, one, plan.traffic) for one in (plan.model, Model()))
    assert (read.s == default.s).all()
    assert (read.f == default.f).all()
    registers = next(text for name, text in sections.items() if "registers" in name)
    changes = {"model": {"congestion": {"registers": yaml.safe_load(registers)}}}
    assert load_config(write(tmp_path, **changes)).model.congestion.dcqcn == NVIDIA_FIRMWARE
    assert {"topology of kind star", "workload of kind collective"} <= set(sections)


@pytest.mark.parametrize(
    "topology",
    [
        {"kind": "leaf_spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 2},
        {"kind": "fat_tree", "ports": 4},
        {"kind": "rail_optimised", "hosts": 2, "rails": 2, "spines": 1},
    ],
)
@pytest.mark.parametrize(
    "workload",
    [
        {"kind": "permutation", "size_bytes": 3000, "qps": 2},
        {"kind": "poisson", "load": 0.3, "duration_s": 2e-6, "sizes": [[1000, 0.5], [9000, 1]]},
        {"kind": "collective", "operation": "all_gather", "size_bytes": 8000},
    ],
)
def test_every_topology_carries_every_workload(tmp_path, topology, workload):
    done = call("packet", "run", write(tmp_path, topology=topology, workload=workload, watch=None),
                "--format", "json")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["messages_done"] >= 0


def test_a_sweep_resumes_and_shows_its_grid(tmp_path):
    path = write(tmp_path, watch=None)
    axes = "model.switch.buffer_bytes=300000,8000000"
    out = tmp_path / "sweep"
    first = call("packet", "sweep", path, "--axis", axes, "--out", out, "--workers", 1, "--quiet")
    assert first.exit_code == 0, first.output
    assert "8000000" in first.stdout
    files = {p: p.stat().st_mtime_ns for p in out.glob("*.json")}
    assert len(files) == 2
    points = grid({"model.switch.buffer_bytes": [300000, 8000000], "seed": [1]})
    assert len(points) == 2
    again = sweep(path, grid({"model.switch.buffer_bytes": [300000, 8000000]}), out)
    assert files == {p: p.stat().st_mtime_ns for p in out.glob("*.json")}
    assert again[0]["result"]["pause_frames"] > again[1]["result"]["pause_frames"]
    assert "error" in run_point(str(path), {"model.switch.bufer": 1})
    write(tmp_path, watch=None, seed=2)
    sweep(path, grid({"model.switch.buffer_bytes": [300000]}), out)
    assert len(list(out.glob("*.json"))) == 3  # of another file: not the old result again


def test_a_sweep_keeps_no_errors_and_says_which_point_failed(tmp_path):
    path = write(tmp_path, watch=None)
    out = tmp_path / "sweep"
    axis = "model.switch.lossless=[3],[3, 9]"
    done = call("packet", "sweep", path, "--axis", axis, "--out", out, "--workers", 1, "--quiet")
    assert done.exit_code == 1
    assert "lossless=[3, 9]: " in done.stderr
    assert "lossless[1]" in done.stderr
    assert len(list(out.glob("*.json"))) == 1
    for options, word in (
        (("--engine", "slurm"), "slurm"), (("--workers", 0), "workers"),
    ):  # fmt: skip
        done = call("packet", "sweep", path, "--axis", "seed=1", "--out", out, *options)
        assert done.exit_code == 1
        assert word in done.stderr
    done = call("packet", "sweep", path, "--axis", "seed=1", "--out", path / "below")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)


def test_a_sweep_runs_on_a_ray_cluster_of_two_workers(tmp_path):
    ray = pytest.importorskip("ray", reason="needs the extra [ray]")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        points = [Point((("seed", seed),)) for seed in (1, 2, 3)]
        results = sweep(write(tmp_path, watch=None), points, tmp_path / "out", engine="ray")
        wrong = [Point((("seed", "x"),))]
        assert (
            "seed"
            in sweep(tmp_path / "run.yaml", wrong, tmp_path / "out", engine="ray")[0]["error"]
        )
        assert [one["changes"]["seed"] for one in results] == [1, 2, 3]
        assert all(one["result"]["messages_done"] == 4 for one in results)
    finally:
        ray.shutdown()


def test_an_unknown_engine_or_axis_is_refused(tmp_path):
    with pytest.raises(ConfigInvalid, match="engine"):
        sweep(write(tmp_path), grid({"seed": [1]}), tmp_path / "o", engine="slurm")
    done = call("packet", "sweep", write(tmp_path), "--axis", "seed", "--out", tmp_path / "o")
    assert done.exit_code == 1
    with pytest.raises(ConfigInvalid):
        plan_of({"duration_s": 1}, "x", tmp_path)


def test_fabric_needs_one_destination(tmp_path):
    assert call("fabric", "run", write(tmp_path)).exit_code == 1
    done = call("fabric", "run", write(tmp_path), "--record", tmp_path / "rec")
    assert done.exit_code == 0, done.output
    assert list((tmp_path / "rec").iterdir())
    for options in (("--record", tmp_path / "rec"), ("--stream", "127.0.0.1:1"), ("--pace", -1)):
        done = call("fabric", "run", write(tmp_path), *options)
        assert done.exit_code == 1
        assert done.stderr.startswith("simlab: ")
        assert done.stderr.count("\n") == 1


def test_fabric_reports_to_the_end_of_a_run_shorter_than_its_interval(tmp_path):
    path = write(tmp_path, telemetry={"interval_s": 0.01})
    done = call("fabric", "run", path, "--record", tmp_path / "rec", "--format", "json")
    told = json.loads(done.stdout)
    assert (told["passes"], told["simulated_s"]) == (2, BASIC["duration_s"])
    assert told["messages_done"] == 1

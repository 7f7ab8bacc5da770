"""`tuner model …`: answers, JSON, plots, exit codes, and one clear line for a wrong input."""

import json

import pytest
from typer.testing import CliRunner

from tuner.cli.main import app


def run(*args):
    return CliRunner().invoke(app, ["model", *args])


def rows(*args):
    shown = run(*args, "--format", "json")
    return json.loads(shown.stdout)["rows"]


COMMANDS = {
    "fixed-point": ["--flows", "2,10"],
    "stability": ["--flows", "2"],
    "recovery": [],
    "headroom": ["--buffer", "64MB", "--ports", "32"],
    "ecmp": ["--next-tier", "16"],
    "allreduce": ["--seeds", "3", "--qps", "1,4"],
    "qp": ["--cache", "4096"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_tables_fit_and_json_has_the_same_rows(command):
    shown = run(command, *COMMANDS[command])
    assert shown.exit_code in (0, 3)
    assert max(len(line) for line in shown.output.splitlines()) <= 100
    document = json.loads(run(command, *COMMANDS[command], "--format", "json").stdout)
    table = [line for line in shown.output.splitlines() if line.startswith("│")]
    assert len(document["rows"]) == len(table)


@pytest.mark.parametrize("command", ["fixed-point", "stability", "headroom", "ecmp", "allreduce"])
def test_plots_are_drawn(command, tmp_path):
    for name, first in (("a.svg", b"<?xml"), ("a.png", b"\x89PNG")):
        path = tmp_path / name
        assert run(command, *COMMANDS[command], "--plot", str(path)).exit_code in (0, 3)
        assert path.read_bytes().startswith(first)
    wrong = run(command, *COMMANDS[command], "--plot", "a.gif")
    assert (wrong.exit_code, "must end in .svg or .png" in wrong.stderr) == (2, True)


def test_fixed_point_of_the_paper_and_saturation():
    paper = ["--link", "40G", "--kmin", "5KB", "--kmax", "200KB", "--pmax", "0.01"]
    got = run("fixed-point", *paper, "--flows", "2,10", "--format", "json")
    assert got.exit_code == 0
    document = json.loads(got.stdout)
    assert document["most_flows"] == 14
    assert document["rows"][0]["queue_bytes"] == pytest.approx(20151, rel=1e-3)
    assert run("fixed-point", *paper, "--flows", "64").exit_code == 3


def test_stability_says_when_it_swings():
    paper = ["--link", "40G", "--kmin", "5KB", "--kmax", "2000KB", "--pmax", "0.1"]
    calm = run("stability", *paper, "--flows", "2,64", "--delay", "85us")
    assert calm.exit_code == 0
    [row] = rows("stability", *paper, "--flows", "10", "--delay", "85us", "--simulate", "0.2s")
    assert row["phase_margin_deg"] < 0
    assert row["critical_delay_us"] == pytest.approx(63, abs=1)
    assert row["std_queue_kb"] > 0.3 * row["mean_queue_kb"]


def test_recovery_and_changed_parameters():
    slow = rows("recovery")
    assert slow[0]["additive_ms"] == pytest.approx(11760, rel=0.01)
    fast = rows("recovery", "--set", "ai_bps=50e6", "--set", "hai_bps=500e6")
    assert fast[0]["hyper_ms"] < slow[0]["hyper_ms"] / 9
    assert run("recovery").exit_code == 3
    off = rows("recovery", "--set", "byte_counter_bytes=off")
    assert off[0]["byte_counter_ms"] == pytest.approx(off[0]["hyper_ms"])


def test_headroom_and_order():
    by_name = {row["what"]: row["bytes"] for row in rows("headroom", "--link", "100G",
               "--asic", "spectrum1", "--cable", "300")}  # fmt: skip
    assert by_name["xoff, 300 m"] == 144384
    assert by_name["802.1Qbb components, 300 m"] > 80e3
    small = ["headroom", "--buffer", "24MB", "--ports", "32", "--lossless", "1"]
    unsafe = run(*small, "--senders", "1", "--kmin", "4MB", "--kmax", "6MB")
    assert unsafe.exit_code == 3
    assert "PFC pauses before ECN marks" in unsafe.output


def test_polarisation_is_an_exit_code():
    assert run("ecmp", "--uplinks", "16", "--next-tier", "16").exit_code == 3
    assert run("ecmp", "--uplinks", "16", "--next-tier", "9").exit_code == 0


def test_allreduce_options_reach_the_model():
    base = ["allreduce", "--seeds", "6", "--qps", "4"]
    hashed = rows(*base)[0]["slowest_p50"]
    assert hashed == pytest.approx(0.51, abs=0.08)
    assert rows(*base, "--uplinks", "32")[0]["slowest_p50"] > hashed
    assert rows(*base, "--uplink", "800G")[0]["slowest_p50"] > hashed
    assert rows(*base, "--mode", "split")[0]["slowest_p50"] < hashed
    assert rows(*base, "--paths", "sprayed")[0]["slowest_p50"] > 0.99
    assert rows(*base, "--order", "compact", "--paths", "pinned")[0]["slowest_p50"] == 1
    three = rows(*base, "--pods", "2", "--leaves", "4", "--cores", "2")[0]
    assert three["slowest_p50"] < hashed


def test_other_collectives_and_the_cost_of_a_job():
    base = ["allreduce", "--seeds", "4", "--qps", "8", "--collective"]
    by_name = {
        name: rows(*base, name)[0]
        for name in ("allreduce", "all_gather", "reduce_scatter", "tree", "all_to_all")
    }
    whole, half = by_name["allreduce"], by_name["all_gather"]
    assert half["time_ms"] == pytest.approx(whole["time_ms"] / 2)
    assert half == by_name["reduce_scatter"]
    assert half["bus_gbytes_s"] == pytest.approx(whole["bus_gbytes_s"])
    assert by_name["tree"]["slowest_p50"] <= 1
    assert by_name["all_to_all"]["slowest_p50"] > by_name["tree"]["slowest_p50"]
    job = rows(*base, "allreduce", "--compute", "10ms", "--overlap", "0", "--steps", "3600")[0]
    assert job["step_ms"] == pytest.approx(10 + job["time_ms"])
    assert job["gpu_hours"] == pytest.approx(128 * job["step_ms"] / 1e3)
    pinned = run(*base, "tree", "--paths", "pinned")
    assert (pinned.exit_code, "only rings are pinned" in pinned.stderr) == (2, True)


def test_cut_by_cut_marking_is_shown_where_it_holds():
    assert rows("fixed-point", "--flows", "8")[0]["marking_cut_by_cut"] > 0
    nvidia = rows("fixed-point", "--flows", "8", "--dcqcn", "nvidia_firmware")
    assert nvidia[0]["marking_cut_by_cut"] is None


def test_qp():
    by_name = {row["what"]: row["value"] for row in rows("qp", "--cache", "100")}
    assert by_name["QPs per connection for the evenness"] == 14
    assert by_name["they fit its context cache"] is False
    assert run("qp", "--cache", "100").exit_code == 3
    assert run("qp", "--evenness", "1.01").exit_code == 3


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["fixed-point", "--link", "fast"], "'fast' is not a value like 400G"),
        (["fixed-point", "--flows", "0"], "'0' is not a count"),
        (["fixed-point", "--kmin", "2MB"], "needs 0 <= Kmin <= Kmax"),
        (["fixed-point", "--dcqcn", "nonesuch"], "no DCQCN profile 'nonesuch'; known: paper"),
        (["fixed-point", "--set", "speed=1"], "not one of g, alpha_period_s"),
        (["fixed-point", "--set", "g=big"], "'big' is no number"),
        (["stability", "--kmax", "150KB"], "a step has no slope"),
        (["headroom", "--asic", "x"], "not one of spectrum1"),
        (["headroom", "--link", "1G"], "no pause response time for 1 Gb/s"),
        (["headroom", "--buffer", "1MB"], "takes the whole buffer"),
        (["allreduce", "--order", "odd"], "--order 'odd': not one of compact, random"),
        (["allreduce", "--leaves", "1", "--nodes-per-leaf", "1"], "two nodes or more"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(args, says):
    got = run(*args)
    assert got.exit_code == 2
    assert says in " ".join(got.stderr.replace("│", " ").split())

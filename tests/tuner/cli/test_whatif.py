"""`tuner whatif` on a recorded simulation: the change does what the simulator would show."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from collectors.model.entities import Host, Interface, Switch
from collectors.model.errors import ConfigInvalid
from simlab.packet.config import plan_of
from simlab.packet.fabric import run_fabric
from tuner.advice.twin.change import Assignment
from tuner.advice.twin.replay import replay
from tuner.cli.main import app
from tuner.cli.whatif import parse_assignment

SCENARIO = """
duration_s: 0.008
topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts_per_leaf: 4}
workload: {kind: incast, receiver: 7, size_bytes: 3000000}
model: {congestion: {profile: nvidia_firmware}, switch: {buffer_bytes: 4000000}}
telemetry: {interval_s: 0.0005, switch_refresh_s: 0.0005}
"""


def run(*args):
    return CliRunner().invoke(app, list(args))


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whatif") / "r"
    plan = plan_of(yaml.safe_load(SCENARIO), "scenario", Path())
    run_fabric(plan, record=folder, start_ns=1_800_000_000_000_000_000)
    return folder


def test_turning_on_marks_in_the_twin_does_what_it_does_in_the_scenario(recording):
    shown = run(
        "whatif", "--source", f"dir={recording}", "--format", "json",
        "--set", "ecn_enabled=on", "--set", "kmin_bytes=100KB", "--set", "kmax_bytes=400KB",
        "--set", "pmax_ratio=0.2",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    told = json.loads(shown.output)
    rows = {row["metric"]: row for row in told["measures"]}
    text = yaml.safe_load(SCENARIO)
    limits = {"kmin_bytes": 100e3, "kmax_bytes": 400e3, "pmax_ratio": 0.2}
    text["model"]["switch"]["ecn"] = [{"rate_bps": 100e9, "thresholds": limits}]
    truth = replay(plan_of(text, "scenario", Path()))
    assert rows["job time"]["after"] == pytest.approx(truth.job_s, rel=0.05)
    assert rows["marked packets"]["before"] == 0
    assert rows["marked packets"]["after"] == pytest.approx(truth.marked_ratio, abs=0.05)
    assert rows["paused time"]["after"] < rows["paused time"]["before"] / 3
    assert rows["job time"]["after_low"] <= rows["job time"]["after"]
    assert told["runs"] == 10
    assert told["twin"]["hosts"] == 8
    assert told["assumed"]


def test_what_the_twin_cannot_show_is_no_zero_percent(recording):
    alone = run("whatif", "--source", f"dir={recording}", "--set", "kmin_bytes=100KB")
    words = " ".join(alone.output.split())
    assert alone.exit_code == 0
    assert "cannot tell: kmax_bytes, pmax_ratio not known where it counts" in words
    assert "0.0%" not in words.partition("cannot tell")[2]
    told = json.loads(
        run(
            "whatif", "--source", f"dir={recording}", "--set", "pfc_watchdog_enabled=off",
            "--format", "json",
        ).output
    )  # fmt: skip
    assert "or it has it already" in told["cannot_tell"]
    assert told["job_time_ratio"] is None


def test_table_fits_and_names_the_change(recording):
    shown = run(
        "whatif", "--source", f"dir={recording}", "--set", "dcqcn_rp_enabled@host3=off",
        "--budget", "0.1",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    assert "at host3" in shown.output
    assert "counted" in shown.output
    assert max(len(line) for line in shown.output.splitlines()) <= 100


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kmin_bytes", "must be KNOB=VALUE"),
        ("no_such=1", "no such knob"),
        ("job_tclass=106", "does not show"),
        ("pmax_ratio=7", "outside"),
        ("kmin_bytes@leaf9=1KB", "no such place"),
        ("ecn_enabled=perhaps", "neither on nor off"),
        ("dcqcn_rp_enabled=maybe", "dcqcn_rp_enabled: 'maybe' is neither on, off nor in 0..7"),
        ("pfc_priorities@leaf0=3,99", "pfc_priorities: '99' is neither on, off nor in 0..7"),
        ("pfc_priorities=-1", "pfc_priorities: '-1' is neither on, off nor in 0..7"),
        ("buffer_alpha=-1", "buffer_alpha: -1 is out of range; 0.00390625..1024"),
        ("buffer_alpha=nan", "buffer_alpha: 'nan' is no number; 0.00390625..1024"),
        ("buffer_alpha=inf", "buffer_alpha: 'inf' is no number; 0.00390625..1024"),
        ("pmax_ratio=nan", "pmax_ratio: 'nan' is no number; 0.01..1"),
        ("kmin_bytes=-1", "kmin_bytes: '-1' is not a value like 150KB or 1MiB; 0..1e+09"),
        ("kmin_bytes@=400KB", "must be KNOB=VALUE or KNOB@PLACE=VALUE"),
    ],
)
def test_wrong_changes_are_named(recording, text, why):
    shown = run("whatif", "--source", f"dir={recording}", "--set", text)
    assert shown.exit_code == 2
    assert why in shown.output
    assert shown.output.count("\n") == 1


def test_values_and_places_are_read():
    port = Interface(Switch("02:00", "leaf0"), "Ethernet4")

    def read(text: str) -> Assignment:
        return parse_assignment(text, lambda: [port, Host("h1")])

    assert read("pfc_priorities@leaf0=3,4").value == tuple(i in (3, 4) for i in range(8))
    assert read("pfc_priorities@leaf0=3").place == port.switch
    assert read("kmax_bytes@leaf0 Ethernet4=1MiB") == Assignment("kmax_bytes", 1048576.0, port)
    assert read("dcqcn_ai_bps@h1=5M") == Assignment("dcqcn_ai_bps", 5e6, Host("h1"))
    assert read("dcqcn_np_enabled=on").value == (True,) * 8
    assert read("load_balancing=flowlet").value == "flowlet"
    assert read("buffer_alpha_exponent=-2").value == -2
    with pytest.raises(ConfigInvalid):
        read("buffer_alpha_exponent=many")

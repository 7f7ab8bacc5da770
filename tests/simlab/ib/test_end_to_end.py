"""A slow receiver in a live fabric: ibsim's counters, the agent's sweep, the tuner's verdict."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collectors.infiniband.topology import End
from collectors.model.errors import NotSupported
from simlab.ib.fabrics import assign_lids, route_minhop, two_tier
from simlab.ib.faults import Flow, settle, steps
from simlab.ib.lab import IbLab, find_preload, find_tool
from simlab.ib.script import ScriptState, ibsim_commands

pytestmark = pytest.mark.lab_ib

# no sysfs: under ibsim's preload only one thread may touch it first
CONFIG = """
agent: probe
paths: {sysfs: /nonexistent}
metrics: {infiniband_exporter: on}
infiniband:
  - {interval: 1, deadline: 5, timeout: 0.2, retries: 1}
"""
AGENT = [sys.executable, "-c", "from agent.cli import app; app()"]
TUNER = [sys.executable, "-c", "from tuner.cli.main import app; app()"]
SIMLAB = [sys.executable, "-c", "from simlab.cli import app; app()"]


@pytest.fixture(scope="module", autouse=True)
def tools():
    try:
        find_preload()
        for name in ("ibsim", "opensm"):
            find_tool(name)
    except NotSupported as error:
        pytest.skip(str(error))


def planted():
    topology = two_tier(4, 2, 2, speed="SDR")
    assign_lids(topology)
    route_minhop(topology)
    at = lambda name: End(topology.find(name).guid, 1)
    flows = [Flow(at(f"H{i}"), at("H5"), 0.2 * 8e9) for i in (0, 2, 6)]
    carried = settle(topology, flows, drains={at("H5"): 0.1 * 8e9})
    return topology, ScriptState(steps(topology, carried))


def test_from_counters_to_verdict(tmp_path):
    topology, state = planted()
    config, out = tmp_path / "agent.yaml", tmp_path / "recording"
    config.write_text(CONFIG)
    with IbLab(topology, manager="keep") as lab, lab._run_folder() as folder:
        recorder = subprocess.Popen(
            [*AGENT, "record", "--config", str(config), "--out", str(out), "--duration", "7"],
            cwd=folder,
            env=lab.environment("H1"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        began = time.monotonic()
        while recorder.poll() is None:
            done = list(state.advance(time.monotonic() - began))
            lab.console(*ibsim_commands(state, done, topology))
            time.sleep(0.25)
        assert recorder.returncode == 0, recorder.stderr.read()
        prom = lab.run([*AGENT, "once", "--config", str(config), "--format", "prom"], host="H1")
    shown = subprocess.run(
        [*TUNER, "ib", "congestion", "--source", f"dir={out}", "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 3, shown.stderr
    document = json.loads(shown.stdout)
    assert document["ports"] == 32
    root = document["roots"][0]
    assert (root["kind"], root["root"].split()[0]) == ("slow_receiver", "H5")
    assert {v["port"].split()[0] for v in root["victims"]} >= {"H0", "H2", "H6"}
    causes = [f["rule"] for f in document["findings"] if not f["explained_by"]]
    assert causes[0] == "ib-slow-receiver"
    # the same sweep under the names of other exporters
    text = prom.stdout
    assert re.search(
        r'^infiniband_switch_port_transmit_data_bytes_total\{guid="0x0000000000200000",port="1"\}',
        text,
        re.MULTILINE,
    )
    assert 'infiniband_hca_info{guid="0x0000000000100001",hca="H0"' in text.replace(
        'hca="H0",guid="0x0000000000100001"', 'guid="0x0000000000100001",hca="H0"'
    )


def test_simlab_ib_up_runs_a_command_and_ends(tmp_path):
    script = tmp_path / "script.yaml"
    script.write_text("- {at: 0, set: {node: Leaf0-0, port: 1, SymbolErrorCounter: 77}}\n")
    ran = subprocess.run(
        [
            *SIMLAB, "ib", "up", "--topology", "fattree:4", "--nodes", "6",
            "--script", str(script), "--exec", "perfquery 2 1",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "PortXmitData" in ran.stdout
    left = subprocess.run(
        ["pgrep", "-f", "simlab-ib-"], capture_output=True, text=True, check=False
    )
    mine = [pid for pid in left.stdout.split() if Path(f"/proc/{pid}/exe").exists()]
    names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in mine]
    assert not {"ibsim", "opensm"} & set(names) or _others_run()


def _others_run():
    """Tell whether another lab of this machine may be running at the same time."""
    return len(Path("/proc/net/unix").read_text().split("@fabric-")) > 1


def test_simlab_says_what_is_wrong_in_one_line():
    for args in (
        ["up", "--topology", "ring:5"],
        ["up", "--topology", "fattree:3"],
        ["up", "--opensm", "maybe"],
    ):
        ran = subprocess.run(
            [*SIMLAB, "ib", *args], capture_output=True, text=True, check=False, timeout=60
        )
        assert ran.returncode in (1, 2)
        assert ran.stderr.count("\n") == 1
        assert ran.stderr.startswith("simlab: ")

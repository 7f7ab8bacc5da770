"""`simlab switches up` and `fabric-agent targets test` as a user runs them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def start(folder, *argv):
    """Start switches as a shell starts what runs in the background: with SIGINT ignored."""
    process = subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c",
         "from simlab.cli import app; app()", "switches", "up", *argv],
        cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert "switches up" in process.stdout.readline()
    return process


@pytest.mark.lab_switch
@pytest.mark.parametrize(
    "platform", ["eos", "nxos", "junos", "sonic", "nvue", "onyx", "openconfig"]
)
def test_every_platform_answers(tmp_path, platform):
    process = start(tmp_path, "--count", "2", "--platform", platform, "--ports", "4")
    try:
        done = subprocess.run(
            [sys.executable, "-c", "from agent.commands import app; app()",
             "targets", "test", "targets.yaml", "--format", "json"],
            cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    finally:
        process.send_signal(signal.SIGINT)
        try:
            code = process.wait(30)
        finally:
            process.kill()
    assert code == 0
    rows = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert all(row["answers"] for row in rows)
    # What the platforms' SNMP and gNMI can give at all: see the tables of both collectors.
    if platform not in ("junos", "openconfig"):
        assert any(row["pfc"] for row in rows if row["transport"] == "snmp")
    if platform in ("eos", "nxos", "junos", "sonic", "nvue"):
        assert any(row["pfc"] for row in rows if row["transport"] == "gnmi")
    snmp = [row for row in rows if row["transport"] == "snmp"]
    assert [row["neighbours"] for row in snmp] == [2, 2]
    assert all(row["chassis_id"] for row in snmp)


def test_a_wrong_fault_is_refused(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "from simlab.cli import app; app()",
         "switches", "up", "--fault", "1=asleep"],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.returncode == 2
    assert "silent|slow|restart" in done.stderr

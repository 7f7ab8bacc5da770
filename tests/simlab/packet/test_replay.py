"""The model is that of the HPCC simulator: with its random numbers, its results to the last one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench/packet_replay.py"


def test_flows_marks_cuts_and_pauses_are_those_of_the_reference():
    # 64 QPs of which ports pause some: in a process of its own, as it replaces parts of the engine
    argv = [sys.executable, str(BENCH), "ls2x4_100G_perm_4qp"]
    told = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    checks = json.loads(told.stdout.splitlines()[-1])["checks"]
    assert "hpcc/ls2x4_100G_perm_4qp replayed: differ of 9 totals" in [
        check["name"] for check in checks
    ]

"""The shipped Prometheus files pass Prometheus's own checks."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2] / "deploy/prometheus"

pytestmark = [
    pytest.mark.lab_prom,
    pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (package prometheus)"),
]


@pytest.mark.parametrize(
    "command",
    [
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "fabric-tuner.rules.yml"],
        ["test", "rules", "fabric-tuner.rules.test.yml"],
    ],
    ids=" ".join,
)
def test_promtool(command):
    shown = subprocess.run(["promtool", *command], cwd=HERE, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "FAILED" not in shown.stdout

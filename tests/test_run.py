"""The ./run script: lists, usage and clear words when it cannot go on."""

import subprocess
from pathlib import Path

RUN = Path(__file__).parent.parent / "run"


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(RUN), *args], capture_output=True, text=True)


def test_usage_names_every_command():
    shown = run()
    assert shown.returncode == 2
    for command in ("setup", "demo", "test", "lint", "bench"):
        assert f"./run {command}" in shown.stderr


def test_unknown_bench_and_part_are_one_clear_line():
    for args in (("bench", "nonesuch"), ("test", "nonesuch"), ("setup", "nonesuch")):
        shown = run(*args)
        assert shown.returncode == 1
        assert "nonesuch" in shown.stderr
        assert shown.stderr.count("\n") == 1

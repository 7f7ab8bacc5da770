"""The ./run script: lists, usage and clear words when it cannot go on."""

import os
import signal
import subprocess
import sys
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


def test_unknown_command_is_named():
    shown = run("nonesuch")
    assert shown.returncode == 2
    assert shown.stderr.endswith("no such command: nonesuch\n")


CHILD = """
import signal, sys, time
try:
    print("up", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1)  # longer than subprocess.run waits before it kills
    print("tidy", flush=True)
"""


def test_ctrl_c_lets_the_child_tidy_up():
    caller = (
        "import importlib.machinery as m, importlib.util as u, sys\n"
        f"loader = m.SourceFileLoader('run', {str(RUN)!r})\n"
        "run = u.module_from_spec(u.spec_from_loader('run', loader)); loader.exec_module(run)\n"
        f"run.call([sys.executable, '-c', {CHILD!r}])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-B", "-c", caller],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert out == "tidy\n"
    assert "KeyboardInterrupt" in err

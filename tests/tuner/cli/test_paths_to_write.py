"""Where answers are written is checked before the work; wrong usage is one line."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tuner.cli.main import app
from tuner.cli.show import folded

NOWHERE = ("--source", "dir=/nonexistent")  # read after the check, so a wrong order is seen


def run(*words):
    return CliRunner().invoke(app, [*words])


@pytest.mark.parametrize(
    "words",
    [
        ("suggest", *NOWHERE, "--render", "auto", "--out"),
        ("profile", "--speed", "400G", "--cable", "30", "--platform", "sonic", "--out"),
        ("record", "--tuner", "127.0.0.1:1", "--out"),
    ],
)
def test_a_folder_that_holds_something_is_refused_first(words, tmp_path):
    (tmp_path / "old.txt").write_text("stale")
    shown = run(*words, str(tmp_path))
    assert shown.exit_code == 2
    assert shown.stderr == f"tuner: {tmp_path}: --out: the folder is not empty: name a new one\n"
    assert [path.name for path in tmp_path.iterdir()] == ["old.txt"]


@pytest.mark.parametrize(
    "words", [("report", *NOWHERE, "--html"), ("explain", "abc", *NOWHERE, "--svg")]
)
def test_a_file_without_its_folder_is_refused_first(words, tmp_path):
    shown = run(*words, str(tmp_path / "none" / "x"))
    assert shown.exit_code == 2
    assert "its folder does not exist" in shown.stderr
    assert "is a folder: name a file" in run(*words, str(tmp_path)).stderr


def test_a_language_that_there_is_not_is_refused_first():
    shown = run("suggest", *NOWHERE, "--render", "ios")
    assert shown.exit_code == 2
    assert "no language 'ios'" in shown.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["suggest", "--nope"], "tuner suggest: No such option: --nope"),
        (["suggest", "--format", "xml"], "tuner suggest: Invalid value for '--format'"),
        (["bogus"], "tuner: No such command 'bogus'"),
    ],
)
def test_wrong_usage_is_one_line(words, said):
    shown = run(*words)
    assert shown.exit_code == 2
    assert shown.stderr.startswith(said)
    assert shown.stderr.count("\n") == 1
    assert shown.stdout == ""


def test_no_command_shows_the_help():
    code = "from tuner.cli.main import app; app(prog_name='tuner')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Usage: tuner" in done.stdout + done.stderr


def test_names_are_broken_behind_separators_only():
    name = "node_infiniband_local_ack_timeout_errors_total"
    assert folded(name, 34) == "node_infiniband_local_ack_timeout_\nerrors_total"
    assert folded("short", 34) == "short"

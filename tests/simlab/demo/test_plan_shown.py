"""What the demo shows of the rendered plan, without its lab: the tuner answers from a recording."""

import subprocess

from typer.testing import CliRunner

from simlab.demo import show_plan
from tests.tuner.recorded import LOSSY, record
from tuner.cli.main import app


class Recorded:
    """A tuner that answers from a recording."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, command, *args):
        shown = CliRunner().invoke(app, [command, "--source", f"dir={self.folder}", *args])
        return subprocess.CompletedProcess(args, shown.exit_code, shown.stdout, shown.stderr)


def test_the_plan_is_written_and_printed(tmp_path, capsys):
    folder = record(tmp_path / "lossy", LOSSY)
    out = tmp_path / "plan"
    out.mkdir()
    (out / "old").write_text("of a run before")
    show_plan(Recorded(folder), "1h", out)
    printed = capsys.readouterr().out
    assert "by hand: drain sw p2 <-> h2 h2" in printed
    assert (out / "plan.md").exists()
    assert not (out / "old").exists()

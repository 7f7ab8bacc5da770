"""Every program says what is wrong with its usage in one line, by its own name."""

import pytest
from typer.testing import CliRunner

from agent.commands import app as agent
from simlab.cli import app as simlab
from tuner.cli.main import app as tuner


@pytest.mark.parametrize(
    ("app", "program"), [(agent, "fabric-agent"), (simlab, "simlab"), (tuner, "tuner")]
)
def test_wrong_usage_is_one_line_with_the_way_to_help(app, program):
    shown = CliRunner().invoke(app, ["--nope"])
    assert shown.exit_code == 2
    assert shown.output == f"{program}: No such option: --nope (see `{program} --help`)\n"


def test_a_command_below_names_its_whole_path():
    shown = CliRunner().invoke(simlab, ["packet", "run"])
    assert shown.exit_code == 2
    assert shown.output.startswith("simlab packet run: Missing argument")
    assert shown.output.endswith("(see `simlab packet run --help`)\n")

"""Usage that makes no sense ends with 2 and one line."""

import pytest
from typer.testing import CliRunner

from collectors.model.errors import ConfigInvalid, Malformed
from collectors.model.printable import printable
from simlab.scenarios.cli import app as scenarios
from tuner.advice.outcome.read import parse_measured
from tuner.cli.main import app
from tuner.cli.outcome import measured_of


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["explain", " "], "an id of a finding is needed"),
        (["diagnose", "--source", "dir=/nowhere", "--tuner", "h:1"], "one of the two"),
    ],
)
def test_usage_without_sense_is_one_line(arguments, told):
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 2
    assert told in shown.output
    assert shown.output.count("\n") == 1


def test_an_unknown_family_names_near_ones_and_a_seed_is_not_negative():
    shown = CliRunner().invoke(scenarios, ["show", "healthy_alltoal"])
    assert shown.exit_code == 2
    assert "unknown" in shown.output
    assert CliRunner().invoke(scenarios, ["show", "x", "--seed", "-1"]).exit_code == 2


def test_an_inspector_record_without_figures_is_told_without_python():
    with pytest.raises(Malformed, match="line 1 is no record of a collective with its time") as e:
        parse_measured('{"coll_perf":null}', "f")
    assert "NoneType" not in str(e.value)


@pytest.mark.parametrize("step", ["0s", "1e300s", "1e999s"])
def test_a_step_takes_time_and_at_most_a_day(step):
    with pytest.raises(ConfigInvalid, match="at most a day"):
        measured_of((), step, "", 0)


def test_control_characters_of_an_argument_do_not_reach_the_terminal():
    assert printable("\x1b[31m\nh") == "\ufffd[31m\ufffdh"

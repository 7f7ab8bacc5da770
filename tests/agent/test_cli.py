"""The command line, as a user sees it."""

from typer.testing import CliRunner

from agent.cli import app

run = CliRunner().invoke


def test_check_config(tmp_path):
    path = tmp_path / "agent.yaml"
    path.write_text("agent: gpu01\n")
    answer = run(app, ["check-config", str(path)])
    assert answer.exit_code == 0
    assert "ok, agent 'gpu01'" in answer.stdout


def test_check_config_refuses_unknown_key(tmp_path):
    path = tmp_path / "agent.yaml"
    path.write_text("uplnik: {}\n")
    answer = run(app, ["check-config", str(path)])
    assert answer.exit_code == 1
    assert answer.stdout == ""
    assert answer.stderr == (f"fabric-agent: {path}: $.uplnik: unknown key; is 'uplink' meant?\n")

"""The command line, as a user sees it."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from agent.commands import app
from collectors.wire.recording import read_recording

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
    assert answer.exit_code == 2
    assert answer.stdout == ""
    assert answer.stderr == (f"fabric-agent: {path}: $.uplnik: unknown key; is 'uplink' meant?\n")


@pytest.mark.parametrize("bad", ["uplnik: {}\n", "metrics: {port: 70000}\n", ": [\n"])
def test_n9_a_wrong_configuration_ends_every_program_with_2_and_names_the_file(tmp_path, bad):
    """It once meant silent defaults and a green health check."""
    path = tmp_path / "wrong.yaml"
    path.write_text(bad)
    programs = (
        "from agent.cli import app; app()",
        "from tuner.cli.main import app; app(prog_name='tuner')",
    )
    for program, command in zip(programs, (["run"], ["serve"]), strict=True):
        argv = [sys.executable, "-c", program, *command, "--config", str(path)]
        answer = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert answer.stderr.count("\n") == 1
        assert str(path) in answer.stderr


def test_e16_what_is_left_out_is_said_and_two_of_a_name_run_nothing(tmp_path):
    path = tmp_path / "agent.yaml"
    path.write_text("collectors: {hw_counters: {interval: 2}}\n")
    answer = run(app, ["check-config", str(path)])
    assert "files of secrets and TLS were not opened" in answer.stdout
    lines = [line.split() for line in answer.stdout.splitlines()[1:]]
    assert {tuple(line[:3]) for line in lines} >= {
        ("hw_counters", "every", "2"),
        ("sysfs", "every", "5"),  # its own default, which nobody wrote down
    }
    path.write_text("infiniband: [{name: ib, interval: 30}, {name: ib, interval: 60}]\n")
    answer = run(app, ["check-config", str(path)])
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert "two sources are called 'ib'" in answer.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("otlp: {port: 9836}", "$.otlp.port: 9836 is that of metrics, too"),
        ("otlp: {port: 57500}\ngnmi_dialout: {}", "$.gnmi_dialout.port: 57500 is that of otlp"),
        ("otlp: {port: 1, address: '::1'}\ngnmi_dialout: {port: 1, address: 127.0.0.1}", ""),
    ],
)
def test_a_port_is_given_to_one_listener(tmp_path, text, told):
    path = tmp_path / "agent.yaml"
    path.write_text(text)
    answer = run(app, ["check-config", str(path)])
    assert answer.exit_code == (2 if told else 0)
    assert told in answer.stderr


def config_without_rdma(tmp_path):
    path = tmp_path / "agent.yaml"
    path.write_text(f"agent: gpu01\npaths: {{sysfs: {tmp_path}, procfs: {tmp_path}}}\n")
    return path


def test_once_without_rdma_says_so_and_is_valid(tmp_path):
    config = config_without_rdma(tmp_path)
    answer = run(app, ["once", "--config", str(config), "--format", "json"])
    assert answer.exit_code == 0
    assert answer.stderr == f"no RDMA device in {tmp_path}/class/infiniband\n"
    document = json.loads(answer.stdout)
    assert document["agent"] == "gpu01"
    assert document["collectors"] == document["entities"] == []
    answer = run(app, ["once", "--config", str(config), "--format", "prom"])
    assert answer.exit_code == 0
    assert "fabric_agent_info" in answer.stdout
    assert "infiniband" not in answer.stdout


def test_record_without_rdma_is_an_empty_recording(tmp_path):
    config = config_without_rdma(tmp_path)
    out = tmp_path / "rec"
    answer = run(app, ["record", "--config", str(config), "--out", str(out), "--duration", "0.1"])
    assert answer.exit_code == 0, answer.output
    assert all(item.WhichOneof("body") == "facts" for item in read_recording(out))
    answer = run(app, ["record", "--config", str(config), "--out", str(out)])
    assert answer.exit_code == 2
    assert answer.stderr.endswith("the folder is not empty\n")


def test_daemon_starts_without_the_command_line():
    """What the daemon must not load: the command line, and gRPC where there is no uplink."""
    program = (
        "import sys; sys.argv = ['fabric-agent', 'run', '--config', '/none']\n"
        "from agent.cli import app\n"
        "try:\n    app()\nexcept SystemExit as end:\n    assert end.code == 2\n"
        "import agent.daemon\n"
        "heavy = {'typer', 'rich', 'grpc', 'google.protobuf', 'numpy', 'prometheus_client'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert answer.stdout == "[]\n"
    assert answer.stderr == ("fabric-agent: /none: read configuration: No such file or directory\n")

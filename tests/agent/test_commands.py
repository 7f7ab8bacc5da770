"""The command line, as a user sees it."""

import json
import subprocess
import sys

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
    assert answer.exit_code == 1
    assert answer.stdout == ""
    assert answer.stderr == (f"fabric-agent: {path}: $.uplnik: unknown key; is 'uplink' meant?\n")


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
    assert answer.exit_code == 1
    assert answer.stderr.endswith("the folder is not empty\n")


def test_daemon_starts_without_the_command_line():
    """What the daemon must not load: the command line, and gRPC where there is no uplink."""
    program = (
        "import sys; sys.argv = ['fabric-agent', 'run', '--config', '/none']\n"
        "from agent.cli import app\n"
        "try:\n    app()\nexcept SystemExit as end:\n    assert end.code == 1\n"
        "import agent.daemon\n"
        "heavy = {'typer', 'rich', 'grpc', 'google.protobuf', 'numpy', 'prometheus_client'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert answer.stdout == "[]\n"
    assert answer.stderr == ("fabric-agent: /none: read configuration: No such file or directory\n")

"""The shipped units and sample configurations, by the tools that will read them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from agent.config import Config, parse_config, read_config
from agent.sources import jobs
from tuner.server import config as tuner_config

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = ["fabric-agent", "fabric-tuner"]
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze (package systemd)"
)


@needs_systemd
@pytest.mark.parametrize("name", UNITS)
def test_unit_is_valid(tmp_path, name):
    text = (DEPLOY / f"systemd/{name}.service").read_text()
    # The programs are not installed here; every other word must be right.
    unit = tmp_path / f"{name}.service"
    unit.write_text(re.sub(r"/opt/fabric-tuner/bin/\S+", "/bin/true", text))
    drop_in = tmp_path / f"{name}.service.d"
    drop_in.mkdir()
    for extra in (DEPLOY / "systemd").glob(f"{name}-*.conf"):
        shutil.copy(extra, drop_in)
    answer = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True
    )
    mine = [line for line in answer.stderr.splitlines() if name in line]
    assert mine == []


@needs_systemd
@pytest.mark.parametrize("name", UNITS)
def test_unit_is_hardened(name):
    """systemd's own rating, 0 best to 10 worst; a plain service has 9.6."""
    unit = str(DEPLOY / f"systemd/{name}.service")
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=25", "--no-pager"]
    answer = subprocess.run([*command, unit], capture_output=True, text=True)
    if "unrecognized option" in answer.stderr:
        pytest.skip("systemd before 250 rates running units only")
    assert answer.returncode == 0, answer.stdout[-400:]


@pytest.mark.parametrize("name", UNITS)
def test_service_manager_is_told_and_paths_agree(name):
    text = (DEPLOY / f"systemd/{name}.service").read_text()
    assert "\nType=notify\n" in text
    assert re.search(r"^WatchdogSec=\d+$", text, re.MULTILINE)
    state = re.search(r"^StateDirectory=(.*)$", text, re.MULTILINE)
    home = Path("/var/lib") / state[1]
    if name == "fabric-agent":
        spool = parse_config("uplink: {tuner: 'a:1'}", "f").uplink.spool
        assert Path(spool).parent == home
    else:
        assert tuner_config.Config().data == str(home)


def test_sample_of_the_agent_is_right_and_all_defaults():
    path = DEPLOY / "config/agent.yaml"
    config = read_config(path)
    assert jobs(config, str(path))
    assert config == parse_config("", "f")


def test_every_line_of_the_agents_sample_is_a_setting_and_every_setting_has_a_line():
    text = (DEPLOY / "config/agent.yaml").read_text()
    lines = [re.sub(r"^(\s*)# ", r"\1", line) for line in text.splitlines()]
    whole = "\n".join(line for line in lines if re.match(r"\s*(- )?[a-z_]+:", line))
    config = parse_config(whole, "agent.yaml")
    assert config.uplink is not None
    assert set(yaml.safe_load(whole)) == set(Config.__struct_fields__)


def test_sample_of_the_tuner_is_right_and_all_defaults():
    assert tuner_config.read_config(DEPLOY / "config/tuner.yaml") == tuner_config.Config()

"""What users type and write, in every program: each fault is one line that names its place."""

from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from agent import config as agent_config
from agent.commands import app as agent
from collectors.host.topology import parse_topology
from collectors.model.errors import ConfigInvalid, Malformed
from collectors.switchconfig.cabling import parse_containerlab
from collectors.targets.inventory import parse_inventory, read_inventory
from simlab.cli import app as simlab
from simlab.ib.script import parse_script
from simlab.packet.config import load_config
from simlab.rxe.scenario import ScenarioError, parse_scenario
from tuner.cli.main import app as tuner
from tuner.fabric.cables import parse_cables, read_cables
from tuner.fabric.jobs import parse_host_lists
from tuner.server import config as tuner_config

YAML_PARSERS = {
    "agent": (agent_config.parse_config, ConfigInvalid),
    "inventory": (parse_inventory, ConfigInvalid),
    "tuner": (tuner_config.parse_config, ConfigInvalid),
    "topology": (parse_topology, Malformed),
    "containerlab": (parse_containerlab, Malformed),
    "cables": (parse_cables, Malformed),
    "jobs": (lambda text, file: parse_host_lists(text, "job", file), Malformed),
    "subnet script": (parse_script, ConfigInvalid),
    "soft-roce scenario": (parse_scenario, ScenarioError),
}
FILE_READERS = {
    "agent": agent_config.read_config,
    "inventory": read_inventory,
    "tuner": tuner_config.read_config,
    "cables": read_cables,
    "packet scenario": load_config,
}


every_program = pytest.mark.parametrize(
    ("app", "program"), [(agent, "fabric-agent"), (simlab, "simlab"), (tuner, "tuner")]
)


@every_program
def test_the_version_is_that_of_the_distribution(app, program):
    shown = CliRunner().invoke(app, ["--version"])
    assert shown.exit_code == 0
    assert shown.output == f"{program} {version('fabric-tuner')}\n"


@every_program
def test_wrong_usage_is_one_line_with_the_way_to_help(app, program):
    shown = CliRunner().invoke(app, ["--nope"])
    assert shown.exit_code == 2
    assert shown.output == f"{program}: No such option: --nope (see `{program} --help`)\n"


def test_a_command_below_names_its_whole_path():
    shown = CliRunner().invoke(simlab, ["packet", "run"])
    assert shown.exit_code == 2
    assert shown.output.startswith("simlab packet run: Missing argument")
    assert shown.output.endswith("(see `simlab packet run --help`)\n")


@pytest.mark.parametrize("text", ["links: 2001-99-99", "links: !!int zz", "links: " + "[" * 3000])
@pytest.mark.parametrize("program", YAML_PARSERS)
def test_every_parser_of_yaml_raises_its_own_error(program, text):
    parse, kind = YAML_PARSERS[program]
    with pytest.raises(kind) as error:
        parse(text, "f.yaml")
    assert "f.yaml" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file"), (b"\xff\xfe", "not UTF-8"), (b"links: [", ":1: ")]
)
@pytest.mark.parametrize("program", FILE_READERS)
def test_every_file_of_a_user_is_named_where_it_is_wrong(tmp_path, program, content, why):
    path = tmp_path / "of_user.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((ConfigInvalid, Malformed)) as error:
        FILE_READERS[program](path)
    assert why in str(error.value)
    assert str(error.value).count("of_user.yaml") == 1
    assert "\n" not in str(error.value)

"""YAML from outside: plain values, or one typed error that names the line."""

import pytest

from agent import config as agent_config
from collectors.host.topology import parse_topology
from collectors.model.errors import ConfigInvalid, Malformed
from collectors.model.yaml_text import parse_yaml
from collectors.switchconfig.cabling import parse_containerlab
from collectors.targets.inventory import parse_inventory
from simlab.ib.script import parse_script
from simlab.packet.config import load_config
from simlab.rxe.scenario import ScenarioError, parse_scenario
from tuner.fabric.cables import parse_cables
from tuner.fabric.jobs import parse_host_lists
from tuner.server import config as tuner_config


def test_plain_values_and_keys_as_written():
    assert parse_yaml("a: [1, 2.5, yes]\non: {x: null}", "f") == {
        "a": [1, 2.5, True], "on": {"x": None},
    }  # fmt: skip
    assert parse_yaml("", "f") is None
    assert parse_yaml("base: &b {x: 1}\nmore: {<<: *b, y: 2}", "f")["more"] == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nx: 2001-99-99", "f:2: parse: '2001-99-99' is no timestamp"),
        ("x: !!int zz", "f:1: parse: 'zz' is no int"),
        ("x: !!int ''", "f:1: parse: '' is no int"),
        ("x: !!bool zz", "f:1: parse: 'zz' is no bool"),
        ("x: !!timestamp zz", "f:1: parse: 'zz' is no timestamp"),
        ("x: " + "9" * 5000, f"f:1: parse: {'9' * 40!r} is no int"),
        ("agent: " + "[" * 3000, "f: parse: it is nested too deeply"),
        ("a: 1\na: 2", "f:2: parse: key 'a' stands twice"),
        ("a: [1", "f:1: parse: expected ',' or ']', but got '<stream end>'"),
        ("a: !!python/object:os.system x", "f:1: parse: could not determine a constructor"),
        ("a: \x07", "f: parse: unacceptable character"),
    ],
)
def test_every_fault_is_one_line(text, told):
    with pytest.raises(ConfigInvalid) as error:
        parse_yaml(text, "f")
    assert str(error.value).startswith(told)
    assert "\n" not in str(error.value)


READERS = {
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


@pytest.mark.parametrize("text", ["links: 2001-99-99", "links: !!int zz", "links: " + "[" * 3000])
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_of_yaml_raises_its_own_error(reader, text):
    parse, kind = READERS[reader]
    with pytest.raises(kind) as error:
        parse(text, "f.yaml")
    assert "f.yaml" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_packet_scenario_names_its_file(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("x: 2001-99-99")
    with pytest.raises(ConfigInvalid, match=r"s\.yaml:1: parse"):
        load_config(path)

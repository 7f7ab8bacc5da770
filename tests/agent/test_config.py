"""Configuration: what is accepted, and that each mistake is one line with file and path."""

import msgspec
import pytest

from agent.config import Config, Metrics, Uplink, parse_config, read_config, required_secret
from collectors.model.errors import ConfigInvalid

FULL = """
agent: gpu01
log_level: debug
interval: 2
paths: {sysfs: /host/sys, procfs: /host/proc}
devices:
  include: ['mlx5_\\d+', 'eth.*']
  exclude: ['mlx5_(12|13)']
collectors:
  sysfs: {on: on, interval: 1, deadline: 0.5, options: {depth: 3}}
  netlink: {on: no}
metrics:
  address: 127.0.0.1
  port: 9100
  node_infiniband: false
  tls: {cert: /c, key: /k, client_ca: /ca}
  basic_auth: {user: prom, password_file: /p}
uplink:
  tuner: '[fd00::1]:9837'
  tls: {ca: /ca, cert: /c, key: /k}
  spool: /var/spool/x
  max_bytes: 1048576
"""


def test_full_file():
    config = parse_config(FULL, "f")
    assert config.agent == "gpu01"
    assert config.paths.sysfs == "/host/sys"
    assert config.collectors["sysfs"].on is True
    assert config.collectors["sysfs"].options == {"depth": 3}
    assert config.collectors["netlink"].on is False
    assert config.metrics is not None
    assert config.metrics.node_infiniband is False
    assert config.uplink is not None
    assert config.uplink.tuner == "[fd00::1]:9837"


def test_empty_file_is_all_defaults(tmp_path):
    path = tmp_path / "agent.yaml"
    path.write_text("")
    config = read_config(path)
    assert config == msgspec.structs.replace(Config(), agent=config.agent)
    assert config.agent
    assert config.metrics == Metrics()
    assert config.uplink is None


def test_null_turns_the_listener_off():
    assert parse_config("metrics: null", "f").metrics is None
    assert parse_config("uplink: {tuner: 'a:1'}", "f").uplink == Uplink("a:1")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("agnet: x", "agent.yaml: $.agnet: unknown key; is 'agent' meant?"),
        ("uplink: {tuner: a:1, tsl: {}}", "agent.yaml: $.uplink.tsl: unknown key; is 'tls' meant?"),
        ("uplink: {tuner: 5}", "agent.yaml: $.uplink.tuner: Expected `str`, got `int`"),
        ("uplink: {}", "agent.yaml: $.uplink: Object missing required field `tuner`"),
        ("uplink: {tuner: host}", "agent.yaml: $.uplink.tuner: 'host' is no host:port"),
        ("uplink: {tuner: 'a b:1'}", "agent.yaml: $.uplink.tuner: 'a b:1' is no host:port"),
        ('uplink: {tuner: "a\\n:1"}', "agent.yaml: $.uplink.tuner: 'a\\n:1' is no host:port"),
        ('agent: "a\\e[31m"', "agent.yaml: $.agent: 'a\\x1b[31m' has control characters"),
        ("otlp: {token_file: a, token_env: B}", "agent.yaml: $.otlp: set one of token_file"),
        ("otlp: {address: 'h:4317'}", "agent.yaml: $.otlp.address: 'h:4317' is no address"),
        ("gnmi_dialout: {address: 'a b'}", "agent.yaml: $.gnmi_dialout.address: 'a b' is no"),
        ("uplink: {tuner: 'h:99999'}", "agent.yaml: $.uplink.tuner: 'h:99999' is no host:port"),
        ("uplink: {tuner: 'h:1', tls: {ca: c, cert: x}}", "agent.yaml: $.uplink.tls: cert and key"),
        ("metrics: {port: 70000}", "agent.yaml: $.metrics.port: Expected `int` <= 65535"),
        ("devices: {exclude: ['[']}", "agent.yaml: $.devices.exclude[0]: '[' is no pattern"),
        ("collectors: {sysfs: {interval: 0}}", "agent.yaml: $.collectors.sysfs.interval: Expected"),
        (
            "collectors: {sysfs: {interval: fast}}",
            "agent.yaml: $.collectors.sysfs.interval: Expected `float",
        ),
        ("log_level: loud", "agent.yaml: $.log_level: Invalid enum value 'loud'"),
        ("metrics: {basic_auth: {user: a}}", "agent.yaml: $.metrics.basic_auth: set one of"),
        ("- a", "agent.yaml: $: Expected `object`, got `array`"),
        ("collectors: {a: {}, sysfs: {on: maybe}}", "$.collectors.sysfs.on: Expected `bool | null"),
    ],
)
def test_each_mistake_is_one_line(text, line):
    with pytest.raises(ConfigInvalid) as caught:
        parse_config(text, "agent.yaml")
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_secret_must_be_there_and_a_file_goes_before_a_variable(tmp_path, monkeypatch):
    path = tmp_path / "password"
    path.write_text("s3cret\n")
    monkeypatch.setenv("FT_PASSWORD", "other")
    assert required_secret("FT_PASSWORD", str(path), "$.x").reveal() == "s3cret"
    assert required_secret("FT_PASSWORD", "", "$.x").reveal() == "other"
    path.write_text("\n")
    with pytest.raises(ConfigInvalid, match=r"\$\.x: read secret: .*password is empty"):
        required_secret("", str(path), "$.x")

"""Wrong configurations name their place."""

import pytest

from collectors.model.errors import ConfigInvalid
from tuner.server.config import Config, parse_config, read_config


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("listn: x", "listn"),
        ("retention: {age: 5}", "age"),
        ("retention: {age: 5x, max_bytes: 99999999}", "$.retention.age"),
        ("window: {age: 5m, max_bytes: 1}", "$.window.max_bytes"),
        ("metrics: {port: 99999}", "port"),
        ("tls: {cert: a}", "key"),
        ("log_level: loud", "log_level"),
        ("- a", "array"),
    ],
)
def test_a_wrong_configuration_names_file_and_place(text, word):
    with pytest.raises(ConfigInvalid) as seen:
        parse_config(text, "tuner.yaml")
    assert str(seen.value).startswith("tuner.yaml:")
    assert word in str(seen.value)
    assert "\n" not in str(seen.value)


def test_defaults_and_choices():
    assert parse_config("", "f") == Config() == read_config(None)
    chosen = parse_config("retention: {age: 2h, max_bytes: 1048576}\nmetrics: null", "f")
    assert (chosen.disk.age_ns, chosen.metrics) == (7200 * 10**9, None)

"""YAML from outside: plain values, or one typed error that names the line."""

import pytest

from collectors.model.errors import ConfigInvalid
from collectors.user_input.yaml_text import parse_yaml


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

"""Each folder of tests/fixtures/switchconfig is a case: a configuration and what it sets."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.model.catalogue.settings import SETTINGS
from collectors.model.entities import Interface, Slot, Switch
from collectors.model.errors import FabricError, NotSupported
from collectors.switchconfig.blocks import expand
from collectors.switchconfig.eos import parse_eos
from collectors.switchconfig.read import PLATFORMS, parse_configuration, read_configuration

CASES = Path(__file__).parents[2] / "fixtures/switchconfig"
LEAF = Switch("leaf1")


def place(entity):
    match entity:
        case Slot(Interface(_, name), kind, index):
            return f"{name} {kind} {index}"
        case Slot(Switch(), kind, index):
            return f"switch {kind} {index}"
        case Interface(_, name):
            return name
        case _:
            return "switch"


def line_or_path(where):
    last = where.rpartition(":")[2]
    return int(last) if last.isdigit() else last


def plain(value):
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("folder", sorted(CASES.iterdir()), ids=lambda folder: folder.name)
def test_case(folder):
    expected = json.loads((folder / "expected.json").read_text())
    (file,) = folder.glob("input.*")
    facts = read_configuration(expected["platform"], file, LEAF)
    found = {
        (place(row.entity), row.name): (plain(row.value), line_or_path(row.where))
        for row in facts.settings
    }
    assert len(found) == len(facts.settings)
    wanted = {(where, name): (value, line) for where, name, value, line in expected["settings"]}
    assert found == wanted
    assert sorted(gap.reason for gap in facts.gaps) == sorted(expected["odd"])
    assert {row.name for row in facts.settings} <= set(SETTINGS)


def test_segments_are_bytes_where_the_chip_is_known():
    text = (CASES / "eos_profile/input.cfg").read_text()
    reader = parse_eos(text, LEAF, "x", cell_bytes=208)
    found = {(place(row.entity), row.name): row.value for row in reader.settings}
    assert found["Ethernet2/1 queue 3", "kmin_bytes"] == 416_000
    assert reader.odd == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("swp1-3,swp7", ["swp1", "swp2", "swp3", "swp7"]),
        ("swp1-2,5", ["swp1", "swp2", "swp5"]),
        ("Ethernet1/1-2", ["Ethernet1/1", "Ethernet1/2"]),
        ("bond0", ["bond0"]),
        ("et-0/0/1", ["et-0/0/1"]),
    ],
)
def test_expand(text, expected):
    assert expand(text) == expected


def test_a_platform_without_a_parser_is_said_so():
    with pytest.raises(NotSupported, match="no parser for platform 'other'"):
        parse_configuration("other", "", LEAF, "x")


VOCABULARY = """interface Ethernet1 random-detect ecn qos map dscp 26 to traffic-class x { } ; [ ]
    set - : class-of-service queue-num policy-map type queuing nv set swp1-9"""
words = st.sampled_from([*VOCABULARY.split(), "\n", "\n  ", ""])


@given(st.sampled_from(PLATFORMS), st.lists(words, max_size=40))
def test_any_words_are_read_or_refused(platform, parts):
    try:
        parse_configuration(platform, " ".join(parts), LEAF, "x")
    except FabricError:
        pass


@given(st.sampled_from(PLATFORMS), st.text(max_size=200))
def test_any_text_is_read_or_refused(platform, text):
    try:
        parse_configuration(platform, text, LEAF, "x")
    except FabricError:
        pass

"""Paths as devices spell them."""

import pytest
from gnmi_pb import gnmi_pb2 as gnmi
from hypothesis import given
from hypothesis import strategies as st

from collectors.gnmi.paths import interface_of, number_of, pack_path, parse_location, plain
from collectors.model.errors import Malformed


def location(text, prefix="", **more):
    return parse_location(pack_path(prefix), pack_path(text, **more))


def test_prefix_and_path_together():
    found = location("/state/counters/in-octets", prefix="/interfaces/interface[name=Ethernet1/1]")
    assert found.schema == "/interfaces/interface/state/counters/in-octets"
    assert found.keys == (("interface", "name", "Ethernet1/1"),)
    assert interface_of(found) == "Ethernet1/1"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openconfig-interfaces:interfaces", "interfaces"),
        ("oc-if:interface", "interface"),
        ("junos-x:y", "y"),
        ("00:1c:73:aa:bb:cc", "00:1c:73:aa:bb:cc"),  # G5: a MAC address is no module
        ("a:b", "a:b"),
        ("plain", "plain"),
    ],
)
def test_g5_only_modules_are_taken_off(name, expected):
    assert plain(name) == expected


def test_g5_a_module_that_the_target_named_is_known():
    assert plain("acme:x", frozenset({"acme"})) == "x"


def test_g5_origin_as_first_element():
    path = gnmi.Path(elem=[gnmi.PathElem(name="openconfig:"), gnmi.PathElem(name="interfaces")])
    found = parse_location(None, path)
    assert (found.origin, found.schema) == ("openconfig", "/interfaces")


@pytest.mark.parametrize(
    ("key", "expected"),
    [("3", 3), ("UC3", 3), ("Ethernet1-3", 3), ("c-out-8q-q3", 3), ("NO-LOSS", None), ("", None)],
)
def test_queue_numbers(key, expected):
    path = f"/qos/interfaces/interface[interface-id=Ethernet9]/output/queues/queue[name={key}]"
    assert number_of(location(path)) == expected


def test_dme_names_are_written_as_elsewhere():
    assert (
        interface_of(location("/System/intf-items/phys-items/PhysIf-list[id=eth1/7]"))
        == "Ethernet1/7"
    )


def test_strings_instead_of_elements():
    path = gnmi.Path(element=["interfaces", "interface", "Ethernet1"])
    assert parse_location(None, path).schema == "/interfaces/interface/Ethernet1"


@given(st.text(max_size=60))
def test_any_text_is_a_path_or_malformed(text):
    try:
        pack_path(text)
    except Malformed:
        pass


@given(
    st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.text(max_size=8), max_size=2)
)
def test_keys_survive(keys):
    escaped = "".join(
        f"[{name}={value.replace(chr(92), chr(92) * 2).replace(']', chr(92) + ']')}]"
        for name, value in keys.items()
    )
    element = pack_path(f"/a/b{escaped}/c").elem[1]
    assert dict(element.key) == keys

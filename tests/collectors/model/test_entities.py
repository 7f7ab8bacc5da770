"""One canonical string for each entity, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.model.entities import (
    Device,
    Host,
    Interface,
    Netdev,
    Port,
    QueuePair,
    Slot,
    Switch,
    display,
    host_of,
    kind_of,
    link,
    parse_entity,
    priority,
)
from collectors.model.errors import Malformed

words = st.text(min_size=1, max_size=12)
numbers = st.integers(0, 2**24)
devices = st.builds(Device, words, words, words)
ports = st.builds(Port, devices, numbers)
netdevs = st.builds(Netdev, words, words)
switches = st.builds(Switch, words, words)
interfaces = st.builds(Interface, switches, words)
ends = st.one_of(ports, netdevs, interfaces)
slots = st.builds(
    Slot, st.one_of(ends, switches), st.sampled_from(["priority", "queue", "vl"]), numbers
)
entities = st.one_of(
    st.builds(Host, words), devices, ends, switches, slots,
    st.builds(QueuePair, devices, numbers), st.builds(link, ends, ends),
)  # fmt: skip


@given(entities)
def test_canonical_string_round_trips(entity):
    again = parse_entity(str(entity))
    assert again == entity
    assert hash(again) == hash(entity)
    assert str(entity).startswith(kind_of(entity) + "/")


@given(st.lists(entities, min_size=2, max_size=2, unique=True))
def test_different_entities_have_different_strings(pair):
    assert str(pair[0]) != str(pair[1])


@given(st.text(max_size=40))
def test_any_text_is_an_entity_or_malformed(text):
    try:
        assert str(parse_entity(text)) == text
    except Malformed:
        pass


def test_a_rename_keeps_the_identity():
    assert Device("n1", "0000:3b:00.0", "mlx5_0") == Device("n1", "0000:3b:00.0", "rocep59s0")


def test_a_link_is_the_same_from_both_ends():
    a, b = Netdev("n1", "eth0"), Interface(Switch("leaf1"), "Ethernet1/1")
    assert link(a, b) == link(b, a)


@pytest.mark.parametrize(
    "text", ["port/h/k", "port/h/k/x", "priority/3/host/h", "nonsense/x", "", "host/a b%"]
)
def test_wrong_text_names_itself(text):
    with pytest.raises(Malformed):
        parse_entity(text)


def test_people_see_names():
    port = Port(Device("n7", "506b4b0300c0ffee", "mlx5_0"), 1)
    assert display(priority(port, 3)) == "n7 mlx5_0/1 prio 3"
    assert host_of(priority(port, 3)) == "n7"

"""Hypothesis strategies for the vocabulary, shared by the tests of wire, store and recording."""

from fractions import Fraction

from hypothesis import strategies as st

from collectors.model.entities import Device, Host, Interface, Netdev, Port, Slot, Switch
from collectors.model.facts import (
    Attribute,
    Facts,
    Gap,
    Gid,
    Neighbour,
    QueuePairFact,
    Setting,
)
from collectors.model.metric import Column
from collectors.model.reading import Instant, Reading

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10)
small = st.integers(0, 2**16)
devices = st.builds(Device, words, words, words)
ports = st.builds(Port, devices, small)
interfaces = st.builds(Interface, st.builds(Switch, words, words), words)
ends = st.one_of(ports, st.builds(Netdev, words, words), interfaces)
entities = st.one_of(
    st.builds(Host, words),
    ends,
    st.builds(Slot, ends, st.sampled_from(["priority", "queue"]), small),
)
scales = st.builds(Fraction, st.integers(1, 2**40), st.integers(1, 10**9))
columns = st.builds(
    Column,
    st.sampled_from(["m_a_total", "m_b_total", "m_c"]),
    st.sampled_from(["counter", "gauge", "state"]),
    st.sampled_from(["hw_counters", "sysfs_counters"]),
    st.integers(1, 64),
    st.sampled_from(["wraps", "saturates"]),
    scales,
    st.sampled_from(["int", "float"]),
)
ints = st.integers(0, 2**64 - 1)
floats = st.floats(allow_nan=False, allow_infinity=False)
instants = st.builds(Instant, st.integers(2**60, 2**61), st.integers(2**50, 2**51))


@st.composite
def readings(draw):
    chosen = draw(st.lists(columns, max_size=6, unique=True))
    values = {c: draw(ints if c.number == "int" else floats) for c in chosen}
    return Reading(draw(entities), values, draw(instants), draw(st.sampled_from(["", "boot-1"])))


passes = st.lists(readings(), min_size=1, max_size=6, unique_by=lambda reading: reading.entity)
scalars = st.one_of(words, st.integers(-(2**53), 2**53), st.booleans(), floats)
values = st.one_of(scalars, st.lists(scalars, max_size=8).map(tuple))
maybe = st.one_of(st.none(), small)
times_of_effect = st.sampled_from(["running", "next_boot"])
facts = st.builds(
    Facts,
    st.lists(
        st.builds(Setting, entities, words, values, words, times_of_effect),
        max_size=3,
    ).map(tuple),
    st.lists(st.builds(Attribute, entities, words, values), max_size=3).map(tuple),
    st.lists(st.builds(Gid, ports, small, words, words, words), max_size=2).map(tuple),
    st.lists(st.builds(Neighbour, ends, ends, words), max_size=2).map(tuple),
    st.lists(
        st.builds(
            QueuePairFact, devices, small, small, maybe, words, words, maybe, words, words, words,
            words, maybe, maybe,
        ),
        max_size=2,
    ).map(tuple),
    st.lists(st.builds(Gap, words, words, words, words, words, small), max_size=2).map(tuple),
    st.lists(st.tuples(words, words), max_size=2).map(tuple),
)  # fmt: skip

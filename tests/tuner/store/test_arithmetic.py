"""The vectorised arithmetic is collectors.model.counters.delta."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.model.counters import delta
from collectors.model.metric import Column
from tuner.store.arithmetic import EVENT_NAMES, deltas, rules_of


def column(width: int, overflow: str, number: str) -> Column:
    return Column("m", "counter", "v", width, overflow, Fraction(1), number)  # type: ignore[arg-type]


near_edges = st.integers(1, 64).flatmap(
    lambda w: st.sampled_from([0, 1, 2**w - 2, 2**w - 1, 2 ** (w - 1), 2**w // 2 + 1])
)
numbers = st.one_of(st.integers(0, 2**64 - 1), near_edges, st.integers(0, 300))
cases = st.tuples(
    st.sampled_from([1, 2, 4, 8, 16, 31, 32, 48, 63, 64]),
    st.sampled_from(["wraps", "saturates"]),
    numbers,
    numbers,
    st.booleans(),
)


@settings(max_examples=200)
@given(st.lists(cases, min_size=1, max_size=12))
def test_integers_as_one_by_one(rows):
    columns = [column(width, overflow, "int") for width, overflow, *_ in rows]
    before = np.array([[row[2] for row in rows]], np.uint64)
    after = np.array([[row[3] for row in rows]], np.uint64)
    same = np.array([[row[4] for row in rows]])
    grown, events = deltas(before, after, same, rules_of(columns))
    for place, (_, _, old, new, kept) in enumerate(rows):
        want = delta(columns[place], old, new, same_incarnation=kept)
        assert int(grown[0, place]) == want.value
        assert EVENT_NAMES[events[0, place]] == want.event


@given(st.lists(st.tuples(*[st.floats(0, 1e300)] * 2, st.booleans()), min_size=1, max_size=8))
def test_floats_as_one_by_one(rows):
    columns = [column(64, "wraps", "float")] * len(rows)
    old, new = (np.array([[row[n] for row in rows]]) for n in (0, 1))
    grown, events = deltas(old, new, np.array([[row[2] for row in rows]]), rules_of(columns))
    for place, (before, after, kept) in enumerate(rows):
        want = delta(columns[place], before, after, same_incarnation=kept)
        assert (grown[0, place], EVENT_NAMES[events[0, place]]) == (want.value, want.event)

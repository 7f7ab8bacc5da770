"""Steps between nodes, and the order of names."""

import pytest

from tuner.fabric.natural import natural
from tuner.fabric.steps import steps_from


def test_the_nearest_start_counts_and_what_is_out_of_reach_is_left_out():
    near = {"a": "bc", "b": "ad", "c": "ad", "d": "bce", "e": "d", "x": "y"}
    assert list(steps_from("a", near).items()) == [("a", 0), ("b", 1), ("c", 1), ("d", 2), ("e", 3)]
    assert steps_from("ae", near) == {"a": 0, "e": 0, "b": 1, "c": 1, "d": 1}
    assert steps_from("z", near) == {"z": 0}


@pytest.mark.parametrize(
    "names", [["eth2", "eth10"], ["1/2", "1/10", "2/1"], ["p1", "p1a", "p2"], ["x", "x²"]]
)
def test_numbers_within_names_are_sorted_by_value(names):
    assert sorted(names, key=natural) == names

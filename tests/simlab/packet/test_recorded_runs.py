"""Every counter of runs that reach all of the model, as recorded when it agreed with ns-3's forks.

What the numbers should be is the matter of the other tests and of the bench against the public
simulators; these say that nothing moved that nobody meant to move.
"""

import json

import pytest

from tests.simlab.packet.recorded_runs import EXPECTED, RUNS
from tests.simlab.packet.recorded_words import told

WANTED = json.loads(EXPECTED.read_text())


def test_every_run_is_recorded():
    assert list(WANTED) == list(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_as_recorded(name):
    assert told(RUNS[name]()) == WANTED[name]

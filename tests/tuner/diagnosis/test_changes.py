"""Changes of level in evidence and the events that they follow."""

from dataclasses import replace

import numpy as np
import pytest

from collectors.model.catalogue import interface, rdma
from collectors.model.entities import Device, Interface, Netdev, Port, Switch
from collectors.model.facts import Facts, Neighbour, QueuePairFact, Setting
from tuner.diagnosis.changes import changes_of, events_of
from tuner.diagnosis.finding import Evidence
from tuner.store.factbook import FactChange

BEGIN, SECOND = 1_800_000_000 * 10**9, 10**9
PORT = Port(Device("h1", "k", "mlx5_0"), 1)
WIRE = Interface(Switch("leaf1", "leaf1"), "Ethernet1")
NAME = rdma.OUT_OF_SEQUENCE_RX.name
EVIDENCE = [Evidence(NAME, PORT, 1.0), Evidence(interface.TX_BYTES.name, WIRE, 1.0)]
FACTS = Facts(settings=(Setting(WIRE, "kmin_bytes", 100_000),))


class History:
    since_ns, until_ns = 0, BEGIN + 600 * SECOND

    def __init__(self, series=None, facts=()):
        self.series, self.facts = series or {}, facts

    def rates(self, metric, entity):
        return self.series.get((metric, entity))

    def fact_history(self):
        return self.facts


def stepped(at, before=0.0, after=50.0):
    times = BEGIN + np.arange(60) * 10 * SECOND
    return times, np.where(np.arange(60) < at, before, after)


def fact_change(second, after, before=FACTS):
    return FactChange(BEGIN + second * SECOND, "poller", "config", before, after)


def test_a_step_is_told_with_the_configuration_change_before_it():
    changed = Facts(settings=(Setting(WIRE, "kmin_bytes", 9_000_000),))
    history = History({(NAME, PORT): stepped(30)}, [fact_change(295, changed)])
    found = changes_of(history, EVIDENCE)
    [change] = found.changes
    assert (change.before, change.after) == (0, 50)
    assert change.at_ns == BEGIN + 300 * SECOND
    assert change.follows.what == "poller: kmin_bytes of leaf1 Ethernet1 changed"
    assert found.linked


@pytest.mark.parametrize("second", [260, 301])
def test_an_event_long_before_or_after_explains_nothing(second):
    changed = Facts(settings=(Setting(WIRE, "kmin_bytes", 9_000_000),))
    history = History({(NAME, PORT): stepped(30)}, [fact_change(second, changed)])
    found = changes_of(history, EVIDENCE)
    assert found.changes[0].follows is None
    assert not found.linked


def test_a_link_that_went_down_is_an_event():
    flap = (BEGIN + np.arange(60) * 10 * SECOND, np.where(np.arange(60) == 29, 0.2, 0.0))
    history = History(
        {(NAME, PORT): stepped(30), (interface.CARRIER_CHANGES.name, WIRE): flap}
    )  # fmt: skip
    [change] = changes_of(history, EVIDENCE).changes
    assert change.follows.what == "leaf1 Ethernet1: link went down or up"


def test_events_all_the_time_prove_nothing():
    changed = Facts(settings=(Setting(WIRE, "kmin_bytes", 9_000_000),))
    facts = [fact_change(second, changed) for second in range(0, 600, 20)]
    found = changes_of(History({(NAME, PORT): stepped(30)}, facts), EVIDENCE)
    assert found.changes[0].follows is not None
    assert not found.linked


def test_steady_counters_have_no_changes():
    assert changes_of(History({(NAME, PORT): stepped(60)}), EVIDENCE).changes == ()
    assert changes_of(History(), EVIDENCE).changes == ()


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (
            replace(FACTS, neighbours=(Neighbour(WIRE, Netdev("h1", "e"), "lldp"),)),
            "cables changed",
        ),
        (replace(FACTS, versions=(("os", "2"),)), "a version changed"),
        (replace(FACTS, queue_pairs=(QueuePairFact(PORT.device, 1, 5),)), None),
        (FACTS, None),
    ],
)
def test_what_counts_as_an_event(after, words):
    events = events_of(History(facts=[fact_change(10, after)]), [])
    assert [event.what for event in events] == ([f"poller: {words}"] if words else [])


def test_the_first_facts_of_an_agent_are_no_event():
    assert events_of(History(facts=[fact_change(10, FACTS, None)]), []) == []

"""G11, G13: two ends of a link against one another, where both are targets of one fleet."""

import random

import pytest

from collectors.model.catalogue.interface import PFC_RX_FRAMES, PFC_TX_FRAMES
from collectors.model.entities import Interface, Slot, Switch
from collectors.model.facts import Attribute, Facts, Neighbour
from collectors.model.metric import Source
from collectors.model.reading import Instant, Pass, Reading
from collectors.targets.crosscheck import EXCHANGED, ONE_END, ROUNDS, STUCK, CrossCheck
from collectors.targets.fleet import Fleet, Member

RX, TX = (row.column(Source("snmp", "x")) for row in (PFC_RX_FRAMES, PFC_TX_FRAMES))


class Net:
    """Switches in a ring; port 1 leads to the following one's port 2. faults: name -> what."""

    def __init__(self, count, faults=(), seed=1, skew=0):
        self.names = [f"s{number}" for number in range(count)]
        self.faults, self.skew = dict(faults), skew
        self.random = random.Random(seed)
        self.truth = {(name, port): [0, 0] for name in self.names for port in (1, 2)}

    def facts(self, name):
        at = self.names.index(name)
        following = self.names[(at + 1) % len(self.names)]
        switch = Switch(name, name)
        seen = Interface(Switch(f"mac-{following}", f"{following}.lab"), "p2")
        return Facts(
            attributes=(Attribute(switch, "system_name", f"{name}.lab"),),
            neighbours=(Neighbour(Interface(switch, "p1"), seen, "lldp"),),
        )

    def run(self):
        """Let frames move, more one way than the other."""
        for at, name in enumerate(self.names):
            following = self.names[(at + 1) % len(self.names)]
            forward, back = self.random.randrange(300, 600), self.random.randrange(0, 100)
            self.truth[name, 1][1] += forward
            self.truth[following, 2][0] += forward
            self.truth[name, 1][0] += back
            self.truth[following, 2][1] += back

    def readings(self, name, incarnation=""):
        for port in (1, 2):
            rx, tx = self.truth[name, port]
            rx += self.random.randint(0, self.skew)
            fault = self.faults.get(name)
            if fault == "exchanged":
                rx, tx = tx, rx
            if fault == "stuck":
                rx = 0
            end = Interface(Switch(name, name), f"p{port}")
            for priority, share in ((3, 0.75), (4, 0.25)):
                counts = {RX: int(rx * share), TX: int(tx * share)}
                yield Reading(Slot(end, "priority", priority), counts, Instant(0, 0), incarnation)


def judge(net, rounds=4 * ROUNDS, births=None):
    check = CrossCheck()
    check.learn(net.facts(name) for name in net.names)
    for number in range(rounds):
        net.run()
        birth = births(number) if births else ""
        check.take([row for name in net.names for row in net.readings(name, birth)])
    return {(row.switch.key, row.what) for row in check.verdicts}


def test_all_well_is_no_verdict():
    assert judge(Net(4, skew=20)) == set()


def test_g11_an_exchanged_pair_is_named_at_the_end_that_is_alone_with_it():
    assert judge(Net(5, {"s2": "exchanged"}, skew=20)) == {("s2", EXCHANGED)}


def test_g11_of_one_link_alone_nobody_can_tell_which_end():
    assert judge(Net(2, {"s1": "exchanged"})) == {("s0", ONE_END), ("s1", ONE_END)}


def test_g13_a_counter_stuck_at_zero_is_named():
    assert judge(Net(4, {"s2": "stuck"})) == {("s2", f"{STUCK}: rx")}


def test_nothing_is_said_of_a_few_frames():
    net = Net(3, {"s1": "exchanged"})
    check = CrossCheck()
    check.learn(net.facts(name) for name in net.names)
    net.run()
    for _ in range(2 * ROUNDS):  # nothing moves any more
        check.take([row for name in net.names for row in net.readings(name)])
    assert check.verdicts == ()


def test_a_reset_begins_anew_and_is_no_quirk():
    net = Net(4)

    def births(number):
        if number == 8:
            for count in net.truth.values():
                count[:] = [0, 0]
        return str(number >= 8)

    assert judge(net, births=births) == set()


@pytest.mark.parametrize("seed", range(20))
def test_unrelated_numbers_are_not_called_exchanged(seed):
    """Where neither way fits, as with a neighbour that is another one, nothing is said of ways."""
    net = Net(4, seed=seed)
    wrong = Net(4, seed=seed + 1000)
    check = CrossCheck()
    check.learn(net.facts(name) for name in net.names)
    for _ in range(ROUNDS):
        net.run()
        wrong.run()
        wrong.run()
        rows = [row for name in ("s0", "s2") for row in net.readings(name)]
        rows += [row for name in ("s1", "s3") for row in wrong.readings(name)]
        check.take(rows)
    assert check.verdicts == ()


class Answers:
    def __init__(self, net, name):
        self.net, self.subject = net, Switch(name, name)

    async def poll(self, clock):
        return Pass(
            tuple(self.net.readings(self.subject.key)), (), self.net.facts(self.subject.key)
        )


def test_the_fleet_names_the_quirk_and_changes_no_value():
    net = Net(4, {"s2": "exchanged"})
    fleet = Fleet("snmp", [Member(Answers(net, name)) for name in net.names], wait_s=5.0)
    try:
        told = []
        for _ in range(2 * ROUNDS + 1):
            net.run()
            result = fleet.read(lambda: Instant(0, 0))
            if result.facts is not None:
                told.append([row for row in result.facts.attributes if row.name == "counter_quirk"])
        assert [row.entity.key for row in told[-1]] == ["s2"]
        assert EXCHANGED in str(told[-1][0].value)
        assert ("switch/s2", EXCHANGED) in {(gap.subject, gap.reason) for gap in result.gaps}
        own = [row for row in result.readings if str(row.entity) == "priority/3/interface/s2/p1"]
        assert own[0].values == next(iter(net.readings("s2"))).values
        assert len(told) == 2  # at the beginning, and when the verdict came
    finally:
        fleet.close()

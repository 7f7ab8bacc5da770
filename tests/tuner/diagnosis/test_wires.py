"""Wires by number: what arrays say of cables is what a walk over them says."""

import math
from random import Random

import numpy as np
import pytest

from collectors.model.catalogue import interface, rdma
from collectors.model.entities import Interface, Switch, priority, wire_of
from tests.tuner.fake import lab
from tuner.diagnosis.stalls import stalls_by_priority
from tuner.diagnosis.wires import numbered_wires


@pytest.fixture
def made():
    """Hosts around a switch: bytes at interfaces and ports, packets marked in some queues."""
    made, random = lab(5), Random(7)
    for end in (*made.netdevs[:4], *made.interfaces[1:], *made.ports):
        of_port = end in made.ports
        made.telemetry.grow(rdma.TX_BYTES if of_port else interface.TX_BYTES, end, random.random())
    for place in (*made.queues[:3], *(priority(end, 3) for end in made.interfaces[:2])):
        made.telemetry.grow(interface.QUEUE_ECN_MARKED, place, random.random())
    return made


def test_every_wire_is_cabled_to_its_peer_and_ports_to_their_netdev(made):
    wires, fabric = numbered_wires(made.telemetry, made.fabric), made.fabric
    for number in range(len(wires)):
        far = wires.far[number]
        assert fabric.peer(wires[number]) == (None if far < 0 else wires[far])
    table = made.telemetry.growth_table(rdma.TX_BYTES.name)
    assert [wires[n] for n in wires.plugged(table.number)] == made.netdevs
    assert [wires[n] for n in wires.of(table.number)] == made.ports
    assert wires.find(made.queues[0]) is None
    assert wires.find(Interface(Switch("stranger"), "p1")) is None


def test_slots_of_a_wire_are_summed_and_others_unknown(made):
    wires = numbered_wires(made.telemetry, made.fabric)
    table = made.telemetry.growth_table(interface.QUEUE_ECN_MARKED.name)
    want = {}
    for slot, growth in made.telemetry.growth_all(interface.QUEUE_ECN_MARKED.name).items():
        want[wire_of(slot)] = want.get(wire_of(slot), 0.0) + growth.total
    assert wires.mapping(wires.sums(wires.of(table.number), table.total)) == want
    assert set(wires.slots(table.number).tolist()) == {0, 3}


def test_of_several_counts_the_highest_and_of_equal_ones_the_first(made):
    wires = numbered_wires(made.telemetry, made.fabric)
    one, other = (wires.find(end) for end in made.netdevs[:2])
    top, place = wires.highest(np.array([one, -1, one, one, other]), np.array([2.0, 9, 5, 5, 0]))
    assert (top[one], place[one], top[other], place[other]) == (5, 2, 0, 4)
    assert sum(not math.isnan(value) for value in top) == 2
    first = wires.firsts(np.array([-1, one, one]), np.array([1.0, 2.0, 3.0]))
    assert wires.mapping(first) == {made.netdevs[0]: 2.0}
    assert wires.mapping(wires.at_far(first)) == {made.interfaces[0]: 2.0}


@pytest.mark.parametrize("timed", [False, True])
def test_an_egress_knows_best_how_long_it_was_paused(made, timed):
    telemetry, egress, host = made.telemetry, made.interfaces[0], made.netdevs[0]
    telemetry.see(interface.SPEED, egress, 100e9)
    telemetry.grow(interface.PFC_RX_FRAMES, priority(egress, 3), 10)
    telemetry.grow(interface.PFC_RX_PAUSE, priority(made.interfaces[1], 3), 3.0)
    if timed:
        telemetry.grow(interface.PFC_TX_PAUSE, priority(host, 3), 6.0)
    [stalls] = stalls_by_priority(telemetry, made.fabric, frozenset()).values()
    by_frames = 10 * 65535 * 512 / 100e9 / 30
    share = 0.2 if timed else pytest.approx(by_frames)
    assert stalls.shares(0.0) == {made.interfaces[1]: 0.1, egress: share}
    assert stalls.shares(0.15) == ({egress: 0.2} if timed else {})
    assert stalls[egress].counted_at == priority(host if timed else egress, 3)
    assert stalls[egress].exact is timed
    assert host not in stalls
    assert len(stalls) == 2

"""What happens to a running fabric: which events are taken, when, and what they change."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from collectors.model.errors import ConfigInvalid
from simlab.packet import layout as at
from simlab.packet.interventions import (
    Intervention,
    Schedule,
    What,
    apply,
    check,
    reroute,
    run_with_events,
)
from simlab.packet.overrides import changed
from simlab.packet.parameters import Model, NicModel, SwitchModel
from simlab.packet.results import flow_table, paused_ps, port_rows, port_table
from simlab.packet.simulation import Simulation
from simlab.packet.topology import leaf_spine, star
from simlab.packet.traffic import Connection, Message, Traffic
from simlab.packet.workloads import incast, permutation
from tests.simlab.packet.bare import MODEL, SIZE, alone


def refused(what: What, **values: float) -> bool:
    try:
        check(Intervention(**{"at_s": 0.0, "what": what, "cable": 0, **values}))
    except ConfigInvalid:
        return True
    return False


@pytest.mark.parametrize(
    ("what", "taken", "not_taken"),
    [
        (What.RATE, (1e5, 1e15), (99_999.0, 0.0, -1.0, 2e15, math.inf)),
        (What.ERROR_RATE, (0.0, 1.0), (-0.01, 1.01, math.inf)),
        (What.DRAIN, (0.0, 1.0, 1e15), (-1.0, 0.9, 2e15, math.inf)),
        (What.LINK_DOWN, (-1.0, 0.0, 17.0), (17.1, math.nan, math.inf, -math.inf)),
        (What.PAUSE_STORM, (0.0, 1.0), (0.5, 2.0, math.nan)),
    ],
)
def test_a_value_is_a_rate_or_a_probability(what, taken, not_taken):
    assert not any(refused(what, value=value) for value in taken)
    assert all(refused(what, value=value) for value in not_taken)


@pytest.mark.parametrize(
    ("what", "told"), [(What.RATE, r"100000 to 1e\+15"), (What.DRAIN, r"not 1 to 1e\+15")]
)
def test_a_rate_that_is_none_is_told_with_its_bounds(what, told):
    with pytest.raises(ConfigInvalid, match=told):
        check(Intervention(at_s=0.0, what=what, cable=0, value=2e15))


def test_a_time_is_finite_and_a_priority_one_of_eight():
    times = [-1e-12, 0.0, 1.0, math.inf]
    assert [refused(What.LINK_UP, at_s=time) for time in times] == [True, False, False, True]
    asked = [-1, 0, 7, 8]
    wrong = [refused(What.PAUSE_STORM, priority=priority) for priority in asked]
    assert wrong == [True, False, False, True]


def test_cables_and_hosts_are_those_of_the_fabric():
    sim = Simulation(star(2), MODEL, alone())
    for cable in (-1, 2, None):
        with pytest.raises(ConfigInvalid, match=f"no cable {cable}"):
            apply(sim, Intervention(at_s=0.0, what=What.LINK_UP, cable=cable))
    for host in (2, None):
        with pytest.raises(ConfigInvalid, match=f"no host {host}"):
            apply(sim, Intervention(at_s=0.0, what=What.DRAIN, host=host))
    assert apply(sim, Intervention(at_s=0.0, what=What.LINK_UP, cable=1)) is None


def paths(sim: Simulation) -> list[int]:
    return [forward[0] for forward, _ in sim.state.paths]


@pytest.mark.parametrize("after", [0.0, 5e-6, -1.0])
def test_routing_avoids_a_dead_cable_at_once_later_or_never(after):
    sim = Simulation(leaf_spine(2, 2, 4), MODEL, permutation(range(8), 1000, shift=4))
    cable = paths(sim)[0] // 2
    down = Intervention(at_s=1e-6, what=What.LINK_DOWN, cable=cable, value=after)
    schedule = Schedule([down])
    schedule.run(sim, 1e-6)
    assert port_rows(sim)[2 * cable, at.PORT_TROUBLE] == at.LINK_DOWN
    assert (paths(sim)[0] // 2 == cable) == (after != 0.0)
    schedule.run(sim, 1e-6 + 5e-6 - 1e-12)
    assert (paths(sim)[0] // 2 == cable) == (after != 0.0)
    schedule.run(sim, 1e-6 + 5e-6)
    assert (paths(sim)[0] // 2 == cable) == (after < 0)


def test_a_cable_that_is_back_before_routing_notices_stays_up():
    sim = Simulation(leaf_spine(2, 2, 4), MODEL, permutation(range(8), 1000, shift=4))
    before = paths(sim)
    cable = before[0] // 2
    down = Intervention(at_s=1e-6, what=What.LINK_DOWN, cable=cable, value=5e-6)
    up = Intervention(at_s=3e-6, what=What.LINK_UP, cable=cable)
    run_with_events(sim, 10e-6, [down, up])
    assert port_rows(sim)[2 * cable, at.PORT_TROUBLE] == 0
    assert paths(sim) == before


def test_an_event_at_the_end_of_a_run_happens():
    sim = Simulation(star(2), MODEL, alone(100))
    run_with_events(sim, 2e-6, [Intervention(at_s=2e-6, what=What.LINK_DOWN, cable=0, value=-1)])
    assert port_rows(sim)[0, at.PORT_TROUBLE] == at.LINK_DOWN


def test_a_run_that_is_done_leaves_later_events_alone():
    sim = Simulation(star(2), MODEL, alone())
    late = Intervention(at_s=1e-3, what=What.LINK_DOWN, cable=0, value=-1)
    assert run_with_events(sim, 2e-3, [late], stop_when_done=True) is True
    assert port_rows(sim)[0, at.PORT_TROUBLE] == 0
    assert sim.now_s < 10e-6


def test_a_run_goes_on_to_its_end_when_all_is_done_unless_it_is_told_to_stop():
    sim = Simulation(star(2), MODEL, alone())
    assert run_with_events(sim, 1e-3, [])
    assert sim.now_s == 1e-3
    again = sim.reseeded(1)
    assert Schedule([]).run(again, 1e-3)
    assert again.now_s == 1e-3


def test_reroute_tells_how_many_connections_moved():
    sim = Simulation(leaf_spine(2, 2, 4), MODEL, permutation(range(8), 1000, shift=4))
    assert reroute(sim) == 0
    cable = paths(sim)[0] // 2
    used = [
        any(port // 2 == cable for port in (*forward, *back)) for forward, back in sim.state.paths
    ]  # fmt: skip
    sim.dead.add(cable)
    assert reroute(sim) == sum(used) > 1


def test_paths_that_change_may_fill_their_space_to_the_last_word():
    for room, fits in ((6, True), (5, False)):
        sim = Simulation(leaf_spine(2, 2, 1), MODEL, alone())
        sim.dead.add(paths(sim)[0] // 2)
        begin, _ = sim.state.path_space
        sim.state.path_space = (begin, begin + room)
        if fits:
            assert reroute(sim) == 1
            assert sim.state.path_space == (begin + 6, begin + 6)
            assert sim.run(1e-3, stop_when_done=True)
        else:
            with pytest.raises(ConfigInvalid, match="too many changes"):
                reroute(sim)


def test_a_way_back_that_is_longer_than_the_way_there_stays_what_it_was():
    """Hosts 0, 1, 2 on leaves 3, 4, 5; ACKs come back by way of leaf 5 and the other spine."""
    fabric = leaf_spine(3, 2, 1)
    port = fabric.port_to
    one = Connection(src=0, dst=1)
    spine = fabric.peer(paths(Simulation(fabric, MODEL, Traffic((one,), alone().messages)))[0])
    other = 13 - spine
    nodes = (4, spine, 5, other, 3, 0)
    back = tuple(port(a, b) for a, b in pairwise(nodes))
    messages = tuple(Message(connection=0, size_bytes=1000, start_s=t) for t in (0.0, 50e-6))
    sim = Simulation(fabric, MODEL, Traffic((replace(one, ack_path=back),), messages))
    dead = Intervention(at_s=20e-6, what=What.LINK_DOWN, cable=port(3, spine) // 2, value=0.0)
    begin, _ = sim.state.path_space
    sim.state.path_space = (begin, begin + 3 + 5)
    assert run_with_events(sim, 200e-6, [dead])
    assert sim.state.paths[0] == ((port(3, other), port(other, 4), port(4, 1)), back)
    assert port_table(sim)["tx_packets"][list(back)].tolist() == [2] * 5


def test_a_new_rate_is_kept_to_the_fraction_of_a_picosecond():
    """640 Gbit/s is 12.5 ps a byte."""
    sim = Simulation(star(2), MODEL, alone(101))
    for cable in (0, 1):
        apply(sim, Intervention(at_s=0.0, what=What.RATE, cable=cable, value=640e9))
    assert sim.run(1.0, stop_when_done=True)
    sent = port_rows(sim)[0, at.PORT_TX_BYTES]
    assert sent == 101 * SIZE
    # the pacing of 100 Gbit/s stays; the last packet and its ACK take the new wire
    exact = 100 * 83.84 + 2 * 13.1 + 2 * 0.75 + 4000
    assert flow_table(sim)["fct_s"][0] * 1e9 == pytest.approx(exact, abs=2e-3)


def test_a_host_takes_in_what_its_drain_says_and_the_wire_again_at_0():
    """At 20 Gbit/s a byte takes 400 ps."""
    sim = Simulation(star(2), MODEL, alone())
    row = sim.port_row(2)
    for rate, per_byte in ((20e9, 400), (0.0, 0)):
        apply(sim, Intervention(at_s=0.0, what=What.DRAIN, host=1, value=rate))
        assert sim.word(row + at.PORT_DRAIN_NUM) == per_byte


def test_a_switch_without_pfc_obeys_no_pause_of_any_priority():
    storms = [
        Intervention(at_s=0.0, what=What.PAUSE_STORM, host=1, value=1, priority=priority)
        for priority in range(8)
    ]
    for switch, obeyed in ((SwitchModel(pfc=False), []), (SwitchModel(lossless=(0, 5)), [0, 5])):
        sim = Simulation(star(2), replace(MODEL, switch=switch), incast([0], 1, 1000))
        run_with_events(sim, 10e-6, storms)
        assert paused_ps(sim)[3].nonzero()[0].tolist() == obeyed


def test_a_place_takes_what_holds_everywhere_and_its_own_changes():
    data = {
        "switch": {"alpha": 0.5},
        "switches": {4: {"xoff_bytes": 7}},
        "nics": {2: {"pfc": False}},
    }
    model = changed(Model(), data, "model")
    assert model.switches == {4: SwitchModel(alpha=0.5, xoff_bytes=7)}
    assert model.nics == {2: NicModel(pfc=False)}

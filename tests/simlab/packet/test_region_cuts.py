"""Where a fabric is cut into regions, how far these may run apart, and how events are numbered."""

from dataclasses import replace

import pytest

from simlab.packet import regions
from simlab.packet.parameters import Model
from simlab.packet.regions import divide, number_entities
from simlab.packet.topology import Cable, Topology, leaf_spine, star
from simlab.packet.traffic import Connection, Message, Traffic

LEAVES = leaf_spine(4, 2, 4)
ONE = (Message(connection=0, size_bytes=1),)


def pairs(count: int, dst: int = 1, **message: float) -> Traffic:
    """Return so many queue pairs of host 0, and one message."""
    return Traffic((Connection(src=0, dst=dst),) * count, (replace(ONE[0], **message),))


@pytest.fixture
def _large(monkeypatch):
    """Any fabric counts as a large one."""
    monkeypatch.setattr(regions, "LARGE", 0)


def test_a_fabric_of_4096_events_stays_whole_and_the_next_one_does_not():
    """Three events a directed port and two a queue pair."""
    most = (4096 - 6 * 24) // 2
    assert divide(LEAVES, Model(), pairs(most)).count == 1
    assert divide(LEAVES, Model(), pairs(most + 1)).count == 5


@pytest.mark.parametrize(("count", "block"), [(16, 64), (17, 128)])
def test_a_whole_fabric_is_one_region_with_room_for_its_events_and_the_two_common_ones(
    count, block
):
    fabric = star(5)
    whole = divide(fabric, Model(), pairs(count))
    assert whole.of_node.tolist() == [0] * 6
    assert (whole.count, whole.even, whole.window, whole.block) == (1, 1, 0, block)
    entities = number_entities(fabric, pairs(count), whole)
    assert (entities.roots, entities.leaves, entities.start) == (1, block, 30)


@pytest.mark.usefixtures("_large")
def test_leaves_are_even_and_spines_odd_and_spines_share_a_region():
    cut = divide(LEAVES, Model(), pairs(1))
    hosts = [host // 4 for host in range(16)]
    assert cut.of_node.tolist() == [*hosts, 0, 1, 2, 3, 4, 4]
    assert (cut.count, cut.even, cut.window) == (5, 4, 10**6)


@pytest.mark.usefixtures("_large")
def test_switches_in_a_circle_of_three_are_neither_even_nor_odd():
    cables = [Cable(host, 3 + host, 100e9, 1e-6) for host in range(3)]
    cables += [Cable(3 + i, 3 + (i + 1) % 3, 100e9, 1e-6) for i in range(3)]
    fabric = Topology(6, (3, 4, 5), tuple(cables), (0,) * 3 + (1,) * 3)
    cut = divide(fabric, Model(), pairs(1))
    assert (cut.count, cut.even) == (3, 3)


@pytest.mark.usefixtures("_large")
def test_a_block_has_room_for_the_largest_region_to_the_last_event():
    """A leaf with one host and two uplinks has 12 events of ports; 2 pairs make 16."""
    fabric = leaf_spine(2, 2, 1)
    assert divide(fabric, Model(), pairs(2)).block == 16
    assert divide(fabric, Model(), pairs(3)).block == 32
    # two hosts, one uplink and a pair: 17
    assert divide(leaf_spine(2, 1, 2), Model(), pairs(1, dst=2)).block == 32


@pytest.mark.usefixtures("_large")
def test_regions_run_apart_for_as_long_as_the_shortest_cable_between_them():
    cables = tuple(
        replace(cable, delay_s=0.3e-6 if cable.a < 16 else 2e-6 + cable.b * 1e-9)
        for cable in LEAVES.cables
    )
    assert divide(replace(LEAVES, cables=cables), Model(), pairs(1)).window == 2_020_000


@pytest.mark.usefixtures("_large")
@pytest.mark.parametrize("name", ["delay_s", "gate_delay_s"])
def test_a_delay_of_a_message_is_two_windows_and_a_picosecond_at_least(name):
    for delay, window in ((900_001, 450_000), (900_002, 450_000), (3_000_000, 10**6)):
        assert divide(LEAVES, Model(), pairs(1, **{name: delay * 1e-12})).window == window
    assert divide(LEAVES, Model(), pairs(1, **{name: 1e-12})).count == 1
    assert divide(LEAVES, Model(), pairs(1, **{name: 0.0})).window == 10**6


@pytest.mark.usefixtures("_large")
@pytest.mark.parametrize(("delay", "count"), [(0.2e-6, 5), (0.199999e-6, 1)])
def test_regions_that_could_only_run_apart_for_less_than_200_ns_stay_together(delay, count):
    assert divide(leaf_spine(4, 2, 4, delay_s=delay), Model(), pairs(1)).count == count


@pytest.mark.usefixtures("_large")
def test_as_many_trees_as_there_are_regions_and_one_fit_a_power_of_two():
    """Three regions and the common events: four trees; with five it would be eight."""
    fabric = leaf_spine(2, 1, 1)
    most = pairs(2**13)
    cut = divide(fabric, Model(), most)
    assert (cut.count, cut.block) == (3, 2**15)  # 4 * 2**15 of 2**18 - 1
    entities = number_entities(fabric, most, cut)
    assert (entities.roots, entities.leaves, entities.start) == (4, 2**17, 3 * 2**15)
    assert divide(fabric, Model(), pairs(2**14)).count == 1  # 2**18 are one too many


@pytest.mark.usefixtures("_large")
def test_every_event_has_a_number_of_its_own_in_the_block_of_its_region():
    traffic = Traffic(tuple(Connection(src=host, dst=host ^ 1) for host in range(16)), ONE)
    cut = divide(LEAVES, Model(), traffic)
    entities = number_entities(LEAVES, traffic, cut)
    ports = range(2 * len(LEAVES.cables))
    kinds = ("arrival", "departure", "pause_timer", "qp")
    own = {kind: getattr(entities, kind).tolist() for kind in kinds}
    timers = [number + 1 for number in own["qp"]]
    every = [*own["arrival"], *own["departure"], *own["pause_timer"], *own["qp"], *timers]
    assert len(set(every)) == len(every) == 3 * len(ports) + 2 * 16

    def region(node: int) -> int:
        return int(cut.of_node[node])

    for port in ports:
        assert own["arrival"][port] // cut.block == region(LEAVES.peer(port))
        assert own["departure"][port] // cut.block == region(LEAVES.end(port))
        assert own["pause_timer"][port] // cut.block == region(LEAVES.end(port))
    for host in range(16):
        assert own["qp"][host] // cut.block == region(host)
        assert own["qp"][host] >= entities.first_qp[region(host)]
    assert entities.start == 5 * cut.block

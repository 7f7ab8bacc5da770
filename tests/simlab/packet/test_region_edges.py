"""Regions at the picosecond: events that are at the same time, and where a run ends."""

from dataclasses import replace

import pytest

from simlab.packet import layout as at
from simlab.packet import regions
from simlab.packet.interventions import Intervention, What, apply
from simlab.packet.parameters import Model
from simlab.packet.simulation import Simulation
from simlab.packet.topology import Cable, Topology, leaf_spine, star
from simlab.packet.workloads import Flow, incast, traffic_of_flows
from tests.simlab.packet.recorded_runs import OFF, TIGHT, WIRE
from tests.simlab.packet.recorded_words import told

# Frames of 1000 bytes and acknowledgements of 100: all events are at whole 8 ns.
MODEL = Model(congestion=OFF, transport=WIRE, switch=TIGHT)
LEAVES = leaf_spine(4, 2, 4)
PS = 1e-12


@pytest.fixture
def apart(monkeypatch):
    def cut() -> None:
        monkeypatch.setattr(regions, "LARGE", 0)

    return cut


def soonest(sim: Simulation) -> int:
    """Return when the next event of all is, in ps."""
    trees = range(sim.word(at.REGION_COUNT) + 1)
    return min(sim.word(at.TREE + sim.word(at.ROOTS) + i) for i in trees) >> at.ENTITY_BITS


def test_a_run_has_the_events_of_its_last_picosecond_and_none_later():
    sim = Simulation(star(2), MODEL, traffic_of_flows([Flow(src=0, dst=1, size_bytes=900)]))
    arrival = 80_000 + 1_000_000
    sim.run((arrival - 1) * PS)
    assert (sim.events, sim.word(at.NOW)) == (2, arrival - 1)
    sim.run(arrival * PS)
    assert sim.events == 3


def on_the_grid(
    pieces: list[float], fabric: Topology = LEAVES, period: float = 40e-9
) -> list[tuple[int, dict[str, list[int]]]]:
    """Run an incast in pieces; samples and a late start fall on the times of arrivals."""
    hosts = len(fabric.hosts)
    flows = [Flow(src=host, dst=0, size_bytes=90_000) for host in range(1, hosts)]
    flows += [Flow(src=5, dst=hosts - 2, size_bytes=9000, start_s=4e-6 - PS)]
    flows += [Flow(src=6, dst=hosts - 2, size_bytes=9000, start_s=4.8e-6)]
    sim = Simulation(fabric, MODEL, traffic_of_flows(flows, reuse=False))
    switches = (hosts, *(node for node in fabric.switches if fabric.tier[node] == 2))
    uplinks = [p for p in range(2 * len(fabric.cables)) if fabric.end(p) in switches]
    sim.watch([(port, 3) for port in uplinks], period, 40e-6)
    seen = []
    for until in pieces:
        sim.run(until)
        seen.append((sim.events, told(sim)))
    return seen


def test_samples_and_starts_at_the_time_of_an_arrival_come_in_the_same_order(apart):
    pieces = [6e-6 - PS, 6e-6, 9.96e-6 - PS, 20e-6 - PS, 40e-6]
    whole = on_the_grid(pieces)
    apart()
    assert on_the_grid(pieces) == whole


def test_a_run_that_ends_before_a_sample_leaves_the_arrivals_at_its_time_undone(apart):
    """Data is at a spine every 80 ns, which is when samples are, and an ACK 16 ns later."""

    def events() -> list[int]:
        sim = Simulation(LEAVES, MODEL, incast([0], 4, 90_000))
        sim.watch([(0, 3)], 80e-9, 20e-6)
        counts = []
        for step in range(90, 100):
            sim.run(step * 80e-9 - PS)
            counts.append(sim.events)
        return counts

    whole = events()
    apart()
    assert events() == whole


def test_no_region_takes_a_sample_before_the_others_are_there(apart):
    """With four regions the words behind their rows are those of a port, with a packet on it."""
    fabric = leaf_spine(3, 2, 4)
    whole = on_the_grid([20e-6], fabric, 1.5e-6)
    apart()
    assert regions.divide(fabric, MODEL, incast([1], 0, 900)).count == 4
    assert on_the_grid([20e-6], fabric, 1.5e-6) == whole


def test_two_switches_are_two_regions(apart):
    cables = (Cable(0, 2, 100e9, 1e-6), Cable(1, 3, 100e9, 1e-6), Cable(2, 3, 100e9, 1e-6))
    pair = Topology(4, (2, 3), cables, (0, 0, 1, 1))
    apart()
    sim = Simulation(pair, MODEL, incast([0], 1, 90_000))
    assert sim.word(at.REGION_COUNT) == 2
    assert sim.run(1e-3, stop_when_done=True)


@pytest.mark.parametrize("leaf", range(4))
def test_what_happens_in_one_region_alone_happens(apart, leaf):
    apart()
    sim = Simulation(LEAVES, MODEL, incast([4 * leaf], 4 * leaf + 1, 90_000))
    assert sim.word(at.REGION_COUNT) == 5
    assert sim.run(1e-3, stop_when_done=True)


@pytest.mark.parametrize("leaf", range(4))
def test_when_all_is_done_no_region_is_behind(apart, leaf):
    """Hosts of the other leaves storm: something happens there all the time."""
    apart()
    model = replace(MODEL, host=replace(MODEL.host, pause_s=0.4e-6))
    sim = Simulation(LEAVES, model, incast([4 * leaf], 4 * leaf + 1, 90_000))
    for host in range(0, 16, 4):
        if host != 4 * leaf:
            apply(sim, Intervention(at_s=0.0, what=What.PAUSE_STORM, host=host, value=1))
    assert sim.run(1e-3, stop_when_done=True)
    assert soonest(sim) > sim.word(at.NOW) > 0

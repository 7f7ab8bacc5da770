"""Regions of a fabric run apart, and yet everything happens as if all events were in one queue."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from collectors.model.ecn import EcnThresholds
from simlab.packet import layout as at
from simlab.packet import regions, simulation
from simlab.packet.collectives import Collective, Kind, QpMode, collective
from simlab.packet.interventions import Intervention, What, run_with_events
from simlab.packet.parameters import (
    Balancing,
    EcnAt,
    HostModel,
    InfinibandLink,
    Model,
    Spread,
    SwitchModel,
)
from simlab.packet.results import message_rows, queue_words
from simlab.packet.simulation import Simulation
from simlab.packet.topology import Cable, Topology, fat_tree, leaf_spine, star
from simlab.packet.traffic import Connection, Message, Traffic
from simlab.packet.workloads import Flow, incast, permutation, traffic_of_flows
from tests.simlab.packet.recorded_runs import FIRMWARE, OFF, TIGHT, WIRE
from tests.simlab.packet.recorded_words import told

# Marks every packet above the threshold, so that no random number is drawn.
STEP = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(20e3, 20e3, 1.0)),)
LEAVES = leaf_spine(4, 2, 4)
TREE = fat_tree(4)
EVERY_HOST = tuple(range(16))
UNTIL = 300e-6


def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "LARGE", 0)


def count(sim: Simulation) -> int:
    return sim.word(at.REGION_COUNT)


def marks() -> Simulation:
    """Hosts of three leaves into one host: marks, CNPs, cuts, pauses that spread, drops."""
    switch = replace(TIGHT, ecn=STEP, headroom_bytes=9000)
    model = Model(congestion=FIRMWARE, transport=WIRE, switch=switch)
    sim = Simulation(LEAVES, model, incast(range(1, 16), 0, 400_000))
    sim.watch([(1, 3), (40, 3)], 0.7e-6, UNTIL)
    sim.run(UNTIL)
    return sim


def three_tiers() -> Simulation:
    """Everybody sends into another pod, one host is slow."""
    host = HostModel(
        slow={2: 20e9}, rx_buffer_bytes=60_000, rx_xoff_bytes=20_000, rx_xon_bytes=10_000
    )
    model = Model(congestion=OFF, transport=WIRE, switch=TIGHT, host=host)
    sim = Simulation(TREE, model, permutation(EVERY_HOST, 300_000, seed=3))
    sim.run(UNTIL)
    return sim


def trouble() -> Simulation:
    """A cable fails and comes back, another one slows down, a host storms under a watchdog."""
    switch = replace(TIGHT, pause_s=10e-6, watchdog_s=40e-6, watchdog_restore_s=60e-6)
    wire = replace(WIRE, selective_repeat=True)
    model = Model(congestion=OFF, transport=wire, switch=switch)
    sim = Simulation(LEAVES, model, permutation(EVERY_HOST, 900_000, seed=5))
    events = [
        Intervention(at_s=20e-6, what=What.LINK_DOWN, cable=16, value=30e-6),
        Intervention(at_s=30e-6, what=What.PAUSE_STORM, host=4, value=1),
        Intervention(at_s=90e-6, what=What.RATE, cable=18, value=33e9),
        Intervention(at_s=150e-6, what=What.LINK_UP, cable=16),
        Intervention(at_s=200e-6, what=What.PAUSE_STORM, host=4, value=0),
    ]
    run_with_events(sim, UNTIL, events)
    return sim


def ring(mode: QpMode, compute_s: float, *, stop: bool) -> Simulation:
    """An AllReduce in two iterations, all hosts at once and with work between."""
    what = Collective(
        kind=Kind.ALL_REDUCE, ranks=EVERY_HOST, size_bytes=160_000, qps=2, iterations=2, mode=mode,
        compute_s=compute_s, reduce_s=compute_s / 5,
    )  # fmt: skip
    sim = Simulation(LEAVES, Model(transport=WIRE), collective(what))
    sim.run(2e-3, stop_when_done=stop)
    assert sim.done
    return sim


def coupled_leaves() -> Simulation:
    """Three switches in a triangle: there are no even and odd ones."""
    cables = [Cable(host, 6 + host // 2, 100e9, 1e-6) for host in range(6)]
    cables += [Cable(6 + i, 6 + (i + 1) % 3, 100e9, 1.5e-6) for i in range(3)]
    topology = Topology(9, (6, 7, 8), tuple(cables), (0,) * 6 + (1,) * 3)
    model = Model(congestion=OFF, transport=WIRE, switch=TIGHT)
    sim = Simulation(topology, model, incast(range(1, 6), 0, 300_000))
    sim.run(UNTIL)
    return sim


RUNS: dict[str, tuple[int, Callable[[], Simulation]]] = {
    "marks": (5, marks),
    "three tiers": (14, three_tiers),
    "trouble": (5, trouble),
    "ring": (5, lambda: ring(QpMode.SPLIT, 0.0, stop=False)),
    "ring with work": (5, lambda: ring(QpMode.ROUND_ROBIN, 5e-6, stop=False)),
    "triangle": (3, coupled_leaves),
}


@pytest.mark.parametrize("name", RUNS)
def test_regions_change_nothing(name, monkeypatch):
    parts, run = RUNS[name]
    whole = run()
    assert count(whole) == 1
    apart(monkeypatch)
    cut = run()
    assert count(cut) == parts
    assert told(cut) == told(whole)


def test_a_run_in_pieces_is_a_run(monkeypatch):
    apart(monkeypatch)
    whole = told(marks())
    monkeypatch.setattr(simulation, "BUDGET", 700)
    assert told(marks()) == whole


def test_at_every_pause_all_regions_are_at_one_time(monkeypatch):
    apart(monkeypatch)
    monkeypatch.setattr(simulation, "BUDGET", 300)
    seen = []

    def look(progress: simulation.Progress) -> None:
        due = [sim.word(at.TREE + sim.word(at.ROOTS) + i) >> at.ENTITY_BITS for i in range(5)]
        seen.append((min(due) > sim.word(at.NOW), progress.now_s))

    sim = Simulation(LEAVES, Model(congestion=OFF), incast(range(1, 16), 0, 400_000))
    sim.run(50e-6, progress=look)
    assert len(seen) > 10
    assert all(later for later, _ in seen)
    assert [now for _, now in seen] == sorted(now for _, now in seen)


def test_a_run_that_stops_when_done_ends_at_the_last_acknowledgement(monkeypatch):
    whole = ring(QpMode.SPLIT, 3e-6, stop=True)
    apart(monkeypatch)
    cut = ring(QpMode.SPLIT, 3e-6, stop=True)
    assert cut.now_s == whole.now_s
    assert cut.word(at.NOW) == message_rows(cut)[:, at.MSG_ACKED_TIME].max()
    times = [at.MSG_START, at.MSG_RECEIVED_TIME, at.MSG_ACKED_TIME]
    assert np.array_equal(message_rows(cut)[:, times], message_rows(whole)[:, times])


def test_random_numbers_go_by_seed_and_region(monkeypatch):
    apart(monkeypatch)
    ecn = (EcnAt(rate_bps=100e9, thresholds=EcnThresholds(5e3, 200e3, 0.2)),)
    model = Model(congestion=FIRMWARE, transport=WIRE, switch=SwitchModel(ecn=ecn))
    sim = Simulation(LEAVES, model, incast(range(1, 16), 0, 400_000))
    results = []
    for seed in (1, 1, 2, -1):
        again = sim.reseeded(seed)
        again.run(UNTIL)
        results.append(told(again))
        assert queue_words(again, at.QUEUE_MARKED).sum() > 100
    assert results[0] == results[1]
    assert results[1] not in results[2:]
    rows = again.s[again.word(at.REGIONS) :][: 5 * at.REGION_WORDS].reshape(5, -1)
    assert len(set(rows[:, at.REGION_RANDOM_A].tolist())) == 5


def waiting(after_from: int) -> Traffic:
    """A message of host 0 that waits for one which arrives at another host."""
    connections = (Connection(src=0, dst=4), Connection(src=8, dst=after_from))
    messages = (
        Message(connection=0, size_bytes=900, free=0, after=(1,)),
        Message(connection=1, size_bytes=900),
    )
    return Traffic(connections, messages)


def test_what_is_coupled_more_tightly_than_by_cables_stays_whole(monkeypatch):
    apart(monkeypatch)
    flows = incast(range(1, 16), 0, 9000)
    plain = Model()
    assert count(Simulation(LEAVES, plain, flows)) == 5
    short = leaf_spine(4, 2, 4, delay_s=0.1e-6)
    assert count(Simulation(short, plain, flows)) == 1
    lanes = replace(plain, infiniband=InfinibandLink(credits_bytes=9000))
    assert count(Simulation(LEAVES, lanes, flows)) == 1
    reused = traffic_of_flows([Flow(src=1, dst=0, size_bytes=9000)])
    assert count(Simulation(LEAVES, plain, reused)) == 1
    assert count(Simulation(star(16), plain, flows)) == 1
    assert count(Simulation(LEAVES, plain, waiting(1))) == 5  # the same leaf
    assert count(Simulation(LEAVES, plain, waiting(5))) == 1


def test_small_fabrics_stay_whole():
    assert count(Simulation(LEAVES, Model(), incast(range(1, 16), 0, 9000))) == 1


@pytest.mark.parametrize("how", [Spread.SPRAY, Spread.FLOWLET, Spread.LEAST_QUEUE])
def test_packets_that_choose_their_path_all_arrive(how, monkeypatch):
    apart(monkeypatch)
    wire = replace(WIRE, selective_repeat=True, reorder_tolerant=True)
    model = Model(
        congestion=OFF, transport=wire, balancing=Balancing(spread=how, flowlet_gap_s=1e-6)
    )
    sim = Simulation(TREE, model, permutation(EVERY_HOST, 90_000, seed=4))
    assert count(sim) == 14
    assert sim.run(2e-3)
    assert (message_rows(sim)[:, at.MSG_ACKED_TIME] > 0).all()
    assert sim.word(at.PACKETS_ALIVE) == 0

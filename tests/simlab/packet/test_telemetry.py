"""A simulated fabric in the product's vocabulary: counters, widths, refresh, facts, recordings."""

from pathlib import Path

import pytest
import yaml

from collectors.model.catalogue.registry import columns
from collectors.model.entities import Slot
from collectors.model.errors import ConfigInvalid, Unavailable
from collectors.model.facts import Facts
from collectors.wire.facts import parse_facts
from collectors.wire.pack import unpack_batch
from collectors.wire.recording import read_recording
from simlab.loopback import free_port
from simlab.packet import layout as at
from simlab.packet.config import plan_of
from simlab.packet.fabric import run_fabric
from simlab.packet.parameters import InfinibandLink, Model
from simlab.packet.results import port_rows, qp_total, summary
from simlab.packet.simulation import Simulation
from simlab.packet.telemetry import Telemetry
from simlab.packet.telemetry_facts import fact_passes
from simlab.packet.telemetry_snapshot import put
from simlab.packet.topology import leaf_spine, star
from simlab.packet.workloads import incast
from tests.collectors import passes
from tests.tuner.processes import Serving
from tuner.store.sources import open_window

SCENARIO = """
name: storm
duration_s: 0.002
stop_when_done: false
topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts_per_leaf: 4}
workload: {kind: incast, receiver: 7, size_bytes: 5000000}
model:
  congestion: {profile: nvidia_firmware}
  switch:
    buffer_bytes: 4000000
    pause_s: 5.0e-6
    ecn: [{rate_bps: 100e9, thresholds: {kmin_bytes: 100e3, kmax_bytes: 400e3, pmax_ratio: 0.2}}]
telemetry: {interval_s: 0.0005, switch_refresh_s: 0.001}
"""


def plan():
    return plan_of(yaml.safe_load(SCENARIO), "scenario.yaml", Path())


def simulated() -> tuple[Simulation, Telemetry]:
    wanted = plan()
    sim = Simulation(wanted.topology, wanted.model, wanted.traffic)
    return sim, Telemetry(sim, start_ns=10**18, switch_refresh_s=0.001)


def values(telemetry: Telemetry) -> dict[tuple[str, str], float]:
    """Return (entity, metric) -> value in the metric's unit of one round of passes."""
    found = {}
    for one in telemetry.passes():
        found |= passes.values(one.seen)
    return found


def test_counters_are_those_of_the_simulation():
    sim, telemetry = simulated()
    sim.run(0.001)
    seen = values(telemetry)

    def total(metric: str) -> float:
        return sum(value for (_, name), value in seen.items() if name == metric)

    sums = summary(sim)
    assert total("node_infiniband_rp_cnp_packets_handled_total") == sums.cnp_handled > 0
    assert total("node_infiniband_np_cnp_packets_sent_total") == qp_total(sim, "cnp_sent") > 0
    assert total("fabric_queue_ecn_marked_packets_total") == sums.ecn_marked > 0
    frames = total("fabric_pfc_tx_frames_total")
    assert frames == sums.pause_frames > 0
    assert total("fabric_pfc_rx_pause_seconds_total") == pytest.approx(sums.paused_s, abs=40e-6)
    host = str(telemetry.names.port(0))
    sent = int(port_rows(sim)[sim.state.nics[0], at.PORT_TX_BYTES])
    assert seen[host, "node_infiniband_port_data_transmitted_bytes_total"] == sent // 4 * 4
    leaf = str(telemetry.names.interface(sim.state.nics[0] ^ 1))
    arrived = seen[leaf, "fabric_interface_rx_bytes_total"]
    assert 0 < arrived <= sent


def test_switch_counters_are_refreshed_less_often_and_watermarks_cleared():
    sim, telemetry = simulated()
    metric = "fabric_queue_occupancy_max_bytes"

    def watermark() -> float:
        return max(value for (_, name), value in values(telemetry).items() if name == metric)

    sim.run(0.0005)
    first = watermark()
    sim.run(0.0010)
    assert watermark() == first  # the database has not been refreshed yet
    sim.run(0.0016)
    later = watermark()
    assert later != first
    assert summary(sim).queue_max_bytes >= max(first, later)


def test_narrow_counters_wrap_or_stick_as_their_source_does():
    held = {}
    put(held, "sysfs_counters", "mlx5", {"port_xmit_wait": 2**40})
    column = columns("sysfs_counters", "mlx5")["port_xmit_wait"]
    assert held[column] == 2**32 - 1
    put(held, "hw_counters", "mlx5", {"out_of_sequence": 2**32 + 5})
    assert held[columns("hw_counters", "mlx5")["out_of_sequence"]] == 5


def test_settings_links_and_queue_pairs_are_told():
    _, telemetry = simulated()
    facts: list[Facts] = [one.seen.facts for one in fact_passes(telemetry) if one.seen.facts]
    settings = {(str(s.entity), s.name): s.value for one in facts for s in one.settings}
    names = telemetry.names
    port = str(names.port(0))
    assert settings[port, "congestion_control"] == "dcqcn"
    assert settings[port, "dcqcn_increase_timer_s"] == 300e-6
    uplink = names.interface(telemetry.sim.topology.ports_of()[8][4])
    assert settings[str(Slot(uplink, "queue", 3)), "kmin_bytes"] == 100e3
    assert settings[str(uplink), "pfc_priorities"] == tuple(p == 3 for p in range(8))
    links = {tuple(sorted((str(n.local), str(n.remote)))) for f in facts for n in f.neighbours}
    assert len(links) == len(telemetry.sim.topology.cables)
    pairs = [pair for one in facts for pair in one.queue_pairs]
    assert len(pairs) == 2 * 7  # each end of a connection has one
    assert {pair.local_qpn for pair in pairs if pair.device == names.device(0)} == {0x100}
    assert len({pair.udp_source_port for pair in pairs}) > 1


def test_infiniband_reports_waiting_and_no_ethernet():
    model = Model(infiniband=InfinibandLink())
    sim = Simulation(star(5), model, incast(range(4), 4, 400_000))
    sim.run(60e-6)
    telemetry = Telemetry(sim, start_ns=0)
    seen = values(telemetry)
    wait = [
        v for (_, name), v in seen.items() if name == "node_infiniband_port_transmit_wait_total"
    ]
    assert max(wait) * 4e-9 > 20e-6
    hosts = [
        entity for entity, name in seen if name.startswith("fabric_pfc") and "netdev" in entity
    ]
    assert not hosts
    layers = [
        a.value
        for one in fact_passes(telemetry)
        if one.seen.facts
        for a in one.seen.facts.attributes
        if a.name == "link_layer"
    ]
    assert set(layers) == {"InfiniBand"}


def test_a_recording_holds_every_pass_and_the_facts(tmp_path):
    told = run_fabric(plan(), record=tmp_path / "rec", start_ns=10**18)
    assert told["passes"] == 5
    assert told["agents"] == 9
    schemas, batches, facts = {}, [], []
    for item in read_recording(tmp_path / "rec"):
        kind = item.WhichOneof("body")
        if kind == "schema":
            schemas[item.schema.id] = item.schema
        elif kind == "batch":
            batches.append(item.batch)
        else:
            facts.append(item.facts)
    assert sum(len(unpack_batch(b, schemas[b.schema])) > 0 for b in batches) == len(batches)
    assert {b.agent for b in batches} == {"switch-poller", *(f"host{i}" for i in range(8))}
    assert min(b.at_ns for b in batches) == 10**18
    assert max(b.at_ns for b in batches) == 10**18 + 2_000_000
    assert any(parse_facts(f.json).neighbours for f in facts)
    numbers = sorted(x.seq for x in (*batches, *facts) if x.agent == "host0")
    assert numbers == list(range(1, len(numbers) + 1))
    with pytest.raises(ConfigInvalid, match="not empty"):
        run_fabric(plan(), record=tmp_path / "rec")


def test_a_real_tuner_takes_the_stream_and_sees_the_fabric(tmp_path):
    """The tuner as a process, asked through its own window."""
    serving = Serving(tmp_path / "store").start()
    try:
        told = run_fabric(plan(), stream=serving.target)
        assert told["values"] > 1000
        window, _ = open_window(tuner=serving.target)
        assert len(window.agents) == 9
        marked = window.growth_all("fabric_queue_ecn_marked_packets_total")
        assert sum(growth.total for growth in marked.values()) > 100
    finally:
        serving.stop()


def test_nobody_listening_is_one_clear_error():
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1"):
        run_fabric(plan(), stream=f"127.0.0.1:{free_port()}")


def test_two_tiers_have_names_of_their_own():
    sim = Simulation(leaf_spine(2, 2, 1), Model(), incast([0], 1, 1000))
    telemetry = Telemetry(sim, start_ns=0)
    assert telemetry.names.switch(2).name == "leaf0"
    assert telemetry.names.switch(5).name == "spine1"

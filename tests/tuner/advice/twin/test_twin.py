"""The twin of what a simulated fabric reported does what that fabric did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from collectors.model.entities import Port
from collectors.model.errors import NotSupported
from collectors.model.facts import Attribute
from simlab.packet.config import Plan, plan_of
from simlab.packet.fabric import run_fabric
from simlab.packet.parameters import Form
from tests.tuner.fake import FakeTelemetry, lab
from tuner.advice.twin.replay import replay
from tuner.advice.twin.twin import Twin, build_twin
from tuner.fabric.graph import build_fabric
from tuner.store.sources import open_window

ECN = (
    "ecn: [{rate_bps: 100e9, thresholds: {kmin_bytes: 100e3, kmax_bytes: 400e3, pmax_ratio: 0.2}}]"
)
BASE = "duration_s: 0.012\ntelemetry: {interval_s: 0.0005, switch_refresh_s: 0.0005}\n"
SCENARIOS = {
    "incast with ECN": f"""
topology: {{kind: star, hosts: 9}}
workload: {{kind: incast, receiver: 8, size_bytes: 4000000}}
model: {{congestion: {{profile: nvidia_firmware}}, switch: {{{ECN}}}}}
""",
    "incast without ECN": """
topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts_per_leaf: 8}
workload: {kind: incast, receiver: 15, size_bytes: 2000000, qps: 2}
model: {congestion: {profile: nvidia_firmware}, switch: {buffer_bytes: 4000000}}
""",
    "incast without DCQCN": f"""
topology: {{kind: star, hosts: 17, rate_bps: 400e9}}
workload: {{kind: incast, receiver: 16, size_bytes: 8000000}}
model: {{congestion: {{form: "off"}}, switch: {{{ECN}}}}}
""",
    "shifted permutation": f"""
topology: {{kind: leaf_spine, leaves: 2, spines: 4, hosts_per_leaf: 4}}
workload: {{kind: permutation, size_bytes: 30000000, shift: 1, qps: 2}}
model: {{congestion: {{profile: hpcc}}, switch: {{{ECN}}}}}
""",
}


def scenario(name: str) -> Plan:
    return plan_of(yaml.safe_load(BASE + SCENARIOS[name]), name, Path())


def twin_of(plan: Plan, folder: Path, **options: object) -> Twin:
    run_fabric(plan, record=folder, start_ns=1_800_000_000_000_000_000)
    window, _ = open_window(f"dir={folder}", "", "")
    return build_twin(window, build_fabric(window), **options)


@pytest.mark.parametrize("name", SCENARIOS)
def test_twin_reproduces_the_scenario_it_was_recorded_from(name, tmp_path):
    """Stated margins: job time 5 %, marked share 0.03, paused share 0.1."""
    plan = scenario(name)
    truth = replay(plan)
    twin = twin_of(plan, tmp_path / "r", slice_s=1.0)
    found = twin.run()
    assert truth.finished
    assert found.finished
    assert found.job_s == pytest.approx(truth.job_s, rel=0.05)
    assert found.marked_ratio == pytest.approx(truth.marked_ratio, abs=0.03)
    assert found.paused_ratio == pytest.approx(truth.paused_ratio, abs=0.1)
    # and what was counted says the same of the twin without knowing the scenario
    assert twin.seen.seconds == pytest.approx(truth.job_s, rel=0.25)
    assert twin.seen.marked_ratio == pytest.approx(found.marked_ratio, abs=0.03)


def test_settings_of_the_scenario_are_those_of_the_twin(tmp_path):
    plan = scenario("incast with ECN")
    twin = twin_of(plan, tmp_path / "r")
    model = twin.plan.model
    assert model.congestion.form is Form.FIRMWARE
    assert model.congestion.dcqcn == plan.model.congestion.dcqcn
    assert model.switch.ecn == plan.model.switch.ecn
    assert model.switch.buffer_bytes == plan.model.switch.buffer_bytes
    assert model.switch.alpha == plan.model.switch.alpha
    assert twin.flows.value == 8
    assert twin.flows.low < 8 < twin.flows.high
    assert any("unknown length" in text for text in twin.assumed)


def test_a_slice_stands_for_a_long_span(tmp_path):
    plan = scenario("incast without DCQCN")
    twin = twin_of(plan, tmp_path / "r", slice_s=1e-3)
    assert 0 < twin.load.share < 1
    assert twin.run().job_s == pytest.approx(1e-3, rel=0.25)
    assert any("stand for all" in text for text in twin.assumed)


def test_large_fabric_is_cut_down_to_a_receiver_and_its_senders(tmp_path):
    plan = scenario("incast without ECN")
    run_fabric(plan, record=tmp_path / "r", start_ns=1_800_000_000_000_000_000)
    window, _ = open_window(f"dir={tmp_path / 'r'}", "", "")
    fabric = build_fabric(window)
    receiver = next(p for p in fabric.ports() if p.device.host == "host15")
    twin = build_twin(window, fabric, about=[receiver], most_hosts=6)
    assert len(twin.wiring.hosts) == 6
    assert receiver in twin.wiring.hosts
    assert {one.dst for one in twin.load.traffic.connections} == {twin.wiring.node_of[receiver]}
    assert any("left out" in text for text in twin.assumed)


def test_variation_moves_one_thing_each(tmp_path):
    twin = twin_of(scenario("incast with ECN"), tmp_path / "r")
    more = twin.varied(flows=1.5)
    fewer = twin.varied(flows=0.5)
    total = sum(m.size_bytes for m in twin.plan.traffic.messages)
    assert len(more.plan.traffic.connections) == 12
    assert len(fewer.plan.traffic.connections) == 4
    for other in (more, fewer):
        assert sum(m.size_bytes for m in other.plan.traffic.messages) == pytest.approx(
            total, abs=99
        )
    numbers = {(c.src, c.src_qp) for c in more.plan.traffic.connections}
    assert len(numbers) == 12
    slower = twin.varied(rtt=2.0)
    assert {c.delay_s for c in slower.plan.topology.cables} == {2e-6}
    bigger = twin.varied(burst=1.3)
    assert sum(m.size_bytes for m in bigger.plan.traffic.messages) == pytest.approx(
        1.3 * total, rel=0.01
    )
    assert replace(twin, plan=twin.varied().plan) == twin


def test_telemetry_without_byte_counters_or_cables_is_refused():
    made = lab(3)
    with pytest.raises(NotSupported, match="Soft-RoCE"):
        build_twin(made.telemetry, made.fabric)
    for port in made.ports:
        made.telemetry.known[port.device] = {}
    with pytest.raises(NotSupported, match="no port counted RDMA bytes"):
        build_twin(made.telemetry, made.fabric)
    for port in made.ports:
        layer = Attribute(port, "link_layer", "InfiniBand")
        made.telemetry.known[port] = made.telemetry.known[port] | {"link_layer": layer}
    with pytest.raises(NotSupported, match="InfiniBand"):
        build_twin(made.telemetry, made.fabric)
    bare = FakeTelemetry()
    with pytest.raises(NotSupported, match="fewer than two"):
        build_twin(bare, build_fabric(bare))
    assert all(isinstance(port, Port) for port in made.fabric.ports())

"""Advice on paths: each kind of it where it helps, and none where it cannot."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from msgspec import structs

from collectors.model.catalogue import interface
from collectors.model.ecmp_hash import FIVE_TUPLE, HashAlgorithm, HashSpec, choose_member
from collectors.model.entities import Device, Host, Interface, Netdev, Port, Switch
from collectors.model.entities import QueuePair as QueuePairEntity
from collectors.model.facts import Attribute, Gid, Neighbour, QueuePairFact
from collectors.model.roce import source_port
from tests.tuner.advice.test_recommend import assert_whole
from tests.tuner.fake import FakeTelemetry
from tuner.advice.cures import gid
from tuner.advice.cures.balance import spread_out
from tuner.advice.planning import build_plan
from tuner.advice.recommendation import Recommendation
from tuner.diagnosis.finding import Evidence, Finding
from tuner.fabric.graph import build_fabric
from tuner.fabric.routes import flow_of
from tuner.render.registry import render_plan

LEAF = Switch("leaf0", "leaf0")
SPEC = HashSpec(HashAlgorithm.CRC_32LO, FIVE_TUPLE)
SPINES = 4
QPS = 16


@dataclass
class Pod:
    """Two leaves of two hosts each, four spines; queue pairs from leaf0 to leaf1."""

    telemetry: FakeTelemetry
    ports: list[Port]

    @property
    def fabric(self):
        return build_fabric(self.telemetry)

    @property
    def finding(self) -> Finding:
        return Finding(
            "ecmp-imbalance", "balance", LEAF, "critical", 0.85, "x", 0,
            (Evidence("flows", LEAF, 32.0, "count"),), "y",
        )  # fmt: skip

    def advice(self) -> list[Recommendation]:
        made = list(spread_out(self.finding, self.telemetry, self.fabric))
        for rec in made:
            assert_whole(rec)
        return made

    def knobs(self) -> list[str]:
        return [part.knob for rec in self.advice() for part in rec.parts]


def pod(qps: int = QPS, *environment: str, driver: str = "mlx5_core") -> Pod:
    telemetry = FakeTelemetry()
    ports = []
    spines = [Switch(f"spine{number}", f"spine{number}") for number in range(SPINES)]
    for leaf in (0, 1):
        switch = Switch(f"leaf{leaf}", f"leaf{leaf}")
        for name, value in (
            ("ecmp_hash_algorithm", "crc-32lo"),
            ("ecmp_hash_fields", tuple(field.value for field in FIVE_TUPLE)),
            ("ecmp_hash_seed", 0),
            ("load_balancing", "static"),
        ):
            telemetry.put(switch, name, value)
        telemetry.known[switch] = {"platform": Attribute(switch, "platform", "leaf")}
        for number, spine in enumerate(spines):
            up, down = Interface(switch, f"swp{number + 10}"), Interface(spine, f"swp{leaf}")
            telemetry.cables.append(Neighbour(up, down, "lldp"))
        for number in (0, 1):
            host = f"h{2 * leaf + number}"
            device = Device(host, f"00{host}", "mlx5_0")
            port, netdev = Port(device, 1), Netdev(host, "eth0")
            ports.append(port)
            telemetry.known[device] = {"driver": Attribute(device, "driver", driver)}
            telemetry.known[port] = {"netdev": Attribute(port, "netdev", "eth0")}
            telemetry.table[port] = (Gid(port, 3, f"::ffff:10.0.{leaf}.{number}", "RoCE v2"),)
            cable = Neighbour(netdev, Interface(switch, f"swp{number}"), "lldp")
            telemetry.cables.append(cable)
    for number in (0, 1):
        for pair in range(qps):
            here, qpn = ports[number].device, 0x100 + pair
            there = (pair + 1) ** 5 * 977 % 2**24  # as of a device that has run many jobs
            telemetry.pairs.append(
                QueuePairFact(
                    here, 1, qpn, there, local_address=f"10.0.0.{number}",
                    remote_address=f"10.0.1.{number}", udp_source_port=source_port(qpn, there),
                )
            )  # fmt: skip
            if environment:
                telemetry.put(QueuePairEntity(here, qpn), "job_environment", environment)
    return Pod(telemetry, ports)


def loads(made: Pod) -> list[int]:
    found = [0] * SPINES
    for pair in made.telemetry.pairs:
        found[choose_member(flow_of(pair), SPINES, SPEC)] += 1
    return found


def counted(made: Pod, values: list[float]) -> None:
    for number, value in enumerate(values):
        made.telemetry.grow(interface.TX_BYTES, Interface(LEAF, f"swp{number + 10}"), value * 1e9)


def test_few_queue_pairs_get_more_and_nothing_else():
    assert pod(1).knobs() == ["qps_per_connection"]


def test_ports_are_planned_where_the_published_hash_explains_the_loads():
    made = pod()
    uneven = loads(made)
    assert max(uneven) > 1.1 * QPS * 2 / SPINES
    counted(made, uneven)
    [rec] = made.advice()
    assert rec.optional
    assert [part.knob for part in rec.parts] == ["qp_source_ports"] * 2
    assert rec.current == tuple(p.udp_source_port for p in made.telemetry.pairs[:QPS])
    planned = [port for part in rec.parts for port in part.proposed]
    made.telemetry.pairs = [
        structs.replace(pair, udp_source_port=port)
        for pair, port in zip(made.telemetry.pairs, planned, strict=True)
    ]
    assert loads(made) == [2 * QPS // SPINES] * SPINES  # perfectly even
    assert rec.effects[0].high == pytest.approx(max(uneven) / (2 * QPS / SPINES))


@pytest.mark.parametrize("why", ["loads tell another hash", "driver", "seed", "even", "no bytes"])
def test_ports_are_not_planned_on_a_guess(why):
    made = pod(driver="bnxt_re" if why == "driver" else "mlx5_core")
    uneven = loads(made)
    if why == "seed":
        del made.telemetry.set_to[LEAF]["ecmp_hash_seed"]
    if why == "even":
        plan = pod()
        counted(plan, uneven)
        ports = [port for part in plan.advice()[0].parts for port in part.proposed]
        made.telemetry.pairs = [
            structs.replace(pair, udp_source_port=port)
            for pair, port in zip(made.telemetry.pairs, ports, strict=True)
        ]
    if why != "no bytes":
        other = [2 * QPS - load for load in uneven]
        counted(made, other if why == "loads tell another hash" else uneven)
    assert made.knobs() == []


def test_split_messages_are_dealt_whole_with_a_predicted_gain():
    made = pod(QPS, "NCCL_IB_SPLIT_DATA_ON_QPS=1")
    [rec] = made.advice()
    assert (rec.knob, rec.current, rec.proposed) == ("split_data_on_qps", True, False)
    assert rec.places == (Host("h0"), Host("h1"))
    assert 1.0 <= rec.effects[0].low < rec.effects[0].high
    assert rec.evidence[-1].name == "NCCL_IB_SPLIT_DATA_ON_QPS"
    assert pod(QPS, "NCCL_IB_SPLIT_DATA_ON_QPS=0").knobs() == []
    assert "split_data_on_qps" not in pod(1, "NCCL_IB_SPLIT_DATA_ON_QPS=1").knobs()


@pytest.mark.parametrize(("bound", "advised"), [("1", True), ("7", True), ("8", False)])
def test_a_bound_on_channels_is_lifted_where_it_is_low(bound, advised):
    made = pod(QPS, f"NCCL_MAX_NCHANNELS={bound}")
    assert made.knobs() == (["channels_max"] if advised else [])
    if advised:
        [rec] = made.advice()
        assert (rec.current, rec.proposed) == (int(bound), 8)


def with_tolerant_nics(*environment: str, tolerant: int = 4, language: str = "nvue") -> Pod:
    made = pod(QPS, *environment)
    for port in made.ports[:tolerant]:
        made.telemetry.put(port, "out_of_order_placement", True)
    for number in (0, 1):
        switch = Switch(f"leaf{number}", f"leaf{number}")
        told = Attribute(switch, "config_language", language)
        made.telemetry.known[switch] = {**made.telemetry.known[switch], "config_language": told}
    return made


def test_packets_are_sprayed_where_every_nic_and_switch_can():
    made = with_tolerant_nics("NCCL_DEBUG=INFO")
    [rec] = made.advice()
    assert rec.optional
    assert [(p.knob, p.current, p.proposed, len(p.places)) for p in rec.parts] == [
        ("load_balancing", "static", "adaptive", 2), ("job_adaptive_routing", False, True, 4),
    ]  # fmt: skip
    assert with_tolerant_nics().knobs() == ["load_balancing"]  # no job of NCCL


def test_packets_are_not_sprayed_where_one_nic_or_platform_cannot():
    assert with_tolerant_nics(tolerant=3).knobs() == []
    assert with_tolerant_nics(language="eos").knobs() == []
    made = with_tolerant_nics()
    made.telemetry.put(Switch("leaf1", "leaf1"), "load_balancing", "adaptive")
    assert made.knobs() == []


def test_the_hash_sees_queue_pairs_where_the_platform_can():
    made = with_tolerant_nics(tolerant=0, language="junos")
    for number in (0, 1):
        made.telemetry.put(Switch(f"leaf{number}", f"leaf{number}"), "ecmp_hash_rdma_qp", False)
    [rec] = made.advice()
    assert (rec.knob, rec.current, rec.proposed) == ("ecmp_hash_rdma_qp", False, True)
    assert [place.name for place in rec.places] == ["leaf0", "leaf1"]
    made.telemetry.put(LEAF, "ecmp_hash_rdma_qp", True)
    assert [p.name for rec in made.advice() for p in rec.places] == ["leaf1"]
    other = with_tolerant_nics(tolerant=0, language="eos")
    other.telemetry.put(LEAF, "ecmp_hash_rdma_qp", False)
    assert other.knobs() == []


def test_advice_on_paths_is_rendered_with_its_undo():
    made = with_tolerant_nics("NCCL_DEBUG=INFO")
    plan = build_plan(made.advice(), made.telemetry, made.fabric, {})
    texts = {text.platform: text for text in render_plan(plan, "nvue")}
    assert "adaptive-routing" in texts["nvue"].apply
    assert "adaptive-routing" in texts["nvue"].undo
    jobs = render_plan(plan, "nccl")
    assert any("NCCL_IB_ADAPTIVE_ROUTING=1" in text.apply for text in jobs)
    assert any("NCCL_IB_ADAPTIVE_ROUTING=0" in text.undo for text in jobs)


def gids(port: Port) -> tuple[Gid, ...]:
    return (
        Gid(port, 0, "fe80::1", "RoCE v1"),
        Gid(port, 2, "::ffff:10.0.0.1", "RoCE v1"),
        Gid(port, 3, "::ffff:10.0.0.1", "RoCE v2"),
    )


@pytest.mark.parametrize(("index", "before"), [("2", None), ("9", 0.0)])
def test_a_job_gets_the_gid_that_is_routed(index, before):
    made = pod()
    port = made.ports[0]
    made.telemetry.table[port] = gids(port)
    evidence = Evidence("NCCL_IB_GID_INDEX", port, index)
    finding = replace(made.finding, rule="gid-choice", subject=port, evidence=(evidence,))
    [rec] = gid.choose(finding, made.telemetry, made.fabric)
    assert_whole(rec)
    assert (rec.knob, rec.scope, rec.current, rec.proposed) == (
        "job_gid_index", Host("h0"), int(index), 3,
    )  # fmt: skip
    assert rec.effects[0].before == before
    made.telemetry.table[port] = gids(port)[:2]  # no RoCE v2: that needs an address first
    assert list(gid.choose(finding, made.telemetry, made.fabric)) == []

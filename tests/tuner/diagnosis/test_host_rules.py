"""Rules of one host's configuration: found, quiet, cannot tell, beside the point."""

import copy

import pytest

from collectors.model.catalogue import ethernet, interface, rdma, rdma_work
from collectors.model.entities import Device, Netdev, Port, QueuePair, priority
from collectors.model.facts import Attribute, Gid, QueuePairFact
from tests.tuner.fake import FakeTelemetry
from tuner.diagnosis.host import gid_choice, link_down
from tuner.diagnosis.host.checks import CHECKS, CONFIGURATION
from tuner.diagnosis.host.pcie_link import payload_bps
from tuner.diagnosis.registry import RULES

BY_ID = {rule.id: rule for rule in CONFIGURATION}
DEVICE = Device("n1", "b83f", "mlx5_0")
PORT, NETDEV = Port(DEVICE, 1), Netdev("n1", "eth0")


class Telemetry(FakeTelemetry):
    def __init__(self):
        super().__init__()
        self.table = []
        self.tables = {}
        self.pairs = []

    def gids(self, port):
        return self.tables.get(port, self.table)

    def queue_pairs(self):
        return self.pairs


def host(driver="mlx5"):
    made = Telemetry()
    made.see(rdma.STATE, PORT, 4)
    made.see(rdma.RATE, PORT, 400e9 / 8)
    made.known[PORT] = {
        name: Attribute(PORT, name, value)
        for name, value in (("link_layer", "Ethernet"), ("netdev", "eth0"), ("driver", driver))
    }
    dscp = [-1] * 64
    dscp[26], dscp[48] = 3, 6
    made.put(NETDEV, "trust", "dscp")
    made.put(NETDEV, "dscp_to_priority", tuple(dscp))
    made.put(NETDEV, "pfc_priorities", tuple(p == 3 for p in range(8)))
    made.put(NETDEV, "mtu_bytes", 9000)
    made.put(NETDEV, "pause_rx_enabled", False)
    made.put(NETDEV, "pause_tx_enabled", False)
    made.put(PORT, "forced_tclass", 106)
    made.put(PORT, "rdma_mtu_bytes", 4096)
    made.put(PORT, "cnp_dscp", 48)
    made.put(PORT, "dcqcn_rp_enabled", (True,) * 8)
    made.put(PORT, "dcqcn_np_enabled", (True,) * 8)
    for name, value in (("pcie_speed_gtps", 32.0), ("pcie_speed_max_gtps", 32.0),
                        ("pcie_width_lanes", 16), ("pcie_width_max_lanes", 16)):  # fmt: skip
        made.put(DEVICE, name, value)
    made.table = [Gid(PORT, 0, "fe80::1", "RoCE v1"), Gid(PORT, 3, "::ffff:10.0.0.1", "RoCE v2")]
    return made


def talking(made, *, to="10.0.0.2", **variables):
    """A job whose queue pairs lead to another host, or back to this one."""
    other = Device("n2", "b840", "mlx5_0")
    made.pairs = [
        QueuePairFact(DEVICE, 1, 5, 6, local_address="10.0.0.1", remote_address=to),
        QueuePairFact(other, 1, 6, 5, local_address="10.0.0.2", remote_address="10.0.0.1"),
    ]
    made.tables = {Port(other, 1): [Gid(Port(other, 1), 3, "::ffff:10.0.0.2", "RoCE v2")]}
    environment = tuple(f"{name}={value}" for name, value in variables.items())
    made.put(QueuePair(DEVICE, 5), "job_environment", environment or ("NCCL_DEBUG=INFO",))
    return made


def working():
    """The host with a job, and with counters that tell of nothing wrong."""
    made = talking(host())
    for metric in (rdma.ACK_TIMEOUTS, rdma.ADAPTIVE_RETRANS, rdma.SLOW_RESTART_CNPS):
        made.grow(metric, PORT, 0)
    made.grow(rdma.CNP_HANDLED, PORT, 1000)
    made.grow(rdma.TX_BYTES, PORT, 10**10)
    made.grow(ethernet.PRIORITY_TX_BYTES, priority(NETDEV, 3), 10**10)
    made.grow(interface.PFC_TX_FRAMES, priority(NETDEV, 3), 0)
    return made


@pytest.mark.parametrize(
    ("rule_id", "plant", "severity"),
    [
        ("adaptive-retransmission-off", lambda m: m.grow(rdma.ACK_TIMEOUTS, PORT, 50), "info"),
        ("slow-restart", lambda m: m.grow(rdma.SLOW_RESTART_CNPS, PORT, 800), "info"),
        ("cts-class", lambda m: talking(m, NCCL_IB_TC=106), "info"),
        ("cts-class", lambda m: talking(m, NCCL_IB_TC=106, NCCL_IB_FIFO_TC=106), "info"),
        ("shared-class", lambda m: m.grow(rdma.TX_BYTES, PORT, 10**9), "warning"),
        ("loopback-traffic", lambda m: talking(m, to="10.0.0.1"), "info"),
    ],
)
def test_what_was_planted_is_found_at_the_port(rule_id, plant, severity):
    made = working()
    plant(made)
    [finding] = judge(rule_id, made).findings
    assert (finding.subject, finding.severity) == (PORT, severity)


@pytest.mark.parametrize(
    "rule_id",
    [
        "adaptive-retransmission-off",
        "slow-restart",
        "cts-class",
        "shared-class",
        "loopback-traffic",
    ],
)
def test_without_counters_and_jobs_these_cannot_tell(rule_id):
    shown = judge(rule_id, host())
    assert shown.outcome == "cannot_tell"
    assert shown.missing


def test_loopback_matters_where_the_host_stops_its_switch():
    made = talking(working(), to="10.0.0.1")
    made.grow(interface.PFC_TX_FRAMES, priority(NETDEV, 3), 5000)
    [finding] = judge("loopback-traffic", made).findings
    assert finding.severity == "warning"
    assert ("slow-receiver", PORT) in finding.explains


def test_control_messages_with_a_class_of_their_own_are_fine():
    made = talking(working(), NCCL_IB_TC=106, NCCL_IB_FIFO_TC=192)
    assert judge("cts-class", made).outcome == "quiet"


def judge(rule_id, made):
    seen = copy.copy(made)  # what was asked of a window once is not asked again
    return BY_ID[rule_id].judge(BY_ID[rule_id], seen)


def job(made, **variables):
    made.pairs = [QueuePairFact(DEVICE, 1, 5, pid=7)]
    made.put(
        QueuePair(DEVICE, 5), "job_environment", tuple(f"{k}={v}" for k, v in variables.items())
    )


def test_the_tuner_runs_the_same_rules():
    assert set(CONFIGURATION) <= set(RULES)
    assert {rule.id for rule, _ in CHECKS} >= set(BY_ID)
    assert all(fix for _, fix in CHECKS)


@pytest.mark.parametrize("rule_id", sorted(set(BY_ID) - {"frozen-counters"}))
def test_a_right_host_is_quiet(rule_id):
    assert judge(rule_id, working()).outcome == "quiet"


@pytest.mark.parametrize("rule_id", sorted(set(BY_ID) - {"pcie-link"}))
def test_software_devices_are_beside_the_point(rule_id):
    assert judge(rule_id, host("rxe")).outcome == "not_applicable"


def test_a_job_that_sets_the_dscp_where_the_tclass_belongs():
    made = host()
    del made.set_to[PORT]["forced_tclass"]
    job(made, NCCL_IB_TC=26)
    [finding] = judge("traffic-class", made).findings
    assert "NCCL_IB_TC=26" in finding.summary
    assert "DSCP 6" in finding.summary
    job(made, NCCL_IB_TC=106)
    assert judge("traffic-class", made).outcome == "quiet"


def test_trusting_the_tag_sends_untagged_roce_to_priority_0():
    made = host()
    made.put(NETDEV, "trust", "pcp")
    [finding] = judge("traffic-class", made).findings
    assert "priority 0" in finding.summary


def test_a_host_without_pfc_means_to_be_lossy():
    made = host()
    made.put(NETDEV, "pfc_priorities", (False,) * 8)
    assert judge("traffic-class", made).outcome == "quiet"
    assert judge("pfc-priority", made).outcome == "quiet"


def test_pfc_only_where_nothing_maps_is_critical():
    made = host()
    made.put(NETDEV, "pfc_priorities", tuple(p == 4 for p in range(8)))
    [finding] = judge("pfc-priority", made).findings
    assert (finding.severity, finding.subject) == ("critical", NETDEV)


@pytest.mark.parametrize(
    ("name", "value", "rule_id"),
    [("pause_tx_enabled", True, "pause-with-roce")],
)
def test_pause(name, value, rule_id):
    made = host()
    made.put(NETDEV, name, value)
    [finding] = judge(rule_id, made).findings
    assert finding.severity == "critical"
    made.put(NETDEV, "pfc_priorities", (False,) * 8)
    assert judge(rule_id, made).findings[0].severity == "warning"


def test_cnps_by_priority_where_dscp_is_not_trusted():
    made = host()
    made.put(NETDEV, "trust", "pcp")
    made.put(PORT, "cnp_priority", 3)
    assert judge("cnp-class", made).outcome == "found"
    made.put(PORT, "cnp_priority", 6)
    assert judge("cnp-class", made).outcome == "quiet"


def test_gids_are_scored_by_version_and_address():
    ranked = [
        Gid(PORT, 0, "fe80::1", "RoCE v2"),
        Gid(PORT, 1, "2001:db8::1", "RoCE v1"),
        Gid(PORT, 2, "2001:db8::1", "RoCE v2"),
        Gid(PORT, 3, "::ffff:10.0.0.1", "RoCE v2"),
    ]
    assert [gid_choice.score(gid) for gid in ranked] == [0, 100, 1100, 1200]
    assert gid_choice.best(ranked).index == 3
    assert gid_choice.best(ranked[:3]).index == 2  # all-IPv6 hosts are fine
    assert gid_choice.best(ranked[:2]) is None


@pytest.mark.parametrize(("index", "outcome"), [(0, "found"), (3, "quiet"), (9, "found")])
def test_t1_a_job_that_chose_its_gid(index, outcome):
    made = host()
    job(made, NCCL_IB_GID_INDEX=index)
    assert judge("gid-choice", made).outcome == outcome


def test_a_slow_port_may_have_a_small_mtu():
    made = host()
    made.put(PORT, "rdma_mtu_bytes", 1024)
    assert judge("roce-mtu", made).outcome == "found"
    made.see(rdma.RATE, PORT, 10e9 / 8)
    assert judge("roce-mtu", made).outcome == "quiet"


def test_pcie_is_critical_only_where_the_port_needs_more():
    assert payload_bps(32, 16) > 400e9 > payload_bps(16, 16) > 200e9
    made = host()
    made.put(DEVICE, "pcie_speed_gtps", 16.0)
    assert judge("pcie-link", made).findings[0].severity == "critical"
    made.see(rdma.RATE, PORT, 200e9 / 8)
    assert judge("pcie-link", made).findings[0].severity == "warning"


def test_dcqcn_off_for_the_class_of_the_data_only():
    made = host()
    made.put(PORT, "dcqcn_rp_enabled", tuple(p == 3 for p in range(8)))
    assert judge("reaction-off", made).outcome == "quiet"
    made.put(PORT, "dcqcn_np_enabled", tuple(p != 3 for p in range(8)))
    [finding] = judge("reaction-off", made).findings
    assert "notification point" in finding.summary


def test_n12_a_flap_neither_clears_at_once_nor_stays_for_ever():
    made, rule = host(), link_down.RULE
    made.grow(rdma.LINK_DOWNED, PORT, 1)
    assert rule.judge(rule, made).outcome == "quiet"  # one re-seated cable
    made.grow(rdma.LINK_DOWNED, PORT, 2)
    assert made.latest(rdma.STATE.name, PORT).value == 4  # it is up again, and yet:
    assert [finding.subject for finding in rule.judge(rule, made).findings] == [PORT]
    made.grow(rdma.LINK_DOWNED, PORT, 0)  # no flap in the whole span any more
    assert rule.judge(rule, made).outcome == "quiet"


def test_frozen_counters_of_bnxt_re():
    made = host("bnxt_re")
    for metric in (rdma.RX_PACKETS, rdma.TX_PACKETS):
        made.grow(metric, PORT, 50_000)
    made.grow(rdma_work.WRITE_REQUESTS_RX, PORT, 0)
    made.grow(rdma_work.SENDS_TX, PORT, 0)
    [finding] = judge("frozen-counters", made).findings
    assert "frozen" in finding.summary
    made.grow(rdma_work.SENDS_TX, PORT, 1)
    assert judge("frozen-counters", made).outcome == "quiet"
    assert judge("frozen-counters", host("bnxt_re")).outcome == "cannot_tell"

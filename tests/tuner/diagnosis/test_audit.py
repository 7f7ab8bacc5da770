"""The audit: quiet on a fabric that is set right, each planted inconsistency by name and place."""

import pytest

from collectors.model.entities import Host, Netdev, Slot, Switch, link, queue
from collectors.model.facts import Attribute
from tests.tuner.diagnosis.audit_fabric import BY_ID, Clos, interface
from tests.tuner.fake import FakeTelemetry
from tuner.diagnosis.diagnose import diagnose
from tuner.fabric.graph import build_fabric


def test_a_fabric_that_is_set_right_is_quiet():
    made = Clos()
    for number in range(4):
        made.job(number, NCCL_IB_TC=104, NCCL_IB_GID_INDEX=3)
    outcomes = {rule_id: made.judge(rule_id) for rule_id in BY_ID}
    assert {i: v.findings for i, v in outcomes.items() if v.findings} == {}
    own = ("ends-differ", "classes-differ", "lossless-ports", "hash-tiers", "fleet-drift",
           "job-settings")  # fmt: skip
    assert {outcomes[rule_id].outcome for rule_id in own} == {"quiet"}


@pytest.mark.parametrize("rule_id", ["ends-differ", "classes-differ", "lossless-ports",
                                     "hash-tiers", "fleet-drift", "job-settings"])  # fmt: skip
def test_without_facts_the_audit_says_what_it_could_not_compare(rule_id):
    empty = FakeTelemetry()
    [verdict] = diagnose(empty, build_fabric(empty), [BY_ID[rule_id]]).verdicts
    assert verdict.outcome == "cannot_tell"
    assert all(verdict.missing)


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("fec", "none", True),
        ("fec", "auto", False),
        ("speed_bps", 200_000_000_000, True),
        ("pause_tx_enabled", True, True),
    ],
)
def test_ends_of_a_cable(name, value, found):
    made = Clos()
    made.telemetry.put(made.netdev(2), name, value)
    findings = made.findings("ends-differ")
    assert [f.subject for f in findings] == [link(made.netdev(2), made.leaf_port(2))] * found


def test_what_dcbx_told_differs_from_what_the_peer_does():
    made = Clos()
    made.telemetry.put(made.netdev(1), "peer_pfc_priorities", (False,) * 8)
    [finding] = made.findings("ends-differ")
    assert "peer_pfc_priorities none" in finding.summary


def test_a_switch_that_puts_data_into_a_lossy_class():
    made = Clos()
    made.telemetry.put(Switch("leaf01", "leaf01"), "dscp_to_traffic_class", (0,) * 64)
    findings = made.findings("classes-differ")
    assert {finding.subject for finding in findings} == {Switch("leaf01")}
    assert any("puts data of DSCP 26 into class 0, lossless is 3" in f.summary for f in findings)
    assert {place.device.host for f in findings for place in f.affected} == {"h0", "h1", "h2", "h3"}


def test_a_switch_port_that_trusts_the_vlan_tag():
    made = Clos()
    made.telemetry.put(made.leaf_port(5), "trust", "pcp")
    findings = made.findings("classes-differ")
    assert {place for f in findings for place in f.affected} == {made.port(5)}


def test_a_fabric_of_lossy_class_all_over_is_no_fault():
    made = Clos()
    for entity, settings in made.telemetry.set_to.items():
        if "pfc_priorities" in settings:
            made.telemetry.put(entity, "pfc_priorities", (False,) * 8)
    assert made.findings("classes-differ") == ()


@pytest.mark.parametrize(
    ("place", "name", "value", "words"),
    [
        (queue(interface("spine10", "up1"), 3), "ecn_enabled", False, "without ECN marking"),
        (interface("spine10", "up1"), "pfc_watchdog_enabled", False, "without a watchdog"),
        (Slot(interface("spine10", "up1"), "priority_group", 3), "xoff_bytes", 20_000,
         "without enough headroom"),
    ],
)  # fmt: skip
def test_what_a_port_with_pfc_needs(place, name, value, words):
    made = Clos()
    made.telemetry.put(place, name, value)
    [finding] = made.findings("lossless-ports")
    assert finding.subject == Switch("spine10")
    assert words in finding.summary
    assert finding.affected == (interface("spine10", "up1"),)


def test_a_longer_cable_needs_more_headroom():
    made = Clos()
    port = made.leaf_port(0)
    made.telemetry.put(Slot(port, "priority_group", 3), "xoff_bytes", 100_000)
    assert made.findings("lossless-ports") == ()
    made.telemetry.put(port, "pfc_cable_length_metres", 300)
    assert len(made.findings("lossless-ports")) == 1


def test_tiers_that_hash_alike():
    made = Clos()
    for switch in ("spine00", "spine01", "spine10", "spine11"):
        made.telemetry.put(Switch(switch), "ecmp_hash_seed", 0)
        made.telemetry.put(Switch(switch), "ecmp_hash_algorithm", "crc_32lo")
    [finding] = made.findings("hash-tiers")
    assert finding.severity == "warning"
    assert finding.subject == Switch("spine00")
    assert "8 pairs" in finding.summary


def test_another_seed_of_a_crc_is_little_help_over_two_to_the_n_uplinks():
    made = Clos()
    for switch in ("spine00", "spine01", "spine10", "spine11"):
        made.telemetry.put(Switch(switch), "ecmp_hash_algorithm", "crc_32lo")
    [finding] = made.findings("hash-tiers")
    assert finding.severity == "info"
    assert "seed alone" in finding.summary


def test_drift_of_one_nic_one_box_and_one_firmware():
    made = Clos()
    made.telemetry.put(made.port(3), "dcqcn_ai_bps", 50_000_000)
    for rail in range(2):
        made.telemetry.put(made.port(6, rail), "dcqcn_rp_enabled", (False,) * 8)
    device = made.port(7).device
    made.telemetry.known[device] = {
        **made.telemetry.known[device], "firmware": Attribute(device, "firmware", "20.1")
    }  # fmt: skip
    found = {finding.subject: finding for finding in made.findings("fleet-drift")}
    assert set(found) == {made.port(3), Host("h6"), made.port(7)}
    assert found[Host("h6")].affected == (made.port(6, 0), made.port(6, 1))
    assert found[made.port(7)].severity == "info"
    assert "93.7% of port of mlx5" in found[made.port(3)].summary


def test_a_role_without_a_custom_has_no_drift():
    made = Clos()
    for number in range(0, 8, 2):
        for rail in range(2):
            made.telemetry.put(made.port(number, rail), "dcqcn_ai_bps", 50_000_000)
    assert made.findings("fleet-drift") == ()


def test_tiers_are_compared_with_their_like_only():
    made = Clos()
    for pod in range(2):
        for leaf in range(2):
            for spine in range(2):
                port = interface(f"leaf{pod}{leaf}", f"up{spine}")
                made.telemetry.put(queue(port, 3), "kmin_bytes", 1_000_000)
    assert made.findings("fleet-drift") == ()
    made.telemetry.put(queue(interface("leaf00", "up0"), 3), "kmin_bytes", 400_000)
    [finding] = made.findings("fleet-drift")
    assert finding.subject == queue(interface("leaf00", "up0"), 3)
    assert "up-facing port of leaf x64" in finding.summary


def test_a_rank_with_another_traffic_class():
    made = Clos()
    for number in range(4):
        made.job(number, NCCL_IB_TC=0 if number == 2 else 104)
    [finding] = made.findings("job-settings")
    assert finding.subject == Host("h2")
    assert "NCCL_IB_TC: h2 0, 3 of 4 104" in finding.summary


def test_a_rank_that_lacks_what_the_others_set():
    made = Clos()
    for number in range(4):
        made.job(number, **({} if number == 1 else {"NCCL_IB_QPS_PER_CONNECTION": 4}))
    [finding] = made.findings("job-settings")
    assert finding.affected == (Host("h1"),)
    assert "not set" in finding.summary


def test_an_end_that_is_no_wire_is_left_out():
    made = Clos()
    made.telemetry.put(Host("h0"), "fec", "none")
    made.telemetry.put(Netdev("h9", "eth9"), "fec", "none")
    assert made.findings("ends-differ") == ()

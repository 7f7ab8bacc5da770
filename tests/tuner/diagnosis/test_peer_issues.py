"""Complaints that users of other tools filed, by id: RoCE set-up and tuning.

T1 and T2 GIDs, T3 counters of a lossy fabric, T4 data outside the lossless class, T5 class of
CNPs, T6 very many queue pairs, T7 a kernel without Soft-RoCE, T8 flaky timing.
"""

import ast
import copy
from pathlib import Path

import pytest

from collectors.model.catalogue import ethernet, interface, rdma, rdma_errors
from collectors.model.entities import priority, queue
from collectors.model.facts import Attribute, Gid, QueuePairFact
from simlab.rxe import machine
from tests.tuner.diagnosis.audit_fabric import Clos
from tests.tuner.diagnosis.test_host_rules import DEVICE, NETDEV, PORT, host, job
from tests.tuner.fake import lab
from tuner.diagnosis.diagnose import diagnose
from tuner.diagnosis.registry import RULES
from tuner.fabric.graph import build_fabric

BY_ID = {rule.id: rule for rule in RULES}
MACHINE = Path(__file__).parents[2] / "simlab" / "rxe"


def judge(rule_id, made):
    seen = copy.copy(made)
    return diagnose(seen, build_fabric(seen), [BY_ID[rule_id]]).verdicts[0]


def gids(*rows):
    return [Gid(PORT, index, address, kind) for index, (address, kind) in enumerate(rows)]


@pytest.mark.parametrize("index", [0, 1])
def test_t1_a_job_on_a_link_local_gid_is_warned_and_told_which_would_do(index):
    made = host()
    made.table = gids(
        ("fe80::1", "RoCE v1"), ("fe80::1", "RoCE v2"), ("::ffff:10.0.0.1", "RoCE v1"),
        ("::ffff:10.0.0.1", "RoCE v2"),
    )  # fmt: skip
    job(made, NCCL_IB_GID_INDEX=index)
    [finding] = judge("gid-choice", made).findings
    assert "fe80::1" in finding.summary
    assert "GID 3 (::ffff:10.0.0.1) is RoCE v2 and routed" in finding.summary


def test_t1_roce_v1_is_warned_of_too():
    made = host()
    made.table = gids(("::ffff:10.0.0.1", "RoCE v1"), ("::ffff:10.0.0.1", "RoCE v2"))
    job(made, NCCL_IB_GID_INDEX=0)
    assert judge("gid-choice", made).outcome == "found"


def test_t1_a_host_with_ipv6_only_is_sound():
    made = host()
    made.table = gids(("fe80::1", "RoCE v2"), ("2001:db8::1", "RoCE v2"))
    job(made, NCCL_IB_GID_INDEX=1)
    assert judge("gid-choice", made).outcome == "quiet"


def test_t1_a_port_with_nothing_but_link_local_gids():
    made = host()
    made.table = gids(("fe80::1", "RoCE v1"), ("fe80::1", "RoCE v2"))
    [finding] = judge("gid-choice", made).findings
    assert "no RoCE v2 GID with a routed address" in finding.summary


def pods(indexes, good):
    made = Clos()
    for number, index in enumerate(indexes):
        port = made.port(number)
        rows = {0: ("fe80::1", "RoCE v2"), good[number]: (f"::ffff:10.0.0.{number}", "RoCE v2")}
        made.telemetry.table[port] = tuple(Gid(port, i, *row) for i, row in rows.items())
        made.job(number, NCCL_IB_GID_INDEX=index)
    return made


def test_t2_another_index_in_each_pod_is_no_fault_where_type_and_address_agree():
    assert pods([3, 5, 7], good=[3, 5, 7]).judge("job-settings").outcome == "quiet"


def test_t2_one_index_for_all_pods_that_means_another_address_in_one():
    [finding] = pods([3, 3, 3], good=[3, 3, 5]).findings("job-settings")
    assert "index 3, which does not exist" in finding.summary
    assert finding.subject.name == "h2"


def posted():
    """The counters of nccl #394."""
    made = host()
    for metric, total in (
        (rdma.OUT_OF_SEQUENCE_RX, 6.1e6), (rdma.SEQUENCE_NAK_RX, 930e3),
        (rdma.ACK_TIMEOUTS, 91e3), (rdma.CE_MARKED_RX, 11.3e6), (rdma.CNP_TX, 17.3e6),
        (rdma.RX_PACKETS, 1e10),
    ):  # fmt: skip
        made.grow(metric, PORT, total)
    return made


def test_t3_loss_with_cnps_both_ways_is_a_hole_in_pfc_or_headroom_not_only_ecn():
    [finding] = judge("loss-despite-marks", posted()).findings
    assert "hole in PFC or too little headroom" in finding.summary
    values = {item.name: item.value for item in finding.evidence}
    assert values[rdma.OUT_OF_SEQUENCE_RX.name] == 6.1e6
    assert values[rdma.CNP_TX.name] == 17.3e6


def test_t3_quiet_without_loss_or_without_marks_and_silent_without_counters():
    for metric in (rdma.OUT_OF_SEQUENCE_RX, rdma.CE_MARKED_RX, rdma.CNP_TX):
        made = posted()
        made.grow(metric, PORT, 10)
        assert judge("loss-despite-marks", made).outcome == "quiet"
    assert judge("loss-despite-marks", host()).outcome == "cannot_tell"


def test_t3_where_the_switches_are_seen_the_rules_that_name_them_speak():
    made = posted()
    fabric = lab()
    made.grow(interface.QUEUE_DROPS, queue(fabric.interfaces[0], 3), 0)
    assert judge("loss-despite-marks", made).outcome == "not_applicable"


def by_priority(shares, sent=1e9):
    made = host()
    made.grow(rdma.TX_BYTES, PORT, sent)
    for index in range(8):
        made.grow(ethernet.PRIORITY_TX_BYTES, priority(NETDEV, index), shares.get(index, 0) * sent)
    return made


def test_t4_all_bytes_in_priority_0_and_none_in_3_comes_before_any_knob():
    made = by_priority({0: 1.02})
    [finding] = judge("lossy-traffic", made).findings
    assert "not in the lossless class" in finding.summary
    assert finding.subject == PORT
    made.grow(rdma.CNP_TX, PORT, 0)
    made.grow(rdma.OUT_OF_SEQUENCE_RX, PORT, 50_000)
    made.grow(rdma.RX_PACKETS, PORT, 1e7)
    whole = diagnose(made, build_fabric(made), RULES)
    assert whole.findings[0].rule == "lossy-traffic"


@pytest.mark.parametrize("shares", [{3: 1.0}, {0: 5.0, 3: 0.98}, {0: 0.1}])
def test_t4_quiet_where_the_lossless_priority_carries_it_or_it_stays_in_the_host(shares):
    assert judge("lossy-traffic", by_priority(shares)).outcome == "quiet"


def test_t4_cannot_tell_without_traffic_or_counters():
    assert judge("lossy-traffic", by_priority({0: 1.0}, sent=1e3)).outcome == "cannot_tell"
    assert judge("lossy-traffic", host()).outcome == "cannot_tell"
    assert judge("lossy-traffic", host("rxe")).outcome == "not_applicable"


def test_t5_cnps_in_a_priority_with_pfc_are_warned_of_on_nic_and_switch():
    made = host()
    made.put(PORT, "cnp_dscp", 26)
    assert judge("cnp-class", made).outcome == "found"
    fabric = Clos()
    table = list(fabric.telemetry.set_to[fabric.leaf_port(0).switch]["dscp_to_traffic_class"].value)
    table[48] = 3
    fabric.telemetry.put(fabric.leaf_port(0).switch, "dscp_to_traffic_class", tuple(table))
    findings = fabric.findings("classes-differ")
    assert any("CNPs (DSCP 48) into class 3, which is lossless" in f.summary for f in findings)


def crowded(pairs, short):
    made = host()
    made.pairs = [QueuePairFact(DEVICE, 1, number) for number in range(pairs)]
    made.known[DEVICE] = {"max_qp_wr": Attribute(DEVICE, "max_qp_wr", 32768)}
    made.grow(rdma_errors.OUT_OF_BUFFER, PORT, short)
    return made


def test_t6_very_many_queue_pairs_with_a_receiver_that_runs_short_is_a_hint():
    [finding] = judge("queue-pair-budget", crowded(96, 5000)).findings
    assert finding.severity == "info"
    assert "96 queue pairs" in finding.summary
    assert {item.name for item in finding.evidence} >= {"queue pairs", "max_qp_wr"}


def test_t6_quiet_below_and_unknown_without_counters():
    assert judge("queue-pair-budget", crowded(95, 5000)).outcome == "quiet"
    assert judge("queue-pair-budget", crowded(500, 5)).outcome == "quiet"
    assert judge("queue-pair-budget", host()).outcome == "cannot_tell"


def test_t7_a_kernel_without_soft_roce_is_a_named_reason_and_never_an_error(monkeypatch):
    monkeypatch.setattr(machine.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(machine.os, "geteuid", lambda: 0)
    assert machine.why_not("host") == "needs root and a host kernel with rdma_rxe"
    assert "qemu-system-x86_64 is missing" in machine.why_not()
    with pytest.raises(machine.LabError, match="cannot run here: "):
        machine.start()


def test_t7_the_labs_skip_by_that_name():
    tree = ast.parse((MACHINE / "conftest.py").read_text())
    [fixture] = [f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name == "lab"]
    assert "pytest.skip(f'Soft-RoCE lab: {reason}')" in ast.unparse(fixture)


CLOCKS = {"monotonic", "perf_counter", "process_time", "boot_s"}


@pytest.mark.parametrize("path", sorted(MACHINE.glob("test_*.py")), ids=lambda path: path.name)
def test_t8_no_test_of_the_lab_asserts_how_fast_something_was(path):
    """A clock may end a wait (an assertion in a loop), but nothing else is held against it."""
    tree = ast.parse(path.read_text())
    clocked = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _tells_time(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    waits = {
        id(part)
        for loop in ast.walk(tree)
        if isinstance(loop, ast.While | ast.For)
        for part in ast.walk(loop)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and id(node) not in waits:
            used = {part.id for part in ast.walk(node.test) if isinstance(part, ast.Name)}
            assert not used & clocked, ast.unparse(node)
            assert not _tells_time(node.test), ast.unparse(node)


def _tells_time(node):
    return any(isinstance(part, ast.Attribute) and part.attr in CLOCKS for part in ast.walk(node))

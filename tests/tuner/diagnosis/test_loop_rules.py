"""Rules of the control loop: what marks do to senders, by settings, models and counters."""

from dataclasses import fields, replace

import pytest

from collectors.model.catalogue import interface, rdma
from collectors.model.dcqcn import PAPER
from collectors.model.entities import Slot, priority, queue
from collectors.model.facts import Gid, QueuePairFact
from tests.tuner.diagnosis.test_balance_rules import named, three_tiers
from tests.tuner.diagnosis.test_loss_rules import address
from tests.tuner.diagnosis.test_pause_rules import PRIO, load, lossless, pause
from tests.tuner.diagnosis.test_rules import judge
from tests.tuner.fake import SECONDS, Growth
from tuner.diagnosis.diagnose import diagnose
from tuner.diagnosis.registry import RULES

KB = 1000


def congested(senders=4, pairs=4, *, load_share=0.97, marked=0.03):
    """Some hosts send to h2 over an egress that marks as it should."""
    made = lossless(senders + 1)
    telemetry = made.telemetry
    egress = made.interfaces[1]
    telemetry.table = {
        port: [Gid(port, 0, f"::ffff:{address(number)}", "RoCE v2")]
        for number, port in enumerate(made.ports)
    }
    senders_of = [src for src in range(senders + 1) if src != 1]
    back = [(1, 0, 1)]  # so that the receiver's address is known
    telemetry.pairs = [
        QueuePairFact(
            made.ports[src].device, 1, 100 * src + pair, 1,
            local_address=address(src), remote_address=address(dst),
        )
        for src, dst, pair in [*((s, 1, p) for s in senders_of for p in range(pairs)), *back]
    ]  # fmt: skip
    for port in made.ports:
        setup(made, port)
        telemetry.grow(rdma.CNP_HANDLED, port, 5000)
        telemetry.grow(rdma.CNP_TX, port, 5000)
    slot = queue(egress, PRIO)
    load(made, egress, load_share)
    telemetry.grow(interface.QUEUE_TX_PACKETS, slot, 1_000_000)
    telemetry.grow(interface.QUEUE_ECN_MARKED, slot, 1_000_000 * marked)
    telemetry.see(interface.QUEUE_WATERMARK, slot, 900 * KB)
    thresholds(made, 400 * KB, 1600 * KB, 0.2)
    return made


def setup(made, port, parameters=PAPER):
    for field in fields(parameters):
        value = getattr(parameters, field.name)
        made.telemetry.put(port, f"dcqcn_{field.name}", 0 if value is None else value)


def thresholds(made, kmin, kmax, pmax):
    slot = queue(made.interfaces[1], PRIO)
    for name, value in (("kmin_bytes", kmin), ("kmax_bytes", kmax), ("pmax_ratio", pmax)):
        made.telemetry.put(slot, name, value)


def marks(made, share):
    made.telemetry.grow(interface.QUEUE_ECN_MARKED, queue(made.interfaces[1], PRIO), 1e6 * share)


def low_pmax(made):
    thresholds(made, 400 * KB, 1600 * KB, 0.001)
    marks(made, 0.4)


def low_kmin(made):
    thresholds(made, 5 * KB, 20 * KB, 1.0)
    marks(made, 0.2)
    load(made, made.interfaces[1], 0.5)


def fast_cnps(made):
    for port in made.ports:
        setup(made, port, replace(PAPER, cnp_interval_s=1e-6))
    marks(made, 0.2)
    load(made, made.interfaces[1], 0.5)


def steep(made):
    thresholds(made, 90 * KB, 100 * KB, 1.0)
    for port in made.ports:
        setup(made, port, replace(PAPER, ai_bps=2e9))
    load(made, made.interfaces[1], 0.6)


def slow_increase(made):
    setup(made, made.ports[0], replace(PAPER, ai_bps=1e6, increase_timer_s=300e-6))


CASES = [
    ("marking-saturated", low_pmax, lambda made: made.interfaces[1]),
    ("over-throttling", low_kmin, lambda made: made.interfaces[1]),
    ("over-throttling", fast_cnps, lambda made: made.interfaces[1]),
    ("unstable-loop", steep, lambda made: made.interfaces[1]),
    ("slow-recovery", slow_increase, lambda made: made.ports[0]),
]


@pytest.mark.parametrize(
    ("rule", "plant", "place"), CASES, ids=[f"{c[0]} {c[1].__name__}" for c in CASES]
)
def test_found_where_it_was_planted_and_quiet_before(rule, plant, place):
    made = congested()
    assert judge(rule, made).outcome == "quiet"
    plant(made)
    [finding] = judge(rule, made).findings
    assert (finding.subject, finding.severity) == (place(made), "warning")
    top = diagnose(made.telemetry, made.fabric, RULES).findings[0]
    assert (top.rule, top.subject) == (rule, place(made))


def test_an_egress_that_marks_as_it_should_is_worth_information_at_most():
    made = congested()
    assert {f.severity for f in diagnose(made.telemetry, made.fabric, RULES).findings} <= {"info"}


def test_a_hundred_flows_are_more_than_cnps_rule():
    made = congested(senders=10, pairs=10, marked=0.8)
    [finding] = judge("incast-beyond-cnp", made).findings
    assert finding.subject == made.interfaces[1]
    assert "100 flows of 10 hosts" in finding.summary
    marks(made, 0.3)
    assert judge("incast-beyond-cnp", made).outcome == "quiet"
    assert judge("incast-beyond-cnp", congested(marked=0.8)).outcome == "quiet"


def test_a_usual_pmax_that_many_flows_saturate_is_information():
    made = congested(senders=20, pairs=16, marked=0.9)
    thresholds(made, 400 * KB, 1600 * KB, 0.1)
    [finding] = judge("marking-saturated", made).findings
    assert finding.severity == "info"


def test_a_sender_that_is_fast_has_recovered():
    made = congested()
    slow_increase(made)
    load(made, made.netdevs[0], 0.9)
    [finding] = judge("slow-recovery", made).findings
    assert finding.severity == "info"
    made.telemetry.grow(rdma.CNP_HANDLED, made.ports[0], 0)
    assert judge("slow-recovery", made).outcome == "quiet"


def test_a_switch_with_a_smaller_share_of_buffer_that_stops_its_peers():
    made = three_tiers()
    spine, leaf = named("spine", 1), named("leaf", 0)
    for switch in (leaf, named("leaf", 1), *(named("spine", n) for n in range(4))):
        for wire in (wire for wire in made.fabric.wires if getattr(wire, "switch", None) == switch):
            made.telemetry.put(Slot(wire, "priority_group", PRIO), "buffer_alpha", 1 / 8)
            made.telemetry.put(wire, "pfc_priorities", tuple(p == PRIO for p in range(8)))
    victim = next(w for w in made.fabric.wires if str(w).endswith("leaf0/u1"))
    pause(made, victim, 0.3)
    for wire in made.fabric.wires:
        if getattr(wire, "switch", None) == spine and wire.name == "d1":
            load(made, wire, 0.97)
    assert judge("unequal-alpha", made).outcome == "quiet"
    for wire in made.fabric.wires:
        if getattr(wire, "switch", None) == spine:
            made.telemetry.put(Slot(wire, "priority_group", PRIO), "buffer_alpha", 1 / 64)
    [finding] = judge("unequal-alpha", made).findings
    assert finding.subject == spine
    assert victim in finding.affected


@pytest.mark.parametrize(
    ("shares", "outcome"),
    [([0.0, 0.0, 0.0, 0.2] * 10, "found"), ([0.05] * 40, "quiet"), ([0.2] + [0.0] * 39, "quiet")],
)
def test_pauses_that_come_again_at_one_interval(shares, outcome):
    made = lossless()
    slot = priority(made.interfaces[1], PRIO)
    total = sum(shares) / len(shares) * SECONDS
    made.telemetry.grown[interface.PFC_RX_PAUSE.name][slot] = Growth(total, samples=41)
    made.telemetry.stepped[interface.PFC_RX_PAUSE.name, slot] = (range(40), shares)
    shown = judge("periodic-pauses", made)
    assert shown.outcome == outcome
    assert {finding.severity for finding in shown.findings} <= {"info"}
    assert judge("periodic-pauses", lossless()).outcome == "cannot_tell"

"""Every recommendation has all of its fields; causes are cured, symptoms are not."""

import msgspec
import pytest

from collectors.model.catalogue import interface, ip, rdma, rdma_errors
from tests.tuner.diagnosis.test_rules import BY_ID, ecn, lab, not_ect_lab, traffic
from tuner.advice.document import SCHEMA, SuggestDocument, json_schema, suggest_document
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.recommend import CURES, recommend
from tuner.diagnosis.diagnose import diagnose
from tuner.diagnosis.registry import RULES


def advise(made):
    shown = diagnose(made.telemetry, made.fabric, RULES)
    return shown, recommend(shown, made.telemetry, made.fabric)


def lossy():
    made = traffic(lab(4))
    made.telemetry.grow(rdma.OUT_OF_SEQUENCE_RX, made.ports[1], 20_000)
    for sender in (0, 2):
        made.telemetry.grow(rdma.SEQUENCE_NAK_RX, made.ports[sender], 400)
    return made


def marked():
    made = traffic(lab())
    ecn(made, 1, ce=300, ect=700)
    return made


def overflowing():
    made = traffic(lab())
    made.telemetry.grow(interface.QUEUE_DROPS, made.queues[1], 2000)
    made.telemetry.grow(interface.QUEUE_TX_PACKETS, made.queues[1], 98_000)
    return made


def not_ready():
    made = traffic(lab())
    made.telemetry.grow(rdma_errors.RNR_NAK_TX, made.ports[2], 300)
    return made


def short_mtu():
    made = lab(4)
    made.telemetry.put(made.netdevs[1], "mtu_bytes", 1024)
    return made


def slow():
    made = lab(4)
    made.telemetry.put(made.queues[2], "queue_rate_bps", 5_000_000)
    return made


CASES = {
    "lossy": (lossy, "link_repair", "link/", "repaired"),
    "not-ect": (not_ect_lab, "roce_ecn_codepoint", "port/h1", 2),
    "marked": (marked, "queue_rate_bps", "queue/0/interface/sw/p2", 40_000_000),
    "overflowing": (overflowing, "queue_limit_bytes", "queue/0/interface/sw/p2", 120_000),
    "not-ready": (not_ready, "receive_queue_depth", "port/h3", 256),
    "short-mtu": (short_mtu, "mtu_bytes", "netdev/h2/h2", 1500),
    "slow": (slow, "queue_rate_bps", "queue/0/interface/sw/p3", 20_000_000),
}


def assert_whole(rec):
    assert rec.effects
    for effect in rec.effects:
        assert effect.low <= effect.high
        assert effect.model
        assert effect.assumptions
    assert rec.current is not None or rec.missing
    for text in (rec.summary, rec.how, rec.undo, rec.risk_reason):
        assert text
        assert "{" not in text
    assert 0 < rec.confidence <= 1


@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_fault_one_change(case):
    build, knob, scope, proposed = CASES[case]
    made = build()
    shown, recs = advise(made)
    assert [rec.knob for rec in recs] == [knob]
    [rec] = recs
    assert str(rec.scope).startswith(scope)
    assert rec.proposed == proposed
    assert rec.because == (shown.findings[0].id,)
    assert_whole(rec)


def test_no_fault_no_change():
    shown, recs = advise(traffic(lab()))
    assert shown.findings == ()
    assert recs == ()


def test_no_capacity_advice_where_the_nic_may_react_to_marks():
    made = marked()
    device = made.ports[1].device
    made.telemetry.known[device] = {}
    shown, recs = advise(made)
    assert [finding.rule for finding in shown.findings] == ["path-marks"]
    assert recs == ()


def test_waste_bounds_the_gain():
    _, [rec] = advise(lossy())
    gain = next(effect for effect in rec.effects if effect.unit == "ratio")
    # 20,000 of the 400,000 packets received at the affected ports were out of order.
    assert gain.low == pytest.approx(1 / (1 - 20_000 / 300_000))


def test_document_round_trips_and_matches_its_schema():
    shown, recs = advise(not_ect_lab())
    document = suggest_document(shown, recs, source="test", agents=["h1"], made_by="test")
    again = msgspec.json.decode(msgspec.json.encode(document), type=SuggestDocument)
    assert again == document
    assert again.schema == SCHEMA
    assert again.findings[0].evidence[0].metric == "ecn_enabled"
    assert "RecommendationDocument" in json_schema()["$defs"]


def test_every_cure_is_of_a_rule_and_every_knob_is_known():
    assert set(CURES) <= set(BY_ID)
    assert all(knob.disruption for knob in KNOBS.values())
    assert ip.METRICS


def test_a_sender_that_is_dropped_is_promised_an_even_share():
    made = not_ect_lab()
    for index, mbps in ((0, 0.5), (2, 15.0)):
        made.telemetry.grow(interface.TX_BYTES, made.netdevs[index], mbps * 1e6 / 8 * 30)
    _, [rec] = advise(made)
    share = rec.effects[0]
    assert (share.low, share.high) == (5e6, 10e6)  # half to whole of 20 Mbit/s for two

"""Whatever telemetry says, rules and cures bear it, and the answer is JSON."""

import math
from random import Random

import msgspec
import pytest

from collectors.model.catalogue.registry import CATALOGUE
from collectors.model.catalogue.settings import fits
from collectors.model.entities import Host, Interface, Slot, Switch, priority, queue
from collectors.model.facts import Attribute, Neighbour
from tests.tuner.fake import Growth, Sample, lab
from tuner.advice.document import SuggestDocument, suggest_document
from tuner.advice.recommend import recommend
from tuner.cli import show
from tuner.diagnosis.audit.registry import AUDIT
from tuner.diagnosis.diagnose import diagnose
from tuner.diagnosis.registry import RULES

METRICS = [*CATALOGUE.values()]
ALL = tuple(dict.fromkeys((*RULES, *AUDIT)))
RULE_IDS = {rule.id for rule in ALL}
SETTINGS = (
    "cnp_dscp", "cnp_priority", "dcqcn_np_enabled", "dcqcn_rp_enabled", "dscp_to_priority",
    "ecn_enabled", "forced_tclass", "ib_cc_ccti_increase", "ib_cc_ccti_timer",
    "ib_cc_marking_rate", "ib_cc_supported", "ib_cc_threshold", "ib_hoq_life",
    "ib_operational_vls", "ib_vl_arbitration_high", "ib_vl_arbitration_low", "ib_vl_high_limit",
    "job_environment", "kmax_bytes", "kmin_bytes", "mtu_bytes", "pause_rx_enabled",
    "pause_tx_enabled", "pcie_speed_gtps", "pcie_speed_max_gtps", "pcie_width_lanes",
    "pcie_width_max_lanes", "pfc_priorities", "pmax_ratio", "queue_limit_bytes", "queue_rate_bps",
    "rdma_cm_tclass", "rdma_mtu_bytes", "roce_dscp", "speed_bps", "fec", "trust",
    "peer_pfc_priorities", "dscp_to_traffic_class", "priority_to_queue", "pfc_watchdog_enabled",
    "xoff_bytes", "pfc_cable_length_metres", "ecmp_hash_seed", "ecmp_hash_algorithm",
    "ecmp_hash_offset", "ecmp_hash_fields",
)  # fmt: skip
ATTRIBUTES = ("driver", "link_layer", "netdev", "ib_tier", "ib_oddity")
NUMBERS = (0, 1, 2, 3, 7, 40, 1000, 1500, 10**6, 25 * 10**9, 2**31, 2**63, 2**64 - 1)
VALUES = (
    *NUMBERS, True, False, -1, 0.5, 1e308, 10**30, "", "abc", "1500", "[red]", "a[/x]", "\x1b[2J",
    (), (1, 2), ("a", True), (0,) * 8, ("3",), ("1:64", "x:y"),
)  # fmt: skip
DRIVERS = ("rxe", "mlx5_core", "mlx5", "bnxt_re", "irdma", "[/x]", 7)


def planted(seed):
    """A small fabric of which everything may be known, most of it nonsense."""
    random = Random(seed)
    made = lab(random.randint(0, 4))
    telemetry = made.telemetry
    switch = Switch("sw", random.choice(["sw", "s[/w]"]))
    places = [*made.ports, *made.netdevs, *made.interfaces, *made.queues, switch, Host("h1")]
    places += [port.device for port in made.ports]
    wires = [*made.ports, *made.netdevs, *made.interfaces]
    for _ in range(random.randint(0, 3) if wires else 0):  # InfiniBand, loops, contradictions
        wires.append(Interface(Switch(f"{random.randint(1, 3):016x}", "ib[/x]"), "1"))
        ends = random.choice(wires), random.choice(wires)
        telemetry.cables.append(Neighbour(*ends, random.choice(["lldp", "ib"])))
    for wire in wires:
        places += [wire, priority(wire, 3), queue(wire, 0), Slot(wire, "vl", 0)]
    share = random.choice([0.01, 0.05, 0.2])
    for metric in METRICS:
        usual = random.choice(NUMBERS)
        for entity in places:
            if random.random() > share:
                continue
            number = random.choice([0, usual, usual, random.choice(NUMBERS)])
            if metric.kind != "counter":
                telemetry.seen.setdefault(metric.name, {})[entity] = Sample(number)
                continue
            telemetry.grown.setdefault(metric.name, {})[entity] = Growth(
                number, random.choice([1e-9, 0.5, 30.0, 30.0, 1e6]), random.randint(2, 9),
                resets=random.choice([0, 0, 2]), saturated=random.random() < 0.1,
            )  # fmt: skip
    for entity in places:
        for name in SETTINGS:
            if random.random() < share:
                value = random.choice(VALUES)
                if fits(name, value):
                    telemetry.put(entity, name, value)
        for name in ATTRIBUTES:
            if random.random() < share / 2:
                of = DRIVERS if name == "driver" and random.random() < 0.8 else VALUES
                known = telemetry.known.setdefault(entity, {})
                known[name] = Attribute(entity, name, random.choice(of))
    return made


def check_findings(diagnosis):
    for verdict in diagnosis.verdicts:
        assert verdict.outcome != "cannot_tell" or verdict.missing, verdict.rule
        assert verdict.outcome == "found" or not verdict.findings, verdict.rule
    for finding in diagnosis.findings:
        assert finding.summary
        assert finding.refute
        assert finding.evidence, finding.rule
        assert 0 <= finding.confidence <= 1, finding.rule
        assert {rule for rule, _ in finding.explains} <= RULE_IDS, finding.rule


def check_recommendation(rec):
    for name in ("knob", "summary", "because", "evidence", "risk", "risk_reason", "how", "undo"):
        assert getattr(rec, name), (rec.knob, name)
    assert 0 <= rec.confidence <= 1
    assert rec.current is None or rec.current != rec.proposed
    for effect in rec.effects:
        assert effect.metric
        assert effect.model
        assert effect.assumptions
        assert math.isfinite(effect.low), effect
        assert math.isfinite(effect.high), effect
        assert effect.low <= effect.high, (rec.knob, effect)


def judged(seed):
    made = planted(seed)
    telemetry, fabric = made.telemetry, made.fabric
    diagnosis = diagnose(telemetry, fabric, ALL)
    broken = [v for v in diagnosis.verdicts for why in v.missing if "does not break" in why]
    assert broken == []
    recommendations = recommend(diagnosis, telemetry, fabric)
    check_findings(diagnosis)
    for rec in recommendations:
        check_recommendation(rec)
    document = suggest_document(
        diagnosis, recommendations, source="test", agents=["h1"], made_by="test"
    )
    text = msgspec.json.encode(document)
    msgspec.json.decode(text, type=SuggestDocument)
    out = show.console()
    with out.capture() as shown:
        out.print(show.suggestion(diagnosis, recommendations))
        for finding in diagnosis.findings[:3]:
            out.print(show.explanation(finding, recommendations[:3]))
    assert "\x1b[2J" not in shown.get()


@pytest.mark.parametrize("seed", range(40))
def test_rules_and_cures_bear_any_telemetry(seed):
    judged(seed)

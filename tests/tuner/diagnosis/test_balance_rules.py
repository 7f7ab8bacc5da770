"""Balance over uplinks: collisions, blind hashes, polarisation, lost and missing capacity."""

import pytest

from collectors.model.catalogue import interface
from collectors.model.entities import Interface, Netdev, Switch, queue
from collectors.model.facts import Neighbour
from tests.tuner.diagnosis.test_more_rules import uplinks
from tests.tuner.diagnosis.test_pause_rules import load, lossless
from tests.tuner.diagnosis.test_rules import judge
from tuner.diagnosis.diagnose import diagnose
from tuner.diagnosis.registry import RULES

FIELDS = "src_ip dst_ip src_port dst_port"


def named(word, number):
    return Switch(f"{word}{number}", f"{word}{number}")


def cable(made, near, far, share=0.4):
    made.telemetry.cables.append(Neighbour(near, far, "lldp"))
    for wire in (near, far):
        made.telemetry.see(interface.SPEED, wire, 100e9)
        load(made, wire, share)


def three_tiers(share=0.4):
    """Two leaves with two hosts each, four spines, four cores; every link carries the same."""
    made = lossless(0)
    for leaf in range(2):
        for host in range(2):
            netdev = Netdev(f"n{leaf}{host}", "eth0")
            cable(made, netdev, Interface(named("leaf", leaf), f"h{host}"), share)
        for spine in range(4):
            far = Interface(named("spine", spine), f"d{leaf}")
            cable(made, Interface(named("leaf", leaf), f"u{spine}"), far, share)
    for spine in range(4):
        for core in range(4):
            far = Interface(named("core", core), f"d{spine}")
            cable(made, Interface(named("spine", spine), f"u{core}"), far, share)
    for word in ("leaf", "spine", "core"):
        for number in range(4):
            made.telemetry.put(named(word, number), "ecmp_hash_fields", FIELDS)
            made.telemetry.put(
                named(word, number), "ecmp_hash_seed", {"leaf": 1, "spine": 2}.get(word, 3)
            )
    return made


def up(word, number, place):
    return Interface(named(word, number), f"u{place}")


def collisions(made):
    load(made, up("leaf", 0, 1), 0.95)
    load(made, up("leaf", 0, 2), 0.1)


def blind(made):
    collisions(made)
    made.telemetry.put(named("leaf", 0), "ecmp_hash_fields", "dst_ip")


def polarised(made):
    made.telemetry.put(named("spine", 2), "ecmp_hash_seed", 1)
    for core, share in enumerate((0.8, 0.0, 0.0, 0.0)):
        load(made, up("spine", 2, core), share)


def failed(made):
    made.telemetry.see(interface.CARRIER, up("spine", 1, 0), 0)
    load(made, Interface(named("spine", 1), "d1"), 0.97)


def crowded(made):
    for spine in range(4):
        wire = up("leaf", 0, spine)
        made.telemetry.see(interface.SPEED, wire, 40e9)
        made.telemetry.grow(interface.TX_BYTES, wire, 0.97 * 30 * 40e9 / 8)
        made.telemetry.grow(interface.QUEUE_ECN_MARKED, queue(wire, 3), 300_000)
        made.telemetry.grow(interface.QUEUE_TX_PACKETS, queue(wire, 3), 1_000_000)


CASES = [
    ("ecmp-imbalance", collisions, named("leaf", 0)),
    ("pinned-paths", blind, named("leaf", 0)),
    ("hash-polarisation", polarised, named("spine", 2)),
    ("unequal-capacity", failed, named("spine", 1)),
    ("oversubscription", crowded, named("leaf", 0)),
]


@pytest.mark.parametrize(("rule", "plant", "place"), CASES, ids=[c[0] for c in CASES])
def test_found_where_it_was_planted_and_quiet_before(rule, plant, place):
    made = three_tiers()
    assert judge(rule, made).outcome == "quiet"
    plant(made)
    [finding] = judge(rule, made).findings
    assert finding.subject == place
    loud = [
        found
        for found in diagnose(made.telemetry, made.fabric, RULES).findings
        if not found.explained_by and found.rule not in ("slow-link", "link-down")
    ]
    assert [(found.rule, found.subject) for found in loud] == [(rule, place)]


def test_links_down_to_other_switches_are_no_group_of_ecmp():
    made = three_tiers()
    load(made, Interface(named("spine", 0), "d0"), 0.95)
    load(made, Interface(named("spine", 0), "d1"), 0.05)
    assert judge("ecmp-imbalance", made).outcome == "quiet"


def test_a_tier_with_other_seeds_is_polarised_with_less_confidence():
    made = three_tiers()
    polarised(made)
    [alike] = judge("hash-polarisation", made).findings
    made.telemetry.put(named("spine", 2), "ecmp_hash_seed", 77)
    [different] = judge("hash-polarisation", made).findings
    assert different.confidence < alike.confidence
    assert "hashing alike" in alike.summary


def test_few_hosts_behind_full_uplinks_are_not_oversubscribed():
    made = three_tiers()
    crowded(made)
    for host in range(2):
        made.telemetry.see(interface.SPEED, Interface(named("leaf", 0), f"h{host}"), 25e9)
    assert judge("oversubscription", made).outcome == "quiet"


def test_balance_of_infiniband_is_a_matter_of_its_routing():
    made = uplinks(lossless(), [0.95, 0.5, 0.5, 0.1])
    first = made.telemetry.cables[-1]
    made.telemetry.cables[-1] = Neighbour(first.local, first.remote, "ib")
    assert judge("ecmp-imbalance", made).outcome == "not_applicable"

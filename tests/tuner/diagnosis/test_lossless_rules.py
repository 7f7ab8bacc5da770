"""Rules of lossless classes: what each finds at which place, and when it stays quiet."""

import pytest

from collectors.model.catalogue import ethernet, interface, rdma, switch
from collectors.model.entities import Slot, Switch, link, priority, queue
from tests.tuner.diagnosis.test_pause_rules import PRIO, lossless, pause
from tests.tuner.diagnosis.test_rules import judge
from tuner.diagnosis.diagnose import diagnose
from tuner.diagnosis.registry import RULES

ON = tuple(p == PRIO for p in range(8))
OFF = (False,) * 8


def group(wire):
    return Slot(wire, "priority_group", PRIO)


def configured():
    """Four hosts on one switch, PFC on for priority 3, every counter of interest at zero."""
    made = lossless()
    for wire in [*made.netdevs, *made.interfaces]:
        made.telemetry.put(wire, "pfc_priorities", ON)
        made.telemetry.grow(interface.PAUSE_RX_FRAMES, wire, 0)
    for wire in made.interfaces:
        made.telemetry.grow(switch.GROUP_DROPS, group(wire), 0)
        made.telemetry.grow(interface.QUEUE_DROPS, queue(wire, PRIO), 0)
        made.telemetry.grow(switch.WATCHDOG_STORMS, queue(wire, PRIO), 0)
        made.telemetry.put(group(wire), "xoff_bytes", 90_000)
    for wire in made.netdevs:
        made.telemetry.grow(ethernet.PRIORITY_RX_DISCARDS, priority(wire, PRIO), 0)
    made.telemetry.put(Switch("sw"), "pool_size_bytes", 1_000_000)
    made.telemetry.see(switch.POOL_MAX, Slot(Switch("sw"), "pool", 0), 400_000)
    return made


def less_headroom(made):
    made.telemetry.put(group(made.interfaces[2]), "xoff_bytes", 20_000)
    made.telemetry.grow(switch.GROUP_DROPS, group(made.interfaces[2]), 40)


def used_headroom(made):
    made.telemetry.see(switch.GROUP_HEADROOM_MAX, group(made.interfaces[2]), 90_000)
    made.telemetry.grow(interface.QUEUE_DROPS, queue(made.interfaces[0], PRIO), 40)


def full_pool(made):
    made.telemetry.see(switch.POOL_MAX, Slot(Switch("sw"), "pool", 0), 999_000)
    made.telemetry.grow(interface.QUEUE_DROPS, queue(made.interfaces[0], PRIO), 40)


def lossy_cable_ends(made):
    for wire in (made.netdevs[1], made.interfaces[1]):
        made.telemetry.put(wire, "pfc_priorities", OFF)


def lossy_end(made):
    made.telemetry.put(made.interfaces[1], "pfc_priorities", OFF)


def lossy_switch(made):
    for wire in made.interfaces[:3]:
        made.telemetry.put(wire, "pfc_priorities", OFF)


def pause_frames(made):
    made.telemetry.grow(interface.PAUSE_RX_FRAMES, made.netdevs[3], 5000)


def watchdog(made):
    made.telemetry.grow(switch.WATCHDOG_STORMS, queue(made.interfaces[0], PRIO), 2)


def discards(made):
    made.telemetry.grow(ethernet.PRIORITY_RX_DISCARDS, priority(made.netdevs[0], PRIO), 500)


def classes(made, of):
    """The DSCP map of every port: 26 to class 3, or what `of` has for a port."""
    for number, wire in enumerate(made.interfaces):
        table = [0] * 64
        table[26] = of.get(number, PRIO)
        made.telemetry.put(wire, "dscp_to_traffic_class", tuple(table))
        made.telemetry.put(wire, "trust", "dscp")
    made.telemetry.put(made.ports[0], "roce_dscp", 26)


def test_a_port_that_maps_the_dscp_of_roce_elsewhere():
    made = configured()
    classes(made, {})
    assert judge("class-mismatch", made).outcome == "quiet"
    classes(made, {2: 0})
    [finding] = judge("class-mismatch", made).findings
    assert finding.subject == made.interfaces[2]
    assert "DSCP 26" in finding.summary
    classes(made, {})
    made.telemetry.put(made.interfaces[1], "trust", "pcp")
    [finding] = judge("class-mismatch", made).findings
    assert finding.subject == made.interfaces[1]


def test_rdma_bytes_that_are_dropped_in_a_queue_without_pfc():
    made = configured()
    lost, kept = queue(made.interfaces[1], 0), queue(made.interfaces[1], PRIO)
    made.telemetry.grow(interface.QUEUE_TX_BYTES, lost, 9e9)
    made.telemetry.grow(interface.QUEUE_TX_BYTES, kept, 1e9)
    made.telemetry.grow(rdma.RX_BYTES, made.ports[1], 9.5e9)
    made.telemetry.grow(interface.QUEUE_DROPS, lost, 0)
    assert judge("class-mismatch", made).outcome == "quiet"
    made.telemetry.grow(interface.QUEUE_DROPS, lost, 500)
    [finding] = judge("class-mismatch", made).findings
    assert finding.subject == made.interfaces[1]
    made.telemetry.grow(rdma.RX_BYTES, made.ports[1], 1e9)  # what is dropped is not RDMA
    assert judge("class-mismatch", made).outcome == "quiet"


def cable(made, host):
    return link(made.netdevs[host], made.interfaces[host])


CASES = [
    ("headroom-too-small", less_headroom, lambda made: made.interfaces[2]),
    ("headroom-too-small", used_headroom, lambda made: made.interfaces[2]),
    ("pool-exhausted", full_pool, lambda _made: Switch("sw")),
    ("class-not-lossless", lossy_cable_ends, lambda made: cable(made, 1)),
    ("class-not-lossless", lossy_end, lambda made: made.interfaces[1]),
    ("class-not-lossless", lossy_switch, lambda _made: Switch("sw")),
    ("global-pause", pause_frames, lambda made: cable(made, 3)),
    ("watchdog-fired", watchdog, lambda made: made.interfaces[0]),
    ("nic-buffer-overflow", discards, lambda made: made.netdevs[0]),
]


@pytest.mark.parametrize(
    ("rule", "plant", "place"), CASES, ids=[f"{c[0]} {c[1].__name__}" for c in CASES]
)
def test_found_where_it_was_planted_and_quiet_before(rule, plant, place):
    made = configured()
    assert judge(rule, made).outcome == "quiet"
    plant(made)
    [finding] = judge(rule, made).findings
    assert finding.subject == place(made)
    assert finding.severity in ("warning", "critical")
    top = diagnose(made.telemetry, made.fabric, RULES).findings[0]
    assert top.severity != "info"


def test_headroom_that_is_too_small_for_the_cable_without_a_majority():
    made = configured()
    for wire in made.interfaces:
        made.telemetry.put(group(wire), "xoff_bytes", 10_000)
    assert judge("headroom-too-small", made).outcome == "quiet"  # nothing is lost
    made.telemetry.grow(switch.GROUP_DROPS, group(made.interfaces[2]), 40)
    [finding] = judge("headroom-too-small", made).findings
    assert finding.subject == made.interfaces[2]
    assert any("802.1Qbb" in item.threshold for item in finding.evidence)


def test_drops_of_a_lossy_priority_are_no_matter_of_headroom():
    made = configured()
    made.telemetry.put(group(made.interfaces[2]), "xoff_bytes", 20_000)
    made.telemetry.grow(interface.QUEUE_DROPS, queue(made.interfaces[2], 0), 5000)
    assert judge("headroom-too-small", made).outcome == "quiet"


def test_an_end_without_pfc_is_one_fault():
    made = configured()
    lossy_end(made)
    made.telemetry.grow(interface.QUEUE_DROPS, queue(made.interfaces[1], PRIO), 5000)
    loud = [f for f in diagnose(made.telemetry, made.fabric, RULES).findings if not f.explained_by]
    assert len(loud) == 1
    assert loud[0].rule in ("pfc-mismatch", "class-not-lossless")


def test_a_watchdog_that_fires_without_a_long_pause_is_doubted():
    made = configured()
    watchdog(made)
    pause(made, made.interfaces[0], 0.0001)
    [finding] = judge("watchdog-fired", made).findings
    assert "detection is too short" in finding.summary
    pause(made, made.interfaces[0], 0.95)
    [finding] = judge("watchdog-fired", made).findings
    assert "without end" in finding.summary


def test_a_nic_without_pfc_that_overflows_is_surer_than_one_with():
    made = configured()
    discards(made)
    [protected] = judge("nic-buffer-overflow", made).findings
    made.telemetry.put(made.netdevs[0], "pfc_priorities", OFF)
    [bare] = judge("nic-buffer-overflow", made).findings
    assert bare.confidence > protected.confidence
    assert "PFC is off" in bare.summary
    made.telemetry.grow(ethernet.PRIORITY_RX_DISCARDS, priority(made.netdevs[0], PRIO), 0)
    made.telemetry.grow(rdma.RX_DISCARDS, made.ports[0], 500)
    [finding] = judge("nic-buffer-overflow", made).findings
    assert finding.subject == made.netdevs[0]

"""ECN marks of CISCO-CLASS-BASED-QOS-MIB: the join to interface and queue."""

from collectors.snmp.class_queues import (
    CLASS_NAME,
    CONFIG,
    DIRECTION,
    IF_INDEX,
    MIB,
    PARENT,
    TYPE,
    parse_join,
)
from simlab.switches import ber
from simlab.switches.snmp_agent import Mib
from simlab.switches.snmp_face import SnmpFace
from simlab.switches.state import SwitchState
from tests.collectors.passes import reasons, values

from .conftest import port, system

BASE = "1.3.6.1.4.1.9.9.166.1"
ECN = "fabric_queue_ecn_marked_packets_total"
QUEUE3 = "queue/3/interface/leaf1/Ethernet1%2F7"


def policy(mib, number, if_index, way, classes, wred=1000):
    """Put a policy: classes is object number -> name of the class."""
    mib.put(f"{BASE}.1.1.1.3.{number}", ber.INTEGER, way)
    mib.put(f"{BASE}.1.1.1.4.{number}", ber.INTEGER, if_index)
    for at, name in classes.items():
        mib.put(f"{BASE}.7.1.1.1.{at}", ber.OCTETS, name)
        for place, kind, config, parent in ((at, 2, at, 1), (at + wred, 5, 9, at)):
            mib.put(f"{BASE}.5.1.1.2.{number}.{place}", ber.GAUGE32, config)
            mib.put(f"{BASE}.5.1.1.3.{number}.{place}", ber.INTEGER, kind)
            mib.put(f"{BASE}.5.1.1.4.{number}.{place}", ber.GAUGE32, parent)


def device():
    mib = Mib()
    system(mib)
    port(mib, 7, "Ethernet1/7")
    policy(mib, 50, 7, 2, {11: "c-out-8q-q3", 12: "c-out-8q-q-default", 13: "BULK"})
    policy(mib, 51, 7, 1, {14: "c-in-q3"})
    for value, count in ((0, 5), (26, 100), (63, 7)):
        mib.put(f"{BASE}.20.1.1.21.50.1011.{value}", ber.COUNTER64, count)
    mib.put(f"{BASE}.20.1.1.21.50.1012.0", ber.COUNTER64, 9)
    mib.put(f"{BASE}.20.1.1.21.50.1013.0", ber.COUNTER64, 77)
    mib.put(f"{BASE}.20.1.1.21.51.1014.0", ber.COUNTER64, 88)
    mib.put(f"{BASE}.20.1.1.9.50.1011.26", ber.COUNTER64, 3)
    return mib


def test_marks_of_all_red_values_are_those_of_the_queue(rig):
    result = rig(device(), "nxos").poll()
    got = values(result)
    assert got[QUEUE3, ECN] == 112
    assert got["queue/0/interface/leaf1/Ethernet1%2F7", ECN] == 9
    assert got[QUEUE3, "fabric_queue_tail_drop_packets_total"] == 3
    assert 77 not in got.values()  # a class that names no queue
    assert 88 not in got.values()  # an input policy
    assert (MIB, "no queue in the name of class 'BULK'") in reasons(result)


def test_the_join_is_kept_and_made_anew_when_objects_change(rig):
    made = rig(device(), "nxos")
    made.poll()
    made.poll()
    classes = made.poller._known.classes
    assert classes.joins == 1
    policy(made.mib, 50, 7, 2, {21: "c-out-8q-q3"}, wred=2000)
    made.mib.put(f"{BASE}.20.1.1.21.50.2021.0", ber.COUNTER64, 500)
    for row in ("1011.0", "1011.26", "1011.63"):
        made.mib.put(f"{BASE}.20.1.1.21.50.{row}", ber.COUNTER64, 0)
    got = values(made.poll())
    assert classes.joins == 2
    assert got[QUEUE3, ECN] == 500
    made.poll()
    assert classes.joins == 2  # what stays unknown (BULK) is not asked about again and again


def test_a_device_without_the_mib_costs_nothing_after_the_first_look(rig):
    mib = Mib()
    system(mib)
    port(mib, 1, "Ethernet1/1")
    made = rig(mib, "nxos")
    made.poll()
    before = made.agent.requests
    made.poll()
    assert made.agent.requests - before < 12
    assert made.poller._known.classes.joins == 0


def test_an_object_without_a_way_up_is_left_out():
    empty = {oid: {} for oid in (CONFIG, DIRECTION, IF_INDEX, PARENT, TYPE, CLASS_NAME)}
    gaps = []
    assert parse_join(empty | {PARENT: {(1, 2): 3}}, lambda *gap: gaps.append(gap)) == {}
    assert gaps == []


def test_a_simulated_nexus_counts_its_marks(rig):
    state = SwitchState("leaf1", "nxos", 2)
    state.add("q_ecn", 2, 3, 41)
    got = values(rig(SnmpFace(state).mib, "nxos").poll())
    assert got["queue/3/interface/leaf1/Ethernet1%2F2", ECN] == 41

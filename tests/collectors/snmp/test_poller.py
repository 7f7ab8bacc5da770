"""The poller against an agent that behaves, and against agents that do not."""

import pytest

from collectors.model.errors import Unavailable
from simlab.switches import ber
from simlab.switches.snmp_agent import Mib, SnmpFaults
from tests.collectors.passes import reasons, values

from .conftest import IF, IF_HC, port, system

CISCO = "1.3.6.1.4.1.9.9.813.1.2.1"
RX, TX = "fabric_pfc_rx_frames_total", "fabric_pfc_tx_frames_total"


def mib_with_pfc(ports=3):
    mib = Mib()
    system(mib)
    for index in range(1, ports + 1):
        port(mib, index, f"Ethernet1/{index}", rx=1000 + index, tx=2000 + index)
        for priority in range(8):
            mib.put(f"{CISCO}.2.{index}.{priority}", ber.COUNTER64, 10 * index + priority)
            mib.put(f"{CISCO}.3.{index}.{priority}", ber.COUNTER64, 100 * index + priority)
    return mib


def test_requests_are_sent_and_indications_received(rig):
    got = values(rig(mib_with_pfc(), "nxos").poll())
    assert got["priority/3/interface/leaf1/Ethernet1%2F2", TX] == 23
    assert got["priority/3/interface/leaf1/Ethernet1%2F2", RX] == 203
    assert got["interface/leaf1/Ethernet1%2F2", "fabric_interface_rx_bytes_total"] == 1002
    assert got["interface/leaf1/Ethernet1%2F2", "fabric_interface_tx_bytes_total"] == 2002


def test_the_second_poll_asks_less_and_sees_new_values(rig):
    made = rig(mib_with_pfc(), "nxos")
    made.poll()
    first = made.agent.requests
    made.mib.put(f"{CISCO}.3.2.3", ber.COUNTER64, 2**63)
    got = values(made.poll())
    assert made.agent.requests - first < first / 2
    assert got["priority/3/interface/leaf1/Ethernet1%2F2", RX] == 2**63


def test_g13_absent_tables_are_gaps_and_not_zeros(rig):
    mib = Mib()
    system(mib)
    port(mib, 1, "Ethernet1/1")
    result = rig(mib, "nxos").poll()
    assert (RX, "not supported") in reasons(result)  # G13: no PFC rows
    assert not any(metric == RX for _, metric in values(result))


def test_g14_aggregates_backplane_and_virtual_interfaces_are_left_out(rig):
    """G14: members of an aggregate are counted once, backplane ports hidden."""
    mib = Mib()
    system(mib)
    for index, (name, kind) in enumerate(
        [("Ethernet0", 6), ("PortChannel1", 161), ("Ethernet-BP0", 6), ("Vlan100", 53)], 1
    ):
        port(mib, index, name, rx=5, kind=kind)
    got = values(rig(mib, "sonic").poll())
    assert {entity for entity, _ in got} == {"interface/leaf1/Ethernet0"}


def test_g12_sonic_totals_are_not_read_and_queues_start_at_one(rig):
    """G12: cpfcIfRequests of SONiC is priority 3 only."""
    mib = mib_with_pfc(1)
    mib.put("1.3.6.1.4.1.9.9.813.1.1.1.1.1", ber.COUNTER64, 77)
    mib.put("1.3.6.1.4.1.9.9.580.1.5.5.1.4.1.2.4.1", ber.COUNTER64, 5)
    mib.put("1.3.6.1.4.1.9.9.580.1.5.5.1.4.1.1.4.1", ber.COUNTER64, 6)  # ingress
    got = values(rig(mib, "sonic").poll())
    assert 77 not in got.values()
    assert got["queue/3/interface/leaf1/Ethernet1%2F1", "fabric_queue_tx_packets_total"] == 5
    assert 6 not in got.values()


@pytest.mark.parametrize("description", ["SONiC.201811.0 HwSku: x", "SONiC.202405.1"])
def test_g11_swapped_directions_of_old_sonic_images(rig, description):
    """G11."""
    mib = mib_with_pfc(1)
    system(mib, description=description)
    result = rig(mib, "sonic").poll()
    got = values(result)
    entity = "priority/3/interface/leaf1/Ethernet1%2F1"
    swapped = "201811" in description
    assert (got[entity, RX], got[entity, TX]) == ((13, 103) if swapped else (103, 13))
    (said,) = [row.value for row in result.facts.attributes if row.name == "image_quirk"]
    assert ("exchanged" in said) == swapped


def test_arista_counts_ecn_only_where_counting_is_on(rig):
    """A zero of a counter that is switched off is no zero."""
    mib = Mib()
    system(mib)
    base = "1.3.6.1.4.1.30065.3.13.1.9.1"
    for index, enabled in ((1, 1), (2, 2)):
        port(mib, index, f"Ethernet{index}")
        mib.put(f"{base}.3.{index}.3", ber.INTEGER, enabled)
        mib.put(f"{base}.4.{index}.3", ber.COUNTER64, 0)
    result = rig(mib, "eos").poll()
    marked = {e for e, m in values(result) if m == "fabric_queue_ecn_marked_packets_total"}
    assert marked == {"queue/3/interface/leaf1/Ethernet1"}
    assert ("fabric_queue_ecn_marked_packets_total", "not counted") in reasons(result)


def test_buffer_cells_become_bytes_of_the_device(rig):
    mib = mib_with_pfc(1)
    mib.put("1.3.6.1.4.1.9.9.580.1.1.6.0", ber.GAUGE32, 208)
    mib.put("1.3.6.1.4.1.9.9.580.1.5.6.1.7.1.3", ber.GAUGE32, 10)
    got = values(rig(mib, "nxos").poll())
    entity = "priority_group/3/interface/leaf1/Ethernet1%2F1"
    assert got[entity, "fabric_priority_group_headroom_max_bytes"] == 2080


def test_u10_units_of_pause_time(rig):
    """U10: microseconds here, milliseconds there, each tagged by its source."""
    cisco = mib_with_pfc(1)
    cisco.put("1.3.6.1.4.1.9.9.813.1.4.1.2.1.3", ber.COUNTER64, 1_500_000)
    onyx = mib_with_pfc(1)
    onyx.put("1.3.6.1.4.1.33049.15.1.2.1.4.1.3", ber.COUNTER64, 1_500)
    for mib, platform in ((cisco, "nxos"), (onyx, "onyx")):
        got = values(rig(mib, platform).poll())
        entity = "priority/3/interface/leaf1/Ethernet1%2F1"
        assert got[entity, "fabric_pfc_rx_pause_seconds_total"] == 1.5


def test_a_priority_in_the_column_number(rig):
    mib = Mib()
    system(mib)
    port(mib, 7, "swp1")
    for priority in range(8):
        mib.put(f"1.3.6.1.4.1.40310.2.2.3.1.{4 + 2 * priority}.7", ber.COUNTER64, 100 + priority)
        mib.put(f"1.3.6.1.4.1.40310.2.2.3.1.{5 + 2 * priority}.7", ber.COUNTER64, 200 + priority)
    got = values(rig(mib, "nvue").poll())
    assert got["priority/5/interface/leaf1/swp1", RX] == 105
    assert got["priority/5/interface/leaf1/swp1", TX] == 205


def test_u11_negative_and_foreign_types_are_gaps(rig):
    """U11: a negative counter is refused and the rest is kept."""
    mib = mib_with_pfc(1)
    mib.put(f"{CISCO}.3.1.0", ber.INTEGER, -4272)
    mib.put(f"{CISCO}.3.1.1", ber.OCTETS, "n/a")
    result = rig(mib, "nxos").poll()
    assert {(RX, "negative"), (RX, "not numeric")} <= reasons(result)
    assert values(result)["priority/2/interface/leaf1/Ethernet1%2F1", RX] == 102


def test_the_wider_of_two_columns_is_kept(rig):
    mib = mib_with_pfc(1)
    mib.put("1.3.6.1.2.1.10.7.10.1.3.1", ber.COUNTER32, 5)
    mib.put("1.3.6.1.2.1.10.7.10.1.5.1", ber.COUNTER64, 2**40)
    made = rig(mib, "nxos")
    for _ in range(2):
        result = made.poll()
        found = [
            (column.width, value)
            for reading in result.readings
            for column, value in reading.values.items()
            if column.metric == "fabric_pause_rx_frames_total"
        ]
        assert found == [(64, 2**40)]


# --- agents that misbehave ---------------------------------------------------------------------


def test_g17_rows_out_of_order_lose_nothing(rig):
    """G17."""
    made = rig(mib_with_pfc(20), "nxos")
    made.agent.faults = SnmpFaults(shuffle_at=ber.parse_dotted(f"{CISCO}.3.5.5"))
    got = values(made.poll())
    assert sum(metric == RX for _, metric in got) == 160


def test_g17_an_agent_that_goes_in_circles_is_left(rig):
    """G17: what came before the circle is kept."""
    made = rig(mib_with_pfc(20), "nxos")
    made.agent.faults = SnmpFaults(loop_at=ber.parse_dotted(f"{CISCO}.3.5.5"))
    result = made.poll()
    assert any(reason == "not increasing" for _, reason in reasons(result))
    got = values(result)
    assert got["priority/4/interface/leaf1/Ethernet1%2F5", RX] == 504
    assert got["priority/7/interface/leaf1/Ethernet1%2F20", TX] == 207


def test_g17_a_reply_from_elsewhere_is_no_reply(rig):
    """G17: the socket is connected; another address answers in vain."""
    made = rig(mib_with_pfc(1), "nxos")
    made.agent.faults = SnmpFaults(foreign=True)
    with pytest.raises(Unavailable, match=r"leaf1: snmp: no answer in 0\.4 s"):
        made.poll()


@pytest.mark.parametrize(
    "faults", [SnmpFaults(max_bytes=700), SnmpFaults(ignore_above=10), SnmpFaults(max_rows=7)]
)
def test_g16_fewer_rows_are_asked_for_where_a_reply_is_too_big(rig, faults):
    """G16: too big, or silently dropped above ten rows, or cut short."""
    made = rig(mib_with_pfc(20), "nxos")
    made.agent.faults = faults
    assert sum(metric == RX for _, metric in values(made.poll())) == 160
    assert sum(metric == RX for _, metric in values(made.poll())) == 160


def test_g16_an_index_above_two_to_the_31(rig):
    """G16."""
    mib = Mib()
    system(mib)
    port(mib, 2**32 - 1, "Ethernet1", rx=9)
    got = values(rig(mib).poll())
    assert got["interface/leaf1/Ethernet1", "fabric_interface_rx_bytes_total"] == 9


def test_g15_known_rows_are_fetched_where_most_of_a_table_is_not_wanted(rig):
    """G15: twenty thousand virtual interfaces around two ports."""
    mib = Mib()
    system(mib)
    for index in range(1, 20_001):
        port(mib, index, f"Vlan{index}", rx=1)
    for index in (30_001, 30_002):
        port(mib, index, f"Ethernet{index - 30_000}", rx=index)
    made = rig(mib)
    made.poll()
    before = made.agent.requests
    mib.put(f"{IF_HC}.6.30001", ber.COUNTER64, 5)
    got = values(made.poll())
    assert made.agent.requests - before < 10
    assert got["interface/leaf1/Ethernet1", "fabric_interface_rx_bytes_total"] == 5
    assert len(got) == 4


def test_g15_what_the_deadline_cuts_off_comes_first_next_time(rig):
    """G15: a deadline per target; the rest is a gap and not lost for ever."""
    from .conftest import Clock

    made = rig(mib_with_pfc(2), "nxos", deadline_s=5.0)
    made.clock = Clock(step_s=1.0)
    first = made.poll()
    assert any(reason == "deadline" for _, reason in reasons(first))
    seen = set(values(first))
    for _ in range(8):
        seen |= set(values(made.poll()))
    assert any(metric == RX for _, metric in seen)
    assert any(metric == TX for _, metric in seen)


def test_a_restart_with_reset_changes_the_incarnation(rig):
    made = rig(mib_with_pfc(1), "nxos")
    first = made.poll().readings[0].incarnation
    assert made.poll().readings[0].incarnation == first
    system(made.mib, up_time=5)
    for priority in range(8):
        made.mib.put(f"{CISCO}.3.1.{priority}", ber.COUNTER64, 0)
    made.clock.ns = iter(range(2 * 10**18, 3 * 10**18))
    assert made.poll().readings[0].incarnation != first


def test_a_restarted_agent_whose_counters_go_on_is_no_reset(rig):
    made = rig(mib_with_pfc(1), "nxos")
    first = made.poll().readings[0].incarnation
    system(made.mib, up_time=5)
    made.mib.put(f"{CISCO}.3.1.3", ber.COUNTER64, 10_000)
    made.clock.ns = iter(range(2 * 10**18, 3 * 10**18))
    assert made.poll().readings[0].incarnation == first


def test_discontinuity_time_is_per_interface(rig):
    made = rig(mib_with_pfc(2), "nxos")
    made.mib.put(f"{IF_HC}.19.1", ber.TIMETICKS, 0)
    made.mib.put(f"{IF_HC}.19.2", ber.TIMETICKS, 777)
    by_entity = {str(r.entity): r.incarnation for r in made.poll().readings}
    assert by_entity["interface/leaf1/Ethernet1%2F2"].endswith("/777")
    assert not by_entity["interface/leaf1/Ethernet1%2F1"].endswith("/777")


def test_silence_is_one_line_that_names_the_switch(rig):
    made = rig(mib_with_pfc(1), "nxos")
    made.agent.faults = SnmpFaults(silent=True)
    with pytest.raises(Unavailable) as caught:
        made.poll()
    assert "\n" not in str(caught.value)
    assert "leaf1" in str(caught.value)
    assert "public" not in str(caught.value)


def test_a_lost_request_is_repeated(rig):
    made = rig(mib_with_pfc(4), "nxos")
    made.agent.faults = SnmpFaults(drop_every=5)
    assert sum(metric == RX for _, metric in values(made.poll())) == 32


def test_names_fall_back_to_the_description(rig):
    mib = Mib()
    system(mib)
    mib.put(f"{IF}.2.1", ber.OCTETS, "ethernet one")
    mib.put(f"{IF_HC}.6.1", ber.COUNTER64, 4)
    got = values(rig(mib).poll())
    assert got["interface/leaf1/ethernet one", "fabric_interface_rx_bytes_total"] == 4

"""COUNTERS_DB and CONFIG_DB in a real Redis."""

import asyncio
import json
from pathlib import Path

import pytest
import redis

from collectors.codec.sonic_config import config_of_json, numbers, parse_config_db, reference
from collectors.codec.sonic_counters import parse_hash
from collectors.model.catalogue.settings import ATTRIBUTES, SETTINGS
from collectors.model.entities import Interface, Slot, Switch
from collectors.model.errors import Denied, Malformed, Unavailable
from collectors.sonic.database import Database
from collectors.sonic.poller import Options, SonicPoller
from collectors.targets.secret import Secret
from simlab.switches.daemons import DaemonFailed, redis_server
from simlab.switches.redis_face import GROUP_OID, PORT_OID, QUEUE_OID, RedisFace
from simlab.switches.state import SwitchState
from tests.collectors.passes import clock, values

FIXTURES = Path(__file__).parents[3].parent / "shared/fixtures"
LEAF = Switch("leaf1")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    try:
        with redis_server(tmp_path_factory.mktemp("redis")) as port:
            yield port
    except DaemonFailed as lack:
        pytest.skip(str(lack))


@pytest.fixture
def port(server):
    client = redis.Redis(port=server)
    client.flushall()
    yield server
    client.config_set("requirepass", "")
    client.close()


def poll(port, times=1, between=lambda: None, **kwargs):
    async def run():
        poller = SonicPoller(
            LEAF, Database("leaf1", "127.0.0.1", port, **kwargs), Options(lambda _: True)
        )
        results = []
        for _ in range(times):
            results.append(await poller.poll(clock))
            between()
        await poller.close()
        return poller, results

    return asyncio.run(run())


@pytest.mark.lab_switch
def test_what_redis_holds_is_what_is_read(port):
    state = SwitchState("leaf1", "sonic", 4)
    state.run(1.0)
    RedisFace(state, port)
    _, (result,) = poll(port)
    got = values(result)
    for number, name in ((1, "Ethernet0"), (4, "Ethernet12")):
        end = f"interface/leaf1/{name}"
        assert got[end, "fabric_interface_tx_bytes_total"] == state.get("tx_bytes", number)
        for slot in range(8):
            expected = {
                "fabric_pfc_rx_frames_total": ("priority", "pfc_rx", 1),
                "fabric_pfc_tx_frames_total": ("priority", "pfc_tx", 1),
                "fabric_pfc_rx_pause_seconds_total": ("priority", "pause_rx_us", 1e-6),
                "fabric_queue_ecn_marked_packets_total": ("queue", "q_ecn", 1),
                "fabric_priority_group_headroom_max_bytes": (
                    "priority_group",
                    "pg_headroom_max",
                    1,
                ),
            }
            for metric, (kind, word, scale) in expected.items():
                value = got[f"{kind}/{slot}/{end}", metric]
                assert value == pytest.approx(state.get(word, number, slot) * scale)
    settings = {(str(s.entity), s.name): s.value for s in result.facts.settings}
    assert settings["queue/3/interface/leaf1/Ethernet0", "kmin_bytes"] == 1048576
    assert settings["interface/leaf1/Ethernet0", "pfc_priorities"][3:5] == (True, True)


@pytest.mark.lab_switch
def test_u11_g13_absent_and_broken_fields(port):
    """U11, G13: refused and named; the rest of the hash is kept."""
    RedisFace(SwitchState("leaf1", "sonic", 1), port)
    client = redis.Redis(port=port, db=2)
    key = f"COUNTERS:oid:{PORT_OID + 1:#x}"
    client.hset(key, "SAI_PORT_STAT_PFC_3_RX_PKTS", "-4,272")
    client.hset(key, "SAI_PORT_STAT_PFC_4_RX_PKTS", "N/A")
    client.hdel(key, "SAI_PORT_STAT_PFC_5_RX_PKTS")
    for slot in range(8):
        queue = f"COUNTERS:oid:{QUEUE_OID + 8 + slot:#x}"
        client.hdel(queue, "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS")
    _, (result,) = poll(port)
    reasons = {(gap.what, gap.reason) for gap in result.gaps}
    rx = "fabric_pfc_rx_frames_total"
    assert {(rx, "negative"), (rx, "not numeric")} <= reasons
    assert ("fabric_queue_ecn_marked_packets_total", "not counted") in reasons
    seen = {entity[:10] for entity, metric in values(result) if metric == rx}
    assert seen == {f"priority/{slot}" for slot in (0, 1, 2, 6, 7)}
    client.close()


@pytest.mark.lab_switch
def test_objects_that_vanish_are_a_gap(port):
    RedisFace(SwitchState("leaf1", "sonic", 1), port)
    client = redis.Redis(port=port, db=2)
    gone = f"oid:{GROUP_OID + 8:#x}"

    def vanish():
        client.delete(f"USER_WATERMARKS:{gone}")

    _, (_, second) = poll(port, 2, vanish)
    assert ("COUNTERS", "no hash") in {(gap.what, gap.reason) for gap in second.gaps}
    client.close()


@pytest.mark.lab_switch
def test_an_empty_database_says_what_it_is(port):
    with pytest.raises(Malformed, match="COUNTERS_DB is empty"):
        poll(port)


@pytest.mark.lab_switch
def test_passwords_and_absence(port):
    RedisFace(SwitchState("leaf1", "sonic", 1), port)
    client = redis.Redis(port=port)
    client.config_set("requirepass", "hunter2")
    with pytest.raises(Denied) as caught:
        poll(port, password=Secret("guess"))
    assert "guess" not in str(caught.value)
    assert poll(port, password=Secret("hunter2"))[1][0].readings
    redis.Redis(port=port, password="hunter2").config_set("requirepass", "")
    with pytest.raises(Unavailable, match="no answer at 127"):
        poll(1)


# --- parsing alone ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", [3]), ("3-5", [3, 4, 5]), ("3,4", [3, 4]), ("", []), ("x", []), ("3-x", [])],
)
def test_numbers(text, expected):
    assert numbers(text) == expected


def test_references_old_and_new():
    assert reference("[WRED_PROFILE|AZURE]") == reference("AZURE") == "AZURE"


def test_u10_pause_time_without_a_known_unit_is_not_taken():
    """SAI_..._PAUSE_DURATION is in a unit of the vendor's; only the _US field is time."""
    fields = {
        "SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION": "7",
        "SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US": "2000000",
    }
    (value,) = parse_hash(fields)
    assert value.field.column.to_unit(value.value) == 2


def test_a_profile_that_is_missing_is_named():
    config = {"QUEUE": {"Ethernet0|3": {"wred_profile": "GONE"}}}
    _, odd = parse_config_db(config, LEAF, "file")
    assert odd == [("QUEUE|Ethernet0|3", "names WRED_PROFILE|GONE, which is not there")]


def test_headroom_of_a_priority_group():
    config = {
        "BUFFER_PG": {"Ethernet0|3-4": {"profile": "lossless"}},
        "BUFFER_PROFILE": {"lossless": {"size": "1248", "xoff": "165568", "dynamic_th": "-3"}},
    }
    facts, odd = parse_config_db(config, LEAF, "file")
    group = Slot(Interface(LEAF, "Ethernet0"), "priority_group", 4)
    found = {row.name: row.value for row in facts.settings if row.entity == group}
    expected = {"xoff_bytes": 165568, "reserved_buffer_bytes": 1248, "buffer_alpha_exponent": -3}
    assert (found, odd) == (expected, [])


def test_ranges_of_ports_and_queues():
    config = {
        "QUEUE": {"Ethernet0,Ethernet4|3-4": {"wred_profile": "P"}},
        "WRED_PROFILE": {"P": {"ecn": "ecn_all", "green_min_threshold": "1000"}},
    }
    facts, _ = parse_config_db(config, LEAF, "file")
    kmin = {
        (s.entity.parent.name, s.entity.index) for s in facts.settings if s.name == "kmin_bytes"
    }
    assert kmin == {(p, q) for p in ("Ethernet0", "Ethernet4") for q in (3, 4)}


def test_recorded_config_db_is_read_whole():
    file = FIXTURES / "sonic-net__sonic-utilities/tests/mock_tables/config_db.json"
    if not file.exists():
        pytest.skip(f"{file} is not here")
    facts, _ = parse_config_db(config_of_json(json.loads(file.read_text())), LEAF, str(file))
    assert {row.name for row in facts.settings} <= set(SETTINGS)
    assert {row.name for row in facts.attributes} <= set(ATTRIBUTES)
    found = {(row.entity, row.name): row.value for row in facts.settings}
    ethernet0 = Interface(LEAF, "Ethernet0")
    assert found[ethernet0, "mtu_bytes"] == 9100
    assert found[ethernet0, "speed_bps"] == 40_000_000_000
    assert found[ethernet0, "pfc_watchdog_detection_seconds"] == 0.6
    assert found[ethernet0, "pfc_priorities"] == (False,) * 3 + (True,) * 2 + (False,) * 3
    assert any(row.name == "kmin_bytes" and row.value == 1048576 for row in facts.settings)
    neighbour = next(row for row in facts.neighbours if row.local == ethernet0)
    assert neighbour.remote.name == "eth0"

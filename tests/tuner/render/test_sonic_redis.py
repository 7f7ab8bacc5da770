"""SONiC patches on a real Redis that holds a CONFIG_DB: applied, polled, and taken back."""

import asyncio
import copy
import json
import re
import time
from dataclasses import replace
from pathlib import Path

import jsonpatch
import pytest
import redis

from collectors.model.entities import Interface, Slot
from collectors.model.reading import Instant
from collectors.sonic.database import Database
from collectors.sonic.poller import Options, SonicPoller
from simlab.switches.daemons import DaemonFailed, redis_server
from tests.tuner.render.states import LEAF, device, merged, parsed
from tests.tuner.render.test_switches import near
from tuner.advice.knobs.catalogue import of_platform
from tuner.render.form import render_device
from tuner.render.sonic import RENDERER

pytestmark = pytest.mark.lab_switch
MOCK = Path(__file__).parents[4] / (
    "shared/fixtures/sonic-net__sonic-utilities/tests/mock_tables/config_db.json"
)
COUNTERS_DB, CONFIG_DB = 2, 4
NAME = r"[\w.-]+"
BYTES = r"\d{1,12}"
PORTS = r"Ethernet\d+(,Ethernet\d+)*"
# What sonic-yang-models say of the tables that patches touch: key, then fields with their form.
SCHEMA = {
    "PORT": (PORTS, {"mtu": r"\d{2,4}", "speed": r"\d{3,6}", "fec": "rs|fc|none|auto",
                     "admin_status": "up|down"}),
    "WRED_PROFILE": (NAME, {
        "ecn": "ecn_none|ecn_green|ecn_yellow|ecn_red|ecn_all",
        **{f"wred_{c}_enable": "true|false" for c in ("green", "yellow", "red")},
        **{f"{c}_{end}_threshold": BYTES for c in ("green", "yellow", "red")
           for end in ("min", "max")},
        **{f"{c}_drop_probability": r"\d{1,2}|100" for c in ("green", "yellow", "red")},
    }),
    "QUEUE": (rf"{PORTS}\|\d(-\d)?", {"wred_profile": NAME, "scheduler": NAME}),
    "SCHEDULER": (NAME, {"type": "DWRR|WRR|STRICT", "weight": r"\d{1,2}|100"}),
    "BUFFER_PG": (rf"{PORTS}\|\d(-\d)?", {"profile": NAME}),
    "BUFFER_PROFILE": (NAME, {"pool": NAME, "xoff": BYTES, "xon": BYTES, "xon_offset": BYTES,
                              "size": BYTES, "dynamic_th": r"-?\d"}),
    "PORT_QOS_MAP": (rf"{PORTS}|global", {
        "pfc_enable": "[0-7](,[0-7])*", "pfcwd_sw_enable": "[0-7](,[0-7])*",
        "dscp_to_tc_map": NAME, "dot1p_to_tc_map": NAME, "tc_to_queue_map": NAME,
        "tc_to_pg_map": NAME, "pfc_to_queue_map": NAME, "scheduler": NAME,
    }),
    "PFC_WD": (rf"{PORTS}|GLOBAL", {
        "action": "drop|forward|alert", "detection_time": r"[1-9]\d{2,3}",
        "restoration_time": r"[1-9]\d{2,4}", "POLL_INTERVAL": r"[1-9]\d{2}|1000",
        "pfc_stat_history": "enable|disable",
    }),
    "SWITCH_HASH": ("GLOBAL", {"ecmp_hash": None, "ecmp_hash_algorithm": "CRC|XOR|RANDOM|CRC_.*"}),
    "CABLE_LENGTH": (NAME, {r"Ethernet\d+": r"\d+m"}),
    **{table: (NAME, {r"\d{1,2}": "[0-7]"}) for table in (
        "DSCP_TO_TC_MAP", "DOT1P_TO_TC_MAP", "TC_TO_QUEUE_MAP", "TC_TO_PRIORITY_GROUP_MAP",
        "MAP_PFC_PRIORITY_TO_QUEUE")},
}  # fmt: skip
REFERENCES = {
    "wred_profile": "WRED_PROFILE", "scheduler": "SCHEDULER", "profile": "BUFFER_PROFILE",
    "dscp_to_tc_map": "DSCP_TO_TC_MAP", "tc_to_queue_map": "TC_TO_QUEUE_MAP",
}  # fmt: skip


def against_schema(config, former, touched):
    """What the patch wrote has the form of the YANG models, and refers to rows that are there."""
    for table, key in touched:
        form, fields = SCHEMA[table]
        assert re.fullmatch(form, key), (table, key)
        was = former.get(table, {}).get(key, {})
        for field, value in config.get(table, {}).get(key, {}).items():
            if was.get(field) == value:
                continue
            known = next((f for f in fields if re.fullmatch(f, field)), None)
            assert known is not None, (table, key, field)
            assert fields[known] is None or re.fullmatch(fields[known], value), (key, field, value)
            assert field not in REFERENCES or value in config[REFERENCES[field]]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    try:
        with redis_server(tmp_path_factory.mktemp("redis")) as port:
            with redis.Redis(port=port, db=COUNTERS_DB) as client:  # a switch has ports
                client.hset("COUNTERS_PORT_NAME_MAP", "Ethernet0", "oid:0x1000000000002")
            yield port
    except DaemonFailed as lack:
        pytest.skip(str(lack))


def own():
    """A small CONFIG_DB as `qos_config.j2` and a buffer template make it."""
    colours = ("green", "yellow", "red")
    wred = {"ecn": "ecn_all"} | {f"wred_{c}_enable": "true" for c in colours}
    for c in colours:
        wred |= {f"{c}_min_threshold": "1048576", f"{c}_max_threshold": "2097152"}
        wred |= {f"{c}_drop_probability": "5"}
    ports = ("Ethernet0", "Ethernet8")
    maps = {
        "dscp_to_tc_map": "AZURE", "tc_to_queue_map": "AZURE", "pfc_enable": "3,4",
        "pfcwd_sw_enable": "3,4",
    }  # fmt: skip
    return {
        "PORT": {p: {"mtu": "9100", "speed": "400000", "admin_status": "up"} for p in ports},
        "WRED_PROFILE": {"AZURE_LOSSLESS": wred},
        "SCHEDULER": {"scheduler.1": {"type": "DWRR", "weight": "15"}},
        "QUEUE": {
            f"{p}|{q}": {"wred_profile": "AZURE_LOSSLESS", "scheduler": "scheduler.1"}
            for p in ports
            for q in (3, 4)
        },
        "DSCP_TO_TC_MAP": {"AZURE": {"3": "3", "4": "4", "46": "5", "48": "6"}},
        "TC_TO_QUEUE_MAP": {"AZURE": {str(n): str(n) for n in range(8)}},
        "PORT_QOS_MAP": {p: dict(maps) for p in ports},
        "BUFFER_PROFILE": {
            "pg_lossless": {
                "pool": "ingress_lossless_pool", "xon": "18432", "xoff": "212992", "size": "0",
                "dynamic_th": "-3",
            }
        },
        "BUFFER_PG": {f"{p}|3-4": {"profile": "pg_lossless"} for p in ports},
        "CABLE_LENGTH": {"AZURE": dict.fromkeys(ports, "40m")},
    }  # fmt: skip


def mocked():
    if not MOCK.exists():
        pytest.skip("no fixtures of sonic-utilities beside this checkout")
    tables = {}
    for name, row in json.loads(MOCK.read_text()).items():
        table, _, key = name.partition("|")
        if table in SCHEMA:  # names without the brackets that images before 2021 put around them
            plain = {f: re.sub(r"^\[\w+\|(.*)\]$", r"\1", value) for f, value in row.items()}
            tables.setdefault(table, {})[key] = plain
    return tables


def load(client, config):
    client.flushdb()
    for table, rows in config.items():
        for key, row in rows.items():
            fields = {
                f"{f}@" if isinstance(v, list) else f: ",".join(v) if isinstance(v, list) else v
                for f, v in row.items()
            }
            client.hset(f"{table}|{key}", mapping=fields or {"NULL": "NULL"})


def dump(client):
    """CONFIG_DB as `sonic-cfggen -d --print-data` prints it."""
    config = {}
    for name in client.scan_iter():
        table, _, key = name.decode().partition("|")
        row = {f.decode(): v.decode() for f, v in client.hgetall(name).items()}
        row.pop("NULL", None)
        config.setdefault(table, {})[key] = {
            f.removesuffix("@"): v.split(",") if f.endswith("@") else v for f, v in row.items()
        }
    return config


def polled(server):
    async def run():
        database = Database("leaf1", "127.0.0.1", server)
        poller = SonicPoller(LEAF, database, Options(lambda _: True))
        result = await poller.poll(lambda: Instant(time.time_ns(), time.monotonic_ns()))
        await poller.close()
        return result.facts

    return asyncio.run(run())


PORT = Interface(LEAF, "Ethernet0")
ON3 = tuple(p == 3 for p in range(8))
CHANGES = {
    (Slot(PORT, "queue", 3), "kmin_bytes"): 400_000,
    (Slot(PORT, "queue", 3), "kmax_bytes"): 1_600_000,
    (Slot(PORT, "queue", 3), "pmax_ratio"): 0.2,
    (Slot(PORT, "queue", 4), "scheduler"): "strict",
    (PORT, "pfc_priorities"): ON3,
    (PORT, "pfc_watchdog_detection_seconds"): 0.4,
    (PORT, "pfc_watchdog_restoration_seconds"): 0.4,
    (PORT, "pfc_watchdog_action"): "forward",
    (PORT, "mtu_bytes"): 9216,
    (PORT, "pfc_cable_length_metres"): 300,
    (PORT, "dscp_to_traffic_class"): tuple({26: 3, 48: 6}.get(d, -1) for d in range(64)),
    (LEAF, "ecmp_hash_fields"): ("SRC_IP", "DST_IP", "L4_SRC_PORT"),
}
GROUP = {
    (Slot(PORT, "priority_group", n), name): value
    for n in (3, 4)
    for name, value in (("xoff_bytes", 649_216), ("buffer_alpha_exponent", -2))
}


@pytest.mark.parametrize(("config", "changes"), [(own, CHANGES | GROUP), (mocked, CHANGES)])
def test_a_patch_applies_to_a_real_database_and_is_taken_back(server, config, changes):
    client = redis.Redis(port=server, db=CONFIG_DB)
    load(client, config())
    start, names = dump(client), of_platform("sonic")
    facts = polled(server)
    before = parsed(facts, names)
    plan = replace(device("sonic", before, changes), settings=facts.settings)
    made = render_device(plan, RENDERER)
    assert made.missing == ()
    operations = json.loads(made.files["apply.patch.json"])
    there = jsonpatch.apply_patch(copy.deepcopy(start), operations)
    touched = {tuple(o["path"].split("/")[1:3]) for o in operations if o["path"].count("/") > 1}
    against_schema(there, start, touched)
    load(client, there)
    wanted = merged(before, changes) | {(PORT, "pfc_watchdog_enabled"): True}
    found = parsed(polled(server), names)
    near({key: value for key, value in found.items() if key in wanted}, wanted)
    back = jsonpatch.apply_patch(dump(client), json.loads(made.files["undo.patch.json"]))
    load(client, back)
    assert parsed(polled(server), names) == before
    assert {t: rows for t, rows in back.items() if rows} == start
    client.close()

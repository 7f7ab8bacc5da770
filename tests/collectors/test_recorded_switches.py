"""Data of real switches under shared/fixtures, read whole; what carries PFC, ECN, queues or
buffers and is not taken is listed here, each with its reason: a new name fails the test."""

import json
import re
from pathlib import Path

import pytest
from gnmi_pb import gnmi_pb2 as gnmi

from collectors.codec.sonic_counters import fields, parse_hash
from collectors.gnmi.decoder import Decoder, leaves
from collectors.gnmi.messages import seal
from collectors.gnmi.paths import pack_path
from collectors.gnmi.vendors import VENDORS
from collectors.model.entities import Switch
from collectors.model.reading import Instant

FIXTURES = Path(__file__).parents[2].parent / "shared/fixtures"
NOW = Instant(1_700_000_000 * 10**9, 5 * 10**9)

SONIC_NOT_TAKEN = {
    r"EST_PORT_STAT_PFC_\d_ON2OFF_RX_PKTS": "estimate of whole polls, beside the real counter",
    r"EST_PORT_STAT_PFC_\d_RECENT_PAUSE_TIME_US": "estimate of the last pause only",
    r"EST_PORT_STAT_PFC_\d_RECENT_PAUSE_TIMESTAMP": "a date",
    r"PFC_WD_QUEUE_STATS_[RT]X_(DROPPED_)?PACKETS_LAST": "of the last storm; the sum is taken",
    r"PFC_WD_QUEUE_STATS_[RT]X_PACKETS": "the queue's own packets, which are taken",
    r"SAI_PORT_STAT_(GREEN|YELLOW|RED)_WRED_DROPPED_PACKETS": "by colour; the sum is taken",
    r"SAI_QUEUE_STAT_WRED_DROPPED_BYTES": "packets are taken",
    r"SAI_QUEUE_STAT_(CURR_OCCUPANCY|WATERMARK)_LEVEL": "percent of a size nobody states",
    r"SAI_QUEUE_STAT_CREDIT_WD_DELETED_PACKETS": "VOQ chassis",
    r"SAI_QUEUE_STAT_DISCARD_DROPPED_PACKETS": "one reason of drops; the sum is taken",
    r"SAI_QUEUE_STAT_(DROPPED|TX)_TRIM_PACKETS": "parts of the trimmed packets, which are taken",
    r"SAI_BUFFER_POOL_STAT_XOFF_ROOM_WATERMARK_BYTES": "per group it is taken",
}
ARISTA_NOT_TAKEN = {
    r"/arista/anic/.*": "adapters behind the switch; the host is read itself",
    r"/arista/lanz/.*": "events with a duration, no counters",
    r"/qos/forwarding-groups/.*": "a name",
    r".*/latency/.*": "latency of tail packets, 7280R3 only",
    r".*/queue/state/(id|name|queue-type|queue-management-profile)": "a name",
    r".*/queue/state/(last-)?voq-delete-.*": "VOQ deletes",
    r"/qos/queue-management-profiles/.*": "settings, read from the configuration",
    r"/qos/queues/.*": "settings, read from the configuration",
    r"/qos/scheduler-policies/.*": "settings, read from the configuration",
    r"/qos/voq-groups/.*": "by ingress chip; the egress side of VOQ boxes is not modelled",
}


def need(path):
    folder = FIXTURES / path
    if not folder.exists():
        pytest.skip(f"{folder} is not here")
    return folder


def without_reason(names, reasons):
    used = {name for name in names for pattern in reasons if re.fullmatch(pattern, name)}
    print(f"\nnot taken: {', '.join(sorted(names))}")
    return set(names) - used


def unknown_counters(names):
    """Counters of PFC, ECN, queues and buffers that the catalogue has no row for."""
    return {
        name
        for name in set(names) - fields().keys()
        if name.startswith(("SAI_", "PFC_WD_", "EST_PORT_STAT_"))
        and re.search("PFC|ECN|WRED|QUEUE|PRIORITY_GROUP|POOL", name)
        and not name.endswith(("_last", "_ACTION", "_TIME", "_TIME_LEFT", "PAUSE_STATUS"))
    }


def first_json(text):
    begin = re.search(r"^[\[{]", text, re.MULTILINE).start()  # what gnmic said comes before
    return json.JSONDecoder().raw_decode(text[begin:])[0]


def hashes(node):
    """Yield every `{field: text}` in a file."""
    if isinstance(node, dict) and node and all(isinstance(value, str) for value in node.values()):
        yield node
    elif isinstance(node, dict):
        for value in node.values():
            yield from hashes(value)


@pytest.mark.parametrize(
    ("folder", "least"),
    [
        ("sonic-net__sonic-gnmi/testdata", 500),
        ("sonic-net__sonic-utilities/tests/mock_tables", 1000),
        ("sonic-net__sonic-snmpagent/tests/mock_tables", 500),
    ],
)
def test_sonic_files_are_read_whole(folder, least):
    taken, unknown, odd = 0, set(), set()
    files = [file for file in sorted(need(folder).iterdir()) if file.suffix in (".txt", ".json")]
    for row in (row for file in files for row in hashes(json.loads(file.read_text()))):
        for value in parse_hash(row):
            taken += value.value is not None
            if value.value is None:
                odd.add((value.name, value.text))
        unknown |= unknown_counters(row)
    assert taken >= least
    assert without_reason(unknown, SONIC_NOT_TAKEN) == set()
    assert all(not re.fullmatch(r"\d+", text) for _, text in odd)


def test_paths_of_arista_are_taken_or_have_a_reason():
    file = need("aristanetworks__yang") / "arista_paths_flat.txt"
    known, taken, unknown = leaves("eos"), set(), set()
    for line in file.read_text().splitlines():
        path = line.split()[0]
        if re.search(r"/state/", path) and re.search(r"pfc|ecn|queue|wred|lanz|buffer", path):
            (taken if path in known else unknown).add(path)
    assert {path.rpartition("/")[2] for path in taken} >= {
        "ecn-marked-pkts", "ecn-selected-pkts", "dropped-pkts", "wred-dropped-pkts",
        "transmit-octets",
    }  # fmt: skip
    assert without_reason(unknown, ARISTA_NOT_TAKEN) == set()


def test_recorded_answers_of_eos_are_read_whole():
    """gnmic's print of real EOS: whole trees in one value, dates of 1969, native paths."""
    folder = need("aristanetworks__openmgmt/docs/examples/gnmi-clients/gnmic/outputs")
    updates = 0
    for file in sorted(set(folder.glob("*.json")) - {folder / "capabilities.json"}):  # that is text
        found = first_json(file.read_text())
        gaps = []
        decoder = Decoder(
            Switch("leaf1"), VENDORS["eos"], lambda _: True, lambda *gap, to=gaps: to.append(gap)
        )
        for entry in found if isinstance(found, list) else [found]:
            for update in entry.get("updates", []):
                for value in update["values"].values():
                    text = json.dumps(value).encode()
                    message = gnmi.Notification(timestamp=entry.get("timestamp", -18_000 * 10**9))
                    message.update.add(
                        path=pack_path("/" + update["Path"]),
                        val=gnmi.TypedValue(json_ietf_val=text),
                    )
                    decoder.take(seal(message), NOW)
                    updates += 1
        assert gaps == []  # no row of ours in them could not be read
    assert updates > 10

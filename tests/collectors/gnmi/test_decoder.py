"""Notifications into readings: encodings, quirks of devices, recorded data."""

import base64
import json
import struct
from pathlib import Path

import pytest
from gnmi_pb import gnmi_pb2 as gnmi
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from collectors.gnmi.decoder import Decoder
from collectors.gnmi.messages import SealedResponse, seal
from collectors.gnmi.paths import pack_path
from collectors.gnmi.tree import parse_tree
from collectors.gnmi.values import NotDecoded, number, parse_value
from collectors.gnmi.vendors import VENDORS
from collectors.model.catalogue.interface import PFC_RX_FRAMES, SPEED
from collectors.model.entities import Switch
from collectors.model.metric import Column
from collectors.model.reading import Instant

FIXTURES = Path(__file__).parents[3].parent / "shared/fixtures"
NOW = Instant(1_700_000_000_000_000_000, 5_000_000_000)
RX = "fabric_interface_rx_bytes_total"
PRIORITY = "/interfaces/interface[name=Ethernet1]/ethernet/pfc/priorities/priority[index=3]"
PFC = f"{PRIORITY}/state/in-frames"
PFC_RX = "fabric_pfc_rx_frames_total"
LEAF = "interface/leaf1/Ethernet"
OCTETS = "/interfaces/interface[name=Ethernet1]/state/counters/in-octets"


class Bench:
    def __init__(self, platform="eos", wants=lambda _name: True, **more):
        self.gaps = []
        self.decoder = Decoder(
            Switch("leaf1"), VENDORS[platform], wants, lambda *gap: self.gaps.append(gap), **more
        )

    def take(self, *updates, deletes=(), prefix=None, timestamp=NOW.at_ns):
        notification = gnmi.Notification(
            timestamp=timestamp,
            prefix=prefix,
            update=[
                gnmi.Update(path=pack_path(path) if isinstance(path, str) else path, val=value)
                for path, value in updates
            ],
            delete=[pack_path(path) for path in deletes],
        )
        return self.decoder.take(seal(notification), NOW)

    def got(self, **how):
        return {
            (str(reading.entity), column.metric): column.to_unit(value)
            for reading in self.decoder.readings(**how)
            for column, value in reading.values.items()
        }


def typed(**kwargs):
    return gnmi.TypedValue(**kwargs)


@pytest.mark.parametrize(
    "value",
    [
        typed(uint_val=7),
        typed(int_val=7),
        typed(string_val="7"),
        typed(json_val=b"7"),
        typed(json_ietf_val=b'"7"'),  # G7: uint64 as text
        typed(decimal_val=gnmi.Decimal64(digits=700, precision=2)),  # G7
        typed(double_val=7.0),
        typed(float_val=7.0),
        typed(ascii_val="7"),
    ],
    ids=lambda value: value.WhichOneof("value"),
)
def test_g7_every_encoding_of_a_number(value):
    bench = Bench()
    bench.take((OCTETS, value))
    bench.take((OCTETS, value))  # by the remembered path, too
    assert bench.got() == {("interface/leaf1/Ethernet1", RX): 7}


def test_g7_floats_as_base64():
    column = Column("x", "gauge", "gnmi", number="float")
    raw = struct.pack(">f", 1.5)
    assert number(base64.b64encode(raw).decode(), column) == 1.5
    assert number(raw, column) == 1.5


def test_exact_to_the_last_unit():
    bench = Bench()
    bench.take((OCTETS, typed(uint_val=2**64 - 1)))
    assert bench.got()["interface/leaf1/Ethernet1", RX] == 2**64 - 1
    bench.take((OCTETS, typed(json_ietf_val=json.dumps(str(2**64 - 1)).encode())))
    assert bench.got()["interface/leaf1/Ethernet1", RX] == 2**64 - 1


@pytest.mark.parametrize("bad", [-1, "-4,272", "n/a", float("nan"), 2**64, [1], None, 1.5])
def test_what_is_no_count_is_a_gap_and_no_value(bad):
    column = PFC_RX_FRAMES.column(PFC_RX_FRAMES.sources[0])
    assert number(bad, column) is None


def test_nested_json_with_lists_and_module_names():
    bench = Bench()
    priority = {"index": 3, "state": {"in-frames": "12"}}
    data = {
        "openconfig-interfaces:interface": [
            {
                "name": "Ethernet1",
                "state": {"counters": {"in-octets": "10", "out-octets": "11"}, "oper-status": "UP"},
                "ethernet": {"pfc": {"priorities": {"priority": [priority]}}},
            },
        ]
    }
    bench.take(("/interfaces", typed(json_ietf_val=json.dumps(data).encode())))
    assert bench.got() == {
        ("interface/leaf1/Ethernet1", RX): 10,
        ("interface/leaf1/Ethernet1", "fabric_interface_tx_bytes_total"): 11,
        ("interface/leaf1/Ethernet1", "fabric_interface_oper_state_id"): 1,
        (f"priority/3/{LEAF}1", PFC_RX): 12,
    }


@pytest.mark.parametrize("value", [typed(), typed(any_val={}), typed(json_val=b"{")])
def test_g6_empty_values_and_broken_json_do_no_harm(value):
    bench = Bench()
    bench.take((OCTETS, value), (PFC, typed(uint_val=4)))
    assert bench.got() == {(f"priority/3/{LEAF}1", PFC_RX): 4}


def test_g6_empty_updates_empty_paths_keys_without_names():
    bench = Bench()
    bench.take()
    bench.take((gnmi.Path(), typed(uint_val=1)))
    odd = gnmi.Path(elem=[gnmi.PathElem(name="", key={"": ""}), gnmi.PathElem(name="x")])
    bench.take((odd, typed(uint_val=1)), deletes=["/"])
    assert bench.got() == {}


def test_g6_a_delete_removes_the_series_and_no_other():
    bench = Bench()
    other = OCTETS.replace("Ethernet1", "Ethernet2")
    bench.take((OCTETS, typed(uint_val=1)), (other, typed(uint_val=2)), (PFC, typed(uint_val=3)))
    bench.take(deletes=["/interfaces/interface[name=Ethernet1]"])
    assert bench.got(everything=True, now=NOW) == {("interface/leaf1/Ethernet2", RX): 2}


def test_g6_a_delete_of_one_leaf():
    bench = Bench()
    out = OCTETS.replace("in-octets", "out-octets")
    bench.take((OCTETS, typed(uint_val=1)), (out, typed(uint_val=2)))
    bench.take(deletes=[OCTETS])
    assert list(bench.got().values()) == [2]


def test_g1_a_word_becomes_a_state():
    bench = Bench()
    path = "/interfaces/interface[name=Ethernet1]/state/oper-status"
    for word, expected in (("UP", 1), ("LOWER_LAYER_DOWN", 7), ("oc-if:DOWN", 2)):
        bench.take((path, typed(string_val=word)))
        assert list(bench.got().values()) == [expected]


def test_g3_memory_is_bounded_by_series_not_by_updates():
    bench = Bench(max_series=10)
    for index in range(1000):
        bench.take((OCTETS.replace("Ethernet1", f"Ethernet{index}"), typed(uint_val=1)))
    assert len(bench.got()) == 10
    assert (RX, "too many series") in bench.gaps


def test_g3_replaced_updates_are_counted():
    bench = Bench()
    for step in range(3):
        bench.take((OCTETS, typed(uint_val=step)), timestamp=NOW.at_ns + step)
    assert bench.decoder.overwritten == 2


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [(NOW.at_ns - 10**9, NOW.at_ns - 10**9), (0, NOW.at_ns), (-18_000 * 10**9, NOW.at_ns)],
)
def test_device_time_is_used_where_it_can_be_believed(stamp, expected):
    bench = Bench()
    bench.take((OCTETS, typed(uint_val=1)), timestamp=stamp)
    (reading,) = bench.decoder.readings()
    assert reading.when.at_ns == expected
    assert NOW.mono_ns - reading.when.mono_ns == NOW.at_ns - reading.when.at_ns


def field(number, content):
    """Return one length-delimited protobuf field; its length in two bytes, below 16 KiB."""
    return bytes([number << 3 | 2, len(content) & 127 | 128, len(content) >> 7]) + content


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_random_bytes_for_paths_raise_nothing(prefix, path):
    update = field(1, path) + field(3, b"\x18\x07")  # path, val of uint 7
    response = SealedResponse.FromString(field(1, field(2, prefix) + field(4, update)))
    Bench().decoder.take(response.update, NOW)


def test_a_path_that_is_none_is_a_gap_and_costs_the_others_nothing():
    bench = Bench()
    good = pack_path(OCTETS).SerializeToString()
    updates = [field(4, field(1, path) + field(3, b"\x18\x07")) for path in (b"\xff", good)]
    response = SealedResponse.FromString(field(1, b"".join(updates)))
    assert bench.decoder.take(response.update, NOW) == 1
    assert bench.got() == {(f"{LEAF}1", RX): 7}
    assert bench.gaps == [("path", "malformed")]


def test_a_path_with_its_keys_in_another_order_is_the_same_series():
    """Protobuf leaves the order of map entries open; the memory goes by the bytes that came."""
    bench = Bench()
    index = field(2, field(1, b"index") + field(2, b"3"))
    queue = field(2, field(1, b"queue-type") + field(2, b"UC"))
    head = pack_path("/interfaces/interface[name=Ethernet1]/ethernet/pfc/priorities")
    tail = pack_path("/state/in-frames").SerializeToString()
    for value, keys in ((5, index + queue), (6, queue + index)):
        path = head.SerializeToString() + field(3, field(1, b"priority") + keys) + tail
        update = field(1, path) + field(3, bytes([0x18, value]))
        response = SealedResponse.FromString(field(1, field(4, update)))
        assert bench.decoder.take(response.update, NOW) == 1
    assert bench.got() == {(f"priority/3/{LEAF}1", PFC_RX): 6}


def test_interfaces_that_are_not_wanted_leave_no_series():
    bench = Bench(wants=lambda name: name != "Ethernet1")
    bench.take((OCTETS, typed(uint_val=1)))
    assert bench.got() == {}


@given(st.binary(max_size=200))
def test_random_notifications_raise_nothing(data):
    bench = Bench()
    try:
        notification = gnmi.Notification.FromString(data)
    except Exception:  # noqa: BLE001  not a message at all: gRPC's part
        return
    bench.decoder.take(seal(notification), NOW)
    parse_tree([notification])


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_json_is_decoded_or_refused(data):
    value = typed(json_val=json.dumps(data).encode())
    try:
        number(parse_value(value), SPEED.column(SPEED.sources[0]))
    except NotDecoded:
        pass


def test_lldp_leaves_are_followed_as_they_change():
    bench = Bench()
    base = "/lldp/interfaces/interface[name=Ethernet1]/neighbors/neighbor[id=1]/state"
    for port in ("Ethernet7", "Ethernet9"):
        bench.take(
            (f"{base}/chassis-id", typed(string_val="02:00:00:00:00:01")),
            (f"{base}/system-name", typed(string_val="spine1")),
            (f"{base}/port-id", typed(string_val=port)),
        )
        (neighbour,) = bench.decoder.neighbours.facts()
        assert neighbour.remote.name == port
    bench.take(deletes=["/lldp/interfaces/interface[name=Ethernet1]"])
    assert bench.decoder.neighbours.facts() == ()


# --- SONiC --------------------------------------------------------------------------------------


def sonic(text, path="/COUNTERS/Ethernet*"):
    bench = Bench("sonic", aliases={"Ethernet68/1": "Ethernet68", "Ethernet1/1": "Ethernet0"})
    bench.take((path, typed(json_ietf_val=text.encode())))
    return bench


def test_sonic_wildcard_is_keyed_by_alias():
    bench = sonic('{"Ethernet68/1": {"SAI_PORT_STAT_PFC_7_RX_PKTS": "2"}, "x": {}}')
    assert bench.got() == {(f"priority/7/{LEAF}68", PFC_RX): 2}


def test_g4_an_empty_path_is_read_by_its_content():
    bench = sonic('{"Ethernet68/1:3": {"SAI_QUEUE_STAT_PACKETS": "9"}}', path="/")
    assert bench.got() == {(f"queue/3/{LEAF}68", "fabric_queue_tx_packets_total"): 9}


def test_g10_an_empty_table_is_no_error():
    bench = sonic("{}")
    assert bench.got() == {}
    assert bench.gaps == [("/COUNTERS/Ethernet*", "empty")]


def test_a_single_port_is_flat_and_a_single_field_is_text():
    bench = sonic('{"SAI_PORT_STAT_PFC_3_TX_PKTS": "5"}', path="/COUNTERS/Ethernet68")
    assert bench.got() == {(f"priority/3/{LEAF}68", "fabric_pfc_tx_frames_total"): 5}


def test_recorded_sonic_replies_are_read_whole():
    folder = FIXTURES / "sonic-net__sonic-gnmi/testdata"
    if not folder.exists():
        pytest.skip(f"{folder} is not here")
    for name, path in {
        "COUNTERS_Ethernet_wildcard_alias.txt": "/COUNTERS/Ethernet*",
        "COUNTERS_Ethernet68_Queues_alias.txt": "/COUNTERS/Ethernet68/Queues",
        "COUNTERS_Ethernet68.txt": "/COUNTERS/Ethernet68",
        "PERIODIC_WATERMARKS_Ethernet_wildcard_PriorityGroups_alias.txt": (
            "/PERIODIC_WATERMARKS/Ethernet*/PriorityGroups"
        ),
    }.items():
        text = (folder / name).read_text()
        bench = sonic(text, path)
        assert bench.decoder.updates > 0, name
        assert not [gap for gap in bench.gaps if "not numeric" in gap[1]], name
        flat = text.count('"SAI_PORT_STAT_PFC_') if "PFC" in text else 0
        pfc = [key for key in bench.got() if "pfc" in key[1]]
        assert not flat or pfc


def test_recorded_notifications_of_other_vendors_do_no_harm():
    folder = FIXTURES / "influxdata__telegraf/plugins/inputs/gnmi/testcases"
    if not folder.exists():
        pytest.skip(f"{folder} is not here")
    taken = 0
    for file in sorted(folder.glob("*/responses.json")):
        bench = Bench("openconfig")
        for entry in json.loads(file.read_text()):
            response = json_format.ParseDict(entry, gnmi.SubscribeResponse())
            if response.HasField("update"):
                bench.decoder.take(seal(response.update), NOW)
                taken += 1
    assert taken > 20

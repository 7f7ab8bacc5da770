"""PCIe link and errors, connection manager counters, LLDP neighbours."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.codec import lldp
from collectors.host.cm import CmCollector
from collectors.host.kernel_file import Unreadable
from collectors.host.lldp import LldpCollector, parse_lldpd
from collectors.host.pcie import (
    PcieCollector,
    parse_acs_redirect,
    parse_aer,
    parse_express,
    parse_speed,
)
from collectors.model.errors import Denied, Malformed
from simlab.hosts.tree import FakeDevice, FakeNetdev, FakePort, write_device, write_netdev

LINK = {"current_link_speed": "16.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe",
        "current_link_width": "8", "max_link_width": "16", "numa_node": "1",
        "aer_dev_correctable": "RxErr 3\nBadTLP 4\nTOTAL_ERR_COR 7"}  # fmt: skip


def express(relaxed: bool) -> bytes:
    config = bytearray(256)
    config[6], config[0x34] = 0x10, 0x60
    config[0x60], config[0x61] = 0x05, 0x70  # MSI, then
    config[0x70] = 0x10
    struct.pack_into("<H", config, 0x78, (0x10 if relaxed else 0) | 2 << 5 | 5 << 12)
    return bytes(config)


def test_a_degraded_link_and_its_errors(host, tmp_path, clock):
    home = write_device(tmp_path, FakeDevice("mlx5_0", pci=LINK))
    (home / "device/config").write_bytes(express(relaxed=True))
    result = PcieCollector(host()).read(clock)
    got = {setting.name: setting.value for setting in result.facts.settings}
    assert got == {
        "pcie_speed_gtps": 16.0, "pcie_speed_max_gtps": 32.0,
        "pcie_width_lanes": 8, "pcie_width_max_lanes": 16,
        "pcie_relaxed_ordering": True, "pcie_max_payload_bytes": 512,
        "pcie_max_read_request_bytes": 4096,
    }  # fmt: skip
    assert [(a.name, a.value) for a in result.facts.attributes] == [("numa_node", 1)]
    (reading,) = result.readings
    assert list(reading.values.values()) == [7]


def test_texts_of_pcie():
    assert parse_speed("2.5 GT/s PCIe") == 2.5
    assert parse_speed("8 GT/s") == 8
    for text in ("Unknown", "", "GT/s"):
        with pytest.raises(Unreadable):
            parse_speed(text)
    assert parse_aer("Undefined 1\nDLP 2") == 3


def test_configuration_space_that_is_cut_or_loops():
    assert parse_express(express(relaxed=False)[:64]) is None
    loop = bytearray(express(relaxed=False))
    loop[0x61] = 0x60
    assert parse_express(bytes(loop)) is None
    bridge = bytearray(4096)
    struct.pack_into("<I", bridge, 0x100, 0x0001 | 1 << 16 | 0x140 << 20)
    struct.pack_into("<IHH", bridge, 0x140, 0x000D | 1 << 16, 0, 0x1D)
    assert parse_acs_redirect(bytes(bridge)) is True
    assert parse_acs_redirect(bytes(4096)) is None


@given(st.binary(max_size=600))
def test_random_configuration_space(data):
    parse_express(data)
    parse_acs_redirect(data)


def test_connection_manager_sums_and_parts(host, tmp_path, clock, faulty):
    cm = {"cm_tx_msgs": {"req": 5, "rtu": 4}, "cm_tx_retries": {"req": 2, "dreq": 1},
          "cm_rx_msgs": {"rej": 3, "rep": 2}, "cm_rx_duplicates": {"req": 1}}  # fmt: skip
    write_device(tmp_path, FakeDevice("mlx5_0", ports=(FakePort(cm=cm),)))
    (reading,) = CmCollector(host()).read(clock).readings
    got = {column.metric.removeprefix("fabric_cm_"): v for column, v in reading.values.items()}
    assert got == {"tx_messages_total": 9, "tx_requests_total": 5, "tx_retries_total": 3,
                   "rx_messages_total": 5, "rx_rejects_total": 3,
                   "rx_duplicates_total": 1}  # fmt: skip
    faulty.errors["cm_tx_retries/dreq"] = 5
    result = CmCollector(host()).read(clock)
    assert [(gap.what, gap.reason) for gap in result.gaps] == [("cm_tx_retries", "EIO")]
    assert len(result.readings[0].values) == 5


def frame(*tlvs: bytes) -> bytes:
    head = lldp.MULTICAST + bytes(6) + struct.pack(">H", lldp.ETHERTYPE)
    return head + b"".join(tlvs) + b"\0\0"


MAC = bytes.fromhex("444ca8010203")
SWITCH = (
    lldp.pack_tlv(1, b"\x04" + MAC),
    lldp.pack_tlv(2, b"\x05Ethernet1/1"),
    lldp.pack_tlv(3, struct.pack(">H", 120)),
    lldp.pack_tlv(4, b"to node1 eth0"),
    lldp.pack_tlv(5, b"leaf1"),
    lldp.pack_tlv(8, b"\x05\x01\x0a\x00\x00\x01\x02\x00\x00\x00\x01\x00"),
    lldp.pack_tlv(127, b"\x00\x80\xc2\x0b\x08\x08"),
    lldp.pack_tlv(127, b"\x00\x12\x0f\x04\x24\x00"),
)


class Frames:
    def __init__(self, *frames: bytes) -> None:
        self.frames = list(frames)
        self.closed = False

    def take(self) -> list[bytes]:
        taken, self.frames = self.frames, []
        return taken

    def close(self) -> None:
        self.closed = True


def interfaces(tmp_path):
    port = FakePort(gids={0: ("fe80::1", "RoCE v2", "eth0")})
    write_device(tmp_path, FakeDevice("mlx5_0", ports=(port,)))
    write_netdev(tmp_path, FakeNetdev("eth0"))


def test_a_neighbour_lives_as_long_as_it_says(host, tmp_path, clock):
    interfaces(tmp_path)
    socket = Frames(frame(*SWITCH))
    collector = LldpCollector(host(open_frames=lambda _: socket))

    def neighbours():
        return [(str(n.local), str(n.remote)) for n in collector.read(clock).facts.neighbours]

    heard = [("netdev/n1/eth0", "interface/44:4c:a8:01:02:03/Ethernet1%2F1")]
    assert neighbours() == heard
    clock.turn(100)
    assert neighbours() == heard
    clock.turn(30)
    assert neighbours() == []
    socket.frames.append(frame(*SWITCH))
    assert neighbours() == heard
    socket.frames.append(frame(*SWITCH[:2], lldp.pack_tlv(3, b"\0\0")))  # it says goodbye
    assert neighbours() == []
    collector.close()
    assert socket.closed


def test_a_whole_lldpdu():
    found = lldp.parse_frame(frame(*SWITCH))
    assert found.management_address == "10.0.0.1"
    assert found.pfc_enabled == (False, False, False, True, False, False, False, False)
    assert found.max_frame_bytes == 0x2400
    assert (found.system_name, found.port_description) == ("leaf1", "to node1 eth0")


def test_without_the_right_and_with_rubbish(host, tmp_path, clock):
    interfaces(tmp_path)

    def refuse(netdev):
        raise Denied(netdev, "open packet socket", "needs CAP_NET_RAW or root")

    (gap,) = LldpCollector(host(open_frames=refuse)).read(clock).gaps
    assert (gap.reason, gap.detail) == ("denied", "needs CAP_NET_RAW or root")
    rubbish = Frames(frame(lldp.pack_tlv(1, b"\x04" + MAC)), b"\0" * 60)
    (gap,) = LldpCollector(host(open_frames=lambda _: rubbish)).read(clock).gaps
    assert gap.reason == "malformed"


@given(st.binary(max_size=120))
def test_random_lldpdus(data):
    try:
        lldp.parse_lldpdu(data)
    except Malformed:
        pass


@given(st.lists(st.tuples(st.integers(1, 127), st.binary(max_size=40)), max_size=6))
def test_random_tlvs_behind_a_good_head(tlvs):
    data = b"".join([*SWITCH[:3], *(lldp.pack_tlv(k, v) for k, v in tlvs)])
    try:
        lldp.parse_lldpdu(data)
    except Malformed:
        pass


def test_lldpd_json():
    text = json.dumps({"lldp": [{"interface": [{
        "name": "eth0",
        "chassis": [{"id": [{"type": "mac", "value": "44:4c:a8:01:02:03"}],
                     "name": [{"value": "leaf1"}], "mgmt-ip": [{"value": "10.0.0.1"}]}],
        "port": [{"id": [{"type": "ifname", "value": "Ethernet1/1"}], "ttl": [{"value": "120"}]}],
    }]}]})  # fmt: skip
    found = parse_lldpd(text)["eth0"]
    assert (found.system_name, found.port, found.ttl_s) == ("leaf1", "Ethernet1/1", 120)
    for bad in ("", "[]", '{"lldp": [{"interface": [{}]}]}', '{"lldp": 3}'):
        with pytest.raises(Malformed):
            parse_lldpd(bad)


def test_lldpd_speaks_for_the_wire_where_it_runs(host, tmp_path, clock):
    interfaces(tmp_path)
    file = tmp_path / "lldpd.json"
    context = host(options={"lldpd_json": str(file)})
    collector = LldpCollector(context)
    assert [gap.reason for gap in collector.read(clock).gaps] == ["ENOENT"]
    file.write_text("{")
    assert [gap.reason for gap in collector.read(clock).gaps] == ["malformed"]
    entry = {"chassis": [{"id": [{"type": "mac", "value": "44:4c:a8:01:02:03"}],
                          "name": [{"value": "leaf1"}]}],
             "port": [{"id": [{"type": "ifname", "value": "Ethernet9/1"}]}]}  # fmt: skip
    others = [{"name": "eth0", **entry}, {"name": "eno1", **entry}]
    file.write_text(json.dumps({"lldp": [{"interface": others}]}))
    (neighbour,) = collector.read(clock).facts.neighbours
    assert str(neighbour.remote) == "interface/44:4c:a8:01:02:03/Ethernet9%2F1"

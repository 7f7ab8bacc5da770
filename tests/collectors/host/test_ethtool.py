"""ethtool: rows E1-E10 by id, priorities into slots, the budget of series, optics."""

import os
import struct
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.codec import ethtool as codec
from collectors.codec import netlink, optics
from collectors.codec.genetlink import pack_generic
from collectors.host.ethtool import EthtoolCollector, places
from collectors.host.ethtool_ioctl import EthtoolIoctl
from collectors.host.ethtool_netlink import EthtoolNetlinkCollector
from collectors.host.netlink_socket import open_netlink
from collectors.host.worker import OneAtATime
from collectors.model.catalogue.registry import CATALOGUE
from collectors.model.errors import FabricError, Malformed, Unavailable
from simlab.hosts.responder import FakeEthtool
from simlab.hosts.tree import FakeDevice, FakeNetdev, FakePort, write_device, write_netdev
from tests.collectors.passes import values

ROCM = Path(__file__).resolve().parents[4] / (
    "shared/fixtures/ROCm__device-metrics-exporter/docker/mockdata/nic/ethtool_S_enp68s0.txt"
)


def build(tmp_path, netdev="eth0", **device):
    port = FakePort(gids={0: ("fe80::1", "RoCE v2", netdev)})
    write_device(tmp_path, FakeDevice("mlx5_0", ports=(port,), **device))
    write_netdev(tmp_path, FakeNetdev(netdev, pci_address="0000:17:00.0"))


def collect(host, clock, table, driver="mlx5_core", netdev="eth0"):
    fake = FakeEthtool({netdev: driver}, {netdev: table})
    collector = EthtoolCollector(host(open_ethtool=lambda: fake))
    return collector, fake, collector.read(clock)


def test_priorities_become_slots_and_microseconds_seconds(host, tmp_path, clock):
    build(tmp_path)
    table = [("rx_prio3_pause", 5), ("tx_prio3_pause", 6), ("rx_prio3_pause_duration", 1_500_000),
             ("rx_discards_phy", 7), ("rx_err_lane_2_phy", 8), ("ch0_events", 9)]  # fmt: skip
    _, _, result = collect(host, clock, table)
    assert values(result) == {
        ("priority/3/netdev/n1/eth0", "fabric_pfc_rx_frames_total"): 5,
        ("priority/3/netdev/n1/eth0", "fabric_pfc_tx_frames_total"): 6,
        ("priority/3/netdev/n1/eth0", "fabric_pfc_rx_pause_seconds_total"): 1.5,
        ("netdev/n1/eth0", "fabric_interface_rx_buffer_discards_total"): 7,
        ("lane/2/netdev/n1/eth0", "fabric_lane_rx_errors_total"): 8,
    }


def test_e1_e2_e3_odd_names_and_duplicates(host, tmp_path, clock):
    build(tmp_path)
    odd = [
        "Queue[0] AllocFails",
        "     err",
        "port.VF_admin_queue_requests",
        "giant hdr",
        "giant hdr",
    ]
    table = [*((name, 1) for name in odd), ("rx_discards_phy", 6), ("rx_discards_phy", 7)]
    _, _, result = collect(host, clock, table)
    assert list(values(result).values()) == [6]
    assert [(gap.what, gap.reason) for gap in result.gaps] == [
        ("rx_discards_phy", "duplicate name")
    ]


@pytest.mark.parametrize("driver", ["mlx5", "bnxt_en", "ice", "ionic", "hns3"])
def test_e4_series_stay_within_the_budget(driver):
    assert 0 < len(places(driver)) <= 130  # 200 a NIC with RDMA, interface and IP counters


def test_e4_all_series_of_an_mlx5_nic(host, tmp_path, clock):
    from collectors.host.registry import HOST_COLLECTORS
    from collectors.model.catalogue.registry import columns

    pma = dict.fromkeys(columns("sysfs_counters", "mlx5"), 1)
    hw = {key: 1 for key in columns("hw_counters", "mlx5") if not key.startswith(("cc_", "rdma_"))}
    stats = {key.removeprefix("statistics/"): 1 for key in columns("netdev") if "/" in key}
    snmp6 = dict.fromkeys(columns("dev_snmp6"), 1)
    port = FakePort(counters=pma, hw_counters=hw, gids={0: ("fe80::1", "RoCE v2", "eth0")})
    write_device(tmp_path, FakeDevice("mlx5_0", ports=(port,)))
    write_netdev(
        tmp_path, FakeNetdev("eth0", pci_address="0000:17:00.0", statistics=stats, snmp6=snmp6)
    )

    # mlx5 names PFC statistics for lossless priorities only; a fabric has one or two.
    def shown(name: str, kind: str, index: int) -> bool:
        lossless = "pause" not in name or kind != "priority" or index in (3, 6)
        return lossless and (kind != "lane" or index < 4)

    table = [(n, 1) for n, (_, kind, i) in places("mlx5").items() if shown(n, kind, i)]
    fake = FakeEthtool({"eth0": "mlx5_core"}, {"eth0": table})
    context = host(open_ethtool=lambda: fake)
    series = sum(
        len(reading.values)
        for row in HOST_COLLECTORS
        if row.on and row.name not in ("ethtool_netlink", "dcb", "lldp")
        for reading in row.build(context).read(clock).readings
    )
    assert 120 < series <= 200


def test_e5_one_help_per_name():
    assert len({metric.name for metric in CATALOGUE.values()}) == len(CATALOGUE)


def test_e6_unsupported_is_asked_once_and_bonds_by_their_members(host, tmp_path, clock):
    build(tmp_path, "bond0")
    write_netdev(tmp_path, FakeNetdev("eth0", index=3))
    bonding = tmp_path / "sys/class/net/bond0/bonding"
    bonding.mkdir()
    (bonding / "slaves").write_text("eth0\n")
    fake = FakeEthtool({"eth0": "mlx5_core"}, {"eth0": [("rx_discards_phy", 1)]})
    collector = EthtoolCollector(host(open_ethtool=lambda: fake))
    for _ in range(3):
        result = collector.read(clock)
        clock.turn(15)
    assert ("netdev/n1/eth0", "fabric_interface_rx_buffer_discards_total") in values(result)
    assert fake.asked.count("bond0") == 2  # its name and its statistics, once
    assert [gap.reason for gap in result.gaps] == ["EOPNOTSUPP"]


def test_e7_a_virtual_function_is_never_asked(host, tmp_path, clock):
    build(tmp_path, virtual_function=True)
    _, fake, result = collect(host, clock, [("rx_discards_phy", 1)])
    assert fake.asked == []
    assert [gap.reason for gap in result.gaps] == ["virtual function"]


def test_e7_a_call_that_hangs_costs_its_deadline_once():
    release = threading.Event()
    worker = OneAtATime()
    with pytest.raises(Unavailable, match="no answer within"):
        worker.run("eth0", release.wait, 0.05)
    with pytest.raises(Unavailable, match="has not returned"):
        worker.run("eth0", lambda: 1, 0.05)
    assert worker.run("eth1", lambda: 2, 1.0) == 2  # the others go on
    release.set()
    for _ in range(100):
        try:
            assert worker.run("eth0", lambda: 3, 1.0) == 3
            break
        except Unavailable:
            threading.Event().wait(0.01)
    else:
        pytest.fail("the device stayed busy")


def test_e8_a_guest_function_keeps_what_it_has(host, tmp_path, clock):
    build(tmp_path)  # a VF inside a guest has no physfn
    _, _, result = collect(host, clock, [("rx_prio3_pause", 1)])
    assert len(result.readings) == 1


def test_e9_a_priority_that_is_absent_is_no_zero(host, tmp_path, clock):
    build(tmp_path)
    _, _, result = collect(host, clock, [("rx_prio3_pause", 0)])
    assert [str(reading.entity) for reading in result.readings] == ["priority/3/netdev/n1/eth0"]


def test_e10_descriptors_are_stable_and_the_kernel_answers():
    ethtool = EthtoolIoctl()
    try:
        real = [name for name in os.listdir("/sys/class/net") if name != "lo"]
        answered = 0
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(300):
            for name in real:
                try:
                    statistics = ethtool.statistics(name)
                except FabricError:
                    continue
                answered += bool(statistics)
        assert len(os.listdir("/proc/self/fd")) == before
        with pytest.raises(FabricError, match="nosuchif0: ETHTOOL_GDRVINFO: E"):
            ethtool.driver("nosuchif0")
    finally:
        ethtool.close()


@pytest.mark.skipif(not ROCM.exists(), reason="no ethtool text of a real NIC here")
def test_a_pollara_nic(host, tmp_path, clock):
    build(tmp_path)
    table = []
    for line in ROCM.read_text().splitlines()[1:]:
        name, _, value = line.strip().partition(": ")
        table.append((name, int(value)))
    _, _, result = collect(host, clock, table, "ionic")
    kinds = {str(reading.entity).split("/")[0] for reading in result.readings}
    assert kinds == {"netdev", "priority"}
    assert not result.gaps
    assert sum(len(reading.values) for reading in result.readings) <= 110


def test_replies_of_the_family():
    def reply(command, payload):
        (message,) = netlink.parse_messages(pack_generic(20, command, 1, payload))
        return message

    header = netlink.pack_nest(1, [netlink.pack_text(2, "eth0")])
    statistics = netlink.pack_nest(5, [netlink.pack_u64(2, 7), netlink.pack_u64(3, 8)])
    pause = header + netlink.pack_u8(3, 1) + netlink.pack_u8(4, 0) + statistics
    assert codec.parse_pause(reply(22, pause)) == codec.Pause("eth0", None, True, False, 8, 7)
    lanes = netlink.pack_nest(5, [netlink.pack_attribute(3, struct.pack("=3Q", 9, 4, 5))])
    assert codec.parse_fec(reply(30, header + lanes)) == codec.Fec("eth0", (), (9, 4, 5), ())
    modes = header + netlink.pack_u32(5, 400000) + netlink.pack_u8(6, 1) + netlink.pack_u32(9, 4)
    assert codec.parse_link_modes(reply(4, modes)) == codec.LinkModes("eth0", None, 400000, True, 4)
    unknown = header + netlink.pack_u32(5, 0xFFFFFFFF)
    assert codec.parse_link_modes(reply(4, unknown)).speed_mbps is None
    state = header + netlink.pack_u8(2, 1) + netlink.pack_u32(7, 3)
    assert codec.parse_link_state(reply(6, state)).down_count == 3
    group = netlink.pack_nest(4, [
        netlink.pack_u32(2, 3), netlink.pack_nest(4, [netlink.pack_u64(1, 11)]),
    ])  # fmt: skip
    stats = netlink.pack_nest(2, [netlink.pack_text(2, "eth0")]) + group
    assert codec.parse_statistics(reply(33, stats)).values == {"rmon etherStatsOversizePkts": 11}


@given(st.sampled_from([4, 6, 22, 30, 32, 33]), st.binary(max_size=120))
def test_random_replies_raise_only_malformed(command, payload):
    message = netlink.Message(20, 0, 0, bytes([command, 1, 0, 0]) + payload)
    for parse in (codec.parse_pause, codec.parse_fec, codec.parse_link_modes,
                  codec.parse_link_state, codec.parse_statistics, codec.parse_module):  # fmt: skip
        try:
            parse(message)
        except Malformed:
            pass


def test_optics_of_qsfp28_and_osfp():
    sff = bytearray(128)
    sff[0] = 0x11
    struct.pack_into(">h", sff, 22, round(41.5 * 256))
    struct.pack_into(">4H", sff, 34, 10_000, 9_000, 8_000, 7_000)
    found = optics.parse_module_readings(bytes(sff))
    assert found.temperature_celsius == 41.5
    assert found.rx_power_watts == pytest.approx((1e-3, 0.9e-3, 0.8e-3, 0.7e-3))
    assert found.tx_power_watts == ()  # not told is not dark
    lower, page = bytearray(128), bytearray(128)
    lower[0] = 0x19
    struct.pack_into(">h", lower, 14, -256)
    struct.pack_into(">8H", page, 154 - 128, *range(100, 108))
    struct.pack_into(">8H", page, 186 - 128, *range(200, 208))
    cmis = optics.parse_module_readings(bytes(lower), bytes(page))
    assert cmis.temperature_celsius == -1
    assert cmis.tx_power_watts[0] == pytest.approx(100e-7)
    assert cmis.rx_power_watts[7] == pytest.approx(207e-7)


@given(st.binary(max_size=160), st.binary(max_size=140))
def test_random_module_memory(lower, page):
    try:
        optics.parse_module_readings(lower, page)
    except Malformed:
        pass


def test_the_real_kernel_answers_link_questions(host, tmp_path, clock):
    """The loopback device of this kernel: link modes or a refusal, never a crash."""
    build(tmp_path, "lo")
    result = EthtoolNetlinkCollector(host(open_netlink=open_netlink)).read(clock)
    assert not [gap for gap in result.gaps if gap.reason == "Malformed"]

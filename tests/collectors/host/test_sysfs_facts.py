"""Facts that the RDMA tree of sysfs tells, and devices that are odd in them."""

import pytest

from collectors.host.hw_counters import HwCounterCollector
from collectors.host.inventory import Inventory
from collectors.host.netdev import NetdevCollector
from collectors.host.sysfs import SYSFS, rdma_mtu
from collectors.model.reading import GapLog
from simlab.hosts.tree import FakeDevice, FakeNetdev, FakePort, write_device, write_netdev
from tests.collectors.host.sysfs_hosts import PMA, mlx5, read


def test_facts_of_a_roce_port(host, tmp_path, clock):
    write_device(tmp_path, mlx5(files={}))
    write_netdev(tmp_path, FakeNetdev("eth0", files={"mtu": "1500"}))
    facts = read(SYSFS, host(), clock).facts
    assert [(g.index, g.gid, g.type, g.netdev) for g in facts.gids] == [
        (0, "fe80::ba3f:d2ff:fe12:3400", "RoCE v1", "eth0"),
        (1, "::ffff:a00:1", "RoCE v2", "eth0"),
    ]
    assert [(s.name, s.value) for s in facts.settings] == [("rdma_mtu_bytes", 1024)]
    names = {a.name: a.value for a in facts.attributes}
    assert names["netdev"] == "eth0"
    assert names["node_guid"] == "b83fd20300123400"


@pytest.mark.parametrize(
    ("mtu", "driver", "size"),
    [(1500, "rxe", 1024), (1100, "rxe", 512), (1104, "rxe", 1024), (9000, "mlx5", 4096),
     (4191, "mlx5", 2048), (4192, "mlx5", 4096), (300, "mlx5", None)],
)  # fmt: skip
def test_rdma_mtu_is_what_the_interface_leaves(mtu, driver, size):
    assert rdma_mtu(mtu, driver) == size


def test_facts_are_whole_and_not_in_every_pass(host, tmp_path, clock):
    write_device(tmp_path, mlx5())
    collector = SYSFS.build(host())
    assert collector.read(clock).facts is not None
    clock.turn(5)
    assert collector.read(clock).facts is None
    clock.turn(30)
    assert collector.read(clock).facts is not None


def test_rxe_is_found_without_pci_and_by_no_name(host, tmp_path, clock):
    for index in (1, 2):
        name, netdev = f"dev{index}", f"h{index}"
        write_device(tmp_path, FakeDevice(
            name, "", node_guid=f"0000:0000:0000:000{index}", files={"parent": netdev},
            ports=(FakePort(hw_counters={"sent_pkts": index}, gids={0: ("fe80::1", "", netdev)}),),
        ))  # fmt: skip
        write_netdev(tmp_path, FakeNetdev(netdev, snmp6={"Ip6InCEPkts": index}))
    context = host(include=("dev2",))
    (device,) = Inventory(context).devices(clock, GapLog("t"))
    assert (device.driver, device.ports[0].netdev) == ("rxe", "h2")
    (reading,) = HwCounterCollector(context).read(clock).readings
    assert list(reading.values.values()) == [2]
    (netdev,) = NetdevCollector(context).read(clock).readings
    assert str(netdev.entity) == "netdev/n1/h2"


def test_n6_two_devices_with_one_guid_stay_apart(host, tmp_path, clock):
    write_device(tmp_path, mlx5("mlx5_0"))
    second = FakeDevice("mlx5_1", pci_address="0000:17:00.1", ports=(FakePort(counters=PMA),))
    write_device(tmp_path, second)
    keys = {reading.entity.device.key for reading in read(SYSFS, host(), clock).readings}
    assert keys == {"b83fd20300123400", "0000:17:00.1"}


def test_n7_odd_bytes_in_texts_become_valid_text(host, tmp_path, clock):
    home = write_device(tmp_path, mlx5())
    (home / "board_id").write_bytes(b'MT_\xfd\xbe\0quote"\n')
    names = {a.name: a.value for a in read(SYSFS, host(), clock).facts.attributes}
    assert names["board_id"] == 'MT_\ufffd\ufffdquote"'
    names["board_id"].encode()

"""The inventory that the collectors of a host share: one look for a beat, told to each."""

import errno
from dataclasses import replace

from collectors.host.inventory import Inventory
from collectors.host.netdev import NetdevCollector
from collectors.host.sysfs import SYSFS
from collectors.model.reading import GapLog
from simlab.hosts.tree import FakeDevice, FakeNetdev, FakePort, write_device, write_netdev

BEAT_NS = 100_000_000
GIDS = {0: ("fe80::1", "RoCE v2", "eth0")}


def looks(faulty) -> int:
    """Return how often the folder of devices was listed since the last call."""
    count = sum(path.endswith("class/infiniband") for path in faulty.touched)
    faulty.touched.clear()
    return count


def shared(context):
    return replace(context, inventory=Inventory(context, BEAT_NS))


def test_collectors_of_one_beat_look_once(host, tmp_path, clock, faulty):
    write_device(tmp_path, FakeDevice("mlx5_0", ports=(FakePort(gids=GIDS),)))
    write_netdev(tmp_path, FakeNetdev("eth0", statistics={"rx_bytes": 5}))
    context = shared(host())
    collectors = [SYSFS.build(context), NetdevCollector(context)]
    assert all(collector.read(clock).readings for collector in collectors)
    assert looks(faulty) == 1
    clock.turn(1)
    assert all(collector.read(clock).readings for collector in collectors)
    assert looks(faulty) == 1
    alone = host()
    assert all(c.build(alone).read(clock).readings for c in (SYSFS, SYSFS))
    assert looks(faulty) == 2


def test_the_next_beat_sees_a_new_device_and_one_that_left(host, tmp_path, clock):
    context = shared(host())
    inventory = Inventory.of(context)
    assert inventory.devices(clock, GapLog("t")) == ()
    write_device(tmp_path, FakeDevice("mlx5_0", ports=(FakePort(gids=GIDS),)))
    assert inventory.devices(clock, GapLog("t")) == ()  # within the beat
    clock.turn(0.2)
    (device,) = inventory.devices(clock, GapLog("t"))
    assert device.name == "mlx5_0"
    assert list(inventory.netdevs(clock, GapLog("t"))) == ["eth0"]
    (tmp_path / "sys/class/infiniband/mlx5_0").unlink()
    clock.turn(0.2)
    assert inventory.devices(clock, GapLog("t")) == ()
    assert inventory.netdevs(clock, GapLog("t")) == {}


def test_a_member_that_joins_a_bond_is_read_within_five_seconds(host, tmp_path, clock):
    gids = {0: ("fe80::1", "RoCE v2", "bond0")}
    write_device(tmp_path, FakeDevice("mlx5_bond_0", ports=(FakePort(gids=gids),)))
    slaves = write_netdev(tmp_path, FakeNetdev("bond0")) / "bonding/slaves"
    slaves.parent.mkdir()
    slaves.write_text("eth0\n")
    inventory = Inventory.of(shared(host()))
    assert set(inventory.netdevs(clock, GapLog("t"))) == {"bond0", "eth0"}
    slaves.write_text("eth0 eth1\n")
    clock.turn(5)
    assert set(inventory.netdevs(clock, GapLog("t"))) == {"bond0", "eth0", "eth1"}


def test_what_cannot_be_read_is_told_to_every_collector(host, tmp_path, clock, faulty):
    (tmp_path / "sys/class/infiniband").mkdir(parents=True)
    faulty.errors["class/infiniband"] = errno.EACCES
    context = shared(host())
    for collector in (SYSFS.build(context), NetdevCollector(context)):
        (gap,) = collector.read(clock).gaps
        assert (gap.collector, gap.what, gap.reason) == (
            collector.name,
            "class/infiniband",
            "EACCES",
        )

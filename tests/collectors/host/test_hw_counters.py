"""Hardware counters: netlink first, files per port where that fails, and what it costs."""

import errno
import shutil
from dataclasses import replace

from collectors.codec import rdma_netlink as rdma
from collectors.codec.netlink import parse_messages
from collectors.host.hw_counters import HwCounterCollector
from collectors.host.registry import HOST_COLLECTORS
from collectors.model.errors import NotSupported
from simlab.hosts.responder import RdmaResponder
from simlab.hosts.tree import FakeDevice, FakeNetdev, FakePort, write_device, write_netdev

HW = {"rx_write_requests": 7, "np_ecn_marked_roce_packets": 11, "np_cnp_sent": 10,
      "rp_cnp_handled": 3, "out_of_sequence": 2, "lifespan": 10}  # fmt: skip


def device(name="mlx5_0", guid="b83f:d203:0012:3400", **changes) -> FakeDevice:
    port = FakePort(**{"hw_counters": HW, "counters": {"port_rcv_data": 5}, **changes})
    return FakeDevice(name, node_guid=guid, ports=(port,), pci_address=f"0000:{guid[:2]}:00.0")


def by_metric(result) -> dict[str, dict[str, int]]:
    return {
        str(reading.entity): {column.metric: value for column, value in reading.values.items()}
        for reading in result.readings
    }


def test_netlink_and_files_say_the_same(host, tmp_path, clock):
    write_device(tmp_path, device())
    responder = RdmaResponder((device(),))
    over_netlink = HwCounterCollector(host(open_netlink=lambda _: responder)).read(clock)
    from_files = HwCounterCollector(host()).read(clock)
    assert by_metric(over_netlink) == by_metric(from_files)
    assert responder.commands == {("mlx5_0", 1): 3}


def test_files_are_not_read_where_netlink_answers(host, tmp_path, clock, faulty):
    write_device(tmp_path, device())
    collector = HwCounterCollector(host(open_netlink=lambda _: RdmaResponder((device(),))))
    collector.read(clock)
    opened = [path for path in faulty.touched if "/hw_counters/" in path]
    assert [path.rsplit("/", 1)[1] for path in opened] == ["lifespan"]  # costs no command


def test_each_port_falls_back_by_itself(host, tmp_path, clock):
    good, bad = device(), device("mlx5_1", "c83f:d203:0012:3400")
    write_device(tmp_path, good)
    write_device(tmp_path, bad)
    responder = RdmaResponder((good, bad), refuse={"mlx5_1": errno.EMSGSIZE})
    collector = HwCounterCollector(host(open_netlink=lambda _: responder))
    first = collector.read(clock)
    assert len(by_metric(first)) == 2
    assert (
        by_metric(first)["port/n1/b83fd20300123400/1"]
        == by_metric(first)["port/n1/c83fd20300123400/1"]
    )
    assert [gap.what for gap in first.gaps] == ["STAT_GET"]
    clock.turn(5)
    assert not collector.read(clock).gaps  # not asked again at once
    assert set(responder.commands) == {("mlx5_0", 1)}


class Recorded(RdmaResponder):
    """Notes the commands that it is asked."""

    def __init__(self, devices):
        super().__init__(devices)
        self.asked = []

    def request(self, message):
        (asked,) = parse_messages(message)
        self.asked.append(asked.type - rdma.message_type(0))
        return super().request(message)


def test_the_next_pass_asks_for_values_only_and_reads_the_new_ones(host, tmp_path, clock):
    write_device(tmp_path, device())
    responder = Recorded((device(),))
    collector = HwCounterCollector(host(open_netlink=lambda _: responder))
    first = by_metric(collector.read(clock))
    moved = replace(device().ports[0], hw_counters={**HW, "np_cnp_sent": 2**64 - 1})
    responder.devices = (replace(device(), ports=(moved,)),)
    clock.turn(1)
    second = by_metric(collector.read(clock))
    assert responder.asked == [rdma.GET, rdma.STAT_GET, rdma.STAT_GET]
    changed = {"node_infiniband_np_cnp_packets_sent_total": 2**64 - 1}
    assert second == {port: {**values, **changed} for port, values in first.items()}


def test_a_device_that_came_back_under_another_number_is_found_at_once(host, tmp_path, clock):
    """The old number is another device's now, or nobody's."""
    other = FakeDevice("mlx5_9", node_guid="d83f:d203:0012:3400", ports=(FakePort(),))
    home = write_device(tmp_path, device())
    responder = RdmaResponder((device(),))
    collector = HwCounterCollector(host(open_netlink=lambda _: responder))
    first = collector.read(clock)
    responder.devices = ()
    clock.turn(1)
    assert {gap.what for gap in collector.read(clock).gaps} == {"STAT_GET"}
    responder.devices = (other, device())
    shutil.copytree(home, home.parent / "reloaded", symlinks=True)
    shutil.rmtree(home)
    (home.parent / "reloaded").rename(home)
    shutil.rmtree(home / "ports/1/hw_counters")  # only netlink can answer
    clock.turn(1)
    again = collector.read(clock)
    assert again.readings[0].incarnation != first.readings[0].incarnation
    (before,), (after,) = by_metric(first).values(), by_metric(again).values()
    assert after == {k: v for k, v in before.items() if "lifespan" not in k}


def test_the_file_that_fills_the_kernels_cache_comes_first(host, tmp_path, clock, faulty):
    write_device(tmp_path, device())
    HwCounterCollector(host()).read(clock)
    opened = [path.rsplit("/", 1)[1] for path in faulty.touched if "/hw_counters/" in path]
    assert opened[0] == "rx_write_requests"
    assert len(opened) == len(HW)


def test_no_netlink_in_the_kernel_is_one_gap_and_files(host, tmp_path, clock):
    def refuse(_family):
        raise NotSupported("NETLINK_RDMA", "open socket", "EPROTONOSUPPORT")

    write_device(tmp_path, device())
    collector = HwCounterCollector(host(open_netlink=refuse))
    result = collector.read(clock)
    assert [(gap.what, gap.reason) for gap in result.gaps] == [("netlink", "NotSupported")]
    assert len(result.readings) == 1
    clock.turn(5)
    assert not collector.read(clock).gaps


def test_switchdev_keeps_counters_at_the_device(host, tmp_path, clock):
    moved = FakeDevice("mlx5_0", ports=(FakePort(),), hw_counters=HW)
    write_device(tmp_path, moved)
    collector = HwCounterCollector(host(open_netlink=lambda _: RdmaResponder((moved,))))
    result = collector.read(clock)
    (got,) = by_metric(result).values()
    assert got["node_infiniband_np_cnp_packets_sent_total"] == 10
    assert not result.gaps


def test_ionic_all_ones_is_unreadable(host, tmp_path, clock):
    port = FakePort(hw_counters={"tx_rdma_cnp_pkts": 2**64 - 1})
    write_device(tmp_path, FakeDevice("rocep1", "ionic", ports=(port,)))
    result = HwCounterCollector(host()).read(clock)
    assert not result.readings


def test_ten_device_commands_a_port_at_most(host, tmp_path, clock, faulty):
    """PMA files and port queries cost one each, STAT_GET three: per collector and pass."""
    pma = dict.fromkeys(
        ["port_rcv_data", "port_xmit_data", "port_rcv_packets", "port_xmit_packets",
         "unicast_rcv_packets", "unicast_xmit_packets", "multicast_rcv_packets",
         "multicast_xmit_packets", "port_xmit_wait", "symbol_error", "link_error_recovery",
         "link_downed", "port_rcv_errors", "port_rcv_remote_physical_errors",
         "port_rcv_switch_relay_errors", "port_xmit_discards", "port_xmit_constraint_errors",
         "port_rcv_constraint_errors", "local_link_integrity_errors",
         "excessive_buffer_overrun_errors", "VL15_dropped"], 1)  # fmt: skip
    fake = device(counters=pma)
    write_device(tmp_path, fake)
    write_netdev(tmp_path, FakeNetdev("eth0"))
    responder = RdmaResponder((fake,))
    context = host(open_netlink=lambda _: responder)
    cost = {}
    for row in HOST_COLLECTORS:
        if not row.on:
            continue
        faulty.touched.clear()
        responder.commands.clear()
        row.build(context).read(clock)
        files = [
            path
            for path in faulty.touched
            if "/counters/" in path or path.endswith(("/state", "/phys_state", "/rate"))
        ]
        cost[row.name] = (row.interval_s, len(files) + sum(responder.commands.values()))
    assert max(commands for _, commands in cost.values()) <= 10
    assert sum(commands for interval, commands in cost.values() if interval <= 5) <= 10
    assert sum(commands for _, commands in cost.values()) == 21 + 3 + 3  # every source was read


def test_a_container_that_hides_the_counters_is_told_so(host, tmp_path, clock):
    """A compat device of another namespace has neither folder (kernel core/sysfs.c)."""
    write_device(tmp_path, FakeDevice("mlx5_0", ports=(FakePort(),)))
    result = HwCounterCollector(host(open_netlink=lambda _: RdmaResponder(()))).read(clock)
    (gap,) = result.gaps
    assert (gap.reason, "network namespace" in gap.detail) == ("no counters", True)
    write_device(
        tmp_path, FakeDevice("siw0", "", ports=(FakePort(),), files={"node_type": "4: RNIC"})
    )
    assert len(HwCounterCollector(host(include=("siw0",))).read(clock).gaps) == 0

"""The rest of what users met: units by source (U9, U10, U12), netlink at its limits (E11, E12),
reads that never write (E17), identity and namespaces (N1-N3, N9-N12); N4, N5: test_exposition."""

import errno
import socket
import struct

import pytest

from collectors.codec import dcb, ethtool, netlink, rdma_netlink, rtnetlink
from collectors.host import netlink_socket
from collectors.host.ethtool import EthtoolCollector
from collectors.host.hw_counters import HwCounterCollector
from collectors.host.netlink_socket import KernelSocket
from collectors.host.sysfs import SYSFS
from collectors.model.catalogue.registry import CATALOGUE, columns
from collectors.model.entities import Device, Port
from collectors.model.errors import Unavailable
from simlab.hosts.profile import build_host, write_host
from simlab.hosts.responder import FakeEthtool, RdmaResponder
from simlab.hosts.server import FakeKernel
from simlab.hosts.tree import FakeDevice, FakePort, write_device


def test_u9_a_percentage_is_a_gauge_and_seconds_are_a_counter():
    stalled = CATALOGUE["fabric_pci_read_stalled_ratio"]
    assert (stalled.kind, stalled.column(stalled.sources[0]).to_unit(37)) == ("gauge", 0.37)
    events = CATALOGUE["fabric_pci_read_stalled_seconds_total"]
    assert (events.kind, events.unit) == ("counter", "seconds")


@pytest.mark.parametrize("driver", ["mlx5", "bnxt_en", "ionic"])
def test_u10_pause_time_carries_its_unit_by_source(driver):
    row = CATALOGUE["fabric_pfc_rx_pause_seconds_total"]
    (source,) = [s for s in row.sources if s.via == "ethtool" and s.driver == driver]
    assert row.column(source).to_unit(1_000_000) == 1


def test_u12_absent_is_not_zero(host, tmp_path, clock):
    port = FakePort(counters={"port_rcv_data": 0}, hw_counters={"np_cnp_sent": 0})
    write_device(tmp_path, FakeDevice("mlx5_0", ports=(port,)))
    metrics = {
        column.metric
        for collector in (SYSFS.build(host()), HwCounterCollector(host()))
        for reading in collector.read(clock).readings
        for column in reading.values
    }
    assert "node_infiniband_port_data_received_bytes_total" in metrics
    assert "node_infiniband_port_data_transmitted_bytes_total" not in metrics
    assert "node_infiniband_rp_cnp_packets_handled_total" not in metrics


class Scripted:
    """A socket whose receptions are written down: bytes, or an OSError to raise."""

    def __init__(self, *receptions) -> None:
        self.receptions = list(receptions)
        self.sent = []

    def __call__(self, *_args):
        return self

    def send(self, data):
        self.sent.append(data)

    def recvmsg(self, _size):
        step = self.receptions.pop(0)
        if isinstance(step, OSError):
            raise step
        data, flags = step if isinstance(step, tuple) else (step, 0)
        (sequence,) = struct.unpack_from("=I", self.sent[-1], 8)
        patched = bytearray(data)
        offset = 0
        while offset < len(patched):  # the kernel answers under the number of the request
            (length,) = struct.unpack_from("=I", patched, offset)
            struct.pack_into("=I", patched, offset + 8, sequence)
            offset += (length + 3) & ~3
        return bytes(patched), [], flags, None

    def recv(self, _size):
        raise BlockingIOError(errno.EAGAIN, "empty")

    def __getattr__(self, _name):
        return lambda *_: None


@pytest.fixture
def scripted(monkeypatch):
    def build(*receptions):
        fake = Scripted(*receptions)
        monkeypatch.setattr(netlink_socket.socket, "socket", fake)
        return KernelSocket(netlink.NETLINK_RDMA), fake

    return build


def entry(index: int, flags: int = netlink.NLM_F_MULTI) -> bytes:
    payload = netlink.pack_u32(rdma_netlink.DEV_INDEX, index)
    payload += netlink.pack_text(rdma_netlink.DEV_NAME, f"mlx5_{index}")
    return netlink.pack_message(rdma_netlink.message_type(rdma_netlink.GET), flags, payload)


DONE = netlink.pack_message(netlink.NLMSG_DONE, netlink.NLM_F_MULTI, bytes(4))
REQUEST = rdma_netlink.pack_get_devices()


def test_e12_a_dump_in_many_datagrams_above_4_kilobytes(scripted):
    many = [entry(n) * 1 for n in range(400)]
    kernel, _ = scripted(b"".join(many[:200]), b"".join(many[200:]), DONE)
    replies = kernel.request(REQUEST)
    assert sum(map(len, replies)) > 8192
    found = [rdma_netlink.parse_device(m) for d in replies for m in netlink.parse_messages(d)]
    assert [device.index for device in found] == list(range(400))


def test_e12_a_dump_that_changed_is_asked_again(scripted):
    torn = entry(1, netlink.NLM_F_MULTI | netlink.NLM_F_DUMP_INTR)
    kernel, fake = scripted(torn, DONE, entry(2), DONE)
    assert b"mlx5_2" in kernel.request(REQUEST)[0]
    assert len(fake.sent) == 2


def test_e12_lost_replies_are_asked_again_and_not_for_ever(scripted):
    lost = OSError(errno.ENOBUFS, "No buffer space available")
    kernel, fake = scripted(lost, entry(3), DONE)
    assert b"mlx5_3" in kernel.request(REQUEST)[0]
    kernel, fake = scripted(lost, lost, lost)
    with pytest.raises(Unavailable, match="overran"):
        kernel.request(REQUEST)
    assert len(fake.sent) == 3


def test_e12_a_truncated_reply_is_an_error_not_half_a_list(scripted):
    kernel, _ = scripted((entry(1), socket.MSG_TRUNC))
    with pytest.raises(Unavailable, match="above"):
        kernel.request(REQUEST)


def test_e12_a_late_answer_to_an_earlier_question_is_not_taken(scripted):
    kernel, fake = scripted()
    stale = entry(9)  # sequence 0: nobody's

    def recvmsg(_size, steps=iter([stale, None, DONE])):
        step = next(steps)
        if step is None:
            fake.receptions.append(entry(4))
            return Scripted.recvmsg(fake, 0)
        if step is DONE:
            fake.receptions.append(DONE)
            return Scripted.recvmsg(fake, 0)
        return step, [], 0, None

    fake.recvmsg = recvmsg
    assert b"mlx5_4" in kernel.request(REQUEST)[0]


def test_e11_e17_requests_only_read_and_never_ask_for_vf_lists():
    """RTM_GETLINK with VF information is what grew beyond any buffer; it is never sent."""
    for packed in (
        rtnetlink.pack_get_addresses(),
        dcb.pack_get(dcb.CMD_IEEE_GET, "eth0"),
        dcb.pack_get(dcb.CMD_GDCBX, "eth0"),
    ):
        (message,) = netlink.parse_messages(packed)
        assert message.type in (rtnetlink.RTM_GETADDR, dcb.RTM_GETDCB)
    gets = {1, 5, 6, 10, 11, 17, 24}  # nldev commands that need no privilege and change nothing
    for packed in (
        rdma_netlink.pack_get_devices(),
        rdma_netlink.pack_get_ports(0),
        rdma_netlink.pack_get_counters(0, 1),
        rdma_netlink.pack_get_queue_pairs(0),
        rdma_netlink.pack_get_connections(0),
        rdma_netlink.pack_get_counter_sets(0, 1),
        rdma_netlink.pack_get_counter_mode(0, 1),
        rdma_netlink.pack_get_counter_status(0, 1),
        rdma_netlink.pack_get_system(),
    ):
        (message,) = netlink.parse_messages(packed)
        assert message.type & 0x3FF in gets
    for pack in (ethtool.pack_pause_get, ethtool.pack_fec_get, ethtool.pack_statistics_get,
                 ethtool.pack_link_modes_get, ethtool.pack_link_state_get):  # fmt: skip
        (message,) = netlink.parse_messages(pack(20, "eth0"))
        assert message.payload[0] in {4, 6, 21, 29, 32}


@pytest.mark.parametrize("exclusive", [False, True])
def test_n1_the_mode_of_rdma_namespaces(exclusive):
    responder = RdmaResponder((), exclusive=exclusive)
    (data,) = responder.request(rdma_netlink.pack_get_system())
    (message,) = netlink.parse_messages(data)
    assert rdma_netlink.parse_netns_exclusive(message) is exclusive


def test_n1_a_device_hidden_in_another_namespace_is_read_from_its_files(host, tmp_path, clock):
    device = FakeDevice("mlx5_0", ports=(FakePort(hw_counters={"np_cnp_sent": 4}),))
    write_device(tmp_path, device)
    elsewhere = RdmaResponder(())  # netlink of this namespace does not list it
    result = HwCounterCollector(host(open_netlink=lambda _: elsewhere)).read(clock)
    assert [list(reading.values.values()) for reading in result.readings] == [[4]]


def test_n2_n3_identity_is_an_attribute_and_no_part_of_a_counter(host, tmp_path, clock):
    write_host(build_host("n1", "mlx5", 1), tmp_path)
    result = SYSFS.build(host()).read(clock)
    port = next(r.entity for r in result.readings)
    assert port == Port(Device("n1", port.device.key), 1)  # the name takes no part
    told = {a.name for a in result.facts.attributes}
    assert {"pci_address", "is_vf", "link_layer", "netdev", "driver", "node_guid"} <= told


def test_n6_state_goes_by_guid_when_the_name_changes(host, tmp_path, clock):
    write_device(tmp_path, FakeDevice("mlx5_0"))
    before = SYSFS.build(host()).read(clock).readings[0].entity
    (tmp_path / "sys/class/infiniband/mlx5_0").rename(tmp_path / "sys/class/infiniband/rocep23s0")
    after = SYSFS.build(host()).read(clock).readings[0].entity
    assert before == after
    assert after.device.name == "rocep23s0"


def test_n9_a_device_that_was_renamed_leaves_nothing_behind(host, tmp_path, clock):
    home = write_device(tmp_path, FakeDevice("mlx5_0", ports=(FakePort(),)))
    collector = SYSFS.build(host())
    (before,) = collector.read(clock).readings
    link = tmp_path / "sys/class/infiniband/mlx5_0"
    link.unlink()
    (link.parent / "rocep23s0f0").symlink_to(home)
    clock.turn(5)
    (after,) = collector.read(clock).readings
    assert after.entity == before.entity  # by GUID: what was known of it goes on
    assert (before.entity.device.name, after.entity.device.name) == ("mlx5_0", "rocep23s0f0")


def test_n12_ports_that_are_not_needed_are_left_out_by_configuration(host, tmp_path, clock):
    """Twelve ports of which eight are cabled: the other four are no fault where excluded."""
    for index in range(12):
        down = index >= 8
        port = FakePort(state="1: DOWN" if down else "4: ACTIVE", phys_state="2: Polling")
        pci, guid = f"0000:{index:02x}:00.0", f"0000:0000:0000:{index + 1:04x}"
        device = FakeDevice(f"mlx5_{index}", pci_address=pci, node_guid=guid, ports=(port,))
        write_device(tmp_path, device)
    context = host(exclude=(r"mlx5_(8|9|10|11)",))
    readings = SYSFS.build(context).read(clock).readings
    assert len(readings) == 8
    assert all(4 in reading.values.values() for reading in readings)


def test_n10_a_port_that_is_switched_off_is_read_as_such(host, tmp_path, clock):
    port = FakePort(state="1: DOWN", phys_state="3: Disabled")
    write_device(tmp_path, FakeDevice("mlx5_0", ports=(port,)))
    (reading,) = SYSFS.build(host()).read(clock).readings
    assert sorted(reading.values.values()) == [1, 3]  # the rule link-down is quiet on 3


def test_n11_management_nodes_are_never_looked_for(host, tmp_path, clock, faulty):
    write_host(build_host("n1", "mlx5", 1), tmp_path)
    kernel = FakeKernel(build_host("n1", "mlx5", 1))
    context = host(open_netlink=kernel.open_netlink, open_ethtool=kernel.open_ethtool)
    from collectors.host.registry import HOST_COLLECTORS

    for row in HOST_COLLECTORS:
        if row.on and row.name != "lldp":
            row.build(context).read(clock)
    assert not [path for path in faulty.touched if "issm" in path or "infiniband_mad" in path]


def test_names_of_statistics_never_become_series_by_themselves(host, tmp_path, clock):
    write_host(build_host("n1", "mlx5", 1), tmp_path)
    wild = [(f"queue_{n}_thing", n) for n in range(5000)]
    fake = FakeEthtool({"eth0": "mlx5_core"}, {"eth0": wild})
    result = EthtoolCollector(host(open_ethtool=lambda: fake)).read(clock)
    assert result.readings == ()
    assert set(columns("ethtool", "mlx5")) & {name for name, _ in wild} == set()

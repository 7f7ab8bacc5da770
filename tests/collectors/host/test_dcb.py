"""DCB: structures of the kernel, settings in our words, a real kernel's refusal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.codec import dcb, netlink
from collectors.host.dcb import DcbCollector, settings_of
from collectors.host.netlink_socket import KernelSocket
from collectors.model.catalogue.settings import SETTINGS
from collectors.model.entities import Netdev
from collectors.model.errors import FabricError, Malformed, NotSupported
from simlab.hosts.responder import FakeDcb, RouteResponder
from simlab.hosts.tree import FakeDevice, FakeNetdev, FakePort, write_device, write_netdev


def build(tmp_path, module="mlx5_core"):
    port = FakePort(gids={0: ("fe80::1", "RoCE v2", "eth0")})
    write_device(tmp_path, FakeDevice("mlx5_0", module, ports=(port,)))
    write_netdev(tmp_path, FakeNetdev("eth0", pci_address="0000:17:00.0"))


def settings(result):
    return {setting.name: setting.value for setting in result.facts.settings}


def test_structure_sizes_of_the_kernel():
    assert (dcb.ETS.size, dcb.PFC.size, dcb.APP.size) == (59, 136, 4)
    assert (dcb.BUFFER.size, dcb.MAXRATE.size) == (44, 64)


def test_settings_of_an_mlx5_interface(host, tmp_path, clock):
    build(tmp_path)
    fake = FakeDcb(pfc=(3,), dscp={26: 3, 48: 6}, prio_to_buffer=(0, 0, 0, 1, 0, 0, 0, 0),
                   buffer_bytes=(20000, 90000, 0, 0, 0, 0, 0, 0))  # fmt: skip
    responder = RouteResponder({"eth0": fake})
    result = DcbCollector(host(open_netlink=lambda _: responder)).read(clock)
    got = settings(result)
    assert got["pfc_priorities"] == (False, False, False, True, False, False, False, False)
    assert got["pfc_cable_length_metres"] == 7
    assert got["trust"] == "dscp"
    assert (got["dscp_to_priority"][26], got["dscp_to_priority"][48]) == (3, 6)
    assert got["dscp_to_priority"].count(-1) == 62
    assert got["ets_algorithm"] == ("ets",) * 8
    assert sum(got["ets_bandwidth_ratio"]) == pytest.approx(1)
    assert got["priority_to_buffer"][3] == 1
    assert got["buffer_total_bytes"] == 110000
    assert got["dcbx_mode"] == ("host", "ieee")
    assert result.readings == ()  # mlx5 has statistics of its own, these may be old
    assert set(got) <= set(SETTINGS)


def test_frames_of_a_driver_without_statistics(host, tmp_path, clock):
    build(tmp_path, "qede")
    fake = FakeDcb(pfc=(3,), rx_frames=(0, 0, 0, 9, 0, 0, 0, 0), tx_frames=(0, 0, 0, 4, 0, 0, 0, 1))
    responder = RouteResponder({"eth0": fake})
    (reading,) = DcbCollector(host(open_netlink=lambda _: responder)).read(clock).readings
    assert str(reading.entity) == "priority/3/netdev/n1/eth0"
    got = {column.metric: value for column, value in reading.values.items()}
    assert got == {"fabric_pfc_rx_frames_total": 9, "fabric_pfc_tx_frames_total": 4}


def test_an_interface_without_dcb_is_one_gap_and_is_left_alone(host, tmp_path, clock):
    build(tmp_path)
    collector = DcbCollector(host(open_netlink=lambda _: RouteResponder({})))
    assert [gap.reason for gap in collector.read(clock).gaps] == ["EOPNOTSUPP"]
    assert [gap.reason for gap in collector.read(clock).gaps] == ["EOPNOTSUPP"]


def test_trust_follows_the_table_where_there_is_one():
    rule = dcb.App(dcb.SELECTOR_DSCP, 3, 26)
    by_table = dcb.Dcb("eth0", apps=(rule,), trust=("pcp", "dscp"))
    inferred = dcb.Dcb("eth0", apps=(rule,))
    for found, trust in ((by_table, "pcp"), (inferred, "dscp")):
        got = {s.name: s.value for s in settings_of(Netdev("n1", "eth0"), found, "mlx5")}
        assert got["trust"] == trust


def test_the_real_kernel_refuses_a_bad_name_and_a_driver_without_dcb():
    kernel = KernelSocket(netlink.NETLINK_ROUTE)
    try:
        with pytest.raises(FabricError, match=r"ENODEV|EOPNOTSUPP"):
            kernel.request(dcb.pack_get(dcb.CMD_IEEE_GET, "nosuchif0"))
        try:
            kernel.request(dcb.pack_get(dcb.CMD_IEEE_GET, "lo"))
        except NotSupported:
            pass
    finally:
        kernel.close()


@given(st.sampled_from([dcb.CMD_IEEE_GET, dcb.CMD_GDCBX]), st.binary(max_size=160))
def test_random_replies_raise_only_malformed(command, body):
    message = netlink.Message(dcb.RTM_GETDCB, 0, 0, bytes([0, command, 0, 0]) + body)
    for parse in (dcb.parse_dcb, dcb.parse_dcbx):
        try:
            parse(message)
        except Malformed:
            pass


@given(st.integers(1, 12), st.binary(max_size=140))
def test_random_structures(kind, body):
    nest = netlink.pack_nest(dcb.ATTR_IEEE, [netlink.pack_attribute(kind, body)])
    message = netlink.Message(dcb.RTM_GETDCB, 0, 0, bytes([0, dcb.CMD_IEEE_GET, 0, 0]) + nest)
    try:
        dcb.parse_dcb(message)
    except Malformed:
        pass

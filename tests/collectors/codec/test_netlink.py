"""Netlink framing and families: round trips, random bytes, and a real kernel where it answers."""

import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.codec import netlink, rdma_netlink, rtnetlink
from collectors.host.netlink_socket import KernelSocket
from collectors.model.errors import FabricError, Malformed, NotSupported

messages = st.builds(
    netlink.Message,
    st.integers(0, 0xFFFF),
    st.integers(0, 0xFFFF),
    st.integers(0, 0xFFFFFFFF),
    st.binary(max_size=40),
)


def packed(message: netlink.Message) -> bytes:
    raw = netlink.pack_message(message.type, message.flags, message.payload, message.sequence)
    return raw + bytes(-len(raw) % 4)


@given(st.lists(messages, max_size=5))
def test_messages_round_trip(several):
    assert list(netlink.parse_messages(b"".join(map(packed, several)))) == several


@given(st.lists(st.tuples(st.integers(0, 0x3FFF), st.binary(max_size=20)), max_size=6))
def test_attributes_round_trip(several):
    data = b"".join(netlink.pack_attribute(kind, payload) for kind, payload in several)
    assert list(netlink.parse_attributes(data)) == several


@given(st.binary(max_size=200))
def test_random_bytes_raise_only_malformed(data):
    for message in _tolerant(netlink.parse_messages(data)):
        for parse in (rdma_netlink.parse_device, rdma_netlink.parse_port,
                      rdma_netlink.parse_counters, rdma_netlink.parse_netns_exclusive,
                      rtnetlink.parse_address):  # fmt: skip
            with_error(parse, message)


@given(st.sampled_from([rdma_netlink.GET, rdma_netlink.PORT_GET, rdma_netlink.STAT_GET,
                        rdma_netlink.SYS_GET]), st.binary(max_size=120))  # fmt: skip
def test_random_payloads_of_known_messages(command, payload):
    message = netlink.Message(rdma_netlink.message_type(command), 0, 0, payload)
    for parse in (rdma_netlink.parse_device, rdma_netlink.parse_port,
                  rdma_netlink.parse_counters, rdma_netlink.parse_netns_exclusive):  # fmt: skip
        with_error(parse, message)
    with_error(rtnetlink.parse_address, netlink.Message(rtnetlink.RTM_NEWADDR, 0, 0, payload))


def with_error(parse, message):
    try:
        parse(message)
    except Malformed:
        pass


def _tolerant(parsed):
    try:
        yield from parsed
    except Malformed:
        pass


def test_a_counter_of_all_ones_stays_exact():
    entry = netlink.pack_nest(rdma_netlink.STAT_HWCOUNTER_ENTRY, [
        netlink.pack_text(rdma_netlink.STAT_HWCOUNTER_ENTRY_NAME, "np_cnp_sent"),
        netlink.pack_u64(rdma_netlink.STAT_HWCOUNTER_ENTRY_VALUE, 2**64 - 1),
    ])  # fmt: skip
    payload = netlink.pack_nest(rdma_netlink.STAT_HWCOUNTERS, [entry])
    message = netlink.Message(rdma_netlink.message_type(rdma_netlink.STAT_GET), 0, 0, payload)
    assert rdma_netlink.parse_counters(message) == {"np_cnp_sent": 2**64 - 1}


def test_the_kernel_lists_our_own_addresses():
    """A real kernel answers the codec: the loopback address is there, errors are typed."""
    kernel = KernelSocket(netlink.NETLINK_ROUTE)
    try:
        found = [
            rtnetlink.parse_address(message)
            for data in kernel.request(rtnetlink.pack_get_addresses())
            for message in netlink.parse_messages(data)
        ]
        ours = {(entry.netdev, entry.address, entry.prefix) for entry in found if entry}
        assert ("lo", "127.0.0.1", 8) in ours
        with pytest.raises(FabricError):
            kernel.request(
                netlink.pack_message(0x7FF0, netlink.NLM_F_REQUEST | netlink.NLM_F_ACK, b"")
            )
        assert kernel.request(rtnetlink.pack_get_addresses())  # still usable after an error
    finally:
        kernel.close()


def test_e10_no_descriptor_is_lost():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(1000):
        KernelSocket(netlink.NETLINK_ROUTE).close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_family_that_the_kernel_lacks(monkeypatch):
    def refuse(*_):
        raise OSError(93, "Protocol not supported")

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(NotSupported, match="NETLINK_RDMA: open socket: EPROTONOSUPPORT"):
        KernelSocket(netlink.NETLINK_RDMA)

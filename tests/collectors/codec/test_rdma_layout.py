"""Reading a reply by the layout of an earlier one says what parsing it says, or nothing."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.codec import rdma_netlink as rdma
from collectors.codec.netlink import (
    HEADER,
    NLMSG_ERROR,
    pack_attribute,
    pack_message,
    pack_nest,
    pack_text,
    pack_u32,
    pack_u64,
    parse_messages,
)
from collectors.codec.rdma_layout import counter_layout
from collectors.model.errors import Malformed

U64 = st.integers(0, 2**64 - 1)
NAMES = st.lists(st.from_regex(r"[a-z_]{1,24}", fullmatch=True), min_size=1, unique=True)


def reply(counters, device=0, sequence=0, *, wide=True):
    """Return a STAT_GET reply as nldev.c writes it."""
    entries = [
        pack_nest(rdma.STAT_HWCOUNTER_ENTRY, [
            pack_text(rdma.STAT_HWCOUNTER_ENTRY_NAME, name),
            pack_u64(rdma.STAT_HWCOUNTER_ENTRY_VALUE, value) if wide else
            pack_u32(rdma.STAT_HWCOUNTER_ENTRY_VALUE, value),
        ])
        for name, value in counters
    ]  # fmt: skip
    payload = pack_u32(rdma.DEV_INDEX, device) + pack_u32(rdma.PORT_INDEX, 1)
    payload += pack_nest(rdma.STAT_HWCOUNTERS, entries)
    return pack_message(rdma.message_type(rdma.STAT_GET), 0, payload, sequence)


def parsed(data):
    (message,) = parse_messages(data)
    return rdma.parse_counters(message)


@given(NAMES, st.data())
def test_a_layout_reads_what_parsing_reads(names, data):
    first, later = (
        [(name, data.draw(U64)) for name in names],
        [(name, data.draw(U64)) for name in names],
    )
    layout = counter_layout(reply(first))
    # None only where a value looks like the start of one.
    assert layout is not None or struct.pack("=HH", 12, 83) in reply(first)[HEADER.size + 20 :]
    if layout is not None:
        assert layout.read(reply(first)) == dict(first)
        assert layout.read(reply(later, sequence=7)) == dict(later) == parsed(reply(later))


def test_another_device_name_or_length_is_not_read():
    first = [("np_cnp_sent", 1), ("out_of_sequence", 2)]
    layout = counter_layout(reply(first))
    assert layout is not None
    assert layout.read(reply(first, sequence=2**32 - 1)) == dict(first)
    for other in (
        reply(first, device=1),
        reply([("np_cnp_sent", 1), ("out_of_sequencE", 2)]),
        reply(first[::-1]),
        reply(first[:1]),
        reply(first) + bytes(4),
        b"",
    ):
        assert layout.read(other) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        reply([("a", 1)], wide=False),
        reply([("twice", 1), ("twice", 2)]),
        reply([("looks like a value", struct.unpack("=Q", struct.pack("=HHI", 12, 83, 0))[0])]),
        reply([("a", 1)]) + reply([("a", 1)]),
        pack_message(NLMSG_ERROR, 0, bytes(20)),
        pack_message(
            rdma.message_type(rdma.STAT_GET), 0, pack_attribute(rdma.STAT_HWCOUNTERS, b"")
        ),
    ],
    ids=["nothing", "32 bits", "name twice", "ambiguous", "two", "error", "none"],
)
def test_a_reply_without_one_layout_is_left_to_the_parser(data):
    assert counter_layout(data) is None


@given(st.binary(max_size=200), st.integers(0, 150), st.binary(min_size=1, max_size=8))
def test_damaged_replies_raise_the_typed_error_only(random, at, damage):
    whole = reply([("np_cnp_sent", 1), ("out_of_sequence", 2)])
    layout = counter_layout(whole)
    for data in (random, whole[:at] + damage + whole[at + len(damage) :]):
        try:
            expected = {} if len(list(parse_messages(data))) != 1 else parsed(data)
            found = counter_layout(data)
        except Malformed:
            continue
        if found is not None:
            assert found.read(data) == expected
        by_first = layout.read(data)
        assert by_first is None or by_first == expected

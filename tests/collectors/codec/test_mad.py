"""The MAD tables and frames: round trips, limits, random bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.codec import mad, mad_cc, mad_perf, mad_sa, mad_smp, mad_vendor
from collectors.codec.mad_layout import Field, Layout, repeated
from collectors.model.errors import Malformed

TABLES = (mad_smp, mad_perf, mad_cc, mad_sa, mad_vendor)
LAYOUTS = [layout for table in TABLES for layout in table.LAYOUTS]
every_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)


def values_of(layout):
    def one(field):
        if field.raw:
            return st.binary(min_size=field.width // 8, max_size=field.width // 8)
        number = st.integers(0, (1 << field.width) - 1)
        return number if field.count == 1 else st.tuples(*[number] * field.count)

    return st.fixed_dictionaries({field.name: one(field) for field in layout.fields})


@every_layout
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_what_is_packed_is_parsed(layout, data):
    values = data.draw(values_of(layout))
    packed = layout.pack(values)
    assert len(packed) == layout.size
    assert layout.parse(packed) == values


@every_layout
@given(noise=st.binary(max_size=256))
@settings(max_examples=20, deadline=None)
def test_random_bytes_raise_only_malformed(layout, noise):
    try:
        values = layout.parse(noise)
    except Malformed:
        assert len(noise) < layout.need
        return
    # and the bits that the table names survive a second trip
    assert layout.parse(layout.pack(values)) == values


@every_layout
def test_fields_do_not_overlap(layout):
    taken = set()
    for field in layout.fields:
        bits = set(range(field.bit, field.end))
        assert not bits & taken, field.name
        taken |= bits


@every_layout
def test_each_field_is_where_the_table_says(layout):
    for field in layout.fields:
        if field.raw:
            continue
        for index in range(field.count):
            low = field.bit + index * field.width
            number = ((1 << field.width) - 1) << (layout.size * 8 - low - field.width)
            parsed = layout.parse(number.to_bytes(layout.size, "big"))
            value = parsed.pop(field.name)
            full = (1 << field.width) - 1
            if field.count == 1:
                assert value == full
            else:
                assert value == tuple(full if i == index else 0 for i in range(field.count))
            assert not any(
                any(v) if isinstance(v, (tuple, bytes)) else v for v in parsed.values()
            ), field.name


def test_pack_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="no field Nonsense"):
        mad_smp.NODE_INFO.pack({"Nonsense": 1})
    with pytest.raises(ValueError, match="does not fit"):
        mad_perf.PORT_COUNTERS.pack({"LocalLinkIntegrityErrors": 16})
    with pytest.raises(ValueError, match="needs 16 values"):
        mad_perf.PORT_VL_XMIT_WAIT_COUNTERS.pack({"PortVLXmitWait": (1, 2)})


def test_a_table_that_cannot_be_is_refused_at_once():
    with pytest.raises(ValueError, match="payload has 4"):
        Layout("TooLong", 1, "-", 4, Field("A", 0, 32), Field("B", 32, 8))
    layout = Layout("Odd", 1, "-", 8, Field("A", 3, 7), repeated("B", 10, 3, 4), Field("C", 32, 24))
    values = {"A": 101, "B": (1, 7, 0, 5), "C": 0xABCDEF}
    assert layout.parse(layout.pack(values)) == values


# --- frames ----------------------------------------------------------------------------------
@given(st.binary(max_size=300))
def test_header_of_random_bytes(noise):
    try:
        header = mad.parse_header(noise)
    except Malformed:
        assert len(noise) < 256 or noise[0] != 1
        return
    assert header.base_version == 1


@given(
    st.binary(max_size=63),
    st.integers(0, 0xFFFF),
    st.integers(0, 2**32 - 1),
    st.integers(1, 2**32 - 1),
)
def test_direct_request(path, attribute, modifier, tid):
    packed = mad.pack_direct(attribute, modifier, tid, path, m_key=0x1122334455667788)
    assert len(packed) == 256
    header = mad.parse_header(packed)
    assert (header.attribute, header.modifier, header.tid) == (attribute, modifier, tid)
    assert (header.mgmt_class, header.method, header.class_version) == (0x81, mad.METHOD_GET, 1)
    assert mad.direct_path(packed) == path
    assert packed[24:32].hex() == "1122334455667788"
    assert packed[32:36] == b"\xff\xff\xff\xff"  # both permissive: directed all the way
    assert packed[6] == 0  # hop pointer: not yet on its way


def test_a_route_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match="at most 63"):
        mad.pack_direct(0x11, 0, 1, bytes(64))


@given(st.binary(min_size=256, max_size=256))
def test_direct_path_of_random_bytes(noise):
    try:
        path = mad.direct_path(noise)
    except Malformed:
        assert noise[7] > 63
        return
    assert len(path) == noise[7]


def test_perf_request_selects_the_port():
    packed = mad.pack_get(mad.CLASS_PERF, 0x1D, 0, 7, bytes((0, 35)))
    assert len(packed) == 256
    assert packed[:4] == bytes((1, 4, 1, 1))
    assert packed[65] == 35
    assert not any(packed[66:])


def test_congestion_key_is_carried():
    packed = mad.pack_get(mad.CLASS_CONGESTION, 0x14, 0, 7, key=0xAB)
    assert packed[2] == 2
    assert int.from_bytes(packed[24:32], "big") == 0xAB


def test_no_request_can_set():
    made = [
        mad.pack_direct(1, 0, 1, b""),
        mad.pack_get(4, 1, 0, 1),
        mad.pack_sa(1, 1, b"", 0, table=False),
        mad.pack_sa(1, 1, b"", 0, table=True),
    ]
    assert {m[3] for m in made} == {mad.METHOD_GET, mad.METHOD_GET_TABLE}


@pytest.mark.parametrize(
    ("status", "text", "unsupported", "busy"),
    [
        (0, "ok", False, False),
        (0x0C, "method/attribute not supported", True, False),
        (0x1C, "invalid attribute or modifier", True, False),
        (0x08, "method not supported", True, False),
        (0x01, "busy", False, True),
        (0x02, "redirect required", False, False),
        (0x0200, "class-specific status 0x02", False, False),
    ],
)
def test_status(status, text, unsupported, busy):
    assert mad.status_text(status) == text
    assert mad.is_unsupported(status) is unsupported
    assert mad.is_busy(status) is busy


def test_direction_bit_is_no_error():
    reply = bytearray(mad.pack_direct(0x11, 0, 1, b"\x01"))
    reply[3], reply[4] = mad.METHOD_GET_RESPONSE, 0x80
    assert mad.parse_header(reply).status == 0


def sa_answer(records, stride, method=mad.METHOD_GET_TABLE_RESPONSE):
    head = bytearray(mad.pack_sa(0x20, 5, b"", 0, table=True)[:56])
    head[3] = method
    head[44:46] = (stride // 8).to_bytes(2, "big")
    return bytes(head) + b"".join(r.ljust(stride, b"\0") for r in records)


def test_sa_records():
    links = [
        mad_sa.LINK_RECORD.pack({"FromLID": i, "FromPort": 2, "ToPort": 3, "ToLID": i + 1})
        for i in range(40)
    ]
    found = mad.parse_sa_records(sa_answer(links, 8), mad_sa.LINK_RECORD.need)
    assert [mad_sa.LINK_RECORD.parse(r)["FromLID"] for r in found] == list(range(40))


def test_sa_answer_that_lies_about_its_records():
    with pytest.raises(Malformed, match="8 bytes apart"):
        mad.parse_sa_records(sa_answer([bytes(64)] * 4, 8), mad_sa.NODE_RECORD.need)


@given(st.binary(min_size=56, max_size=600))
def test_sa_records_of_random_bytes(noise):
    try:
        found = mad.parse_sa_records(noise, 64)
    except Malformed:
        return
    assert all(len(record) >= 64 for record in found)


# --- values ----------------------------------------------------------------------------------
def port_info(**values):
    base = {"CapabilityMask": mad_smp.CAP_EXTENDED_SPEEDS | mad_smp.CAP_CAPABILITY_MASK2}
    return mad_smp.PORT_INFO.parse(mad_smp.PORT_INFO.pack({**base, **values}))


@pytest.mark.parametrize(
    ("values", "speed"),
    [
        ({"LinkSpeedActive": 1}, "SDR"),
        ({"LinkSpeedActive": 4}, "QDR"),
        ({"LinkSpeedActive": 4, "LinkSpeedExtActive": 1}, "FDR"),
        ({"LinkSpeedExtActive": 2}, "EDR"),
        ({"LinkSpeedExtActive": 4}, "HDR"),
        ({"LinkSpeedExtActive": 8}, "NDR"),
        ({"CapabilityMask2": mad_smp.CAP2_EXTENDED_SPEEDS2, "LinkSpeedExtActive2": 1}, "XDR"),
        # the extended fields mean nothing without the capability
        ({"CapabilityMask": 0, "LinkSpeedExtActive": 8, "LinkSpeedActive": 2}, "DDR"),
        ({"LinkSpeedActive": 0}, ""),
    ],
)
def test_link_speed_of_each_generation(values, speed):
    assert mad_smp.link_speed(port_info(**values)) == speed


def test_node_string_stops_at_nul_and_survives_bad_bytes():
    assert mad_smp.parse_node_string(b"node7 mlx5_0\0junk".ljust(64, b"\0")) == "node7 mlx5_0"
    assert mad_smp.parse_node_string(b"\xff\xfe" + bytes(62)) == "\ufffd\ufffd"


def test_tick():
    assert mad_perf.tick_seconds(0, 2e9) == pytest.approx(4e-9)  # one SDR lane
    assert mad_perf.tick_seconds(255, 2e9) == pytest.approx(1024e-9)
    assert mad_perf.tick_seconds(7, 200e9) == pytest.approx(64 / 200e9)
    assert mad_perf.tick_seconds(7, 0) == 0


def test_congestion_entries():
    entry = (150 << 48) | (1 << 40) | (2 << 32) | (3 << 24)
    packed = mad_cc.CA_CONGESTION_SETTING.pack({"Entry": (entry, *[0] * 15)})
    assert packed[4:9] == bytes((0, 150, 1, 2, 3))
    assert mad_cc.ca_entries(packed)[0] == (150, 1, 2, 3)
    table = mad_cc.CONGESTION_CONTROL_TABLE.pack({"Entry": ((2 << 14) | 77, *[0] * 63)})
    assert mad_cc.control_table(table)[0] == (2, 77)

"""Disciplines built from the structs of uapi/linux/pkt_sched.h, and a dump recorded in the lab."""

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.codec.netlink import (
    Message,
    pack_attribute,
    pack_nest,
    pack_text,
    pack_u32,
    pack_u64,
    parse_messages,
)
from collectors.codec.qdisc import RTM_NEWQDISC, Qdisc, egress_queues, parse_qdisc
from collectors.model.errors import Malformed

RECORDED = Path(__file__).parents[2] / "fixtures/qdisc/lab-switch"
ROOT = 0xFFFFFFFF


def message(kind, *attributes, index=5, handle=0x10000, parent=ROOT):
    header = struct.pack("=BBHiIII", 0, 0, 0, index, handle, parent, 0)
    return Message(RTM_NEWQDISC, 0, 1, header + pack_text(1, kind) + b"".join(attributes))


def stats(*parts):
    return pack_nest(7, parts)


BASIC = pack_attribute(1, struct.pack("=QII", 1 << 40, 77, 0))
QUEUE = pack_attribute(3, struct.pack("=IIIII", 2, 3000, 4, 5, 6))


def test_red():
    options = pack_nest(
        2,
        (
            pack_attribute(1, struct.pack("=IIIBBBB", 1000, 100, 300, 5, 6, 7, 1)),
            pack_u32(3, 1 << 31),
        ),
    )
    xstats = pack_attribute(4, struct.pack("=IIII", 1, 2, 3, 42))
    qdisc = parse_qdisc(message("red", options, stats(BASIC, QUEUE, xstats)))
    assert qdisc == Qdisc(
        5,
        "red",
        0x10000,
        ROOT,
        bytes=1 << 40,
        packets=77,
        drops=4,
        backlog_bytes=3000,
        marked=42,
        limit_bytes=1000,
        kmin_bytes=100,
        kmax_bytes=300,
        pmax_ratio=0.5,
        ecn=True,
    )


def test_tbf_rate_above_32_bits():
    rate = struct.pack("=BBHhHI", 0, 1, 0, -1, 0, 0xFFFFFFFF)
    parms = pack_attribute(1, rate + rate + struct.pack("=III", 1, 2, 3))
    assert parse_qdisc(message("tbf", pack_nest(2, (parms,)))).rate_bps == 0xFFFFFFFF * 8
    big = pack_u64(4, 50_000_000_000)
    assert parse_qdisc(message("tbf", pack_nest(2, (parms, big)))).rate_bps == 400_000_000_000


def test_64_bit_packets_beat_32_bit_ones():
    wide = pack_u64(8, (1 << 33) + 77)
    assert parse_qdisc(message("pfifo", stats(BASIC, wide))).packets == (1 << 33) + 77


def test_fq_codel_marks_only_of_the_qdisc_form():
    def app(flavour):
        return pack_attribute(4, struct.pack("=IIII", flavour, 1500, 0, 9))

    assert parse_qdisc(message("fq_codel", stats(app(0)))).marked == 9
    assert parse_qdisc(message("fq_codel", stats(app(1)))).marked is None


def test_absent_statistics_are_none_not_zero():
    qdisc = parse_qdisc(message("pfifo"))
    assert (qdisc.bytes, qdisc.drops, qdisc.marked) == (None, None, None)


def test_other_messages_are_not_disciplines():
    assert parse_qdisc(Message(16, 0, 1, b"")) is None


@pytest.mark.parametrize("size", [0, 19])
def test_a_short_header_is_malformed(size):
    with pytest.raises(Malformed):
        parse_qdisc(Message(RTM_NEWQDISC, 0, 1, bytes(size)))


@given(st.sampled_from(["red", "tbf", "fq_codel", "pfifo"]), st.binary(max_size=80))
def test_random_bytes_raise_only_malformed(kind, data):
    for kinds in (2, 7):
        try:
            parse_qdisc(message(kind, pack_attribute(kinds, data)))
        except Malformed:
            continue


def test_a_chain_is_one_queue():
    shaper = Qdisc(5, "tbf", 0x10000, ROOT, 9, 8, 7, 6, rate_bps=1000, limit_bytes=None)
    red = Qdisc(5, "red", 0x100000, 0x10001, 1, 1, 1, 1, marked=3, limit_bytes=50, ecn=False)
    ingress = Qdisc(5, "ingress", 0xFFFF0000, 0xFFFFFFF1, 1, 1, 1, 1)
    (found,) = egress_queues([red, ingress, shaper])
    assert found.counts == {"bytes": 9, "packets": 8, "drops": 7, "backlog": 6, "red marked": 3}
    assert found.settings == {
        "queue_rate_bps": 1000,
        "queue_limit_bytes": 50,
        "ecn_enabled": False,
    }
    assert (found.index, found.number, found.handle) == (5, 0, 0x10000)


def test_mq_has_one_queue_for_each_child_and_noqueue_has_none():
    mq = Qdisc(3, "mq", 0x80000000, ROOT)
    children = [Qdisc(3, "fq_codel", 0, 0x80000000 + n + 1, bytes=n, marked=n) for n in range(3)]
    found = egress_queues([mq, *children, Qdisc(4, "noqueue", 0, ROOT, bytes=0)])
    assert [(q.index, q.number, q.counts["bytes"]) for q in found] == [
        (3, 0, 0),
        (3, 1, 1),
        (3, 2, 2),
    ]


def test_the_recorded_dump_says_what_tc_said():
    data = [bytes.fromhex(line) for line in (RECORDED / "dump.hex").read_text().split()]
    qdiscs = [q for part in data for m in parse_messages(part) if (q := parse_qdisc(m))]
    said = json.loads((RECORDED / "tc.json").read_text())
    red = {f"{int(row['handle'][:-1], 16) << 16:x}": row for row in said if row["kind"] == "red"}
    assert len([q for q in qdiscs if q.kind == "red"]) == 4
    assert len(red) == 1  # tc numbers all of them 10:
    by_port = [row for row in said if row["kind"] == "red"]
    for qdisc, row in zip((q for q in qdiscs if q.kind == "red"), by_port, strict=True):
        options = row["options"]
        assert (qdisc.bytes, qdisc.packets, qdisc.drops, qdisc.marked) == (
            row["bytes"],
            row["packets"],
            row["drops"],
            row["marked"],
        )
        assert (qdisc.limit_bytes, qdisc.kmin_bytes, qdisc.kmax_bytes, qdisc.ecn) == (
            options["limit"],
            options["min"],
            options["max"],
            options["ecn"],
        )
        assert qdisc.pmax_ratio == pytest.approx(options["probability"], abs=1e-6)
    rates = [q.rate_bps for q in qdiscs if q.kind == "tbf"]
    assert rates == [row["options"]["rate"] * 8 for row in said if row["kind"] == "tbf"]

"""Captures: against scapy's and tshark's reading of the same packets."""

import csv
import io
import struct
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.all import GRE, IP, UDP, Dot1Q, Ether, IPv6, Raw, raw, wrpcap
from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III
from scapy.contrib.roce import AETH, BTH, cnp

from collectors.capture.flows import FlowTable, matrix
from collectors.capture.pcap import parse_frames, read_frames
from collectors.capture.roce import decode, icrc_errors
from collectors.model.errors import FabricError, Malformed, NotSupported, Unavailable
from simlab.switches.roce_pcap import write_large

SYNTHETIC = Path(__file__).parents[3].parent / "shared/fixtures/own_synthetic/rocev2_synth.pcap"


def write(sport=49152, qp=0x11, psn=5, opcode=0x07, tos=(26 << 2) | 2, ip=None, payload=b"x" * 64):
    ip = ip or IP(src="10.0.0.1", dst="10.0.0.2", tos=tos)
    return ip / UDP(sport=sport, dport=4791) / BTH(opcode=opcode, dqpn=qp, psn=psn) / Raw(payload)


def ether(packet):
    return Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / packet


def ack(syndrome, psn=5, qp=0x22):
    answer = IP(src="10.0.0.2", dst="10.0.0.1", tos=26 << 2) / UDP(sport=49152, dport=4791)
    return answer / BTH(opcode=0x11, dqpn=qp, psn=psn) / AETH(syndrome=syndrome, msn=1)


def capture(tmp_path, *packets, name="x.pcap"):
    file = tmp_path / name
    wrpcap(str(file), list(packets))
    return file


def read(file):
    table, decoded = FlowTable(), []
    for frames in read_frames(file):
        packets = decode(frames)
        table.add(packets)
        decoded.append((frames, packets))
    return table, decoded


def test_every_field_of_every_wrapping(tmp_path):
    v6 = IPv6(src="2001:db8::1", dst="2001:db8::2", tc=(48 << 2) | 1)
    inner = ether(write(psn=7))
    mirror = Ether() / IP(src="9.9.9.9", dst="8.8.8.8")
    packets = [
        ether(write(psn=1)),
        Ether() / Dot1Q(vlan=100, prio=3) / write(psn=2),
        Ether() / Dot1Q(vlan=7, prio=5, type=0x8100) / Dot1Q(vlan=8, prio=1) / write(psn=3),
        ether(write(psn=4, ip=v6)),
        mirror / GRE(proto=0x88BE, seqnum_present=1, seqence_number=1) / ERSPAN_II() / inner,
        mirror / GRE(proto=0x88BE) / inner,
        mirror / GRE(proto=0x22EB, seqnum_present=1, seqence_number=1) / ERSPAN_III() / inner,
        ether(IP() / UDP(sport=1, dport=53) / Raw(b"y" * 40)),
        Ether() / Raw(b"z" * 60),
    ]
    _, [(_, got)] = read(capture(tmp_path, *packets))
    assert list(got.psn) == [1, 2, 3, 4, 7, 7, 7]
    assert list(got.vlan_priority) == [-1, 3, 5, -1, -1, -1, -1]
    assert set(got.destination_qp) == {0x11}
    assert list(got.ecn) == [2, 2, 2, 1, 2, 2, 2]
    assert list(got.dscp) == [26, 26, 26, 48, 26, 26, 26]
    assert list(got.is_ipv6) == [False, False, False, True, False, False, False]
    table, _ = read(capture(tmp_path, *packets))
    assert ("2001:db8::1", "2001:db8::2") in matrix(table.flows())


def test_naks_cnps_marks_and_operations(tmp_path):
    marked = write(psn=2, tos=(26 << 2) | 3)
    notice = IP(src="10.0.0.2", dst="10.0.0.1", tos=48 << 2) / UDP(sport=49152, dport=4791)
    packets = [
        write(psn=1, opcode=0x06), marked, write(psn=3, opcode=0x08),
        notice / cnp(dqpn=0x22), ack(0x00), ack(0x60), ack(0x2F),
    ]  # fmt: skip
    table, _ = read(capture(tmp_path, *(ether(packet) for packet in packets)))
    forward, back = sorted(table.flows(), key=lambda flow: flow.source)
    assert (forward.packets, forward.ce, forward.ect) == (3, 1, 2)
    assert forward.ce_ratio == pytest.approx(1 / 3)
    assert dict(forward.operations) == {"write": 3}
    assert (back.cnp, back.nak, back.rnr, back.packets) == (1, 1, 1, 4)


@pytest.mark.parametrize(
    ("psns", "resent"),
    [
        ([1, 2, 3, 4], 0),
        ([1, 2, 3, 2, 3, 4], 2),  # go back N
        ([1, 2, 2], 1),
        ([0xFFFFFE, 0xFFFFFF, 0, 1], 0),  # the 24-bit number wraps
        ([0xFFFFFF, 0, 0xFFFFFF, 0, 1], 2),
        ([1, 5, 3, 6], 1),
        ([7], 0),
    ],
)
def test_retransmissions(tmp_path, psns, resent):
    packets = [ether(write(psn=psn)) for psn in psns]
    packets += [ether(write(psn=psn, qp=0x99)) for psn in range(3)]  # another queue pair
    table, _ = read(capture(tmp_path, *packets))
    assert sum(flow.resent for flow in table.flows()) == resent
    # the same in two chunks
    halves = FlowTable()
    for part in (packets[: len(packets) // 2], packets[len(packets) // 2 :]):
        for frames in read_frames(capture(tmp_path, *part)):
            halves.add(decode(frames))
    assert sum(flow.resent for flow in halves.flows()) == resent


def test_icrc(tmp_path):
    good = [ether(write(psn=psn)) for psn in range(3)]
    good.append(ether(write(ip=IPv6(src="::1", dst="::2", tc=(26 << 2) | 2))))
    broken = bytearray(raw(good[0]))
    broken[-10] ^= 1
    remarked = bytearray(raw(good[1]))
    remarked[15] |= 1  # a switch marks: the traffic class is not covered
    file = capture(tmp_path, *good, Ether(bytes(broken)), Ether(bytes(remarked)))
    _, [(frames, packets)] = read(file)
    assert icrc_errors(frames, packets) == (1, 6)


def test_recorded_packets_are_sound():
    if not SYNTHETIC.exists():
        pytest.skip(f"{SYNTHETIC} is not here")
    table, decoded = read(SYNTHETIC)
    for frames, packets in decoded:
        wrong, checked = icrc_errors(frames, packets)
        assert (wrong, checked) == (0, len(packets))
    flows = table.flows()
    assert sum(flow.cnp for flow in flows) >= 1
    assert sum(flow.nak for flow in flows) >= 1
    assert sum(flow.ce for flow in flows) >= 1


@pytest.mark.lab_switch
def test_tshark_sees_the_same(tmp_path):
    fields = ("ip.src", "ip.dst", "udp.srcport", "infiniband.bth.destqp", "infiniband.bth.psn",
              "infiniband.bth.opcode", "ip.dsfield.ecn", "infiniband.aeth.syndrome")  # fmt: skip
    rng = np.random.default_rng(1)
    packets = []
    for _ in range(300):
        psn, qp, sport = (int(value) for value in rng.integers(0, [1 << 24, 1 << 24, 16384]))
        opcode = int(rng.choice([0, 4, 6, 7, 8, 10, 12]))
        tos = (26 << 2) | int(rng.integers(0, 4))
        packets.append(ether(write(49152 + sport, qp, psn, opcode, tos)))
    packets += [ether(ack(int(syndrome))) for syndrome in (0x00, 0x1F, 0x60, 0x2A)]
    file = capture(tmp_path, *packets)
    argv = ["tshark", "-r", str(file), "-T", "fields", "-E", "separator=,"]
    for field in fields:
        argv += ["-e", field]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("tshark is not installed")
    rows = list(csv.reader(io.StringIO(done.stdout)))
    _, [(_, got)] = read(file)
    assert len(got) == len(rows) == 304

    def number(text):
        return int(text, 0)

    for at, (source, _, sport, qp, psn, opcode, ecn, syndrome) in enumerate(rows):
        assert source == ("10.0.0.1" if got.source[at] == 0x0A000001 else "10.0.0.2")
        assert number(sport) == got.source_port[at]
        assert number(qp) == got.destination_qp[at]
        assert number(psn) == got.psn[at]
        assert number(opcode) == got.opcode[at]
        assert number(ecn) == got.ecn[at]
        if got.syndrome[at] >= 0 and syndrome:
            assert number(syndrome) == got.syndrome[at]


def test_pcapng_and_nanoseconds(tmp_path):
    packet = raw(ether(write(psn=9)))
    padded = packet + b"\0" * (-len(packet) % 4)

    def block(kind, body):
        size = 12 + len(body)
        return struct.pack("<II", kind, size) + body + struct.pack("<I", size)

    stamp = 1_700_000_000_123_456_789
    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    options = struct.pack("<HHB3x", 9, 1, 9) + struct.pack("<HH", 0, 0)
    interface = block(1, struct.pack("<HHI", 1, 0, 0) + options)
    head = struct.pack("<IIIII", 0, stamp >> 32, stamp & 0xFFFFFFFF, len(packet), len(packet))
    data = section + interface + block(6, head + padded)
    (frames,) = parse_frames(data, "x")
    assert list(frames.time_ns) == [stamp]
    assert list(decode(frames).psn) == [9]
    nano = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
    nano += struct.pack("<IIII", 1_700_000_000, 123_456_789, len(packet), len(packet)) + packet
    (frames,) = parse_frames(nano, "x")
    assert list(frames.time_ns) == [stamp]


def test_what_is_no_capture_is_said_so(tmp_path):
    with pytest.raises(Unavailable, match="No such file"):
        list(read_frames(tmp_path / "gone"))
    with pytest.raises(Malformed, match="neither pcap nor pcapng"):
        list(parse_frames(b"hello", "x"))
    wifi = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 105)
    with pytest.raises(NotSupported, match="link type 105"):
        list(parse_frames(wifi, "x"))


def test_a_file_that_is_cut_off_yields_what_is_before(tmp_path):
    file = capture(tmp_path, *(ether(write(psn=psn)) for psn in range(5)))
    data = file.read_bytes()[:-20]
    (frames,) = parse_frames(data, "x")
    assert list(decode(frames).psn) == [0, 1, 2, 3]


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=150), max_size=8), st.booleans())
def test_random_frames_raise_nothing(bodies, as_roce):
    head = raw(ether(write()))[:44] if as_roce else b""
    data = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for body in bodies:
        frame = head + body
        data += struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame
    table = FlowTable()
    for frames in parse_frames(data, "x"):
        packets = decode(frames)
        icrc_errors(frames, packets)
        table.add(packets)


@given(st.binary(max_size=300))
def test_random_files_raise_only_ours(data):
    for magic in (b"\xd4\xc3\xb2\xa1", b"\x0a\x0d\x0d\x0a", b""):
        try:
            for frames in parse_frames(magic + data, "x"):
                decode(frames)
        except FabricError:
            pass


def test_large_captures_add_up(tmp_path):
    file = tmp_path / "large.pcap"
    write_large(file, 300_000, flows=64)
    table, decoded = read(file)
    assert sum(len(packets) for _, packets in decoded) == 300_000
    flows = table.flows()
    assert len(flows) == 64
    assert sum(flow.packets for flow in flows) == 300_000
    assert sum(flow.ce for flow in flows) == 300_000 // 8
    assert sum(flow.resent for flow in flows) == 0
    assert Counter(flow.packets for flow in flows).most_common(1)[0][0] in (4687, 4688)


def records(rng, order, fakes, count=30_000):
    """Return a capture of mixed sizes; with fakes, payloads look like records."""
    head = struct.pack(order + "IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    parts, starts, at = [head], [], len(head)
    for number in range(count):
        size = int(rng.integers(60, 300))
        second = 1_700_000_000 + number // 100
        body = bytes(rng.integers(0, 256, size, np.uint8))
        if fakes:
            fake = struct.pack(order + "IIII", second, 5, 16, 16)
            body = (fake * (size // 16 + 1))[:size]
        parts.append(struct.pack(order + "IIII", second, number, size, size) + body)
        starts.append(at + 16)
        at += 16 + size
    return b"".join(parts), starts


def blocks(rng, order, fakes, count=30_000):
    """The same as pcapng, with a block of statistics and a second interface among the packets."""

    def block(kind, body):
        size = 12 + len(body)
        return struct.pack(order + "II", kind, size) + body + struct.pack(order + "I", size)

    def interface(resolution):
        options = struct.pack(order + "HHB3x", 9, 1, resolution) + struct.pack(order + "HH", 0, 0)
        return block(1, struct.pack(order + "HHI", 1, 0, 0) + options)

    section = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    parts, starts, sizes = [block(0x0A0D0D0A, section), interface(6)], [], []
    at = sum(map(len, parts))
    for number in range(count):
        which, ticks = 0, (1_700_000_000 + number // 100) * 10**6
        if number == count // 3:
            parts.append(block(5, struct.pack(order + "III", 0, 0, 0)))
            at += len(parts[-1])
        if number >= 2 * count // 3:
            if number == 2 * count // 3:
                parts.append(interface(9))
                at += len(parts[-1])
            which, ticks = 1, ticks * 1000
        size = int(rng.integers(60, 300))
        body = bytes(rng.integers(0, 256, size + -size % 4, np.uint8))
        if fakes:
            fake = struct.pack(order + "IIIIIIII", 6, 32, 0, 0, 0, 0, 0, 32)
            body = (fake * (size // 32 + 1))[: size + -size % 4]
        head = struct.pack(order + "IIIII", which, ticks >> 32, ticks & 0xFFFFFFFF, size, size)
        parts.append(block(6, head + body))
        starts.append(at + 28)
        sizes.append(size)
        at += len(parts[-1])
    return b"".join(parts), starts, sizes


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("fakes", [False, True], ids=["plain", "payloads that look like blocks"])
@pytest.mark.parametrize("cut", [0, 70])
def test_blocks_of_mixed_sizes_are_found_where_they_are(tmp_path, order, fakes, cut):
    data, starts, sizes = blocks(np.random.default_rng(8), order, fakes)
    file = tmp_path / "mixed.pcapng"
    file.write_bytes(data[: len(data) - cut])
    assert len(data) > 4 << 20
    found, captured, parts = 0, [], 0
    for frames in read_frames(file):
        seconds = frames.time_ns // 10**9 - 1_700_000_000
        assert list(seconds) == [number // 100 for number in range(found, found + len(frames))]
        found += len(frames)
        captured += frames.captured.tolist()
        parts += 1
    assert captured == sizes[: len(starts) - bool(cut)]
    assert parts < 10  # and not one by one


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("fakes", [False, True], ids=["plain", "payloads that look like records"])
@pytest.mark.parametrize("cut", [0, 70])
def test_records_of_mixed_sizes_are_found_where_they_are(tmp_path, order, fakes, cut):
    """Chains that were begun in the wrong place must not count, wherever payloads lead them."""
    data, starts = records(np.random.default_rng(7), order, fakes)
    file = tmp_path / "mixed.pcap"
    file.write_bytes(data[: len(data) - cut])
    assert len(data) > 4 << 20
    found, sums = 0, 0
    for frames in read_frames(file):
        seconds = frames.time_ns // 10**9 - 1_700_000_000
        assert list(seconds) == [number // 100 for number in range(found, found + len(frames))]
        found += len(frames)
        sums += int(frames.captured.sum())
    kept = len(starts) - bool(cut)
    assert found == kept
    wanted = np.diff([*starts, len(data) + 16]) - 16
    assert sums == wanted[:kept].sum()

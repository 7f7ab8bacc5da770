"""sFlow: written datagrams, and a real exporter (pmacct) on the loopback."""

import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.all import IP, UDP, Ether, Raw, raw
from scapy.contrib.roce import BTH, cnp

from collectors.capture.receiver import BYTES, CE, CNPS, ROCE, SflowCollector
from collectors.capture.sflow import parse_datagram
from collectors.model.entities import Interface, Switch
from collectors.model.errors import Malformed
from tests.collectors.passes import clock

LEAF = Switch("leaf1")


def packet(qp=7, ecn=2, opcode=0x07, sport=50000):
    head = IP(src="10.0.0.1", dst="10.0.0.2", tos=(26 << 2) | ecn) / UDP(sport=sport, dport=4791)
    return raw(Ether() / head / BTH(opcode=opcode, dqpn=qp, psn=1) / Raw(b"x" * 1000))


def datagram(*headers, rate=1000, output=5, sequence=1, expanded=False, agent=b"\x0a\x00\x00\xfe"):
    samples = b""
    for header in headers:
        kept = header[:128]
        padded = kept + b"\0" * (-len(kept) % 4)
        record = struct.pack(">IIII", 1, len(header), 4, len(kept)) + padded
        other = struct.pack(">II", 1001, 4) + b"abcd"  # a record of another kind
        records = other + struct.pack(">II", 1, len(record)) + record
        if expanded:
            body = struct.pack(">11I", 1, 0, 9, rate, 0, 0, 0, 3, 0, output, 2) + records
        else:
            body = struct.pack(">8I", 1, 9, rate, 0, 0, 3, output, 2) + records
        samples += struct.pack(">II", 3 if expanded else 1, len(body)) + body
    counters = struct.pack(">II", 2, 8) + b"\0" * 8
    head = (
        struct.pack(">II", 5, 1) + agent + struct.pack(">4I", 0, sequence, 1000, len(headers) + 1)
    )
    return head + counters + samples


@pytest.fixture
def collector():
    made = SflowCollector(
        "127.0.0.1", 0, {"10.0.0.254": LEAF}, {LEAF: {5: Interface(LEAF, "Ethernet5")}}
    )
    yield made
    made.close()


def send(collector, *datagrams):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for data in datagrams:
            out.sendto(data, ("127.0.0.1", collector.port))
    time.sleep(0.05)
    return collector.read(clock)


@pytest.mark.parametrize("expanded", [False, True])
def test_samples_become_estimates_per_uplink(collector, expanded):
    notice = raw(Ether() / IP(src="10.0.0.2", dst="10.0.0.1") / UDP(dport=4791) / cnp(dqpn=1))
    other = raw(Ether() / IP() / UDP(dport=53) / Raw(b"y" * 100))
    result = send(
        collector,
        datagram(packet(), packet(ecn=3), notice, other, expanded=expanded),
        datagram(packet(qp=8, sport=50001), output=6, sequence=2, expanded=expanded),
    )
    got = {str(reading.entity): reading.values for reading in result.readings}
    uplink = got["interface/leaf1/Ethernet5"]
    assert (uplink[ROCE], uplink[CE], uplink[CNPS]) == (3000, 1000, 1000)
    assert uplink[BYTES] == 1000 * (2 * len(packet()) + len(notice))
    assert got["interface/leaf1/ifIndex 6"][ROCE] == 1000
    uplinks = collector.uplinks(LEAF)
    assert {flow.source_port for flow in uplinks["ifIndex 6"]} == {50001}
    assert not result.gaps


def test_totals_only_grow(collector):
    first = send(collector, datagram(packet()))
    second = send(collector, datagram(packet(), sequence=2))
    (one,), (two,) = first.readings, second.readings
    assert (one.values[ROCE], two.values[ROCE]) == (1000, 2000)


def test_losses_strangers_and_rubbish_are_gaps(collector):
    result = send(
        collector,
        datagram(packet()),
        datagram(packet(), sequence=5),
        datagram(packet(), agent=b"\x01\x02\x03\x04"),
        datagram(packet(), output=0x40000001, sequence=6),  # dropped: no port
        b"hello",
    )
    reasons = {gap.reason: gap.detail for gap in result.gaps}
    assert reasons["datagrams lost"] == "3"
    assert {"unknown exporter", "malformed", "no output interface"} <= set(reasons)


@given(st.binary(max_size=400))
def test_random_bytes_raise_only_malformed(data):
    for head in (b"", struct.pack(">II", 5, 1)):
        with suppress(Malformed):
            parse_datagram(head + data, "x")


@given(st.integers(0, 400))
def test_a_datagram_cut_off_anywhere_is_malformed_or_short(size):
    whole = datagram(packet(), packet())
    with suppress(Malformed):
        assert len(parse_datagram(whole[:size], "x").samples) <= 2


@pytest.mark.lab_switch
def test_a_real_exporter(tmp_path):
    """pmacct's sfprobe samples RoCE packets on a veth pair in a network namespace."""
    program = shutil.which("pmacctd", path="/usr/sbin:/usr/bin")
    if program is None or shutil.which("ip") is None:
        pytest.skip("pmacct or iproute2 is not installed")
    space = f"sflow{time.time_ns() % 10**6}"
    if subprocess.run(["ip", "netns", "add", space], capture_output=True).returncode:
        pytest.skip("network namespaces are not allowed here")
    inside = ["ip", "netns", "exec", space]
    collector_script = tmp_path / "collect.py"
    config = tmp_path / "pmacct.conf"
    config.write_text(
        "daemonize: false\npcap_interface: one\nplugins: sfprobe\nsampling_rate: 1\n"
        "sfprobe_receiver: 127.0.0.1:6399\nsfprobe_agentip: 10.0.0.254\n"
        "sfprobe_ifindex: tag\nsfprobe_direction: out\n"
        f"logfile: {tmp_path}/log\n"
    )
    collector_script.write_text(
        """
import sys, time, socket
from collectors.capture.sflow import parse_datagram
from collectors.capture.receiver import frames_of
from collectors.capture.roce import decode
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("127.0.0.1", 6399))
receiver.settimeout(0.5)
print("ready", flush=True)
until, seen, agents = time.monotonic() + 25, 0, set()
while time.monotonic() < until and seen < 50:
    try:
        data, _ = receiver.recvfrom(65535)
    except TimeoutError:
        continue
    datagram = parse_datagram(data, "pmacct")
    agents.add(datagram.agent)
    if datagram.samples:
        seen += sum(decode(frames_of(list(datagram.samples))).destination_qp == 7)
print(seen, *agents)
"""
    )
    sender = (
        "import socket,sys,time\n"
        "out=socket.socket(socket.AF_PACKET,socket.SOCK_RAW)\nout.bind(('two',0))\n"
        f"frame=bytes.fromhex('{packet().hex()}')\n"
        "for _ in range(400):\n  out.send(frame); time.sleep(0.02)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    processes = []
    try:
        for argv in (
            ["ip", "link", "set", "lo", "up"],
            ["ip", "link", "add", "one", "type", "veth", "peer", "name", "two"],
            ["ip", "link", "set", "one", "up"],
            ["ip", "link", "set", "two", "up"],
        ):
            subprocess.run([*inside, *argv], check=True, capture_output=True)
        receiver = subprocess.Popen(
            [*inside, sys.executable, str(collector_script)],
            stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        processes.append(receiver)
        assert receiver.stdout.readline().strip() == "ready"
        processes.append(subprocess.Popen([*inside, program, "-f", str(config)]))
        time.sleep(1.5)
        processes.append(subprocess.Popen([*inside, sys.executable, "-c", sender]))
        out, _ = receiver.communicate(timeout=40)
    finally:
        for process in processes:
            if process.poll() is None:
                process.terminate()
                process.wait(10)
        subprocess.run(["ip", "netns", "del", space], check=False)
    seen, *agents = out.split()
    assert int(seen) >= 50
    assert agents == ["10.0.0.254"]

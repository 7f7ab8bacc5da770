"""Real `tuner serve` processes: killed, stopped, cut off from disk; nothing is lost or doubled."""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from urllib.request import urlopen

import pytest

from collectors.model.catalogue.own import OWN
from collectors.model.entities import Device, Port
from collectors.model.metric import Column
from collectors.model.reading import Reading
from collectors.wire import telemetry_pb2 as pb
from simlab.loopback import free_port
from tests.tuner.builders import Uplink, at
from tests.tuner.processes import TUNER, Sender, Serving, tuner
from tuner.store.sources import fetch, fetch_status, open_window

COUNTER = Column("c_total", "counter", "hw_counters")
AGENTS = 3


def port_of(agent):
    return Port(Device(agent, "0000:01:00.0"), 1)


def batch(up, n):
    return up.batch([Reading(port_of(up.agent), {COUNTER: n * n}, at(n))])


def until_something_is_safe(senders):
    """Let no kill come before the ingest, however slow the machine is."""
    deadline = time.monotonic() + 60
    while not any(sender.acknowledged for sender in senders):
        assert time.monotonic() < deadline, "nothing is acknowledged"
        time.sleep(0.005)


def test_kill_9_during_ingest_loses_nothing_and_doubles_nothing(tmp_path):
    """Three times killed at a random moment; afterwards every sample is there exactly once."""
    total, dice = 1500, random.Random(7)
    serving = Serving(tmp_path / "data").start()
    ups = [Uplink(f"node{n}") for n in range(AGENTS)]
    senders = [Sender(serving.target, up.agent) for up in ups]
    for sender in senders:
        sender.start()
    kills = [total // 4, total // 2, total * 3 // 4]
    try:
        for n in range(total):
            for up, sender in zip(ups, senders, strict=True):
                sender.put(batch(up, n))
            if n in kills:
                until_something_is_safe(senders)
                time.sleep(dice.uniform(0, 0.05))
                serving.kill()
                serving.start()
        for sender in senders:
            sender.finish()
        items = list(fetch(serving.target, pb.Span(since_ns=1)))
        seqs = Counter((i.batch.agent, i.batch.seq) for i in items if i.HasField("batch"))
        assert set(seqs) == {(up.agent, seq) for up in ups for seq in range(1, total + 1)}
        assert set(seqs.values()) == {1}
        for agent in fetch_status(serving.target).agents:
            assert (agent.batches, agent.values, agent.missing) == (total, total, 0)
        window, _ = open_window(tuner=serving.target, since="3650d")
        for up in ups:
            growth = window.growth("c_total", port_of(up.agent))
            assert growth is not None
            assert (growth.total, growth.samples, growth.resets) == ((total - 1) ** 2, total, 0)
        assert all(sender.streams >= len(kills) + 1 for sender in senders)
        assert [r.refused for sender in senders for r in sender.refusals] == []
    finally:
        serving.kill()


def test_sigterm_is_a_clean_stop_and_nothing_needs_a_resend(tmp_path):
    with Serving(tmp_path / "data") as serving:
        up, sender = Uplink(), Sender(serving.target, "node1")
        sender.start()
        for n in range(300):
            sender.put(batch(up, n))
        code, log = serving.stop()
        assert code == 0, log
        assert "stopping" in log
        assert "Traceback" not in log
        serving.start()
        sender.finish()
        (agent,) = fetch_status(serving.target).agents
        assert (agent.batches, agent.missing) == (300, 0)


def test_systemd_hears_ready_watchdog_and_stopping(tmp_path):
    serving = Serving(tmp_path / "data")
    path = tmp_path / "n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(20)
        with Serving(tmp_path / "data").start() as first:
            first.stop()
        assert any("READY=1" in text for text in first.notified)
        process = subprocess.Popen(
            [*TUNER, "serve", "--listen",
             f"127.0.0.1:{serving.port}", "--data", str(tmp_path / "data"), "--metrics", "off"],
            env={**os.environ, "NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "300000"},
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            heard = []
            began = time.monotonic()
            while sum("WATCHDOG=1" in text for text in heard) < 5:
                heard.append(listener.recv(4096).decode())
            assert time.monotonic() - began < 15
            process.send_signal(signal.SIGTERM)
            while "STOPPING=1" not in heard[-1]:
                heard.append(listener.recv(4096).decode())
            assert process.wait(20) == 0
        finally:
            process.kill()


def test_own_metrics_count_what_happened(tmp_path):
    metrics = free_port()
    with Serving(tmp_path / "data", "--metrics", f"127.0.0.1:{metrics}") as serving:
        up, sender = Uplink(), Sender(serving.target, "node1")
        sender.start()
        for n in range(10):
            sender.put(batch(up, n))
        up.seq += 3
        sender.put(batch(up, 10))
        sender.finish()
        text = urlopen(f"http://127.0.0.1:{metrics}/metrics").read().decode()
        for line in (
            'fabric_tuner_agent_batches_total{agent="node1"} 11.0',
            'fabric_tuner_agent_values_total{agent="node1"} 11.0',
            'fabric_tuner_agent_duplicates_total{agent="node1"} 0.0',
            'fabric_tuner_agent_missing_items{agent="node1"} 3.0',
            'fabric_tuner_agent_acknowledged_seq{agent="node1"} 14.0',
            "fabric_tuner_store_writable 1.0",
        ):
            assert line in text, text
        assert "fabric_tuner_ingest_delay_seconds_count 11.0" in text
        for row in OWN.values():
            served = f"# HELP {row.name} {row.meaning}\n# TYPE {row.name} {row.kind}\n" in text
            assert served == row.name.startswith("fabric_tuner_"), row.name


@pytest.mark.lab_prom
def test_own_metrics_satisfy_promtool(tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    metrics = free_port()
    with Serving(tmp_path / "data", "--metrics", f"127.0.0.1:{metrics}") as serving:
        up, sender = Uplink(), Sender(serving.target, "node1")
        sender.start()
        sender.put(batch(up, 0))
        sender.finish()
        text = urlopen(f"http://127.0.0.1:{metrics}/metrics").read()
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True)
    assert (checked.returncode, checked.stderr + checked.stdout) == (0, b"")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
def test_a_really_full_disk_stops_acknowledging_and_heals(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    serving = Serving(small / "data")
    try:
        serving.start()
        ballast = small / "ballast"
        up, sender = Uplink(), Sender(serving.target, "node1")
        sender.start()
        sender.put(batch(up, 0))
        while sender.waiting:
            time.sleep(0.01)
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        for n in range(1, 400):
            sender.put(batch(up, n))
        deadline = time.monotonic() + 20
        while not sender.refusals and time.monotonic() < deadline:
            time.sleep(0.02)
        assert "No space left on device" in sender.refusals[0].refused
        assert not sender.refusals[0].permanent
        shown = tuner("status", "--tuner", serving.target, "--format", "json")
        assert "No space left" in json.loads(shown.stdout)["trouble"]
        assert sender.waiting
        ballast.unlink()
        sender.finish()
        (agent,) = fetch_status(serving.target).agents
        assert (agent.batches, agent.missing) == (400, 0)
        serving.kill()
        serving.start()
        batches = [i for i in fetch(serving.target, pb.Span()) if i.HasField("batch")]
        assert [i.batch.seq for i in batches] == list(range(1, 401))
    finally:
        serving.kill()
        subprocess.run(["umount", str(small)], check=True)

"""The daemon as a process: signals, crashes, full disks, service manager, excluded devices."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

from collectors.wire.pack import key_of
from collectors.wire.segment import read_segment, segments
from simlab.loopback import free_port
from tests.agent.fake_tuner import Disk, FakeTuner, restarting

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-c", "from agent.cli import app; app()"]


class Agent:
    """`fabric-agent run` on the loopback interface of this host, ten passes a second."""

    def __init__(self, folder, tuner="", command=PROGRAM, env=None, **changes):
        folder.mkdir(exist_ok=True)
        self.spool = folder / "spool"
        self.port = free_port()
        config = {
            "agent": "gpu01",
            "interval": 0.1,
            "devices": {"include": ["lo"]},
            "metrics": {"address": "127.0.0.1", "port": self.port},
            "collectors": {"verbs": {"on": False}},
        }
        if tuner:
            config["uplink"] = {"tuner": tuner, "spool": str(self.spool)}
        config.update(changes)
        self.config = folder / "agent.yaml"
        self.config.write_text(yaml.safe_dump(config))
        self.log = folder / "log"
        self.process = subprocess.Popen(
            [*command, "run", "--config", str(self.config)],
            stderr=self.log.open("ab"),
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        )

    def until(self, done, what, timeout=30):
        end = time.monotonic() + timeout
        while not done():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, f"{what} never came: {self.log.read_text()}"
            time.sleep(0.02)

    def metrics(self):
        url = f"http://127.0.0.1:{self.port}/metrics"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            return {}
        return dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")

    def number(self, name):
        return float(self.metrics().get(name, "nan"))

    def spooled(self):
        """Keys of everything that is on disk now."""
        found = set()
        for folder in self.spool.iterdir():
            for path in segments(folder) if folder.is_dir() else ():
                found |= {key_of(item) for item in read_segment(path)} - {None}
        return found

    def end(self, number=signal.SIGTERM, timeout=20):
        self.process.send_signal(number)
        return self.process.wait(timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)


def check_whole(disk, epochs):
    """Each epoch is 1..n without hole, each batch is a moment of its own, none stands twice."""
    keys = disk.stored()
    assert {epoch for epoch, _ in keys} == epochs
    for epoch in epochs:
        numbers = [seq for e, seq in keys if e == epoch]
        assert numbers == list(range(1, len(numbers) + 1))
    moments = [(b.collector, b.mono_ns) for b in disk.bodies("batch")]
    assert len(moments) == len(set(moments))


def test_stream_then_sigterm_drains(tmp_path):
    with FakeTuner() as tuner, Agent(tmp_path, tuner.address) as agent:
        tuner.disk.wait(lambda: len(tuner.disk.items) > 30)
        assert agent.end() == 0
        check_whole(tuner.disk, {tuner.disk.hellos[0].epoch})
        assert [path.name for path in agent.spool.iterdir()] == ["lock"]  # all acknowledged
        assert "Traceback" not in agent.log.read_text()


def test_kill_9_of_the_agent_loses_and_doubles_nothing_from_the_spool_on(tmp_path):
    disk = Disk()
    with restarting(disk, acknowledge=False) as (tuner, restart):
        spooled, epochs = set(), set()
        for _ in range(3):
            with Agent(tmp_path, tuner.address) as agent:
                agent.until(lambda: agent.number("fabric_agent_spool_items_total") > 10, "items")
                agent.end(signal.SIGKILL)
            spooled |= agent.spooled()
        restart()
        with Agent(tmp_path, tuner.address) as agent:
            disk.wait(lambda: spooled <= set(disk.items))
            disk.wait(lambda: len({key.epoch for key in disk.items}) == 4)
            assert agent.end() == 0
        epochs = {key.epoch for key in spooled}
        assert len(epochs) == 3
        check_whole(disk, epochs | {disk.hellos[-1].epoch})
        assert [path.name for path in agent.spool.iterdir()] == ["lock"]


def test_kill_of_the_tuner_loses_and_doubles_nothing(tmp_path):
    disk = Disk()
    with restarting(disk) as (tuner, restart), Agent(tmp_path, tuner.address) as agent:
        for count in (10, 40, 80):
            disk.wait(lambda count=count: len(disk.items) > count)
            restart()
        disk.wait(lambda: len(disk.items) > 120)
        assert agent.end() == 0
        check_whole(disk, {disk.hellos[0].epoch})
        assert agent.spooled() == set()


def test_tuner_unreachable_the_rest_goes_on(tmp_path):
    with Agent(tmp_path, f"127.0.0.1:{free_port()}") as agent:
        agent.until(lambda: agent.number("fabric_agent_spool_items_total") > 5, "items")
        found = agent.metrics()
        assert found["fabric_agent_uplink_connected"] == "0.0"
        assert float(found["fabric_agent_spool_bytes"]) > 0
        assert 'fabric_interface_rx_bytes_total{netdev="lo"}' in found
        began = time.monotonic()
        assert agent.end() == 0
        assert time.monotonic() - began < 15
        log = agent.log.read_text()
        assert log.count("UNAVAILABLE") == 1  # said once, not each time
        assert "they wait in the spool" in log
        assert len(agent.spooled()) > 5


def test_duplicate_name_ends_with_one_clear_line(tmp_path):
    from tests.agent.test_uplink import duplicate

    with FakeTuner(refuse=duplicate) as tuner, Agent(tmp_path, tuner.address) as agent:
        assert agent.process.wait(20) == 1
        last = agent.log.read_text().splitlines()[-1]
        assert last.endswith(f"CRITICAL tuner {tuner.address}: another agent is called 'a'")


def test_port_in_use_is_one_clear_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        metrics = {"address": "127.0.0.1", "port": port}
        with Agent(tmp_path, metrics=metrics) as agent:
            assert agent.process.wait(20) == 1
            lines = agent.log.read_text().splitlines()
    where = f"metrics listener 127.0.0.1:{port}: bind: Address already in use"
    assert lines == [f"fabric-agent: {where}; set metrics.port to a free one"]


def test_spool_that_cannot_be_used_is_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("")
    uplink = {"tuner": "127.0.0.1:1", "spool": str(tmp_path / "file/spool")}
    with Agent(tmp_path, uplink=uplink) as agent:
        assert agent.process.wait(20) == 1
        assert agent.log.read_text() == (
            f"fabric-agent: {tmp_path}/file/spool: open spool: Not a directory\n"
        )


def test_full_disk_under_the_spool_costs_nothing_but_is_counted(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    probe = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", str(disk)], capture_output=True
    )
    if probe.returncode:
        pytest.skip("needs root to mount a small file system")
    # A file system of 64 KiB, in a mount namespace of its own; its filler is deleted later on.
    script = (
        f"mount -t tmpfs -o size=64k tmpfs {disk} || exit 9; "
        f"head -c 65536 /dev/zero > {disk}/filler 2>/dev/null; "
        f"(while [ ! -e {tmp_path}/free ]; do sleep 0.1; done; rm {disk}/filler) & "
        f'exec "$@"'
    )
    command = ["unshare", "-m", "sh", "-c", script, "sh", *PROGRAM]
    # The tuner is away at first, so that everything has to wait.
    port = free_port()
    uplink = {"tuner": f"127.0.0.1:{port}", "spool": str(disk / "spool")}
    with Agent(tmp_path / "a", command=command, uplink=uplink) as agent:
        agent.until(lambda: agent.number("fabric_agent_spool_write_errors_total") > 5, "errors")
        assert "No space left on device" in agent.log.read_text()
        (tmp_path / "free").touch()
        agent.until(lambda: "takes data again" in agent.log.read_text(), "room")
        with FakeTuner(port=port) as tuner:
            tuner.disk.wait(lambda: len(tuner.disk.items) > 30)
            assert agent.end() == 0
            check_whole(tuner.disk, {tuner.disk.hellos[0].epoch})


def test_service_manager_is_told(tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(20)
        env = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "1000000"}
        with Agent(tmp_path, env=env) as agent:
            assert manager.recv(4096).decode().startswith("READY=1\nSTATUS=")
            began = time.monotonic()
            assert [manager.recv(4096) for _ in range(4)] == [b"WATCHDOG=1"] * 4
            assert time.monotonic() - began < 4  # twice in each time-out
            assert agent.end() == 0
            rest = []
            while not rest or not rest[-1].startswith("STOPPING=1"):
                rest.append(manager.recv(4096).decode())


def test_sigterm_during_a_slow_start_stops_it(tmp_path):
    with Agent(tmp_path) as agent:
        time.sleep(0.05)
        assert agent.end() in (0, -signal.SIGTERM)


def test_excluded_device_is_not_opened_at_all(tmp_path):
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    sysfs = tmp_path / "sys"
    for name in ("mlx5_0", "mlx5_12"):
        port = sysfs / "class/infiniband" / name / "ports/1"
        (port / "counters").mkdir(parents=True)
        (port / "counters/port_rcv_data").write_text("1\n")
        (port / "state").write_text("4: ACTIVE\n")
    config = tmp_path / "agent.yaml"
    config.write_text(
        f"paths: {{sysfs: {sysfs}}}\ndevices: {{exclude: ['mlx5_(12|13)']}}\n"
        "collectors: {verbs: {on: off}, hw_counters: {on: off}}\n"
    )
    trace = tmp_path / "trace"
    command = [strace, "-f", "-e", "trace=file,getdents64", "-o", str(trace), *PROGRAM]
    answer = subprocess.run(
        [*command, "once", "--config", str(config), "--format", "json"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert answer.returncode == 0, answer.stderr
    touched = trace.read_text()
    assert "mlx5_0" in touched
    assert "mlx5_12" not in touched
    assert "mlx5_0" in answer.stdout
    assert "mlx5_12" not in answer.stdout

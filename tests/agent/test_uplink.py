"""The uplink against a tuner that acknowledges, refuses, dies, forgets and comes back."""

import subprocess
import threading
import time

import grpc
import pytest

from agent import uplink as uplink_module
from agent.config import Uplink, UplinkTls
from agent.spool import Spool
from agent.uplink import Sender
from collectors.model.errors import ConfigInvalid
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.pack import key_of
from tests.agent.fake_tuner import Disk, FakeTuner, restarting
from tests.agent.test_spool import facts, packed


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(uplink_module, "_PAUSE_LEAST_S", 0.05)
    monkeypatch.setattr(uplink_module, "_PAUSE_MOST_S", 0.2)
    monkeypatch.setattr(uplink_module, "_REFUSED_PAUSE_S", 0.3)
    monkeypatch.setattr(uplink_module, "_GREETING_S", 0.3)


class Agent:
    """A spool and a sender; what the daemon would make of them."""

    def __init__(self, folder, tuner, **options):
        hello = pb.Hello(wire_version=1, agent="a", boot_id="b", software="test")
        self.spool = Spool(folder, 64 << 20, hello)
        self.fatal, self.amnesia = [], []
        self.sender = Sender(
            Uplink(tuner, **options),
            self.spool,
            self.fatal.append,
            lambda: self.amnesia.append(1),
        )
        self.sender.start()

    @property
    def epoch(self):
        return self.spool.current.name

    def append(self, count):
        for _ in range(count):
            self.spool.append(packed(self.spool.current.last))

    def crash(self):
        """Stop at once, leaving the spool as a kill would."""
        self.sender._stop.set()
        self.sender._thread.join(5)
        self.spool._lock_file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sender.stop(0)
        self.spool.close()


def complete(disk, agent, count):
    return disk.stored(agent.epoch) == [(agent.epoch, n) for n in range(1, count + 1)]


def test_everything_arrives_once_and_the_spool_empties(tmp_path):
    with FakeTuner() as tuner, Agent(tmp_path, tuner.address) as agent:
        agent.append(100)
        agent.spool.append(facts(1))
        tuner.disk.wait(lambda: complete(tuner.disk, agent, 101))
        assert agent.sender.stop(5)
        assert set(tuner.disk.came.values()) == {1}
        assert agent.spool.waiting() == 0
        assert agent.sender.state.sent == 101
        assert tuner.disk.hellos[0].software == "test"


def test_tuner_that_is_not_there_yet(tmp_path):
    with FakeTuner() as gone:
        port = gone.port
    with Agent(tmp_path, f"127.0.0.1:{port}") as agent:
        agent.append(10)
        time.sleep(0.3)
        assert "UNAVAILABLE" in agent.sender.state.error
        assert not agent.sender.state.connected
        with FakeTuner(port=port) as tuner:
            tuner.disk.wait(lambda: complete(tuner.disk, agent, 10))
            assert agent.sender.state.connected
            assert agent.sender.state.error == ""


def test_tuner_killed_under_load(tmp_path):
    disk = Disk()
    with restarting(disk) as (tuner, restart), Agent(tmp_path, tuner.address) as agent:
        for _ in range(4):
            agent.append(50)
            time.sleep(0.05)
            restart()
            agent.append(50)
        disk.wait(lambda: complete(disk, agent, 400))
        assert agent.sender.stop(5)
        assert agent.spool.dropped == 0


def test_resend_begins_after_the_acknowledged(tmp_path):
    disk = Disk()
    with restarting(disk) as (tuner, restart), Agent(tmp_path, tuner.address) as agent:
        agent.append(20)
        disk.wait(lambda: complete(disk, agent, 20))
        restart()
        agent.append(5)
        disk.wait(lambda: complete(disk, agent, 25))
        assert set(disk.came.values()) == {1}


def test_stream_that_breaks_resends_what_was_not_acknowledged(tmp_path):
    disk = Disk()
    with (
        restarting(disk, die_after=3, acknowledge=False) as (tuner, restart),
        Agent(tmp_path, tuner.address) as agent,
    ):
        agent.append(5)
        disk.wait(lambda: max(disk.came.values(), default=0) >= 2)
        restart()
        disk.wait(lambda: disk.top.get(("a", agent.epoch)) == 5)
        assert complete(disk, agent, 5)


def test_agent_crash_delivers_the_spool_then_goes_on(tmp_path):
    disk = Disk()
    with restarting(disk, acknowledge=False) as (tuner, restart):
        first = Agent(tmp_path, tuner.address)
        first.append(30)
        disk.wait(lambda: len(disk.items) == 30)  # arrived, but nothing acknowledged
        first.crash()
        restart()
        with Agent(tmp_path, tuner.address) as second:
            second.append(3)
            disk.wait(lambda: complete(disk, first, 30) and complete(disk, second, 3))
            disk.wait(lambda: disk.top[("a", first.epoch)] == 30)
            assert second.sender.stop(5)
            assert second.epoch != first.epoch
            epochs = [hello.epoch for hello in disk.hellos]
            assert epochs.index(second.epoch) > epochs.index(first.epoch)
    assert [p.name for p in tmp_path.iterdir()] == ["lock"]


def test_tuner_that_does_not_greet(tmp_path):
    with FakeTuner(greet=False) as tuner, Agent(tmp_path, tuner.address) as agent:
        agent.append(5)
        tuner.disk.wait(lambda: complete(tuner.disk, agent, 5))


def test_item_refused_for_good_is_skipped_and_counted(tmp_path):
    def refuse(item):
        key = key_of(item)
        if key and key.seq == 3:
            return pb.Answer(
                epoch=key.epoch, acknowledged=2, refused="malformed", permanent=True, refused_seq=3
            )
        return None

    with FakeTuner(refuse=refuse) as tuner, Agent(tmp_path, tuner.address) as agent:
        agent.append(6)
        tuner.disk.wait(lambda: (agent.epoch, 6) in tuner.disk.stored())
        assert [seq for _, seq in tuner.disk.stored()] == [1, 2, 4, 5, 6]
        assert agent.sender.state.refused_items == 1
        assert agent.sender.stop(5)
        assert not agent.fatal


def test_passing_refusal_is_tried_again(tmp_path):
    times = []

    def refuse(item):
        key = key_of(item)
        if key and key.seq == 2 and len(times) < 3:
            times.append(1)
            return pb.Answer(epoch=key.epoch, refused="disk full", refused_seq=2)
        return None

    with FakeTuner(refuse=refuse) as tuner, Agent(tmp_path, tuner.address) as agent:
        agent.append(3)
        tuner.disk.wait(lambda: complete(tuner.disk, agent, 3))
        assert len(times) == 3
        assert agent.sender.state.refused_items == 0


def duplicate(item):
    if item.HasField("hello"):
        return pb.Answer(refused="another agent is called 'a'", permanent=True)
    return None


def test_duplicate_name_at_the_start_is_fatal(tmp_path):
    with FakeTuner(refuse=duplicate) as tuner, Agent(tmp_path, tuner.address) as agent:
        agent.append(1)
        end = time.monotonic() + 10
        while not agent.fatal and time.monotonic() < end:
            time.sleep(0.01)
        assert agent.fatal == [f"{tuner.address}: another agent is called 'a'"]


def test_refusal_later_on_is_waited_out(tmp_path):
    disk = Disk()
    with restarting(disk) as (tuner, restart), Agent(tmp_path, tuner.address) as agent:
        agent.append(2)
        disk.wait(lambda: complete(disk, agent, 2))
        restart(refuse=duplicate)
        agent.append(2)
        end = time.monotonic() + 10
        while not agent.sender.state.refused and time.monotonic() < end:
            time.sleep(0.01)
        assert agent.sender.state.refused == "another agent is called 'a'"
        assert not agent.fatal
        restart()
        disk.wait(lambda: complete(disk, agent, 4))
        assert agent.sender.state.refused == ""


def test_tuner_that_lost_its_disk_is_noticed(tmp_path):
    disk = Disk()
    with restarting(disk) as (tuner, restart), Agent(tmp_path, tuner.address) as agent:
        agent.append(10)
        disk.wait(lambda: complete(disk, agent, 10))
        with disk.lock:
            disk.items.clear()
            disk.top.clear()
        restart()
        agent.append(1)
        disk.wait(lambda: (agent.epoch, 11) in disk.stored())
        assert agent.amnesia


def test_silent_tuner_gets_a_new_stream(tmp_path, monkeypatch):
    monkeypatch.setattr(uplink_module, "_STALL_S", 0.5)
    with FakeTuner(acknowledge=False) as tuner, Agent(tmp_path, tuner.address) as agent:
        agent.append(1)
        tuner.disk.wait(lambda: len(tuner.disk.hellos) >= 2)


def test_stop_is_bounded_when_the_tuner_is_silent(tmp_path):
    with FakeTuner(acknowledge=False) as tuner, Agent(tmp_path, tuner.address) as agent:
        agent.append(1)
        tuner.disk.wait(lambda: len(tuner.disk.items) == 1)
        began = time.monotonic()
        assert not agent.sender.stop(0.5)
        assert time.monotonic() - began < 8
        assert not agent.sender._thread.is_alive()


def test_no_thread_is_left_behind(tmp_path):
    before = {t.name for t in threading.enumerate()}
    with FakeTuner() as tuner:
        for n in range(3):
            with Agent(tmp_path / str(n), tuner.address) as agent:
                agent.append(5)
                assert agent.sender.stop(5)
    names = [t.name for t in threading.enumerate() if t.name not in before]
    assert "uplink" not in names


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    command = [
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"),
        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
    ]  # fmt: skip
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return folder


def test_tls_both_ways(tmp_path, certificate):
    cert, key = (certificate / name for name in ("cert.pem", "key.pem"))
    credentials = grpc.ssl_server_credentials(
        [(key.read_bytes(), cert.read_bytes())], cert.read_bytes(), require_client_auth=True
    )
    with FakeTuner(credentials=credentials) as tuner:
        with Agent(tmp_path / "no", tuner.address) as agent:
            agent.append(1)
            time.sleep(0.5)
            assert not tuner.disk.items
        tls = UplinkTls(ca=str(cert), cert=str(cert), key=str(key))
        with Agent(tmp_path / "yes", tuner.address, tls=tls) as agent:
            agent.append(1)
            tuner.disk.wait(lambda: complete(tuner.disk, agent, 1))


def test_missing_tls_file_is_one_clear_error(tmp_path):
    with pytest.raises(ConfigInvalid, match=r"uplink\.tls\.ca: tls file /none/ca: No such file"):
        Agent(tmp_path, "127.0.0.1:1", tls=UplinkTls(ca="/none/ca"))

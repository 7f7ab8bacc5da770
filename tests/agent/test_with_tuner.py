"""Agent and tuner as processes: whichever is killed, nothing is lost and nothing counted twice."""

import json
import os
import signal
import subprocess
import sys
import time

from collectors.wire.pack import key_of
from collectors.wire.recording import read_recording
from simlab.loopback import free_port
from tests.agent.test_run import ROOT, Agent

TUNER = [sys.executable, "-c", "from tuner.cli.main import app; app()"]
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}


class Tuner:
    def __init__(self, folder):
        self.folder, self.address = folder, f"127.0.0.1:{free_port()}"
        self.log = (folder / "tuner.log").open("ab")
        self.start()

    def start(self):
        command = ["serve", "--listen", self.address, "--data", str(self.folder / "store")]
        self.process = subprocess.Popen(
            [*TUNER, *command, "--metrics", "off"], env=ENV, stderr=self.log
        )

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def tuner(self, *args):
        return subprocess.run(
            [*TUNER, *args, "--tuner", self.address], env=ENV, capture_output=True, text=True
        )

    def until_known(self, agent, count):
        """Wait until the tuner acknowledged so much of the agent's present run."""
        name = "fabric_agent_uplink_acknowledged_items_total"
        agent.until(lambda: agent.number(name) >= count, f"acknowledgement of {count}", 60)


def test_kill_either_lose_nothing(tmp_path):
    tuner = Tuner(tmp_path)
    try:
        with Agent(tmp_path / "a", tuner.address) as agent:
            tuner.until_known(agent, 20)
            tuner.kill()
            agent.until(lambda: agent.number("fabric_agent_uplink_connected") == 0, "outage")
            tuner.start()
            tuner.until_known(agent, 60)
            tuner.kill()
            time.sleep(0.5)
            agent.end(signal.SIGKILL)  # now both are dead; what is on either's disk must do
        left = agent.spooled()
        assert left
        tuner.start()
        with Agent(tmp_path / "a", tuner.address) as agent:
            tuner.until_known(agent, 20)
            assert agent.end() == 0
        assert agent.spooled() == set()
        status = json.loads(tuner.tuner("status", "--format", "json").stdout)
        (row,) = status["agents"]
        assert row["missing"] == 0
        answer = tuner.tuner("record", "--out", str(tmp_path / "rec"), "--since", "1h")
        assert answer.returncode == 0, answer.stderr
        keys = [key_of(item) for item in read_recording(tmp_path / "rec") if key_of(item)]
        assert len(keys) == len(set(keys))
        assert left <= set(keys)
        epochs = {key.epoch for key in keys}
        assert len(epochs) == 2
        for epoch in epochs:
            numbers = sorted(key.seq for key in keys if key.epoch == epoch)
            assert numbers == list(range(1, len(numbers) + 1))
    finally:
        tuner.kill()


def test_second_agent_of_a_name_is_told_and_the_first_goes_on(tmp_path):
    tuner = Tuner(tmp_path)
    try:
        with Agent(tmp_path / "a", tuner.address) as first:
            tuner.until_known(first, 5)
            with Agent(tmp_path / "b", tuner.address) as second:
                assert second.process.wait(30) == 1
                assert "names must be unique" in second.log.read_text().splitlines()[-1]
            before = first.number("fabric_agent_uplink_acknowledged_items_total")
            tuner.until_known(first, before + 5)
    finally:
        tuner.kill()

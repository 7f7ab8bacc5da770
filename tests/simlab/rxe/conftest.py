"""One boot of the Soft-RoCE lab serves all its tests: booting is what costs."""

import json
import time
from dataclasses import dataclass

import pytest

from simlab.demo import Tuner
from simlab.rxe.agents import start_agents, stop_agents, wait_for_agents
from simlab.rxe.lab import Lab, RunReport
from simlab.rxe.machine import why_not
from simlab.rxe.scenario import read_scenario

SECONDS = 10.0
SETTLE_S = 4.0  # agents read every two seconds; under emulation a pass takes its time


@pytest.fixture(scope="session")
def lab():
    reason = why_not()
    if reason is not None:
        pytest.skip(f"Soft-RoCE lab: {reason}")
    with Lab(4) as running:
        yield running


@dataclass
class Product:
    """Tuner and agents."""

    lab: Lab
    tuner: Tuner

    def run(self, name: str) -> RunReport:
        self.lab.apply(read_scenario(name))
        time.sleep(SETTLE_S)  # the change of the settings is no part of the run
        report = self.lab.run_traffic(SECONDS)
        time.sleep(SETTLE_S)
        return report

    def suggest(self, name: str) -> tuple[int, dict]:
        began = time.monotonic()
        self.run(name)
        span = time.monotonic() - began - SETTLE_S
        shown = self.tuner.run("suggest", "--since", f"{span:.0f}s", "--format", "json")
        assert shown.returncode in (0, 3), shown.stderr
        return shown.returncode, json.loads(shown.stdout)

    def status(self) -> dict[str, dict]:
        shown = self.tuner.run("status", "--format", "json")
        assert shown.returncode == 0, shown.stderr
        return {agent["agent"]: agent for agent in json.loads(shown.stdout)["agents"]}


@pytest.fixture(scope="session")
def product(lab, tmp_path_factory):
    tuner = Tuner(tmp_path_factory.mktemp("tuner") / "data")
    try:
        tuner.start()
        lab.apply(read_scenario("healthy"))
        start_agents(lab, tuner.address)
        wait_for_agents(lab)
        yield Product(lab, tuner)
        stop_agents(lab)
    finally:
        tuner.stop()

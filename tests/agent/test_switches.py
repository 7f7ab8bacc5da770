"""Switches in the agent: the inventory becomes collectors, `targets test`, no secret anywhere."""

import asyncio
import json
import threading
from contextlib import contextmanager

import pytest
import yaml
from typer.testing import CliRunner

from agent.commands import app
from agent.config import parse_config
from agent.once import read_once
from agent.sources import jobs
from collectors.model.reading import Instant
from simlab.loopback import free_port
from simlab.switches.gnmi_face import GnmiFace
from simlab.switches.gnmi_target import GnmiFaults, GnmiTarget
from simlab.switches.snmp_agent import SnmpAgent
from simlab.switches.snmp_face import SnmpFace
from simlab.switches.state import SwitchState

COMMUNITY, PASSWORD = "c0mmunity-in-hiding", "passw0rd-in-hiding"


@contextmanager
def lab(folder):
    """Two EOS switches, one of them silent over SNMP; yields the inventory file."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def call(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(10)

    async def start(name):
        state = SwitchState(name, "eos", 2)
        state.run(1.0)
        face = SnmpFace(state)
        face.mib.community = COMMUNITY
        agent = SnmpAgent(face.mib)
        target = GnmiTarget(GnmiFace(state), GnmiFaults(user=("ann", PASSWORD)))
        return agent, target, await agent.listen(), await target.listen()

    rows = [call(start(name)) for name in ("leaf1", "leaf2")]
    rows[1][0].faults.silent = True
    inventory = {
        "interval": 2,
        "credentials": {
            "snmp": {"community_env": "LAB_COMMUNITY"},
            "gnmi": {"user": "ann", "password_env": "LAB_PASSWORD"},
        },
        "targets": [
            {
                "name": name, "address": "127.0.0.1", "platform": "eos",
                "snmp": {"credentials": "snmp", "port": snmp, "timeout": 0.3, "repeats": 0},
                "gnmi": {"credentials": "gnmi", "port": gnmi},
            }
            for name, (_, _, snmp, gnmi) in zip(("leaf1", "leaf2"), rows, strict=True)
        ],
    }  # fmt: skip
    file = folder / "targets.yaml"
    file.write_text(yaml.safe_dump(inventory))
    try:
        yield file
    finally:

        async def stop():
            for agent, target, _, _ in rows:
                agent.close()
                await target.close()

        call(stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


@pytest.fixture
def inventory(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_COMMUNITY", COMMUNITY)
    monkeypatch.setenv("LAB_PASSWORD", PASSWORD)
    with lab(tmp_path) as file:
        yield file


def test_targets_test_says_what_answers_and_what_is_supported(inventory):
    result = CliRunner().invoke(app, ["targets", "test", str(inventory), "--format", "json"])
    rows = {(row["target"], row["transport"]): row for row in json.loads(result.stdout)}
    assert result.exit_code == 1  # leaf2 is silent over SNMP
    assert rows["leaf1", "snmp"]["answers"]
    assert rows["leaf1", "snmp"]["pfc"]
    assert rows["leaf1", "snmp"]["ecn"]
    assert not rows["leaf2", "snmp"]["answers"]
    assert "no answer" in rows["leaf2", "snmp"]["error"]
    assert rows["leaf2", "gnmi"]["pfc"]
    assert COMMUNITY not in result.output
    assert PASSWORD not in result.output


def test_targets_test_as_a_table_fits(inventory):
    result = CliRunner().invoke(app, ["targets", "test", str(inventory), "--name", "leaf1"])
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_the_agent_reads_switches_beside_its_host(inventory):
    config = parse_config("agent: mgmt1\nswitches: {inventory: targets.yaml}", "x")
    planned = [job for job in jobs(config, str(inventory)) if job.name.startswith("switch_")]
    assert {job.name for job in planned} == {"switch_snmp", "switch_gnmi"}
    outcomes = {outcome.collector: outcome for outcome in read_once(config, tuple(planned))}
    for name in ("switch_snmp", "switch_gnmi"):
        assert outcomes[name].success, outcomes[name].error
    pfc = [
        (str(reading.entity), column.metric)
        for outcome in outcomes.values()
        for reading in outcome.readings
        for column in reading.values
        if column.metric == "fabric_pfc_rx_frames_total"
    ]
    assert len(pfc) >= 2 * 2 * 8 // 2
    assert not any(
        PASSWORD in str(outcome) or COMMUNITY in str(outcome) for outcome in outcomes.values()
    )


@pytest.mark.parametrize("by", ["otlp", "gnmi_dialout"])
def test_the_agent_takes_what_the_inventorys_switches_push(inventory, by):
    """A switch that is to push and does not is a gap."""
    rows = yaml.safe_load(inventory.read_text())
    rows["targets"][0]["pushes"] = [by]
    inventory.write_text(yaml.safe_dump(rows))
    text = "agent: mgmt1\nswitches: {inventory: targets.yaml}\n"
    text += f"{by}: {{address: 127.0.0.1, port: {free_port()}, interval: 5}}"
    (job,) = [job for job in jobs(parse_config(text, "x"), str(inventory)) if job.name == by]
    assert job.interval_s == 5
    receiver = job.build()
    try:
        later = receiver._clock().mono_ns + 60 * 10**9
        result = receiver.read(lambda: Instant(0, later))
        assert [(gap.subject, gap.reason) for gap in result.gaps] == [("switch/leaf1", "silent")]
    finally:
        receiver.close()

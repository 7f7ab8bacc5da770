"""Switches fed by the packet simulator: both ends of every link, and three ways to read one."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from collectors.gnmi.client import Dial
from collectors.gnmi.subscriber import Options as GnmiOptions
from collectors.gnmi.subscriber import Subscriber
from collectors.model.entities import Netdev, Port, Slot, Switch
from collectors.snmp.poller import SnmpPoller
from collectors.snmp.session import Community, Endpoint
from collectors.sonic.database import Database
from collectors.sonic.poller import Options as SonicOptions
from collectors.sonic.poller import SonicPoller
from collectors.targets.secret import Secret
from simlab.cli import app
from simlab.packet.config import plan_of
from simlab.switches.daemons import DaemonFailed, redis_server
from simlab.switches.lab import Lab
from simlab.switches.packet_feed import PacketFeed
from simlab.switches.state import port_alias, port_name
from tests.collectors.passes import clock, values

SCENARIO = {
    "name": "storm",
    "duration_s": 0.004,
    "stop_when_done": False,
    "topology": {"kind": "leaf_spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 4},
    "workload": {"kind": "incast", "receiver": 7, "size_bytes": 1_000_000},
    "model": {
        "congestion": {"profile": "nvidia_firmware"},
        "switch": {
            "buffer_bytes": 4_000_000,
            "pause_s": 5.0e-6,
            "ecn": [
                {
                    "rate_bps": 100e9,
                    "thresholds": {"kmin_bytes": 100e3, "kmax_bytes": 400e3, "pmax_ratio": 0.2},
                }
            ],
        },
    },
    "telemetry": {"interval_s": 0.0005, "switch_refresh_s": 0.001},
}
PFC = ("fabric_pfc_rx_frames_total", "fabric_pfc_tx_frames_total")
BYTES = ("fabric_interface_rx_bytes_total", "fabric_interface_tx_bytes_total")


@pytest.fixture(scope="module")
def drained():
    """A feed after its storm, when nothing is on the wire any more."""
    made = PacketFeed(plan_of(SCENARIO, "scenario", Path()), "sonic")
    while made.running:
        made.advance(made.step_s)
    assert made.sim.done
    return made


def host_values(feed):
    """Return what the agents on the hosts would have read, by (node, metric, priority)."""
    found = {}
    names = feed.telemetry.names
    nodes = {names.port(node): node for node in feed.sim.topology.hosts}
    nodes |= {names.netdev(node): node for node in feed.sim.topology.hosts}
    readings = [reading for one in feed.telemetry.passes() for reading in one.seen.readings]
    for reading in readings:
        slot = reading.entity if isinstance(reading.entity, Slot) else None
        end = slot.parent if slot else reading.entity
        for column, value in reading.values.items() if isinstance(end, (Port, Netdev)) else ():
            key = (nodes[end], column.metric, slot.index if slot else None)
            found[key] = column.to_unit(value)
    return found


@pytest.mark.lab_switch
def test_three_ways_and_both_ends_of_every_link(drained, tmp_path):
    """SNMP, gNMI and Redis agree to the frame; what a host sends its switch receives, and back."""
    states = list(drained.states.values())

    async def read(redis_port):
        lab = Lab(1, "sonic", redis_ports=(redis_port,), feed=drained)
        await lab.up()
        first = lab.switches[0]
        who = Switch(states[0].name)
        snmp = [
            SnmpPoller(
                Switch(switch.state.name), "sonic",
                Endpoint("127.0.0.1", Community(Secret("public")), switch.snmp_port, 10.0),
            )
            for switch in lab.switches
        ]  # fmt: skip
        aliases = {
            port_alias("sonic", n): port_name("sonic", n) for n in range(1, states[0].ports + 1)
        }
        gnmi = Subscriber(
            who, "sonic", Dial("127.0.0.1", first.gnmi_port),
            GnmiOptions(lambda _: True, interval_s=1.0, first_s=20.0, aliases=aliases),
        )  # fmt: skip
        database = Database(states[0].name, "127.0.0.1", redis_port)
        sonic = SonicPoller(who, database, SonicOptions(lambda _: True))
        over_snmp = [await poller.poll(clock) for poller in snmp]
        others = [await gnmi.poll(clock), await sonic.poll(clock)]
        for poller in snmp:
            poller.close()
        await gnmi.close()
        await sonic.close()
        await lab.down()
        return over_snmp, others

    try:
        with redis_server(tmp_path) as redis_port:
            over_snmp, (over_gnmi, from_redis) = asyncio.run(read(redis_port))
    except DaemonFailed as lack:
        pytest.skip(str(lack))

    # One switch, three ways; SNMP of SONiC shows the vendor's names of ports.
    def renamed(result):
        found = {}
        for (entity, metric), value in values(result).items():
            if metric in (*PFC, *BYTES):
                head, _, name = entity.rpartition("/")
                number = name.removeprefix("etp")
                own = port_name("sonic", int(number)) if number != name else name
                found[f"{head}/{own}", metric] = value
        return found

    three = [renamed(one) for one in (over_snmp[0], over_gnmi, from_redis)]
    assert three[0] == three[1] == three[2]
    assert sum(value for (_, metric), value in three[0].items() if metric in PFC) > 0

    # Every link, both ends.
    switch_values = {}
    for result in over_snmp:
        switch_values |= renamed(result)
    hosts = host_values(drained)
    topology, names = drained.sim.topology, drained.telemetry.names
    frames = checked = 0
    for port in range(2 * len(topology.cables)):
        if topology.end(port) not in topology.switches:
            continue
        end = f"interface/{names.interface(port).switch.name}/{names.interface(port).name}"
        far = topology.peer(port)
        if far in topology.switches:
            far_port = names.interface(port ^ 1)
            far_end = f"interface/{far_port.switch.name}/{far_port.name}"
            sent = [switch_values[far_end, metric] for metric in reversed(BYTES)]
            paused = [
                [switch_values[f"priority/{p}/{far_end}", m] for m in reversed(PFC)]
                for p in range(8)
            ]
        else:
            sent = [
                hosts[far, "node_infiniband_port_data_transmitted_bytes_total", None],
                hosts[far, "node_infiniband_port_data_received_bytes_total", None],
            ]
            paused = [[hosts[far, metric, p] for metric in reversed(PFC)] for p in range(8)]
        got = [switch_values[end, metric] for metric in BYTES]
        assert got == pytest.approx(sent, abs=3), end  # a host counts words of four bytes
        for priority in range(8):
            mine = [switch_values[f"priority/{priority}/{end}", metric] for metric in PFC]
            assert mine == paused[priority], (end, priority)
            frames += sum(mine)
        checked += 1
    assert checked == 2 * 4 + 2 * 2 * 2
    assert frames > 100


def test_numbers_move_with_the_simulation():
    feed = PacketFeed(plan_of(SCENARIO, "scenario", Path()), "eos")
    (leaf, *_) = feed.states.values()
    assert sum(leaf.get("tx_bytes", port) for port in range(1, leaf.ports + 1)) == 0
    feed.advance(0.0005)
    first = sum(leaf.get("tx_bytes", port) for port in range(1, leaf.ports + 1))
    feed.advance(0.0005)
    second = sum(leaf.get("tx_bytes", port) for port in range(1, leaf.ports + 1))
    assert 0 < first < second
    feed.advance(1.0)
    assert feed.sim.now_s == pytest.approx(SCENARIO["duration_s"])
    assert not feed.running
    names = {name for _, _, name in leaf.neighbours.values()}
    assert names == {"host0", "host1", "host2", "host3", "spine0", "spine1"}


def test_the_command(tmp_path):
    file = tmp_path / "storm.yaml"
    file.write_text(yaml.safe_dump(SCENARIO))
    argv = [
        sys.executable, "-c", "from simlab.cli import app; app()", "switches", "up",
        "--platform", "eos", "--feed", f"packet:{file}", "--tick", "0.1",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    process = subprocess.Popen(
        argv, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert "4 eos switches up, fed by the packet simulation" in process.stdout.readline()
        inventory = yaml.safe_load((tmp_path / "targets.yaml").read_text())
        assert [row["name"] for row in inventory["targets"]] == [
            "leaf0",
            "leaf1",
            "spine0",
            "spine1",
        ]
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize("feed", ["packet:", "recorded:x", "packet:/nowhere/x.yaml"])
def test_a_feed_that_is_wrong_is_said_so(feed):
    result = CliRunner().invoke(app, ["switches", "up", "--feed", feed])
    assert result.exit_code == 2
    assert "simlab: " in result.output

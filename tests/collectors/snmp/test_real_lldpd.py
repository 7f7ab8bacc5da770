"""LLDP from two real lldpd daemons over a cable, through snmpd's AgentX to our facts."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab_switch

SNMPD = """agentaddress udp:127.0.0.1:1161
rocommunity public default
master agentx
agentXSocket tcp:127.0.0.1:1705
"""
POLL = """
import asyncio, json, time
from collectors.model.entities import Switch
from collectors.model.reading import Instant
from collectors.snmp.poller import Options, SnmpPoller
from collectors.snmp.session import Community, Endpoint
from collectors.targets.secret import Secret
def clock(): return Instant(time.time_ns(), time.monotonic_ns())
async def main():
    endpoint = Endpoint("127.0.0.1", Community(Secret("public")), 1161, 2.0, 1)
    poller = SnmpPoller(Switch("leaf1"), "other", endpoint, Options(relearn_s=0.001))
    for _ in range(80):
        facts = (await poller.poll(clock)).facts
        if facts is not None and facts.neighbours:
            break
        await asyncio.sleep(0.5)
    poller.close()
    chassis = [row.value for row in facts.attributes if row.name == "chassis_id"]
    found = [[row.local.name, row.remote.switch.key, row.remote.switch.name, row.remote.name]
             for row in facts.neighbours]
    print(json.dumps([chassis, found]))
asyncio.run(main())
"""


@pytest.fixture
def folder():
    """A folder that lldpd's unprivileged process can reach, too."""
    with tempfile.TemporaryDirectory(prefix="lldp") as name:
        Path(name).chmod(0o777)
        yield Path(name)


def test_a_neighbour_of_a_real_lldpd(folder):
    path = "/usr/sbin:/usr/bin:/sbin:/bin"
    for program in ("lldpd", "snmpd", "ip"):
        if shutil.which(program, path=path) is None:
            pytest.skip(f"{program} is not installed")
    here, there = (f"lldp{end}{time.time_ns() % 10**6}" for end in "ab")
    if subprocess.run(["ip", "netns", "add", here], capture_output=True).returncode:
        pytest.skip("network namespaces are not allowed here")
    subprocess.run(["ip", "netns", "add", there], check=True)
    (folder / "snmpd.conf").write_text(SNMPD)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    daemons = []

    def within(space, *argv):
        return ["ip", "netns", "exec", space, *argv]

    def start(*argv):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        daemons.append(subprocess.Popen(argv, **quiet))

    try:
        pair = ["type", "veth", "peer", "name", "two", "netns", there]
        subprocess.run(["ip", "-n", here, "link", "add", "one", *pair], check=True)
        for space, link in ((here, "lo"), (here, "one"), (there, "two")):
            subprocess.run(["ip", "-n", space, "link", "set", link, "up"], check=True)
        macs = [
            subprocess.run(
                within(space, "cat", f"/sys/class/net/{link}/address"),
                capture_output=True, text=True, check=True,
            ).stdout.strip()
            for space, link in ((here, "one"), (there, "two"))
        ]  # fmt: skip
        start(*within(here, "snmpd", "-f", "-Ln", "-C", "-c", str(folder / "snmpd.conf"),
                      "-p", str(folder / "pid")))  # fmt: skip
        time.sleep(1)
        start(*within(here, "lldpd", "-d", "-x", "-X", "tcp:127.0.0.1:1705",
                      "-u", str(folder / "a"), "-I", "one"))  # fmt: skip
        start(*within(there, "lldpd", "-d", "-u", str(folder / "b"), "-I", "two"))
        time.sleep(2)
        for end in ("a", "b"):  # send now and often instead of every half minute
            for command in (("configure", "lldp", "tx-interval", "1"), ("update",)):
                argv = ["lldpcli", "-u", str(folder / end), *command]
                subprocess.run(argv, capture_output=True, check=False)
        done = subprocess.run(
            within(here, sys.executable, "-c", POLL),
            capture_output=True, text=True, timeout=90, env=environment, check=False,
        )  # fmt: skip
    finally:
        for daemon in daemons:
            daemon.terminate()
            daemon.wait(10)
        for space in (here, there):
            subprocess.run(["ip", "netns", "del", space], check=False)
    assert done.returncode == 0, done.stderr
    chassis, neighbours = json.loads(done.stdout)
    assert chassis == [macs[0]]
    ((local, key, name, port),) = neighbours
    assert (local, key, port) == ("one", macs[1], macs[1])
    assert name

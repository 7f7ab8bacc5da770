"""Against net-snmp's own agent: the client is not proven by our responder alone."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from collectors.model.entities import Switch
from collectors.model.errors import Denied, Unavailable
from collectors.snmp.poller import Options, SnmpPoller
from collectors.snmp.session import Community, Endpoint, Usm
from collectors.targets.secret import Secret
from collectors.targets.wanted import Wanted
from simlab.switches.daemons import DaemonFailed, snmpd
from tests.collectors.passes import values

from .conftest import Clock

pytestmark = pytest.mark.lab_switch

GOOD = Usm("reader", "sha256", Secret("authentication pass"), "aes", Secret("privacy passphrase"))


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    try:
        with snmpd(tmp_path_factory.mktemp("snmpd")) as port:
            yield port
    except DaemonFailed as lack:
        pytest.skip(str(lack))


def poll(port, credentials):
    async def once():
        options = Options(wanted=Wanted(include=("lo",)))
        endpoint = Endpoint("127.0.0.1", credentials, port, 1.0, 0)
        poller = SnmpPoller(Switch("leaf1"), "other", endpoint, options)
        try:
            return await poller.poll(Clock())
        finally:
            poller.close()

    return asyncio.run(once())


def kernel(name):
    return int(Path(f"/sys/class/net/lo/statistics/{name}").read_text())


@pytest.mark.parametrize("credentials", [Community(Secret("public")), GOOD], ids=["v2c", "v3"])
def test_the_loopback_counts_what_the_kernel_counts(agent, credentials):
    before = kernel("rx_bytes")
    result = poll(agent, credentials)
    after = kernel("rx_bytes")
    got = values(result)
    # snmpd caches the interface table for some seconds
    seen = got["interface/leaf1/lo", "fabric_interface_rx_bytes_total"]
    assert 0 < seen <= after
    assert seen > before / 2
    assert result.facts is not None
    names = {(row.name, row.value) for row in result.facts.attributes}
    assert ("system_name", "leaf1") in names
    assert {row.value for row in result.facts.settings if row.name == "mtu_bytes"} >= {65536}


def test_ethernet_like_pause_of_snmpd_is_read_or_named_as_absent(agent):
    walked = subprocess.run(
        ["snmpbulkwalk", "-v2c", "-c", "public", "-On", f"127.0.0.1:{agent}", "1.3.6.1.2.1.10.7"],
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    result = poll(agent, Community(Secret("public")))
    pauses = [
        column.metric
        for reading in result.readings
        for column in reading.values
        if "pause" in column.metric
    ]
    on_loopback = any(
        line.split()[0].endswith(".1") for line in walked.splitlines() if ".10.7." in line
    )
    assert bool(pauses) == (on_loopback and "10.7.10" in walked)


def test_a_wrong_community_and_a_wrong_password_are_told_apart(agent):
    with pytest.raises(Unavailable, match="community or user"):
        poll(agent, Community(Secret("hunter2")))
    wrong = Usm("reader", "sha256", Secret("not the password"), "aes", Secret("privacy passphrase"))
    with pytest.raises(Denied) as caught:
        poll(agent, wrong)
    assert "not the password" not in str(caught.value)

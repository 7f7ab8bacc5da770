import asyncio
import itertools

import pytest

from collectors.model.entities import Switch
from collectors.model.reading import Instant
from collectors.snmp.poller import Options, SnmpPoller
from collectors.snmp.session import Community, Endpoint
from collectors.targets.secret import Secret
from simlab.switches import ber
from simlab.switches.snmp_agent import SnmpAgent

IF_HC, IF = "1.3.6.1.2.1.31.1.1.1", "1.3.6.1.2.1.2.2.1"


class Clock:
    """Moves one second a look, so that deadlines can be tested without waiting."""

    def __init__(self, step_s=0.0):
        self.ns = itertools.count(10**18, int(step_s * 1e9) or 1)

    def __call__(self):
        now = next(self.ns)
        return Instant(now, now)


def system(mib, up_time=360_000, description="Acme switch"):
    mib.put("1.3.6.1.2.1.1.1.0", ber.OCTETS, description)
    mib.put("1.3.6.1.2.1.1.3.0", ber.TIMETICKS, up_time)
    mib.put("1.3.6.1.2.1.1.5.0", ber.OCTETS, "leaf1")


def port(mib, index, name, rx=0, tx=0, kind=6):
    mib.put(f"{IF_HC}.1.{index}", ber.OCTETS, name)
    mib.put(f"{IF}.3.{index}", ber.INTEGER, kind)
    mib.put(f"{IF_HC}.6.{index}", ber.COUNTER64, rx)
    mib.put(f"{IF_HC}.10.{index}", ber.COUNTER64, tx)
    mib.put(f"{IF_HC}.15.{index}", ber.GAUGE32, 400_000)


class Rig:
    """An agent and a poller on it, driven from plain test functions."""

    def __init__(self, mib, platform="other", **options):
        self.mib, self.agent = mib, SnmpAgent(mib)
        self.platform, self.options = platform, options
        self.loop = asyncio.new_event_loop()
        self.port = self.loop.run_until_complete(self.agent.listen())
        self.poller = self.new_poller()
        self.clock = Clock()

    def new_poller(self, timeout_s=0.2, community="public"):
        endpoint = Endpoint("127.0.0.1", Community(Secret(community)), self.port, timeout_s, 1)
        return SnmpPoller(Switch("leaf1"), self.platform, endpoint, Options(**self.options))

    def poll(self):
        return self.loop.run_until_complete(asyncio.wait_for(self.poller.poll(self.clock), 30))

    def close(self):
        async def shut():
            self.poller.close()
            self.agent.close()

        self.loop.run_until_complete(shut())
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()


@pytest.fixture
def rig():
    rigs = []

    def make(mib, platform="other", **options):
        rigs.append(Rig(mib, platform, **options))
        return rigs[-1]

    yield make
    for made in rigs:
        made.close()

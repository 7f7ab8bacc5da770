import asyncio

import pytest

from collectors.gnmi.client import Dial
from collectors.gnmi.subscriber import Options, Subscriber
from collectors.model.entities import Switch
from collectors.model.errors import FabricError
from simlab.switches.gnmi_face import GnmiFace
from simlab.switches.gnmi_target import GnmiFaults, GnmiTarget
from simlab.switches.state import SwitchState
from tests.collectors.passes import clock


class Rig:
    """A target and a subscriber on it, driven from plain test functions."""

    def __init__(self, platform, faults=None, tls=None, ports=2, **dial):
        self.loop = asyncio.new_event_loop()
        self.state = SwitchState("leaf1", platform.removesuffix("_netq"), ports)
        self.state.run(1.0)
        self.target = GnmiTarget(GnmiFace(self.state), faults or GnmiFaults())
        self.port = self.loop.run_until_complete(self.target.listen(tls=tls))
        self.dial = Dial("127.0.0.1", self.port, timeout_s=5.0, **dial)
        self.platform = platform
        self.subscriber = self.new()

    def new(self, **options):
        settings = {"interval_s": 0.1, "pauses_s": (0.1,), "wants": lambda _name: True} | options
        return Subscriber(Switch("leaf1"), self.platform, self.dial, Options(**settings))

    def run(self, coroutine):
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, 30))

    def poll(self, wait_s=0.0):
        async def once():
            if wait_s:
                await asyncio.sleep(wait_s)
            return await self.subscriber.poll(clock)

        return self.run(once())

    def close(self):
        self.run(self.subscriber.close())
        self.run(self.target.close())
        self.loop.close()


@pytest.fixture
def rig():
    rigs = []

    def make(*args, **kwargs):
        rigs.append(Rig(*args, **kwargs))
        return rigs[-1]

    yield make
    for made in rigs:
        made.close()


def first_error(made, polls=20):
    """Return the first error that polling meets, None where there is none."""
    for _ in range(polls):
        try:
            made.poll(wait_s=0.1)
        except FabricError as error:
            return error
    return None

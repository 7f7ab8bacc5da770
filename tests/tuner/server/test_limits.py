"""How much agents may ask of the tuner: names, and schemas of one agent. One clear refusal each."""

import pytest

from collectors.model.entities import Device, Port
from collectors.model.errors import ConfigInvalid
from collectors.model.reading import Reading
from tests.tuner.builders import START_NS, Uplink, at
from tests.tuner.server.test_service import COUNTER, Client, batch, run, served
from tuner.server.config import Peers, parse_config
from tuner.server.metrics import Meter


def of_port(up, number):
    """Return the items of a batch with a schema of its own."""
    port = Port(Device(up.agent, "0000:01:00.0"), number)
    return up.batch([Reading(port, {COUNTER: number}, at(number))])


def refusals(tuner):
    """Return limit -> count as /metrics has it."""
    meter = Meter(
        tuner.store,
        lambda: START_NS,
        lambda: tuner.service.connected,
        lambda: "",
        lambda: tuner.service.over_limit,
    )
    name = "fabric_tuner_limit_refusals"
    (family,) = [family for family in meter.registry.collect() if family.name == name]
    return {sample.labels["limit"]: sample.value for sample in family.samples}


def test_one_agent_too_many_is_refused_and_counted_and_the_known_go_on(tmp_path):
    async def scene():
        async with served(tmp_path, limits=Peers(agents=1)) as tuner:
            first, second = Client(tuner.stub), Client(tuner.stub, agent="node2")
            assert not (await first.open()).refused
            up = Uplink()
            await first.send(batch(up, 0))
            await first.acknowledged(1)
            answer = await second.open()
            assert "takes 1 agents" in answer.refused
            assert "raise limits.agents" in answer.refused
            assert not answer.permanent  # it may come again once there is room
            assert await second.answer() is None
            assert refusals(tuner) == {"agents": 1, "schemas": 0}
            await first.send(batch(up, 1))
            await first.acknowledged(2)
            first.done()
            assert await first.answer() is None
            again = Client(tuner.stub)
            assert (await again.open()).acknowledged == 2

    run(scene())


def test_a_name_that_never_brought_anything_makes_room(tmp_path):
    async def scene():
        async with served(tmp_path, limits=Peers(agents=1)) as tuner:
            silent = Client(tuner.stub, agent="silent")
            await silent.open()
            assert (await Client(tuner.stub, agent="node1").open()).refused  # it is connected
            silent.done()
            assert await silent.answer() is None
            assert not (await Client(tuner.stub, agent="node1").open()).refused

    run(scene())


def test_a_schema_too_many_ends_the_stream_and_counts(tmp_path):
    async def scene():
        async with served(tmp_path, limits=Peers(schemas=2)) as tuner:
            up, client = Uplink(), Client(tuner.stub)
            await client.open()
            for number in (1, 2, 1, 2):
                await client.send(of_port(up, number))
            await client.acknowledged(4)
            await client.send(of_port(up, 3))
            answer = await client.answer()
            assert "more than 2 schemas of one agent" in answer.refused
            assert not answer.permanent
            assert await client.answer() is None
            assert refusals(tuner) == {"agents": 0, "schemas": 1}
            # Schemas that nobody used for two hours make room.
            tuner.store.memory._schemas.clear()
            again, later = Client(tuner.stub), Uplink(epoch="e2")
            again.hello.epoch = "e2"
            await again.open()
            await again.send(of_port(later, 3))
            await again.acknowledged(1)

    run(scene())


@pytest.mark.parametrize("text", ["limits: {agents: 0}", "limits: {schemas: -1}", "limits: {a: 1}"])
def test_limits_are_checked(text):
    with pytest.raises(ConfigInvalid):
        parse_config(text, "f")
    assert parse_config("limits: {agents: 5}", "f").limits == Peers(agents=5)

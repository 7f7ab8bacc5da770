"""The service over a real channel, in this process: what it takes, refuses and hands out."""

import asyncio
import contextlib

import grpc
import pytest

from collectors.model.entities import Host
from collectors.model.errors import Unavailable
from collectors.model.facts import Facts
from collectors.model.reading import Reading
from collectors.wire import telemetry_pb2 as pb
from tests.tuner.builders import Uplink, at
from tests.tuner.server.served import COUNTER, Client, batch, run, served


def test_upload_is_acknowledged_fetched_and_counted(tmp_path):
    async def scene():
        async with served(tmp_path) as tuner:
            up, client = Uplink(), Client(tuner.stub)
            assert (await client.open()).acknowledged == 0
            items = [i for n in range(20) for i in batch(up, n)]
            await client.send(items)
            await client.send([up.facts(Facts(versions=(("kernel", "6.1"),)), at(3).at_ns)])
            assert await client.acknowledged(21) == 21
            status = await tuner.stub.Status(pb.StatusRequest())
            (agent,) = status.agents
            assert agent.connected
            assert (agent.batches, agent.values, agent.ports) == (20, 20, 1)
            assert (agent.acknowledged, agent.duplicates, agent.missing) == (21, 0, 0)
            assert (agent.software, agent.last_batch_at_ns) == ("test", at(19).at_ns)
            client.done()
            assert await client.answer() is None
            assert not (await tuner.stub.Status(pb.StatusRequest())).agents[0].connected
            got = [i async for i in tuner.stub.Fetch(pb.Span(since_ns=at(15).at_ns))]
            assert [i.batch.seq for i in got if i.HasField("batch")] == [16, 17, 18, 19, 20]
            assert [i.facts.seq for i in got if i.HasField("facts")] == [21]

    run(scene())


def test_a_resend_is_acknowledged_and_stored_once(tmp_path):
    async def scene():
        async with served(tmp_path) as tuner:
            up = Uplink()
            items = [i for n in range(5) for i in batch(up, n)]
            for _ in range(3):
                client = Client(tuner.stub)
                await client.open()
                await client.send(items)
                client.done()
                while (answer := await client.answer()) is not None:
                    assert not answer.refused
            record = tuner.store.ledger.agents["node1"]
            assert (record.batches, record.duplicates) == (5, 10)
            again = Client(tuner.stub)
            assert (await again.open()).acknowledged == 5

    run(scene())


def test_skipped_numbers_are_missing_and_do_not_stop_anything(tmp_path):
    async def scene():
        async with served(tmp_path) as tuner:
            up, client = Uplink(), Client(tuner.stub)
            await client.open()
            await client.send(batch(up, 0))
            up.seq += 7
            await client.send(batch(up, 1))
            await client.acknowledged(9)
            (agent,) = (await tuner.stub.Status(pb.StatusRequest())).agents
            assert agent.missing == 7

    run(scene())


def test_an_unknown_wire_version_is_refused_for_good(tmp_path):
    async def scene():
        async with served(tmp_path) as tuner:
            answer = await Client(tuner.stub, version=2).open()
            assert answer.permanent
            assert "unknown wire version 2" in answer.refused
            assert answer.refused_seq == 0
            client = Client(tuner.stub)
            await client.send(batch(Uplink(), 0))
            answer = await client.answer()
            assert answer.permanent
            assert "Hello" in answer.refused

    run(scene())


def test_an_unknown_schema_ends_the_stream_and_a_resend_with_it_is_taken(tmp_path):
    async def scene():
        async with served(tmp_path) as tuner:
            up, client = Uplink(), Client(tuner.stub)
            await client.open()
            schema, first = batch(up, 0)
            second = batch(up, 1)[-1]
            await client.send([first, second])
            answer = await client.answer()
            assert (answer.permanent, answer.refused_seq) == (False, 1)
            assert "schema" in answer.refused
            assert await client.answer() is None
            again = Client(tuner.stub)
            assert (await again.open()).acknowledged == 0
            await again.send([schema, first, second])
            await again.acknowledged(2)
            assert tuner.store.ledger.agents["node1"].missing == 0

    run(scene())


def spoil_bitmap(item):
    item.batch.present = b"\xff\xff"


def spoil_numbers(item):
    item.batch.ints.append(1)


def spoil_time(item):
    item.batch.at_ns = 2**64 - 1


def spoil_agent(item):
    item.batch.agent = "somebody"


@pytest.mark.parametrize("spoil", [spoil_bitmap, spoil_numbers, spoil_time, spoil_agent])
def test_a_malformed_item_is_refused_for_good_and_the_others_go_on(tmp_path, spoil):
    async def scene():
        async with served(tmp_path) as tuner:
            up, client = Uplink(), Client(tuner.stub)
            await client.open()
            items = [i for n in range(3) for i in batch(up, n)]
            spoil(items[2])
            await client.send(items)
            refused, safe = [], 0
            while safe < 3 or not refused:
                answer = await client.answer()
                safe = max(safe, answer.acknowledged)
                if answer.refused:
                    assert answer.permanent
                    refused.append(answer.refused_seq)
            assert refused == [2]
            record = tuner.store.ledger.agents["node1"]
            assert (record.batches, record.refused, record.missing) == (2, 1, 0)
            await client.send(batch(up, 9))
            await client.acknowledged(4)

    run(scene())


def test_bad_facts_and_batches_of_a_bad_schema_are_refused_for_good(tmp_path):
    async def scene():
        async with served(tmp_path) as tuner:
            up, client = Uplink(), Client(tuner.stub)
            await client.open()
            facts = up.facts(Facts(), at(0).at_ns)
            facts.facts.json = b"{not json"
            schema, one = batch(up, 0)
            schema.schema.entities[0].id = "nonsense"
            await client.send([facts, schema, one])
            refused = []
            while len(refused) < 2:
                answer = await client.answer()
                if answer.refused:
                    assert answer.permanent
                    refused.append(answer.refused_seq)
            assert refused == [1, 2]

    run(scene())


def test_bytes_that_are_no_item_cost_that_stream_only(tmp_path):
    async def scene():
        async with served(tmp_path) as tuner:
            good, up = Client(tuner.stub), Uplink()
            await good.open()
            raw = tuner.channel.stream_stream("/fabric.wire.v1.Telemetry/Upload")()
            await raw.write(
                pb.Item(hello=pb.Hello(wire_version=1, agent="x", epoch="e")).SerializeToString()
            )
            await raw.read()
            await raw.write(b"\xff\xff\xff garbage")
            with contextlib.suppress(grpc.aio.AioRpcError):
                while await asyncio.wait_for(raw.read(), 60) is not grpc.aio.EOF:
                    pass
            await good.send(batch(up, 0))
            await good.acknowledged(1)

    run(scene())


def test_a_second_agent_of_one_name_is_refused_with_a_clear_word(tmp_path):
    async def scene():
        async with served(tmp_path, conflict_s=5) as tuner:
            up, first, second = Uplink(), Client(tuner.stub), Client(tuner.stub, epoch="e2")
            await first.open()
            opening = asyncio.create_task(second.open())
            await asyncio.sleep(0.3)
            await first.send(batch(up, 0))
            answer = await opening
            assert answer.permanent
            assert "another agent named 'node1'" in answer.refused
            await first.acknowledged(1)

    run(scene())


def test_the_next_epoch_of_an_agent_waits_for_the_former_stream_to_end(tmp_path):
    async def scene():
        async with served(tmp_path, conflict_s=5) as tuner:
            first, second = Client(tuner.stub), Client(tuner.stub, epoch="e2")
            await first.open()
            opening = asyncio.create_task(second.open())
            await asyncio.sleep(0.2)
            first.call.cancel()
            answer = await opening
            assert not answer.refused
            third = Client(tuner.stub, epoch="e3")
        # and one that neither ends nor sends is no proof of another agent
        async with served(tmp_path / "other", conflict_s=0.3) as tuner:
            first, third = Client(tuner.stub), Client(tuner.stub, epoch="e3")
            await first.open()
            answer = await third.open()
            assert answer.refused
            assert not answer.permanent

    run(scene())


def test_the_same_agent_may_come_back_before_its_old_stream_is_missed(tmp_path):
    async def scene():
        async with served(tmp_path) as tuner:
            up, first, second = Uplink(), Client(tuner.stub), Client(tuner.stub)
            await first.open()
            await first.send(batch(up, 0))
            await first.acknowledged(1)
            assert (await second.open()).acknowledged == 1
            assert "took over" in (await first.answer()).refused
            await second.send(batch(up, 1))
            await second.acknowledged(2)
            (agent,) = (await tuner.stub.Status(pb.StatusRequest())).agents
            assert agent.connected

    run(scene())


def test_a_full_disk_stops_acknowledging_says_so_and_heals(tmp_path, monkeypatch):
    async def scene():
        async with served(tmp_path) as tuner:
            up, client = Uplink(), Client(tuner.stub)
            await client.open()
            await client.send(batch(up, 0))
            await client.acknowledged(1)

            def full(_items):
                raise Unavailable("/data/7.ftseg", "append", "No space left on device")

            plain = tuner.store.commit
            monkeypatch.setattr(tuner.store, "commit", full)
            late = [i for n in range(1, 600) for i in batch(up, n)]
            await client.send(late)
            answer = await client.answer()
            assert "No space left on device" in answer.refused
            assert (answer.permanent, answer.acknowledged) == (False, 1)
            assert await client.answer() is None
            status = await tuner.stub.Status(pb.StatusRequest())
            assert "No space left on device" in status.trouble
            monkeypatch.setattr(tuner.store, "commit", plain)
            again = Client(tuner.stub)
            assert (await again.open()).acknowledged == 1
            await again.send(late)
            await again.acknowledged(600)
            status = await tuner.stub.Status(pb.StatusRequest())
            assert status.trouble == ""
            (agent,) = status.agents
            assert (agent.batches, agent.missing, agent.duplicates) == (600, 0, 0)

    run(scene())


def test_many_agents_share_the_flushes(tmp_path, monkeypatch):
    """Far fewer commits than items: they are committed in groups."""

    async def scene():
        async with served(tmp_path) as tuner:
            commits, plain = [], tuner.store.commit
            monkeypatch.setattr(
                tuner.store, "commit", lambda items: (commits.append(len(items)), plain(items))
            )
            clients = [Client(tuner.stub, f"node{n}") for n in range(16)]

            async def one(client):
                up = Uplink(client.hello.agent)
                await client.open()
                await client.send([i for n in range(50) for i in batch(up, n)])
                await client.acknowledged(50)

            await asyncio.gather(*map(one, clients))
            assert sum(commits) == 800
            assert len(commits) < 200

    run(scene())


def test_a_span_that_ends_before_it_begins_is_an_error(tmp_path):
    async def scene():
        async with served(tmp_path) as tuner:
            with pytest.raises(grpc.aio.AioRpcError) as seen:
                [i async for i in tuner.stub.Fetch(pb.Span(since_ns=9, until_ns=3))]
            assert seen.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    run(scene())


def test_status_of_hosts_without_ports_counts_none(tmp_path):
    async def scene():
        async with served(tmp_path) as tuner:
            up, client = Uplink(), Client(tuner.stub)
            await client.open()
            await client.send(up.batch([Reading(Host("node1"), {COUNTER: 1}, at(0))]))
            await client.acknowledged(1)
            (agent,) = (await tuner.stub.Status(pb.StatusRequest())).agents
            assert agent.ports == 0

    run(scene())


def test_more_missing_numbers_than_64_bits_count_do_not_cost_the_status(tmp_path):
    async def scenario():
        async with served(tmp_path) as it:
            for epoch in ("e1", "e2", "e3"):
                numbers = it.store.ledger.record("node1").numbers(epoch)
                numbers.note(1)
                numbers.note(2**64 - 1)
            [agent] = (await it.stub.Status(pb.StatusRequest())).agents
            assert agent.missing == 2**64 - 1

    asyncio.run(scenario())


def test_names_with_control_characters_are_refused(tmp_path):
    async def scenario():
        async with served(tmp_path) as it:
            answer = await Client(it.stub, agent="node1\nERROR tuner: forged").open()
            assert answer.permanent
            assert "control characters" in answer.refused

    asyncio.run(scenario())

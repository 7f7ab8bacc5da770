"""What was committed is there after a crash, once; what was not, may be sent again."""

import logging
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.model.entities import Host, Netdev
from collectors.model.errors import Unavailable
from collectors.model.facts import Facts, Setting
from collectors.model.metric import Column
from collectors.model.reading import Reading
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.segment import SegmentWriter, segments
from tests.collectors import strategies as some
from tests.tuner.builders import SECOND, START_NS, Uplink, at
from tuner.store.disk import Retention
from tuner.store.ledger import Ledger, Numbers
from tuner.store.span import read_once
from tuner.store.store import Limits, Store, UnknownSchema

HOST = Host("node1")
COUNTER = Column("c_total", "counter", "hw_counters")


@pytest.fixture(params=[1 << 40, 0], ids=["item by item", "in bulk"])
def each_way(request, monkeypatch):
    """A store is opened in both ways that memory is filled in."""
    monkeypatch.setattr("tuner.store.fill._LARGE", request.param)


class Clock:
    def __init__(self) -> None:
        self.now_ns = START_NS

    def __call__(self) -> int:
        return self.now_ns


def take(store: Store, items: list[pb.Item]) -> int:
    """As the server does; return how many were new."""
    numbered = []
    for item in items:
        checked = store.check(item)
        if item.WhichOneof("body") != "schema":
            numbered.append(checked)
    new, again = store.sort_out(numbered)
    store.commit(new)
    store.noted(new, again)
    return len(new)


def batch(up: Uplink, second: float, value: int | None = None, **how) -> list[pb.Item]:
    value = round(second) if value is None else value
    return up.batch([Reading(HOST, {COUNTER: value}, at(second))], **how)


def opened(folder, clock, **retention) -> Store:
    return Store(folder, Retention(**retention), Limits(), clock)


def values(store: Store) -> list[int]:
    series = store.window(0, 2**62).series("c_total", HOST)
    return [] if series is None else series.values.tolist()


def crash(store: Store) -> None:
    """Let go of the lock without saving anything, as kill -9 would."""
    import os

    os.close(store._lock)


@pytest.mark.usefixtures("each_way")
def test_what_was_committed_survives_a_crash_and_resends_are_known(tmp_path):
    clock, up = Clock(), Uplink()
    store = opened(tmp_path, clock)
    items = [item for n in range(10) for item in batch(up, n)]
    assert take(store, items) == 10
    crash(store)
    again = opened(tmp_path, clock)
    assert values(again) == list(range(10))
    assert take(again, items) == 0
    record = again.ledger.agents["node1"]
    assert (record.batches, record.values, record.duplicates, record.missing) == (10, 10, 10, 0)
    assert again.ledger.acknowledged("node1", "e1") == 10
    assert take(again, batch(up, 10)) == 1
    again.close()
    assert values(opened(tmp_path, clock)) == list(range(11))


@settings(max_examples=25)
@given(st.lists(some.passes, min_size=1, max_size=4), some.facts, st.integers(1, 2000))
def test_whatever_is_committed_is_read_back_unchanged(passes, facts, segment_bytes):
    up = Uplink()
    items = [item for one in passes for item in up.batch(one)] + [up.facts(facts, at(0).at_ns)]
    with TemporaryDirectory() as folder:
        store = opened(Path(folder), Clock(), segment_bytes=segment_bytes)
        for item in items:
            take(store, [item])
        live = [item for item in store.read(0, 2**62, []) if not item.HasField("schema")]
        crash(store)
        replayed = [
            item for item in read_once(segments(Path(folder))) if not item.HasField("schema")
        ]
    sent = [item for item in items if not item.HasField("schema")]
    assert live == sent
    assert [item for item in replayed if item.HasField("batch")] == sent[:-1]
    assert sent[-1] in replayed


@pytest.mark.usefixtures("each_way")
def test_a_torn_tail_costs_only_what_was_never_acknowledged(tmp_path):
    clock, up = Clock(), Uplink()
    store = opened(tmp_path, clock)
    take(store, batch(up, 0) + batch(up, 1))
    crash(store)
    last = segments(tmp_path)[-1]
    whole = last.read_bytes()
    torn = batch(up, 2)
    writer = SegmentWriter(last)
    writer.append(torn[-1])
    writer.close()
    for cut in (1, 5, 20):
        last.write_bytes(last.read_bytes()[:-cut])
        again = opened(tmp_path, clock)
        assert values(again) == [0, 1]
        crash(again)
    last.write_bytes(whole + b"\x07\0\0\0garbage")
    again = opened(tmp_path, clock)
    assert take(again, torn) == 1
    again.close()
    assert values(opened(tmp_path, clock)) == [0, 1, 2]


@pytest.mark.usefixtures("each_way")
def test_damage_inside_a_segment_costs_the_rest_of_that_segment_only(tmp_path, caplog):
    clock, up = Clock(), Uplink()
    store = opened(tmp_path, clock, segment_bytes=1)
    for n in range(4):
        take(store, batch(up, n))
    store.close()
    second = segments(tmp_path)[1]
    data = bytearray(second.read_bytes())
    data[-3] ^= 0xFF
    second.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        assert values(opened(tmp_path, clock)) == [0, 2, 3]
    assert str(second) in caplog.text


@pytest.mark.usefixtures("each_way")
def test_every_segment_stands_alone_and_facts_outlive_the_oldest(tmp_path):
    clock, up = Clock(), Uplink()
    netdev = Netdev("node1", "eth0")
    facts = Facts(settings=(Setting(netdev, "mtu_bytes", 9000),))
    kept = {"age_ns": 20 * SECOND, "segment_ns": 5 * SECOND}
    store = opened(tmp_path, clock, **kept)
    take(store, [up.facts(facts, at(0).at_ns)])
    for n in range(60):
        clock.now_ns = at(n).at_ns
        take(store, batch(up, n))
    crash(store)
    first = int(segments(tmp_path)[0].stem)
    assert first > 1
    again = opened(tmp_path, clock, **kept)
    seen = values(again)
    assert seen == list(range(seen[0], 60))
    assert 20 <= len(seen) <= 30
    assert again.window(0, 2**62).settings(netdev)["mtu_bytes"].value == 9000
    record = again.ledger.agents["node1"]
    assert (record.batches, record.missing) == (60, 0)
    items = list(again.read(at(45).at_ns, at(50).at_ns, []))
    kinds = [item.WhichOneof("body") for item in items]
    assert kinds == ["facts", "schema", *["batch"] * 6]
    for n in range(60, 100):  # until all that the restart found is gone
        clock.now_ns = at(n).at_ns
        take(again, batch(up, n))
    again.close()
    last = opened(tmp_path, clock, **kept)
    assert int(segments(tmp_path)[0].stem) > first + 6
    assert last.window(0, 2**62).settings(netdev)["mtu_bytes"].value == 9000


def test_retention_by_bytes(tmp_path):
    clock, up = Clock(), Uplink()
    store = opened(tmp_path, clock, max_bytes=4000, segment_bytes=1000)
    for n in range(200):
        clock.now_ns = at(n).at_ns
        take(store, batch(up, n))
    assert sum(path.stat().st_size for path in segments(tmp_path)) < 6000
    store.close()


def test_read_is_of_the_span_and_of_the_agents(tmp_path):
    clock = Clock()
    store = opened(tmp_path, clock, segment_bytes=600)
    ups = [Uplink(name) for name in ("node1", "node2")]
    for n in range(30):
        for up in ups:
            take(store, batch(up, n))
    items = [i for i in store.read(at(10).at_ns, at(12).at_ns, ["node2"]) if i.HasField("batch")]
    assert [(i.batch.agent, i.batch.at_ns) for i in items] == [
        ("node2", at(n).at_ns) for n in (10, 11, 12)
    ]


def test_a_full_disk_stores_nothing_of_the_group_and_heals(tmp_path, monkeypatch):
    clock, up = Clock(), Uplink()
    store = opened(tmp_path, clock)
    take(store, batch(up, 0))
    written, plain = [], SegmentWriter.append
    full = [True]

    def append(self, item):
        if full[0] and item.HasField("batch") and len(written) >= 2:
            raise Unavailable(str(self.path), "append", "No space left on device")
        written.append(item)
        return plain(self, item)

    monkeypatch.setattr(SegmentWriter, "append", append)
    group = [item for n in range(1, 6) for item in batch(up, n)]
    for _ in range(3):
        with pytest.raises(Unavailable, match="No space left"):
            take(store, group)
    assert values(store) == [0]
    full[0] = False
    assert take(store, group) == 5
    crash(store)
    again = opened(tmp_path, clock)
    assert values(again) == [0, 1, 2, 3, 4, 5]
    assert again.ledger.agents["node1"].batches == 6
    batches = [i.batch.seq for i in again.read(0, 2**62, []) if i.HasField("batch")]
    assert batches == [1, 2, 3, 4, 5, 6]


def test_a_lost_ledger_is_made_anew(tmp_path, caplog):
    clock, up = Clock(), Uplink()
    store = opened(tmp_path, clock)
    items = batch(up, 0) + batch(up, 1)
    take(store, items)
    store.close()
    (tmp_path / "ledger.json").write_text("{damaged")
    with caplog.at_level(logging.WARNING):
        again = opened(tmp_path, clock)
    assert "ledger.json" in caplog.text
    assert take(again, items) == 0


def test_one_folder_has_one_writer(tmp_path):
    store = opened(tmp_path, Clock())
    with pytest.raises(Unavailable, match="another tuner"):
        opened(tmp_path, Clock())
    store.close()
    opened(tmp_path, Clock())


def test_a_batch_of_an_unknown_schema_is_told_apart(tmp_path):
    store = opened(tmp_path, Clock())
    with pytest.raises(UnknownSchema):
        store.check(batch(Uplink(), 0)[-1])


def test_two_epochs_of_one_agent_count_apart(tmp_path):
    clock = Clock()
    store = opened(tmp_path, clock)
    for epoch in ("e1", "e2"):
        up = Uplink(epoch=epoch)
        take(store, batch(up, 0) + batch(up, 1))
    record = store.ledger.agents["node1"]
    assert (record.batches, record.duplicates, record.epoch) == (4, 0, "e2")


@given(st.lists(st.integers(1, 40), min_size=1, unique=True))
def test_numbers_know_exactly_what_they_saw(seqs):
    numbers, seen = Numbers(), set()
    first = seqs[0]
    for seq in seqs:
        if seq >= first:
            assert numbers.knows(seq) == (seq in seen)
            numbers.note(seq)
            seen.add(seq)
    assert numbers.missing == max(seen) - first + 1 - len(seen)
    assert all(a[1] < b[0] for a, b in pairwise(sorted(numbers.holes)))


def test_the_ledger_survives_its_file(tmp_path):
    ledger = Ledger()
    for seq in (1, 2, 5):
        from collectors.wire.pack import Key

        ledger.note(Key("a", "e", seq), 3, seq)
    ledger.save(tmp_path / "ledger.json")
    other = Ledger()
    other.load(tmp_path / "ledger.json")
    assert other.agents == ledger.agents
    assert other.agents["a"].missing == 2


def test_clocks_that_jump_cost_nothing_young_and_keep_nothing_old(tmp_path):
    """The tuner's clock jumps years ahead; one agent's clock always was."""
    clock, up, ahead = Clock(), Uplink(), Uplink("ahead")
    kept = {"age_ns": 20 * SECOND, "segment_ns": SECOND}
    store = opened(tmp_path, clock, **kept)
    for n in range(50):
        clock.now_ns = at(n).at_ns
        take(store, batch(up, n) + batch(ahead, n + 10**8))
    names = [path.name for path in segments(tmp_path)]
    assert 18 <= len(names) <= 24
    clock.now_ns = at(10**9).at_ns
    store.expire()
    crash(store)
    again = opened(tmp_path, clock, **kept)
    seqs = [i.batch.seq for i in again.read(0, 2**62, ["node1"]) if i.HasField("batch")]
    assert seqs[-1] == 50
    clock.now_ns = at(5).at_ns  # and backwards
    take(again, batch(up, 51))
    again.expire()
    assert [i.batch.seq for i in again.read(0, 2**62, ["node1"])][-1] == 51


def test_agents_that_are_long_gone_are_forgotten(tmp_path):
    clock, gone, here = Clock(), Uplink("gone"), Uplink("here")
    store = opened(tmp_path, clock, age_ns=10 * SECOND, segment_ns=SECOND)
    take(store, batch(gone, 0))
    for n in range(0, 120, 5):
        clock.now_ns = at(n).at_ns
        take(store, batch(here, n))
    assert set(store.ledger.agents) == {"here"}

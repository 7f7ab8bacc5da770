"""The spool: order, bounds, crashes, disks that refuse."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import spool as spool_module
from agent.cursor import Cursor, read_hello
from agent.packing import Packed, Packer
from agent.spool import Spool
from collectors.model.entities import Netdev
from collectors.model.errors import Unavailable
from collectors.model.metric import Column
from collectors.model.reading import Instant, Pass, Reading
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.segment import SegmentWriter, segments

COLUMN = Column("fabric_interface_rx_bytes_total", "counter", "netdev")
HELLO = pb.Hello(wire_version=1, agent="a", boot_id="b")


def packed(value, name="x"):
    reading = Reading(Netdev("h", name), {COLUMN: value}, Instant(10**18, value))
    return next(Packer("b").pack("netdev", Pass((reading,)), 0, 0))


def facts(number):
    return Packed(pb.Item(facts=pb.Facts(collector="c", json=b"%d" % number)))


def make(folder, most=64 << 20):
    return Spool(folder, most, HELLO)


def drain(spool, epoch=None, after=0):
    """Everything that can be sent now, as (number, value)."""
    cursor = Cursor(spool, epoch or spool.current, after)
    found = []
    while (sendable := cursor.next(0.0, lambda: False)) is not None:
        found.append(sendable)
    cursor.close()
    return found


def numbers(sendables):
    return [s.seq for s in sendables]


def test_items_come_out_in_order_with_their_keys(tmp_path):
    spool = make(tmp_path)
    assert [spool.append(packed(n)) for n in range(5)] == [1, 2, 3, 4, 5]
    found = drain(spool)
    assert numbers(found) == [1, 2, 3, 4, 5]
    assert [s.item.batch.ints[0] for s in found] == [0, 1, 2, 3, 4]
    assert {(s.item.batch.agent, s.item.batch.epoch) for s in found} == {("a", spool.current.name)}
    assert [len(s.schemas) for s in found] == [1, 0, 0, 0, 0]  # once in a segment
    assert numbers(drain(spool, after=3)) == [4, 5]


def test_schema_of_a_skipped_item_still_comes(tmp_path):
    spool = make(tmp_path)
    for n in range(3):
        spool.append(packed(n))
    found = drain(spool, after=2)
    assert numbers(found) == [3]
    assert [s.schema.id for s in found[0].schemas] == [found[0].item.batch.schema]


def test_cursor_follows_while_it_grows(tmp_path):
    spool = make(tmp_path, most=1 << 20)
    spool._segment_bytes = 2000  # many segments
    cursor, found = Cursor(spool, spool.current, 0), []

    def follow():
        while len(found) < 300:
            sendable = cursor.next(5, lambda: False)
            assert sendable is not None
            found.append(sendable)
            if sendable.seq % 7 == 0:
                spool.acknowledge(spool.current, sendable.seq)

    thread = threading.Thread(target=follow)
    thread.start()
    for n in range(300):
        spool.append(packed(n, f"netdev{n % 3}"))
    thread.join(20)
    assert numbers(found) == list(range(1, 301))
    assert len(segments(spool.current.folder)) < 10
    known = {}
    for sendable in found:  # every schema came before its first use
        known.update({s.schema.id: s for s in sendable.schemas})
        assert sendable.item.batch.schema in known


def test_acknowledged_segments_go(tmp_path):
    spool = make(tmp_path)
    spool._segment_bytes = 1000
    for n in range(50):
        spool.append(packed(n))
    many = len(segments(spool.current.folder))
    assert many > 4
    spool.acknowledge(spool.current, 25)
    left = segments(spool.current.folder)
    assert 1 < len(left) < many
    assert numbers(drain(spool, after=25)) == list(range(26, 51))
    spool.acknowledge(spool.current, 50)
    assert len(segments(spool.current.folder)) == 1  # the one that is written to
    assert spool.waiting() == 0
    spool.close()
    assert [p.name for p in tmp_path.iterdir()] == ["lock"]


def test_full_spool_drops_the_oldest_and_counts(tmp_path):
    spool = make(tmp_path, most=1 << 20)
    spool._max_bytes, spool._segment_bytes = 8000, 1000
    for n in range(200):
        spool.append(packed(n))
    assert spool.bytes() <= 8000
    left = numbers(drain(spool))
    assert left == list(range(left[0], 201))
    assert left[0] > 50
    assert spool.dropped == left[0] - 1


def test_former_run_is_delivered_first_in_its_own_epoch(tmp_path):
    first = make(tmp_path)
    first._segment_bytes = 1000
    for n in range(20):
        first.append(packed(n))
    first._lock_file.close()  # as a kill does
    second = make(tmp_path)
    assert second.current.name != first.current.name
    assert second.append(packed(99)) == 1  # its own numbers
    epoch = second.oldest()
    assert epoch.name == first.current.name
    assert read_hello(epoch).epoch == first.current.name
    found = drain(second, epoch)
    assert numbers(found) == list(range(1, 21))
    assert {s.item.batch.epoch for s in found} == {epoch.name}
    second.acknowledge(epoch, 20)
    second.finished(epoch)
    assert second.oldest() is second.current
    assert numbers(drain(second)) == [1]


def test_half_read_segment_of_a_former_run_is_not_deleted(tmp_path):
    first = make(tmp_path)
    for n in range(10):
        first.append(packed(n))
    first._lock_file.close()
    second = make(tmp_path)
    epoch = second.oldest()
    cursor = Cursor(second, epoch, 0)
    assert [cursor.next(0, lambda: False).seq for _ in range(3)] == [1, 2, 3]
    second.acknowledge(epoch, 3)
    assert [cursor.next(0, lambda: False).seq for _ in range(7)] == [4, 5, 6, 7, 8, 9, 10]


def test_empty_former_runs_leave_nothing(tmp_path):
    for _ in range(3):
        make(tmp_path).close()
    assert [p.name for p in tmp_path.iterdir()] == ["lock"]


@given(cut=st.integers(0, 400))
@settings(max_examples=40)
def test_torn_tail_loses_only_what_was_torn(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("spool")
    first = make(folder)
    sizes = []
    for n in range(6):
        first.append(packed(n))
        sizes.append(first.current.segments[0].size)
    first._lock_file.close()
    path = segments(first.current.folder)[0]
    size = max(path.stat().st_size - cut, 0)
    with path.open("r+b") as file:
        file.truncate(size)
    second = make(folder)
    if second.oldest() is second.current:
        assert size == 0
        return
    whole = sum(end <= size for end in sizes)
    assert numbers(drain(second, second.oldest())) == list(range(1, whole + 1))


def test_damaged_segment_costs_only_itself(tmp_path):
    first = make(tmp_path)
    first._segment_bytes = 1000
    for n in range(30):
        first.append(packed(n))
    first._lock_file.close()
    paths = segments(first.current.folder)
    data = bytearray(paths[1].read_bytes())
    data[-20] ^= 0xFF
    paths[1].write_bytes(data)
    (tmp_path / "notes.txt").write_text("not ours")
    second = make(tmp_path)
    found = numbers(drain(second, second.oldest()))
    assert found == sorted(set(found))
    assert found[0] == 1
    assert found[-1] == 30
    assert 0 < 30 - len(found) <= 6


def test_two_agents_cannot_share_a_spool(tmp_path):
    spool = make(tmp_path)
    with pytest.raises(Unavailable, match="another fabric-agent uses it"):
        make(tmp_path)
    spool.close()
    make(tmp_path).close()


def test_unusable_folder_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="open spool: Not a directory"):
        make(tmp_path / "file" / "spool")


class FullDisk:
    """SegmentWriter.append that fails while `full`."""

    def __init__(self, monkeypatch):
        self.full = False
        append = SegmentWriter.append

        def maybe(writer, item):
            if self.full:
                raise Unavailable(str(writer.path), "append", "No space left on device")
            return append(writer, item)

        monkeypatch.setattr(SegmentWriter, "append", maybe)


def test_full_disk_is_bridged_in_memory(tmp_path, monkeypatch):
    disk = FullDisk(monkeypatch)
    spool = make(tmp_path)
    spool.append(packed(0))
    disk.full = True
    for n in range(1, 5):
        spool.append(packed(n))
    assert spool.write_errors == 4
    assert spool.dropped == 0
    assert numbers(drain(spool)) == [1, 2, 3, 4, 5]
    assert numbers(drain(spool, after=3)) == [4, 5]
    disk.full = False
    spool.append(packed(5))  # order is kept: memory goes to disk first
    assert not spool._memory
    found = drain(spool)
    assert numbers(found) == [1, 2, 3, 4, 5, 6]
    assert [s.item.batch.ints[0] for s in found] == list(range(6))


def test_memory_is_bounded_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(spool_module, "_MEMORY_BYTES", 5000)
    disk = FullDisk(monkeypatch)
    spool = make(tmp_path)
    disk.full = True
    for n in range(500):
        spool.append(packed(n))
    assert spool.bytes() <= 5000
    left = numbers(drain(spool))
    assert left[-1] == 500
    assert left == list(range(left[0], 501))
    assert spool.dropped == left[0] - 1
    spool.acknowledge(spool.current, 500)
    assert spool.bytes() == 0


def test_folder_deleted_under_the_agent(tmp_path):
    import shutil

    spool = make(tmp_path / "s")
    spool._segment_bytes = 500
    spool.append(packed(0))
    shutil.rmtree(tmp_path / "s")
    for n in range(1, 20):
        spool.append(packed(n))
    assert numbers(drain(spool))[-1] == 20


def test_facts_have_numbers_of_the_same_sequence(tmp_path):
    spool = make(tmp_path)
    assert [spool.append(packed(1)), spool.append(facts(7)), spool.append(packed(2))] == [1, 2, 3]
    kinds = [s.item.WhichOneof("body") for s in drain(spool)]
    assert kinds == ["batch", "facts", "batch"]

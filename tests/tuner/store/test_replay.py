"""Reading segments in bulk gives the store that adding one item after the other gives."""

import logging
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.model.entities import Host, Netdev, Switch
from collectors.model.facts import Facts, Setting
from collectors.model.metric import Column
from collectors.model.reading import Reading
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.segment import MAGIC, segments
from tests.tuner.builders import Uplink, at
from tests.tuner.store.test_fuzz import spoiled
from tuner.store import frames, replay, sources, unpack
from tuner.store.fill import fill
from tuner.store.memory import MemoryStore
from tuner.store.span import read_once

pytestmark = pytest.mark.skipif(not unpack.USABLE, reason="no shared zlib, or nothing is compiled")
COLUMNS = [
    Column("a_total", "counter", "hw_counters"),
    Column("b_total", "counter", "sysfs_counters", 32),
    Column("c_ratio", "gauge", "sysfs_port", number="float"),
]
ENTITIES = [Host("h1"), Netdev("h1", "eth0"), Switch("s1", "leaf")]
PLACES = st.sets(st.sampled_from(ENTITIES), min_size=1)


def frame(data, *, right=True):
    packed = zlib.compress(data, 1)
    crc = zlib.crc32(packed) ^ (not right)
    return len(packed).to_bytes(4, "little") + crc.to_bytes(4, "little") + packed


@st.composite
def passes(draw):
    """A batch of one of few shapes, so that many differ in times and numbers only."""
    uplink = Uplink(draw(st.sampled_from(["n1", "n2"])), draw(st.sampled_from(["e1", "e2"])))
    uplink.seq = draw(st.integers(-1, 6))
    when = at(draw(st.integers(0, 9)), draw(st.integers(0, 9)))
    chosen = draw(st.sampled_from([COLUMNS, COLUMNS[:2], COLUMNS[2:]]))
    absent = draw(st.booleans()) and draw(st.booleans())
    later = draw(st.sampled_from([0, 0, 5, -5]))
    readings = [
        Reading(
            of,
            {c: draw(st.integers(0, 9)) for c in (chosen[1:] if absent and not n else chosen)},
            replace(when, at_ns=when.at_ns + n * later, mono_ns=when.mono_ns + n * abs(later)),
            draw(st.sampled_from(["", "i1"])),
        )
        for n, of in enumerate(sorted(draw(PLACES), key=str))
    ]
    if draw(st.integers(0, 9)) == 0:
        return list(draw(spoiled(readings)))
    boot = draw(st.sampled_from(["b1", "b1", "b2"]))
    items = uplink.batch(readings, draw(st.sampled_from(["sysfs", "snmp"])), boot)
    return items if draw(st.integers(0, 9)) else items[1:]  # the schema is not always there


@st.composite
def told(draw):
    uplink = Uplink(draw(st.sampled_from(["n1", "n2"])))
    value = draw(st.sampled_from([1500, 9000]))
    known = Facts((Setting(ENTITIES[1], "mtu_bytes", value),))
    item = uplink.facts(known, at(draw(st.integers(0, 3))).at_ns)
    if draw(st.integers(0, 9)) == 0:
        item.facts.json = b"{}"
    return [item]


@st.composite
def unusual(draw):
    """Bytes of an item as another program may write them, or of none."""
    items = draw(passes())
    data = items[-1].SerializeToString()
    kind = draw(st.sampled_from(["unknown", "twice", "reversed", "text", "hello", "empty", "cut"]))
    batch = items[-1].batch
    match kind:
        case "unknown":
            return data + b"\x78\x01"
        case "twice":
            return data + pb.Item(batch=pb.Batch(ints=[1])).SerializeToString()
        case "reversed":
            parts = [pb.Batch(boot_id="b9"), batch, pb.Batch(agent="n2", seq=batch.seq)]
            body = b"".join(part.SerializeToString() for part in parts)
            return b"\x1a" + bytes([len(body) & 127 | 128, len(body) >> 7]) + body
        case "text":
            return data.replace(b"sysfs", b"\xff\xfffs")
        case "hello":
            return pb.Item(hello=pb.Hello(agent="n1")).SerializeToString()
        case "empty":
            return draw(st.sampled_from([b"", b"\x1a\x00", b"\x12\x00", b"\x22\x00"]))
        case _:
            return data[:-1]


usual = st.one_of(passes(), passes(), passes(), told()).map(
    lambda items: b"".join(frame(item.SerializeToString()) for item in items)
)
segment = st.lists(
    st.one_of(*[usual] * 8, unusual().map(frame), st.just(frame(b"", right=False))), max_size=14
)


def state(store):
    """All that a store holds, comparable."""
    groups = {
        key: (
            group.agent, group.collector, group.rows.tolist(), group.columns,
            [block_state(block) for block in group.blocks],
        )
        for key, group in store._groups.items()
    }  # fmt: skip
    pages = {
        key: [(v.at_ns, v.digest, v.facts()) for v in page.versions]
        for key, page in store._facts._pages.items()
        if page.versions
    }
    return {
        "counts": (store.values, store.batches, store.newest_ns, store._last_at),
        "entities": [(entity, repr(entity)) for entity in store._entities],
        "lives": (store._boots, store._incarnations),
        "schemas": set(store._schemas),
        "groups": (list(groups), groups),
        "facts": pages,
    }


def block_state(block):
    live = slice(block.start, block.end)
    panel = block.panel("", "", np.arange(block.rows), (), 0, 1 << 62)
    assert panel is not None or not block.samples or not block.rows
    arrays = [block.boot[live], block.arrival[live], block.at[live], block.mono[live]]
    if panel is not None:
        arrays += [panel.boot, panel.arrival, panel.at, panel.mono, panel.incarnation]
    for part in (block.ints, block.floats):
        there = np.ones(part.values[live].shape, bool)
        if part.present is not None:
            there = part.present[live]
        arrays += [part.keys, there, np.where(there, part.values[live], 0)]
    return [array.tolist() for array in arrays]


def write(folder, contents):
    folder.mkdir(exist_ok=True)
    for path in segments(folder):
        path.unlink()
    for number, data in enumerate(contents):
        (folder / f"{number:012d}.ftseg").write_bytes(data)


def both(folder, caplog):
    """Return state, refusals and log lines of both ways."""
    found = []
    for read in (
        lambda store, refused: fill(store, read_once(segments(folder)), refused),
        lambda store, refused: replay.replay(store, segments(folder), refused),
    ):
        store, refused = MemoryStore(), []
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            read(store, lambda error, refused=refused: refused.append(str(error)))
        found.append((state(store), sorted(refused), [r.getMessage() for r in caplog.records]))
    return found


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    contents=st.lists(segment, min_size=1, max_size=3),
    repeated=st.booleans(),
    chunk=st.sampled_from([1, 3, 100]),
    pending=st.sampled_from([0, 1 << 30]),
    cut=st.integers(0, 60),
)
def test_bulk_and_single_replay_give_the_same(
    contents, repeated, chunk, pending, cut, tmp_path, caplog
):
    files = [MAGIC + b"".join(frames_of) for frames_of in contents]
    if repeated:  # resends, repeated schemas and facts
        files.append(files[0])
    files[0] = files[0][: len(files[0]) - cut] if cut < 20 else files[0]
    write(tmp_path / "store", files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "_MOST_FRAMES", chunk)
        patch.setattr(replay, "_PENDING", pending)
        single, bulk = both(tmp_path / "store", caplog)
    assert bulk == single


def test_items_that_are_too_large_for_the_bulk_reader(tmp_path, caplog, monkeypatch):
    up = Uplink()
    items = [
        item
        for n in range(20)
        for item in up.batch([Reading(Host("h"), dict.fromkeys(COLUMNS, n), at(n))])
    ]
    big = up.facts(Facts(versions=(("os", "x" * 5000),)), at(0).at_ns)
    data = [frame(item.SerializeToString()) for item in (*items[:10], big, *items[10:])]
    write(tmp_path / "store", [MAGIC + b"".join(data), b"nonsense", MAGIC])
    monkeypatch.setattr(frames, "_MOST_RAW", 4096)
    single, bulk = both(tmp_path / "store", caplog)
    assert bulk == single
    assert bulk[0]["counts"][1] == 20
    assert len(bulk[0]["facts"]) == 1


def test_facts_that_came_back_are_added_again(tmp_path, caplog):
    up = Uplink()
    old, new = (up.facts(Facts(versions=(("os", v),)), at(0).at_ns) for v in ("1", "2"))
    data = [frame(item.SerializeToString()) for item in (old, new, old)]
    write(tmp_path / "store", [MAGIC + b"".join(data)])
    single, bulk = both(tmp_path / "store", caplog)
    assert bulk == single
    assert [v[2].versions[0][1] for v in bulk[0]["facts"]["node1", "sysfs"]] == ["1", "2", "1"]


def test_a_batch_with_a_broken_name_costs_the_rest_of_each_segment(tmp_path, caplog):
    up = Uplink()
    items = [
        item.SerializeToString()
        for n in range(4)
        for item in up.batch([Reading(Host("h"), dict.fromkeys(COLUMNS, n), at(n))])
    ]
    broken = items[1].replace(b"sysfs", b"\xff\xfffs")
    data = [frame(one) for one in items]
    contents = [
        MAGIC + b"".join([*data[:3], frame(broken), data[3]]),
        MAGIC + b"".join([frame(broken), data[4]]),
        MAGIC + data[4],
    ]
    write(tmp_path / "store", contents)
    single, bulk = both(tmp_path / "store", caplog)
    assert bulk == single
    assert bulk[0]["counts"][1] == 3
    assert len(bulk[2]) == 2


def test_a_large_folder_is_read_in_bulk_with_progress(tmp_path, monkeypatch):
    up = Uplink()
    items = [
        item for n in range(9) for item in up.batch([Reading(Host("h"), {COLUMNS[0]: n}, at(n))])
    ]
    write(tmp_path / "store", [MAGIC + b"".join(frame(i.SerializeToString()) for i in items)])
    monkeypatch.setattr("tuner.store.fill._LARGE", 0)
    seen: list[int] = []
    window, _ = sources.open_window(f"dir={tmp_path / 'store'}", progress=seen.append)
    growth = window.growth("a_total", Host("h"))
    assert growth is not None
    assert (growth.total, seen) == (8, [10])

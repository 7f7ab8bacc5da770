"""One function opens a window, wherever it comes from."""

import logging

import pytest

from collectors.model.entities import Host
from collectors.model.errors import ConfigInvalid, FabricError, Unavailable
from collectors.model.metric import Column
from collectors.model.reading import Reading
from collectors.wire.recording import RecordingWriter
from collectors.wire.segment import SegmentWriter, read_segment, segments, torn_bytes
from tests.tuner.builders import Uplink, at
from tuner.store.sources import open_window, parse_span

COUNTER = Column("c_total", "counter", "hw_counters")


def recording(folder, seconds=range(0, 100, 10)):
    up, writer = Uplink(), RecordingWriter(folder)
    for second in seconds:
        for item in up.batch([Reading(Host("node1"), {COUNTER: second}, at(second))]):
            writer.append(item)
    writer.close()
    return folder


def test_a_recording_ends_with_its_newest_item(tmp_path):
    window, name = open_window(f"dir={recording(tmp_path / 'r')}")
    assert name.startswith("dir=")
    growth = window.growth("c_total", Host("node1"))
    assert growth is not None
    assert (growth.total, window.until_ns) == (90, at(90).at_ns)
    window, _ = open_window(f"dir={tmp_path / 'r'}", since="30s")
    growth = window.growth("c_total", Host("node1"))
    assert growth is not None
    assert (growth.total, window.since_ns) == (30, at(60).at_ns)


@pytest.mark.parametrize("large", [1 << 40, 0], ids=["item by item", "in bulk"])
def test_a_recording_cut_short_gives_what_it_has(tmp_path, caplog, monkeypatch, large):
    monkeypatch.setattr("tuner.store.fill._LARGE", large)
    folder = recording(tmp_path / "r")
    (path,) = segments(folder)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    left = torn_bytes(path)
    assert 0 < left < len(data) // 3
    with caplog.at_level(logging.WARNING):
        window, _ = open_window(f"dir={folder}")
    told = f"{path} was cut short: its last {left} bytes, no whole item, are lost"
    assert [record.getMessage() for record in caplog.records] == [told]
    caplog.clear()
    growth = window.growth("c_total", Host("node1"))
    assert growth is not None
    assert 0 < growth.total < 90
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 1
    path.write_bytes(damaged)
    with caplog.at_level(logging.WARNING):
        open_window(f"dir={folder}")
    assert str(path) in caplog.text


def test_a_whole_segment_has_no_torn_end(tmp_path):
    (path,) = segments(recording(tmp_path / "r"))
    assert torn_bytes(path) == 0


def test_what_a_sender_does_wrong_again_and_again_is_told_once(tmp_path, caplog):
    folder = recording(tmp_path / "r")
    (path,) = segments(folder)
    items = list(read_segment(path))
    path.unlink()
    writer = SegmentWriter(path)
    for item in items:
        if item.HasField("batch"):  # all but the first refer to a schema that never came
            item.batch.schema = item.batch.schema if item.batch.seq == 1 else b"unknown"
        writer.append(item)
    writer.close()
    with caplog.at_level(logging.WARNING):
        open_window(f"dir={folder}")
    (record,) = caplog.records
    assert record.getMessage().endswith("left out, and 8 more like it")
    assert "node1" in record.getMessage()


@pytest.mark.parametrize("text", ["dir=", "dir=/nonesuch", "nonesuch=1", "x"])
def test_wrong_sources_are_usage_errors(text):
    with pytest.raises(ConfigInvalid):
        open_window(text)


def test_a_folder_without_segments_and_one_of_garbage(tmp_path):
    with pytest.raises(ConfigInvalid, match="no recording here"):
        open_window(f"dir={tmp_path}")
    (tmp_path / "1.ftseg").write_bytes(b"garbage that is no segment")
    with pytest.raises(FabricError, match="nothing in it can be read"):
        open_window(f"dir={tmp_path}")


def test_an_unreachable_tuner_is_one_line():
    with pytest.raises(Unavailable, match=r"tuner 127.0.0.1:1: fetch: cannot be reached") as seen:
        open_window(tuner="127.0.0.1:1")
    assert "\n" not in str(seen.value)
    with pytest.raises(ConfigInvalid, match="HOST:PORT"):
        open_window(tuner="nonsense")


def test_spans():
    assert parse_span("90s") == 90 * 10**9
    assert parse_span("1.5h") == 5400 * 10**9
    for wrong in ("", "10", "-1m", "0s", "m", "1 week"):
        with pytest.raises(ConfigInvalid):
            parse_span(wrong)

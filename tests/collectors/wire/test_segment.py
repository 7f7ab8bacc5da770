"""Segments survive torn tails, full disks and foreign files."""

import errno
import os
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.model.errors import Denied, FabricError, Malformed, Unavailable
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.segment import MAGIC, SegmentWriter, read_segment, translate


def item(seq):
    return pb.Item(batch=pb.Batch(agent="a", epoch="e", seq=seq, ints=[seq] * 20))


def seqs(path):
    return [i.batch.seq for i in read_segment(path)]


def write(path, numbers):
    writer = SegmentWriter(path)
    for number in numbers:
        writer.append(item(number))
    writer.sync()
    writer.close()


@settings(max_examples=40)
@given(cut=st.integers(0, 400))
def test_a_torn_tail_costs_only_itself(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("seg") / "1.ftseg"
    write(path, range(1, 9))
    whole = path.read_bytes()
    path.write_bytes(whole[: max(len(whole) - cut, 0)])
    try:
        left = seqs(path)
    except Malformed:  # not even the magic is left
        left = []
    assert left == list(range(1, len(left) + 1))
    write(path, [100])
    assert seqs(path) == [*left, 100]


def test_damage_inside_is_told_with_the_place(tmp_path):
    path = tmp_path / "1.ftseg"
    write(path, [1, 2, 3])
    raw = bytearray(path.read_bytes())
    raw[30] ^= 0xFF
    path.write_bytes(raw)
    with pytest.raises(Malformed, match=r"1\.ftseg"):
        seqs(path)


def test_a_foreign_file_is_left_alone(tmp_path):
    path = tmp_path / "1.ftseg"
    path.write_text("this is somebody's letter")
    with pytest.raises(Malformed):
        seqs(path)
    with pytest.raises(Malformed):
        SegmentWriter(path)
    assert path.read_text() == "this is somebody's letter"


def test_a_full_disk_is_one_error_and_loses_nothing(tmp_path):
    path = tmp_path / "1.ftseg"
    write(path, [1, 2])
    writer = SegmentWriter(path)
    real = writer._file

    class Full:
        def write(self, data):
            real.write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def __getattr__(self, name):
            return getattr(real, name)

    writer._file = Full()
    with pytest.raises(Unavailable, match="No space left"):
        writer.append(item(3))
    writer._file = real
    writer.append(item(4))
    assert seqs(path) == [1, 2, 4]


def test_foreign_errors_become_ours(tmp_path):
    assert isinstance(translate(PermissionError(13, "Permission denied"), tmp_path, "open"), Denied)
    with pytest.raises(FabricError, match="No such file"):
        seqs(tmp_path / "absent.ftseg")


def test_a_frame_that_would_fill_the_memory_is_damage(tmp_path):
    path = tmp_path / "1.ftseg"
    bomb = zlib.compressobj(9)
    zeros = bytes(1 << 20)
    data = b"".join(bomb.compress(zeros) for _ in range(257)) + bomb.flush()
    path.write_bytes(MAGIC + struct.pack("<II", len(data), zlib.crc32(data)) + data)
    with pytest.raises(Malformed, match="over 256 MiB"):
        list(read_segment(path))

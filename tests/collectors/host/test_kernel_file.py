"""Reading single kernel files: a value, or a short countable reason, and never a wait."""

import os

import pytest

from collectors.host.kernel_file import Unreadable, read_count


def test_a_pipe_without_a_writer_is_a_reason_and_not_a_wait(tmp_path):
    path = tmp_path / "port_rcv_data"
    os.mkfifo(path)
    with pytest.raises(Unreadable):
        read_count(str(path))


def test_a_value_and_its_absence(tmp_path):
    path = tmp_path / "port_rcv_data"
    with pytest.raises(Unreadable, match="ENOENT"):
        read_count(str(path))
    path.write_text("18446744073709551615\n")
    assert read_count(str(path)) == 2**64 - 1

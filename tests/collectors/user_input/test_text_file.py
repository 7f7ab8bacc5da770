"""A file that cannot be read is one line that names it, whatever the reason."""

import pytest

from collectors.model.errors import ConfigInvalid
from collectors.user_input.text_file import read_text


def test_text_is_read_as_utf_8(tmp_path):
    (tmp_path / "names").write_bytes("µs\r\n".encode())
    assert read_text(tmp_path / "names", "read names") == "µs\n"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "No such file"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "not UTF-8"),
    ],
)
def test_what_is_wrong_names_file_action_and_reason_once(tmp_path, make, why):
    path = tmp_path / "names"
    make(path)
    with pytest.raises(ConfigInvalid, match="read names") as caught:
        read_text(path, "read names")
    assert why in str(caught.value)
    assert str(caught.value).count(str(path)) == 1

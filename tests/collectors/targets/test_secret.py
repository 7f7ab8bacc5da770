"""Secrets: from a file or the environment, and shown to nobody."""

import pickle

import pytest

from collectors.model.errors import ConfigInvalid
from collectors.targets.secret import Secret, read_secret


def test_secrets_do_not_show():
    secret = Secret("hunter2")
    assert secret.reveal() == "hunter2"
    assert "hunter2" not in f"{secret} {secret!r} {[secret]}"
    with pytest.raises(TypeError, match="not to be stored"):
        pickle.dumps(secret)


def test_a_secret_is_read_of_a_variable_or_of_a_file_without_its_line_end(monkeypatch, tmp_path):
    monkeypatch.setenv("WORD", "hunter2")
    assert read_secret("WORD", "", "here") == Secret("hunter2")
    (tmp_path / "word").write_text("hunter3\n")
    assert read_secret("", str(tmp_path / "word"), "here") == Secret("hunter3")
    assert not read_secret("", "", "here")


def test_a_secret_that_cannot_be_read_names_the_place(tmp_path):
    with pytest.raises(ConfigInvalid, match="here: read secret: environment variable GONE is not"):
        read_secret("GONE", "", "here")
    with pytest.raises(ConfigInvalid, match=r"here: read secret file .*gone: No such file"):
        read_secret("", str(tmp_path / "gone"), "here")
    (tmp_path / "word").write_bytes(b"\xff")
    with pytest.raises(ConfigInvalid, match=r"here: read secret file .*word: it is not UTF-8"):
        read_secret("", str(tmp_path / "word"), "here")

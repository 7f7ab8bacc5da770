"""A fake host under tmp_path, a clock that a test turns, and files that answer with an errno."""

import errno
import os
from pathlib import Path

import pytest

from collectors.host import kernel_file
from collectors.host.context import HostContext
from collectors.model.reading import Instant

SECOND = 1_000_000_000


class Clock:
    """A clock that stands still until it is turned."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * SECOND

    def __call__(self) -> Instant:
        return Instant(1_700_000_000 * SECOND + self.now_ns, self.now_ns)

    def turn(self, seconds: float) -> None:
        self.now_ns += round(seconds * SECOND)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def host(tmp_path: Path):
    """Return a function that makes the context of the fake host."""

    def build(**changes) -> HostContext:
        values = {"host": "n1", "sysfs": tmp_path / "sys", "procfs": tmp_path / "proc",
                  "boot_id": "boot1", **changes}  # fmt: skip
        return HostContext(**values)

    return build


class FaultyOs:
    """The os module with errnos for some paths, and a list of what was touched."""

    def __init__(self, errors: dict[str, int]) -> None:
        self.errors = errors
        self.touched: list[str] = []
        self.path = self

    def __getattr__(self, name: str):
        if hasattr(os, name):
            return getattr(os, name)
        return getattr(os.path, name)

    def _touch(self, path) -> None:
        self.touched.append(str(path))
        for suffix, code in self.errors.items():
            if str(path).endswith(suffix):
                raise OSError(code, os.strerror(code))

    def open(self, path, flags):
        self._touch(path)
        return os.open(path, flags)

    def listdir(self, path):
        self._touch(path)
        return os.listdir(path)

    def stat(self, path):
        self._touch(path)
        return os.stat(path)

    def exists(self, path):
        self.touched.append(str(path))
        return os.path.exists(path)

    def realpath(self, path):
        self.touched.append(str(path))
        return os.path.realpath(path)


@pytest.fixture
def faulty(monkeypatch) -> FaultyOs:
    fake = FaultyOs({})
    monkeypatch.setattr(kernel_file, "os", fake)
    return fake


EINVAL = errno.EINVAL

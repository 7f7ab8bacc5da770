"""Small files of sysfs, procfs, debugfs and configfs: one read, and a countable reason if not.

Paths are texts here: building a Path object costs more than reading the file.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

_LIMIT = 1 << 16
_COUNT_LIMIT = 64
_U64_MAX = 0xFFFF_FFFF_FFFF_FFFF


def errno_name(code: int | None) -> str:
    """Return the usual name of an errno: Python calls number 95 ENOTSUP, the kernel does not."""
    return "EOPNOTSUPP" if code == errno.EOPNOTSUPP else errno.errorcode.get(code or 0, str(code))


class Unreadable(Exception):
    """A file that gave no value. reason: short and countable; detail: for people."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def _read(path: str, limit: int) -> bytes:
    try:
        # Regular kernel files do not care; what would wait for a writer must not hold up the rest.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return os.read(handle, limit)
        finally:
            os.close(handle)
    except OSError as error:
        reason = errno_name(error.errno)
        raise Unreadable(reason, str(error.strerror)) from None


def read_bytes(path: str) -> bytes:
    """Return what a binary file holds, at most 64 KiB; Unreadable if not."""
    return _read(path, _LIMIT)


def read_text(path: str) -> str:
    """Return the text of a file without surrounding white space and NULs; Unreadable if not."""
    return _read(path, _LIMIT).decode("utf-8", "replace").replace("\0", "").strip()


def read_optional(path: str) -> str:
    """Return the text of a file, '' where it cannot be read: for labels, never for counters."""
    try:
        return read_text(path)
    except Unreadable:
        return ""


def parse_count(data: bytes) -> int:
    """Return the unsigned 64-bit decimal that a counter file holds; Unreadable for the rest.

    Old kernels answer `N/A (no PMA)` with success, so text is a reason, not an error.
    """
    digits = data.strip()
    if digits.isdigit():
        value = int(digits)
        if value <= _U64_MAX:
            return value
        raise Unreadable("out of range", digits[:40].decode())
    shown = digits[:40].decode("utf-8", "replace")
    if digits.startswith(b"N/A"):
        raise Unreadable("not available", shown)
    if digits.startswith(b"-") and digits[1:].isdigit():
        raise Unreadable("negative", shown)
    raise Unreadable("not numeric" if digits else "empty", shown)


def read_count(path: str) -> int:
    """Return the counter in a file; Unreadable with the errno's name or what is wrong."""
    return parse_count(_read(path, _COUNT_LIMIT))


def names_in(path: str) -> tuple[str, ...]:
    """Return the names in a folder, sorted; Unreadable if it cannot be listed."""
    try:
        return tuple(sorted(os.listdir(path)))
    except OSError as error:
        reason = errno_name(error.errno)
        raise Unreadable(reason, str(error.strerror)) from None


class Listings:
    """Names in folders, kept for a while: listing sysfs costs as much as reading many files."""

    def __init__(self, keep_ns: int = 30_000_000_000) -> None:
        self._keep_ns = keep_ns
        self._known: dict[str, tuple[int, tuple[str, ...]]] = {}

    def names(self, path: str, incarnation: str, now_ns: int) -> tuple[str, ...]:
        """Return the names, none for a folder that is not there.

        Raises Unreadable for another reason; that is not kept.
        """
        key = f"{incarnation} {path}"
        kept = self._known.get(key)
        if kept is not None and now_ns - kept[0] < self._keep_ns:
            return kept[1]
        try:
            found: tuple[str, ...] = names_in(path)
        except Unreadable as why:
            if why.reason != "ENOENT":
                self._known.pop(key, None)
                raise
            found = ()
        if len(self._known) > 10_000:  # devices that come and go
            self._known.clear()
        self._known[key] = (now_ns, found)
        return found


def folder(root: Path, *parts: str) -> str:
    """Return a path below a root as text."""
    return os.path.join(root, *parts)


def exists(path: str) -> bool:
    """Tell whether something is at the path."""
    return os.path.exists(path)


def identity(path: str) -> int:
    """Return the inode: sysfs gives a new one each time a device is registered. OSError."""
    return os.stat(path).st_ino


def target(path: str) -> str:
    """Return the last name of what a link leads to, '' where there is no such link."""
    return os.path.basename(os.path.realpath(path)) if os.path.exists(path) else ""


def upstream_pci(path: str) -> tuple[str, ...]:
    """Return the folders of the PCI bridges above a PCI device, the nearest first."""
    found: list[str] = []
    above = os.path.dirname(os.path.realpath(path))
    while os.path.basename(above).count(":") == 2:
        found.append(above)
        above = os.path.dirname(above)
    return tuple(found)

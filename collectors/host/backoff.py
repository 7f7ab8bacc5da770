"""Stops asking what keeps failing: some firmware logs a kernel error for each such read."""

from __future__ import annotations

from typing import Final

_TRIES: Final = 3
_HOLD_NS: Final = 600_000_000_000
_FINAL: Final = frozenset(
    {"EINVAL", "EOPNOTSUPP", "ENOSYS", "EPERM", "EACCES", "not available", "EMSGSIZE"}
)


class Backoff:
    """Counts failures in a row by what was asked; after a few, holds it for ten minutes."""

    def __init__(self, tries: int = _TRIES) -> None:
        self._tries = tries
        self._failures: dict[str, tuple[int, str, int]] = {}

    @property
    def any(self) -> bool:
        """Whether anything has failed lately."""
        return bool(self._failures)

    def held(self, what: str, now_ns: int) -> str:
        """Return the reason while it is held, else ''."""
        entry = self._failures.get(what)
        if entry is None:
            return ""
        tries, reason, since_ns = entry
        return reason if tries >= self._tries and now_ns - since_ns < _HOLD_NS else ""

    def failed(self, what: str, reason: str, now_ns: int) -> None:
        """Note a failure; one that may pass by itself (EIO, ENODEV...) is never held."""
        if reason not in _FINAL:
            self._failures.pop(what, None)
            return
        tries = self._failures.get(what, (0, "", 0))[0]
        self._failures[what] = (tries + 1, reason, now_ns)

    def worked(self, what: str) -> None:
        """Forget earlier failures."""
        if self._failures:
            self._failures.pop(what, None)

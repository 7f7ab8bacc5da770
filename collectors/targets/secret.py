"""A password or community that does not show itself: not in logs, reprs, errors or dumps."""

from __future__ import annotations

from typing import Final

_HIDDEN: Final = "(secret)"


class Secret:
    """Text that only `reveal()` gives away."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text; call it at the last moment and keep nothing."""
        return self._text

    def __repr__(self) -> str:
        return _HIDDEN

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __getstate__(self) -> str:
        raise TypeError("a secret is not to be stored")

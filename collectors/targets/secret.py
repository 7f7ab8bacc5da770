"""A password or community that does not show itself: not in logs, reprs, errors or dumps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from collectors.model.errors import ConfigInvalid

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


def read_secret(variable: str, file: str, where: str) -> Secret:
    """Return the secret of a variable or file, empty where neither is named.

    where: for errors, which name the place and never the secret. Raises ConfigInvalid.
    """
    if variable:
        text = os.environ.get(variable)
        if text is None:
            raise ConfigInvalid(where, "read secret", f"environment variable {variable} is not set")
        return Secret(text)
    if not file:
        return Secret("")
    try:
        return Secret(Path(file).read_text(encoding="utf-8").strip("\r\n"))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigInvalid(where, f"read secret file {file}", why) from error

"""Reading a text file that a user names: whatever is wrong with it is one typed error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from collectors.model.errors import ConfigInvalid

if TYPE_CHECKING:
    from pathlib import Path


def read_text(path: Path, what: str) -> str:
    """Return the text of a UTF-8 file. what: for the error, as "read configuration".

    Raises ConfigInvalid where it cannot be read or is no UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigInvalid(str(path), what, "it is not UTF-8 text") from error
    except OSError as error:
        raise ConfigInvalid(str(path), what, error.strerror or str(error)) from error

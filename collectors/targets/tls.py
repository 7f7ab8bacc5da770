"""TLS towards a target, as the inventory says it and clients take it."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from collectors.model.errors import ConfigInvalid


class Tls(Struct, frozen=True, forbid_unknown_fields=True):
    """PEM files. server_name: name in the target's certificate where it is not its address.

    trust_first: accept whatever certificate the target shows, for labs.
    """

    ca: str = ""
    cert: str = ""
    key: str = ""
    server_name: str = ""
    trust_first: bool = False


def read_pem(path: str, subject: str) -> bytes:
    """Return a file's bytes. Raises ConfigInvalid with the subject and the file."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigInvalid(subject, f"tls file {path}", str(error.strerror)) from error

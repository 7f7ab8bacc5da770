"""Options that the tuner's commands share, and how errors reach the user: as one line."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from collectors.model.errors import ConfigInvalid, FabricError

if TYPE_CHECKING:
    from tuner.store.window import Window

USAGE = 2
FOUND = 3
"""Exit code: done, and there is a finding above information."""


class Format(StrEnum):
    """How an answer is written."""

    table = "table"
    json = "json"
    yaml = "yaml"
    md = "md"


TunerAddress = Annotated[
    str,
    typer.Option(
        "--tuner",
        metavar="HOST:PORT",
        envvar="FABRIC_TUNER",
        help="the running tuner [127.0.0.1:9837]",
        show_default=False,
    ),
]
Source = Annotated[
    str,
    typer.Option(
        "--source",
        metavar="dir=PATH|prometheus=URL",
        help="a recording, or a Prometheus-compatible database, instead",
        show_default=False,
    ),
]
Since = Annotated[
    str,
    typer.Option(
        "--since",
        metavar="SPAN",
        help="how far to look back: 90s, 10m, 2h [5m; all of a recording]",
        show_default=False,
    ),
]
Answer = Annotated[Format, typer.Option("--format", help="how to write the answer")]


def look(tuner: str, source: str, since: str) -> tuple[Window, str]:
    """Return the window that the options ask for, and its source's name. Raises FabricError.

    A tuner with TLS: FABRIC_TUNER_CA, FABRIC_TUNER_CERT and FABRIC_TUNER_KEY name the files.
    """
    from tuner.cli.progress import counting
    from tuner.cli.tls import tls_of
    from tuner.store.sources import open_window

    if source and tuner and tuner != os.environ.get("FABRIC_TUNER"):
        raise ConfigInvalid(source, "--source", "it and --tuner: one of the two")
    # All that is read is kept to the end: looking for garbage in it costs a third of the time.
    gc.disable()
    # Before numpy is imported: huge pages, where memory is fragmented, cost six times small ones.
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
    ca, cert, key = (os.environ.get(f"FABRIC_TUNER_{part}", "") for part in ("CA", "CERT", "KEY"))
    with counting("reading telemetry") as count:
        window, named = open_window(
            source, "" if source else tuner, since, tls=tls_of(ca, cert, key), progress=count
        )
    kept: list[object] = [window]
    kept.append(kept)  # in a circle: the interpreter frees it neither piece by piece
    atexit.register(gc.freeze)  # nor as garbage at the end, for the system takes it all at once
    return window, named


@contextlib.contextmanager
def reporting() -> Iterator[None]:
    """Turn our errors into one line on stderr and exit code 1 (2: usage, configuration)."""
    try:
        yield
    except ConfigInvalid as error:
        fail(str(error), USAGE)
    except FabricError as error:
        fail(str(error))


def fail(text: str, code: int = 1) -> NoReturn:
    """Say one line on stderr and end."""
    print(f"tuner: {text}", file=sys.stderr)
    raise typer.Exit(code)


def new_folder(folder: Path | None, option: str) -> None:
    """Raise ConfigInvalid, before any work, for a folder that holds something or cannot be made."""
    if folder is None:
        return
    if folder.is_dir() and any(folder.iterdir()):
        raise ConfigInvalid(str(folder), option, "the folder is not empty: name a new one")
    _writable(folder, option)


def new_file(file: Path | None, option: str) -> None:
    """Raise ConfigInvalid, before any work, for a file that cannot be written."""
    if file is None:
        return
    if file.is_dir():
        raise ConfigInvalid(str(file), option, "is a folder: name a file")
    if not file.parent.is_dir():
        raise ConfigInvalid(str(file), option, "its folder does not exist")
    _writable(file, option)


def _writable(path: Path, option: str) -> None:
    """Raise ConfigInvalid unless the nearest of a path and its parents may be written."""
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not os.access(there, os.W_OK) or (there != path and not there.is_dir()):
        raise ConfigInvalid(str(path), option, f"{there} cannot be written")


def made_by() -> str:
    """Return name and version of this program."""
    from importlib.metadata import PackageNotFoundError, version

    with contextlib.suppress(PackageNotFoundError):
        return f"tuner {version('fabric-tuner')}"
    return "tuner"

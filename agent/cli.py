"""Entry of the command `fabric-agent`: the daemon starts from here without the command line.

`fabric-agent run --config FILE` is what service managers start, on every host, and where
memory and start-up count; it needs none of typer and rich. Everything else, and every way of
using `run` that is not exactly this, goes to `agent/commands.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path


def app() -> None:
    """Run the command of sys.argv."""
    match sys.argv[1:]:
        case ["run"]:
            sys.exit(run(None))
        case ["run", "--config", file] if not file.startswith("-"):
            sys.exit(run(Path(file)))
        case _:
            from agent import commands

            commands.app()


def run(file: Path | None) -> int:
    """Run the daemon on a configuration file; one line on stderr where it cannot start."""
    from agent import daemon
    from agent.config import read_config
    from collectors.model.errors import FabricError

    try:
        config = read_config(file)
        log_to_stderr(config.log_level)
        return daemon.run(config, str(file or "defaults"))
    except FabricError as error:
        print(f"fabric-agent: {error}", file=sys.stderr)
        return exit_code(error)


def exit_code(error: Exception) -> int:
    """Return 2 where the configuration or the usage is wrong, 1 for any other error."""
    from collectors.model.errors import ConfigInvalid

    return 2 if isinstance(error, ConfigInvalid) else 1


def log_to_stderr(level: str) -> None:
    """Write the log to stderr; under systemd without times, the journal has its own."""
    import logging
    import os

    journal = "JOURNAL_STREAM" in os.environ
    form = "%(levelname)s %(message)s" if journal else "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(level=level.upper(), format=form)

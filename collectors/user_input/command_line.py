"""What the roots of the command lines share: `--version`, and wrong usage told in one line."""

from __future__ import annotations

import sys
from typing import Any, Final

import typer
from typer.core import TyperGroup

_SAID: Final[type[Exception]] = typer.BadParameter.__mro__[2]
"""What all errors of usage are; typer has them from click, or from its own copy of it."""


class OneLineErrors(TyperGroup):
    """The root of a command line that says what is wrong with its usage in one line.

    The program is called by the name of the root, however it was started.
    """

    def main(self, *args: Any, **more: Any) -> Any:
        """Run the command line and, standing alone, end the process with its exit code."""
        alone = more.pop("standalone_mode", True)
        more["standalone_mode"] = False
        if not alone:
            return super().main(*args, **more)
        try:
            code = super().main(*args, **more)
        except _SAID as error:
            sys.exit(_told(error, self.name or ""))
        except typer.Abort:
            print("aborted", file=sys.stderr)
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)


def version_option(program: str) -> Any:
    """Return the default of a parameter that is the option `--version`: print it and be done."""

    def show(wanted: bool) -> None:
        if wanted:
            from importlib.metadata import version

            print(f"{program} {version('fabric-tuner')}")
            raise typer.Exit

    return typer.Option(False, "--version", callback=show, is_eager=True, help="Print it.")


def _told(error: Any, program: str) -> int:
    """Say an error of usage, or the help where there is no command; return the exit code."""
    context = getattr(error, "ctx", None)
    words = [] if context is None else context.command_path.split()
    path = " ".join([program, *words[1:]])
    if type(error).__name__ == "NoArgsIsHelpError":  # its show() prints the help
        error.show()
    else:
        said = " ".join(error.format_message().split()).rstrip(".")
        print(f"{path}: {said} (see `{path} --help`)", file=sys.stderr)
    return int(error.exit_code)

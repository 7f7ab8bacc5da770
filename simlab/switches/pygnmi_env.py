"""pygnmi in an environment of its own: its gNMI messages and ours do not fit into one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

VERSION: Final = "0.8.15"
FOLDER: Final = Path(__file__).resolve().parents[2] / ".cache/pygnmi"


class NoPygnmi(Exception):
    """pygnmi could not be installed; the text is pip's last line."""


def python() -> Path:
    """Return the interpreter of the environment, made on first use. Raises NoPygnmi."""
    program = FOLDER / "bin/python"
    stamp = FOLDER / "installed"
    if stamp.exists() and stamp.read_text(encoding="ascii") == VERSION:
        return program
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True, capture_output=True)
    pip = [str(program), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, f"pygnmi=={VERSION}"], capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode:
        raise NoPygnmi((done.stderr.strip().splitlines() or ["pip failed"])[-1])
    stamp.write_text(VERSION, encoding="ascii")
    return program

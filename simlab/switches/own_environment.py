"""Programs of other projects in Python environments of their own.

pygnmi brings its own copy of the gNMI messages, which does not fit into one process with ours;
the OpenTelemetry SDK pins versions that are none of our concern.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

PYGNMI: Final = ("pygnmi==0.8.15",)
OPENTELEMETRY: Final = (
    "opentelemetry-sdk==1.45.2",
    "opentelemetry-exporter-otlp-proto-grpc==1.45.2",
)
CACHE: Final = Path(__file__).resolve().parents[2] / ".cache"


class NotInstalled(Exception):
    """The packages could not be installed; the text is pip's last line."""


def python(requirements: tuple[str, ...]) -> Path:
    """Return the interpreter of an environment with these packages, made on first use.

    Raises NotInstalled.
    """
    folder = CACHE / requirements[0].partition("==")[0]
    program, stamp, wanted = folder / "bin/python", folder / "installed", " ".join(requirements)
    if stamp.exists() and stamp.read_text(encoding="ascii") == wanted:
        return program
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True)
    pip = [str(program), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, *requirements], capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode:
        raise NotInstalled((done.stderr.strip().splitlines() or ["pip failed"])[-1])
    stamp.write_text(wanted, encoding="ascii")
    return program

"""What a process has cost so far, as /proc tells it, and what it shows at /metrics."""

from __future__ import annotations

import os
import urllib.request
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def used_cpu_s(pid: int) -> float:
    """Return CPU seconds of a process, user and system (proc(5): stat, fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


def scraped(port: int) -> list[str]:
    """Return the lines of /metrics at a port of the loopback."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        return answer.read().decode().splitlines()

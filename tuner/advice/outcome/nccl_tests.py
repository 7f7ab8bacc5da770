"""Output of nccl-tests and rccl-tests (all_reduce_perf ...): a table, a line a message size.

Columns: size (B), count, type, redop, root, then time (us), algbw (GB/s), busbw (GB/s), #wrong,
out of place and mostly again in place; lines of the head name the ranks.
"""

from __future__ import annotations

import math
import re

from collectors.model.errors import Malformed
from tuner.advice.outcome.measured import Measured

_RANK = re.compile(r"^#\s+Rank\s+\d+\s", re.MULTILINE)
_GB_PER_S = 8e9  # GB/s of nccl-tests are 10^9 bytes a second


def looks_like(text: str) -> bool:
    """Tell whether a text is such output."""
    return "busbw" in text and "algbw" in text


def parse(text: str, where: str) -> Measured:
    """Return GPUs and the out-of-place bus bandwidth of the largest message.

    Raises Malformed where the table has no line with a finite figure.
    """
    largest: tuple[int, float] | None = None
    for line in text.splitlines():
        row = _row(line)
        if row is not None and (largest is None or row >= largest):
            largest = row
    if largest is None:
        raise Malformed(where, "read nccl-tests output", "its table holds no line of results")
    gpus = len(_RANK.findall(text)) or None
    return Measured(gpus, largest[1] * _GB_PER_S, sources=(f"{where}: nccl-tests",))


def _row(line: str) -> tuple[int, float] | None:
    """Return (size in bytes, bus bandwidth in GB/s) of a line of results."""
    words = line.split()
    if len(words) < 3 + 4 or not words[0].isdigit() or not words[1].isdigit():
        return None
    results = words[-8:] if len(words) >= 3 + 8 else words[-4:]  # in place as well, or not
    try:
        size, bandwidth = int(words[0]), float(results[2])
    except (IndexError, ValueError):
        return None
    return (size, bandwidth) if math.isfinite(bandwidth) else None

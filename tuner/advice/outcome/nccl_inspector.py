"""Log of the NCCL or RCCL inspector (a profiler plugin): a JSON object a collective.

Read of each: header.n_ranks, metadata.{hostname, pid, dump_timestamp_us},
coll_perf.{coll_msg_size_bytes, coll_exec_time_us, coll_busbw_gbs}.
"""

from __future__ import annotations

import json
from typing import Any

from collectors.model.errors import Malformed
from tuner.advice.outcome.measured import Measured

_LEAST_SPAN_US = 1e6  # a share of less than a second says little


def looks_like(text: str) -> bool:
    """Tell whether a text is such a log."""
    return '"coll_perf"' in text


def parse(text: str, where: str) -> Measured:
    """Return ranks, bus bandwidth and the share of time in collectives of the busiest process.

    Bus bandwidth is that of all bytes by all time: a mean over messages would count the small
    ones too much. Raises Malformed for a line that is no such object.
    """
    ranks = 0
    moved = spent_us = 0.0
    spans: dict[tuple[str, int], list[float]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            perf, head = record["coll_perf"], record.get("header", {})
            took_us, busbw = float(perf["coll_exec_time_us"]), float(perf["coll_busbw_gbs"])
        except (ValueError, KeyError, TypeError, AttributeError):
            why = f"line {number} is no record of a collective with its time and bus bandwidth"
            raise Malformed(where, "read inspector log", why) from None
        ranks = max(ranks, int(head.get("n_ranks", 0)))
        moved += busbw * took_us
        spent_us += took_us
        _note(spans, record.get("metadata", {}), took_us)
    if not spent_us:
        raise Malformed(where, "read inspector log", "it holds no collective that took time")
    return Measured(
        ranks or None,
        moved / spent_us * 8e9,
        communication_ratio=_share(spans),
        communication_is_bound=True,  # what overlaps with computing is not waited for
        sources=(f"{where}: NCCL inspector",),
    )


def _note(
    spans: dict[tuple[str, int], list[float]], metadata: dict[str, Any], took_us: float
) -> None:
    """Note first and last time stamp and the time in collectives of a process."""
    stamp = metadata.get("dump_timestamp_us")
    if stamp is None:
        return
    key = (str(metadata.get("hostname", "")), int(metadata.get("pid", 0)))
    span = spans.setdefault(key, [float(stamp), float(stamp), -took_us])
    span[0], span[1] = min(span[0], float(stamp)), max(span[1], float(stamp))
    span[2] += took_us  # the first ended when the span began: it is left out


def _share(spans: dict[tuple[str, int], list[float]]) -> float | None:
    shares = [
        min(spent / (last - first), 1.0)
        for first, last, spent in spans.values()
        if last - first >= _LEAST_SPAN_US
    ]
    return max(shares, default=None)

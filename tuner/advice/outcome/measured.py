"""What is known of a job beside the fabric: its size, its speed, the share of communication."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Measured:
    """None where unknown. communication_ratio: share of a step spent waiting for communication.

    communication_is_bound: the share is an upper bound (idle GPUs may wait for other things).
    sources: where the numbers came from, for people.
    """

    gpus: int | None = None
    bus_bandwidth_bps: float | None = None
    step_s: float | None = None
    communication_ratio: float | None = None
    communication_is_bound: bool = False
    sources: tuple[str, ...] = ()


def joined(parts: Iterable[Measured]) -> Measured:
    """Return what several inputs know together: the earlier one wins where two know the same."""
    whole = Measured()
    for part in parts:
        known = {
            one.name: getattr(part, one.name)
            for one in fields(Measured)
            if one.name not in ("sources", "communication_is_bound")
            and getattr(whole, one.name) is None
            and getattr(part, one.name) is not None
        }
        if "communication_ratio" in known:
            known["communication_is_bound"] = part.communication_is_bound
        whole = replace(whole, **known, sources=(*whole.sources, *part.sources))
    return whole

"""Rings of a roll-out: one host, one of each other kind, a tenth, the rest; watch, and stop.

As SIGCOMM'16 and NSDI'23 describe for their fabrics: lab, one rack, part, all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from collectors.model.entities import Host, Interface, Netdev, Port, Wire, host_of, wire_of
from tuner.advice.plan import DevicePlan, Stage
from tuner.advice.recommendation import Recommendation

HOLD_S: Final = 300.0
"""Seconds of traffic to watch after a step or a ring."""

_SHARE: Final = 10  # the ring before the last has one in ten of what is left
_ALWAYS: Final = (
    "retransmissions and acknowledgement timeouts of the changed hosts",
    "PFC pause received and sent on the changed ports",
    "discards of the lossless class",
    "goodput, or step time of the jobs",
)
_STOP: Final = (
    "a link of the ring goes down and stays down",
    "the lossless class discards packets",
    "retransmissions or pause time are above those before the ring",
    "goodput or step time is worse than before by more than 2 %",
)


class _Cables(Protocol):
    def peer(self, wire: Wire) -> Wire | None:
        """Return the other end of a cable."""


def stages(
    devices: Sequence[DevicePlan], recommendations: Iterable[Recommendation], cables: _Cables
) -> tuple[Stage, ...]:
    """Return the rings for some devices; none where there is nothing to change."""
    if not devices:
        return ()
    metrics: dict[str, dict[str, None]] = {}
    for rec in recommendations:
        seen = dict.fromkeys(effect.metric for effect in rec.effects)
        metrics.setdefault(str(rec.scope), {}).update(seen)
    hosts = [device for device in devices if isinstance(device.device, Host)]
    canary = [(hosts or devices)[0]]
    canary += [d for d in devices if d not in canary and _faces(d, canary, cables)]
    kinds: dict[tuple[str, str], DevicePlan] = {_kind(device): device for device in canary}
    for device in devices:
        kinds.setdefault(_kind(device), device)
    each = [device for device in kinds.values() if device not in canary]
    rest = [device for device in devices if device not in canary and device not in each]
    tenth = rest[: math.ceil(len(rest) / _SHARE)]
    rings = (
        ("canary", canary),
        ("one of each other kind", each),
        ("a tenth", tenth),
        ("the rest", rest[len(tenth) :]),
    )
    return tuple(
        Stage(
            name,
            tuple(device.name for device in ring),
            HOLD_S,
            (*_ALWAYS, *_predicted(ring, metrics)),
            _STOP,
        )
        for name, ring in rings
        if ring
    )


def _kind(device: DevicePlan) -> tuple[str, str]:
    """Hosts, and switches of one language: one of them shows what a change does to the others."""
    return type(device.device).__name__, device.platform


def _faces(device: DevicePlan, canaries: Sequence[DevicePlan], cables: _Cables) -> bool:
    """Tell whether a device holds the other end of a canary host's cable that changes, too."""
    hosts = {c.device for c in canaries if isinstance(c.device, Host)}
    for step in device.steps:
        wire = wire_of(step.scope)
        if isinstance(wire, Interface) and step.scope == wire:
            far = cables.peer(wire)
            if isinstance(far, (Netdev, Port)) and Host(host_of(far) or "") in hosts:
                return True
    return False


def _predicted(ring: Iterable[DevicePlan], metrics: dict[str, dict[str, None]]) -> tuple[str, ...]:
    seen = (name for d in ring for step in d.steps for name in metrics.get(str(step.scope), {}))
    return tuple(dict.fromkeys(seen))

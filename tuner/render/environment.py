"""Environments of jobs: NCCL (RCCL takes the same names) and UCX."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from collectors.model.entities import Entity, Host, host_of
from collectors.model.facts import Value
from tuner.advice.knobs.catalogue import KNOBS
from tuner.render.form import Change, Renderer

_ECN: Final = "roce_ecn_codepoint"


def variables(change: Change, platform: str) -> Mapping[str, str | None]:
    """Return variable -> text, None where it was not set before."""
    found: dict[str, str | None] = {}
    for place, name in change.keys:
        home = KNOBS[name].home(platform)
        if home is None:
            continue
        if name == _ECN:
            found |= _codepoint(change, place, platform)
            continue
        value = change.after.get((place, name))
        found[home.place] = None if value is None else _text(name, value, platform)
    return found


def _codepoint(change: Change, place: Entity, platform: str) -> dict[str, str | None]:
    """Set the low bits of the traffic class, whose DSCP must be known."""
    host = Host(host_of(place) or "")
    tclass = change.number(host, "job_tclass")
    home = KNOBS["job_tclass"].home(platform)
    if tclass is None or home is None:
        why = "sets the low two bits of the job's traffic class, whose DSCP is not known"
        change.lacks([place], [_ECN], why)
        return {}
    point = change.whole(place, _ECN) or 0
    return {home.place: str((round(tclass) & ~3) | point)}


def _text(name: str, value: Value, platform: str) -> str:
    if isinstance(value, bool):
        yes, no = ("1", "0") if platform == "nccl" else ("y", "n")
        return yes if value else no
    if name == "qp_timeout_code" and platform == "ucx" and isinstance(value, (int, float)):
        return f"{4.096e-6 * 2**value:.6g}s"
    return str(value)


def _writer(platform: str) -> Renderer:
    def write(change: Change) -> str:
        lines = [
            f"unset {name}" if text is None else f"export {name}={shlex.quote(text)}"
            for name, text in variables(change, platform).items()
        ]
        return "".join(f"{line}\n" for line in lines)

    def verify(change: Change) -> str:
        names = "|".join(variables(change, platform))
        return f"tr '\\0' '\\n' < /proc/PID/environ | grep -E '^({names})='\n" if names else ""

    return Renderer(
        platform,
        "host",
        write,
        verify,
        "#",
        "env",
        before="# for every rank of the job, from its next start\n",
        undo_before="# for every rank of the job, from its next start\n",
    )


NCCL: Final = _writer("nccl")
UCX: Final = _writer("ucx")

"""Advice as changes of a draw: what a user would do, in the simulator's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import product

from collectors.model.entities import Entity
from collectors.model.errors import FabricError
from collectors.model.facts import Value
from collectors.model.roce import ack_timeout_s
from simlab.scenarios.change import SETTINGS, applied
from simlab.scenarios.draw import Change, Draw
from tuner.advice.recommendation import Recommendation
from tuner.render.opensm import OPTIONS


def _of_level(text: str) -> Value:
    """Return the number of `service level, number`."""
    return int(text.rsplit(maxsplit=1)[-1])


def _table(text: str) -> Value:
    """Return the delays of a congestion control table, of `shift:multiplier` without shift."""
    entries = [entry.partition(":") for entry in text.split(",")]
    if any(shift != "0" for shift, _, _ in entries):
        raise ValueError(f"shifts are not simulated: {text[:40]}")
    return tuple(int(multiplier) for _, _, multiplier in entries)


SUBNET: dict[str, tuple[str, Callable[[str], Value]]] = {
    "cc_sw_cong_setting_threshold": ("ib_cc_threshold", lambda text: int(text, 16)),
    "cc_sw_cong_setting_marking_rate": ("ib_cc_marking_rate", int),
    "cc_ca_cong_setting_ccti_timer": ("ib_cc_ccti_timer", _of_level),
    "cc_ca_cong_setting_ccti_increase": ("ib_cc_ccti_increase", _of_level),
    "cc_cct": ("ib_cc_table", _table),
    "routing_engine": ("subnet_routes", str),
}
"""Options of a rendered opensm.conf that the simulated subnet follows: setting, and its value."""


def changes_of(draw: Draw, recommendation: Recommendation) -> Iterator[Change]:
    """Yield a recommendation as changes of a draw, in the simulator's names."""
    if recommendation.knob in OPTIONS:  # one file for all switches
        options = OPTIONS[recommendation.knob](recommendation.proposed)
        known = [(*SUBNET[option], text) for option, text in options if option in SUBNET]
        switches = [draw.names.switch(node) for node in draw.plan.topology.switches]
        for (setting, value, text), switch in product(known, switches):
            yield Change(switch, setting, value(text))
        return
    for step in recommendation.each():
        yield change_at(step.scope, step.knob, step.proposed)


def change_at(place: Entity, knob: str, value: Value) -> Change:
    """Return a knob's value at a place in the simulator's names."""
    if knob == "buffer_alpha_exponent" and isinstance(value, (int, float)):
        return Change(place, "buffer_alpha", 2.0**value)
    if knob == "qp_timeout_code" and isinstance(value, int):
        return Change(place, "ack_timeout_s", ack_timeout_s(value))
    if knob == "ib_host_receive_path":
        return Change(place, "host_repair", value)
    if knob == "job_tclass":
        return Change(place, "rdma_cm_tclass", value)
    return Change(place, knob, value)


def followed(draw: Draw, advice: Iterable[Recommendation]) -> tuple[Draw, list[str]]:
    """Return the draw with the advice followed, and what of it the simulator cannot follow."""
    groups = [(rec, list(changes_of(draw, rec))) for rec in advice]
    unknown = {c.setting for _, changes in groups for c in changes if c.setting not in SETTINGS}
    unfit = [f"{name}: the simulator does not know it" for name in sorted(unknown)]
    shown = [(rec, [c for c in made if c.setting not in unknown]) for rec, made in groups]
    with suppress(FabricError):  # together first: Kmin alone may be above a Kmax to come
        return applied(draw, [change for _, made in shown for change in made]), unfit
    for rec, made in shown:
        try:
            draw = applied(draw, made)
        except FabricError as error:
            unfit.append(f"{rec.knob}: {error}")
    return draw, unfit

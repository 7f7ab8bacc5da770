"""All renderers, and a plan in one language or each device in its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from collectors.model.entities import Host, display
from collectors.model.printable import printable
from tuner.advice.plan import DevicePlan, Plan
from tuner.render import (
    environment,
    eos,
    junos,
    linux,
    mlxconfig,
    nvue,
    nxos,
    onyx,
    opensm,
    sonic,
)
from tuner.render.form import Missing, Rendered, Renderer, by_hand, render_device

RENDERERS: Final[Mapping[str, Renderer]] = MappingProxyType(
    {
        renderer.platform: renderer
        for renderer in (
            eos.RENDERER,
            nxos.RENDERER,
            junos.RENDERER,
            sonic.RENDERER,
            nvue.RENDERER,
            onyx.RENDERER,
            linux.RENDERER,
            mlxconfig.RENDERER,
            environment.NCCL,
            environment.UCX,
            opensm.RENDERER,
        )
    }
)
AUTO: Final = "auto"
_HOST: Final = ("linux", "nccl", "ucx", "opensm")


def render_plan(plan: Plan, platform: str) -> tuple[Rendered, ...]:
    """Return the texts of every device of a plan. platform: a language, or `auto`.

    Raises KeyError for a language that there is not.
    """
    if platform == AUTO:
        return tuple(made for device in plan.devices for made in _own(device))
    renderer = RENDERERS[platform]
    return tuple(
        render_device(device, renderer) for device in plan.devices if _fits(device, renderer)
    )


def _fits(device: DevicePlan, renderer: Renderer) -> bool:
    forwards = device.platform == "linux" and renderer.platform == "linux"
    return forwards or isinstance(device.device, Host) == (renderer.on == "host")


def _own(device: DevicePlan) -> list[Rendered]:
    """Return a device in all of its languages; what none of them has is said once."""
    if isinstance(device.device, Host):
        languages = [RENDERERS[name] for name in _HOST]
    elif device.platform in RENDERERS:
        languages = [RENDERERS[device.platform]]
    else:
        why = "the configuration language of the device is not known: choose one with --render"
        lost = tuple(
            Missing(step.knob, printable(display(step.scope)), by_hand(step) or why)
            for step in device.steps
        )
        return [Rendered(device.name, "", "", "", "", "", lost, {})]
    made = [render_device(device, language) for language in languages]
    spoken = [one for one in made if one.apply]
    if not spoken:
        return made[:1]
    nowhere = set.intersection(*({(m.knob, m.place) for m in one.missing} for one in made))
    reasons: dict[tuple[str, str], Missing] = {}
    for one in made:
        for missing in one.missing:
            known = reasons.get((missing.knob, missing.place))
            if known is None or "has no such knob" in known.why:
                reasons[missing.knob, missing.place] = missing
    lost = tuple(reason for key, reason in reasons.items() if key in nowhere)
    return [replace(one, missing=lost if one is spoken[0] else ()) for one in spoken]

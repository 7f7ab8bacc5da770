"""The cure of a PFC deadlock: take the way up again after coming down off the routes.

A circle of buffers that wait for each other needs a route that goes up a second time: up and
then down, the buffers of a fat tree have an order (Guo et al., SIGCOMM'16 section 4.2; Hu et al.,
HotNets'16). The watchdog ends a circle that has formed, at the price of its packets.
"""

from __future__ import annotations

from collections.abc import Iterable

from collectors.model.entities import Interface, Switch, display
from tuner.advice.cure import GOODPUT, end_of_pauses, recommend_change
from tuner.advice.norm import held
from tuner.advice.recommendation import Effect, Recommendation
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.view import FabricView, Telemetry


def break_circle(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Withdraw the routes that make the circle possible; let a watchdog end it meanwhile."""
    circle = [wire for wire in finding.affected if isinstance(wire, Interface)]
    bouncing = _bouncing(fabric, circle)
    if bouncing:
        first, *others = bouncing
        yield recommend_change(
            finding,
            "route_repair",
            first,
            "down and up again",
            "up, then down",
            f"withdraw the routes that come down to {display(first)} and go up again: without "
            "them no circle of pauses can form",
            [
                *end_of_pauses(finding),
                Effect(
                    GOODPUT, "ratio", 1.0, 1.0, float(len(circle)), "order of buffers",
                    "what waits in the circle moves again; bounded by its links",
                ),
            ],
            confidence=finding.confidence,
            risk="medium",
            missing=("which destinations take that way: routes are not read",),
            also=others,
        )  # fmt: skip
    yield from _watch(finding, telemetry)


def _bouncing(fabric: FabricView, circle: list[Interface]) -> list[Switch]:
    """Return the switches of a circle at which traffic turns upwards again.

    An egress of the circle waits for another one on the switch at the far end of its cable.
    """
    height = _heights(fabric)
    found: dict[Switch, None] = {}
    for wire in circle:
        far = fabric.peer(wire)
        if not isinstance(far, Interface):
            continue
        onwards = [fabric.peer(one) for one in circle if one.switch == far.switch]
        comes_down = height.get(wire.switch, 0) > height.get(far.switch, 0)
        goes_up = any(
            isinstance(end, Interface) and height.get(end.switch, 0) > height.get(far.switch, 0)
            for end in onwards
        )
        if comes_down and goes_up:
            found.setdefault(far.switch)
    return list(found)


def _heights(fabric: FabricView) -> dict[Switch, int]:
    """Return how many cables each switch is away from the nearest host."""
    near: dict[Switch, dict[Switch, None]] = {}
    lowest: dict[Switch, None] = {}
    for port in fabric.ports():
        far = fabric.peer(fabric.attached(port))
        if isinstance(far, Interface):
            lowest.setdefault(far.switch)
    for cable in fabric.links():
        if isinstance(cable.a, Interface) and isinstance(cable.b, Interface):
            near.setdefault(cable.a.switch, {}).setdefault(cable.b.switch)
            near.setdefault(cable.b.switch, {}).setdefault(cable.a.switch)
    height = dict.fromkeys(lowest, 1)
    edge = list(lowest)
    while edge:
        beyond = [there for here in edge for there in near.get(here, ()) if there not in height]
        height |= dict.fromkeys(beyond, height[edge[0]] + 1)
        edge = list(dict.fromkeys(beyond))
    return height


def _watch(finding: Finding, telemetry: Telemetry) -> Iterable[Recommendation]:
    """Yield the watchdog on every interface of the circle's switches that has it off."""
    wires = (finding.subject, *finding.affected)
    switches = dict.fromkeys(wire.switch for wire in wires if isinstance(wire, Interface))
    off = [
        entity
        for entity, setting in held(telemetry, "pfc_watchdog_enabled", switches).items()
        if not setting.value
    ]
    if off:
        yield recommend_change(
            finding,
            "pfc_watchdog_enabled",
            off[0],
            False,
            True,
            "let the PFC watchdog break a circle of pauses that has formed",
            end_of_pauses(finding),
            confidence=finding.confidence,
            risk="medium",
            also=off[1:],
        )

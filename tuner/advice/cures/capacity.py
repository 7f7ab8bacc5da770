"""The cure of a switch with less capacity left than its like: mend its cables, or weigh next hops.

Weights fit the capacity of today: with the cable back they would be wrong, so that a cable that
is known to be down is mended, and the weights are named for the time until it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Final

from collectors.model.entities import Interface, Switch, display, link
from tuner.advice.cure import GOODPUT, recommend_change
from tuner.advice.cures.balance import uplinks
from tuner.advice.cures.link import repair
from tuner.advice.recommendation import Effect, Recommendation
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.rules.unequal_capacity import is_down
from tuner.diagnosis.view import FabricView, Telemetry

MOST_WEIGHT: Final = 8


def weigh(finding: Finding, telemetry: Telemetry, fabric: FabricView) -> Iterable[Recommendation]:
    """Mend the cables that are down; where none is, weigh next hops by the capacity left."""
    switch, (left, usual) = finding.subject, _capacities(finding)
    if not isinstance(switch, Switch) or not left or not usual:
        return
    share = Fraction(left / usual).limit_denominator(MOST_WEIGHT)
    hops = _next_hops(fabric, switch, share)
    interim = ", ".join(
        f"{weight} for next hops {_by_way_of(switch, weight, share)}" for weight in hops
    )
    mended = False
    for uplink in uplinks(fabric, switch):
        far = fabric.peer(uplink)
        if far is not None and is_down(telemetry, fabric, uplink):
            for rec in repair(replace(finding, subject=link(uplink, far)), telemetry, fabric):
                yield replace(rec, summary=f"{rec.summary}; until it is up, ECMP weight {interim}")
            mended = True
    if mended:
        return
    effect = Effect(
        GOODPUT, "ratio", 1.0, 1.0, usual / left, "capacity ratio",
        "traffic is even over the equals, and the smaller one was the bottleneck",
    )  # fmt: skip
    for weight, interfaces in hops.items():
        if weight != 1 and interfaces:
            yield recommend_change(
                finding, "ecmp_weight", interfaces[0], 1, weight,
                f"weight {weight} for next hops {_by_way_of(switch, weight, share)}",
                [effect], confidence=finding.confidence, risk="medium", also=interfaces[1:],
            )  # fmt: skip


def _by_way_of(switch: Switch, weight: int, share: Fraction) -> str:
    return f"through {display(switch)}" if weight == share.numerator else "with all their capacity"


def _next_hops(fabric: FabricView, switch: Switch, share: Fraction) -> dict[int, list[Interface]]:
    """Return the interfaces of the switch's neighbours by the weight that fits them."""
    hops: dict[int, list[Interface]] = {share.numerator: [], share.denominator: []}
    near = dict.fromkeys(
        end.switch
        for one in uplinks(fabric, switch)
        if isinstance(end := fabric.peer(one), Interface)
    )
    for neighbour in near:
        for uplink in uplinks(fabric, neighbour):
            far = fabric.peer(uplink)
            if isinstance(far, Interface):
                weight = share.numerator if far.switch == switch else share.denominator
                hops[weight].append(uplink)
    return hops


def _capacities(finding: Finding) -> tuple[float, float]:
    """Return what is left and what is usual, from the finding's evidence; zeros where unknown."""
    for item in finding.evidence:
        words = item.threshold.split()
        if item.unit == "bps" and isinstance(item.value, (int, float)) and words:
            try:
                return float(item.value), float(words[0])
            except ValueError:
                continue
    return 0.0, 0.0

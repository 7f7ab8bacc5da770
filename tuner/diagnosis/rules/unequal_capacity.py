"""Equal weights over unequal capacity: what is left of a failed group fills up (R30)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from collectors.model.catalogue import interface
from collectors.model.entities import Entity, Interface, Switch, Wire, display
from collectors.model.units import quantity
from tuner.diagnosis.credits import is_infiniband
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.load import Loads, loads
from tuner.diagnosis.once import once
from tuner.diagnosis.pause_roots import pause_roots
from tuner.diagnosis.place import names
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.tiers import capacity_between, links_to_switches, tiers
from tuner.diagnosis.view import FabricView, Telemetry

FULL: Final = 0.85
_STATES: Final = ((interface.CARRIER, 1, (0,)), (interface.OPER_STATE, 1, (2, 7)))
"""Metric, its value where a link is up, those where it is down."""


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find switches with less capacity to their neighbours than their like, at their limit."""
    if is_infiniband(telemetry):
        return beside_the_point(rule)
    known = loads(telemetry, fabric)
    level = tiers(telemetry, fabric)
    capacity = capacity_between(telemetry, fabric, _ends_down(telemetry))
    of_tier: dict[int, Counter[float]] = {}
    for switch, own in capacity.items():
        if level.get(switch, 0) > 0:
            of_tier.setdefault(level[switch], Counter())[own] += 1
    usual = {tier: counted.most_common(1)[0][0] for tier, counted in of_tier.items()}
    roots = {root.wire for root in pause_roots(telemetry, fabric)}
    findings = []
    for switch, own in capacity.items():
        most = usual.get(level.get(switch, 0), 0.0)
        if own >= most:
            continue
        wires = links_to_switches(telemetry, fabric, switch)
        full = [w for w in wires if known.tx.get(w, 0.0) >= FULL or w in roots]
        if full:
            findings.append(_finding(rule, switch, full, own, most, known))
    missing = () if usual else ("speeds of the links of switches above the first tier",)
    return verdict(rule, findings, judged=bool(usual), missing=missing)


def is_down(telemetry: Telemetry, fabric: FabricView, wire: Wire) -> bool:
    """Tell whether either end of a cable says that it is down."""
    down = _ends_down(telemetry)
    return bool(down) and (wire in down or fabric.peer(wire) in down)


def _ends_down(telemetry: Telemetry) -> frozenset[Entity]:
    return once(
        telemetry,
        "ends that are down",
        lambda: frozenset(
            end
            for metric, up, values in _STATES
            for end, seen in telemetry.unlike(metric.name, up).items()
            if seen.value in values
        ),
    )


def _finding(
    rule: Rule, switch: Switch, full: list[Interface], left: float, usual: float, known: Loads
) -> Finding:
    places: list[Entity] = [switch, *full]
    return found(
        rule,
        switch,
        "critical",
        0.8,
        f"{display(switch)} has {quantity(left, 'bps')} to its neighbours, its like have "
        f"{quantity(usual, 'bps')}; ECMP gives it an equal share, and {names(full, 3)} are full",
        [
            Evidence("capacity to other switches", switch, left, "bps", f"{usual:g} as its like"),
            *(known.evidence(wire) for wire in full[:6] if wire in known.tx),
        ],
        affected=full,
        explains=[
            (name, place)
            for place in places
            for name in (
                "ecmp-imbalance",
                "pause-root",
                "path-marks",
                "queue-drops",
                "oversubscription",
            )
        ],
    )


RULE: Final = Rule(
    id="unequal-capacity",
    section="balance",
    title="Equal weights, unequal capacity",
    finds="switches above the first tier with less capacity left to other switches than most of "
    "their tier, of which a link is full or stops its peers",
    quiet_when="all have the same, or no link of the lesser one is at its limit",
    cannot_tell_when="there is no second tier, or the speeds of its links are unknown",
    refutes="ECMP weighs its members by capacity, or adaptive routing is on",
    judge=judge,
    answers=("R30",),
)

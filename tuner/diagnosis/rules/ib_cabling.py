"""Cabling that breaks the pattern of the tree: missing uplinks, a port on another rail."""

from __future__ import annotations

from typing import Final

from collectors.model.entities import Entity, Interface, Port, display
from tuner.diagnosis.credits import is_elsewhere
from tuner.diagnosis.finding import Evidence, Verdict
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.view import FabricView, Telemetry


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Report what the sweep found odd about a device's cabling."""
    if is_elsewhere(telemetry, fabric):
        return beside_the_point(rule)
    things: dict[Entity, None] = {}
    for neighbour in telemetry.neighbours():
        if neighbour.how != "ib":
            continue
        for end in (neighbour.local, neighbour.remote):
            if isinstance(end, Interface):
                things.setdefault(end.switch)
            elif isinstance(end, Port):
                things.setdefault(end.device)
    findings = []
    for thing in things:
        odd = telemetry.attributes(thing).get("ib_oddity")
        if odd is None or str(odd.value).startswith("reduced rate"):
            continue  # a slow cable is the bad-cable rule's
        findings.append(
            found(
                rule,
                thing,
                "warning",
                0.7,
                f"the cabling of {display(thing)} differs from its like: {odd.value}",
                [Evidence("ib_oddity", thing, str(odd.value), note="most of its like agree")],
                affected=[thing],
            )
        )
    missing = () if things else ("cables of an InfiniBand sweep",)
    return verdict(rule, findings, judged=bool(things), missing=missing)


RULE: Final = Rule(
    id="ib-cabling",
    section="link",
    title="InfiniBand cabling that breaks the pattern",
    finds="switches with fewer uplinks or less capacity up than their like, ports on another rail",
    quiet_when="all switches of a tier have the same uplinks, and rails are pure",
    cannot_tell_when="no InfiniBand sweep told of cables",
    refutes="the difference was planned",
    judge=judge,
)

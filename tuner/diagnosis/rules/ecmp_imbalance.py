"""Uplinks of one switch carry unequal loads: hash collision or pinning (R27, R29)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from collectors.model.catalogue import interface
from collectors.model.entities import Entity, Interface, Switch, display
from tuner.diagnosis.finding import Finding, Verdict
from tuner.diagnosis.place import names
from tuner.diagnosis.rule import Rule, found, grew, verdict
from tuner.diagnosis.view import FabricView, Growing, Telemetry

MIN_LINKS: Final = 3
MIN_LOAD: Final = 0.5  # of the fullest uplink's rate: below it nobody suffers
MIN_EXCESS: Final = 1.3  # fullest over mean
IDLE: Final = 0.5  # of the mean: an uplink this empty shows room that the hash leaves unused


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Compare the loads of each switch's links to other switches with an even spread."""
    speeds = {e: seen.value for e, seen in telemetry.latest_all(interface.SPEED.name).items()}
    groups: dict[Switch, dict[Interface, Growing]] = {}
    for wire, growth in telemetry.growth_all(interface.TX_BYTES.name).items():
        if isinstance(wire, Interface) and isinstance(fabric.peer(wire), Interface):
            groups.setdefault(wire.switch, {})[wire] = growth
    judged = {switch: links for switch, links in groups.items() if len(links) >= MIN_LINKS}
    findings = [
        finding
        for switch, links in judged.items()
        for finding in _uneven(rule, switch, links, speeds)
    ]
    missing = () if judged else (f"bytes sent by {MIN_LINKS} uplinks of one switch",)
    return verdict(rule, findings, judged=bool(judged), missing=missing)


def _uneven(
    rule: Rule, switch: Switch, links: dict[Interface, Growing], speeds: dict[Entity, float]
) -> Iterable[Finding]:
    loads = {
        wire: growth.rate * 8 / speeds[wire]
        for wire, growth in links.items()
        if speeds.get(wire, 0.0) > 0
    }
    if len(loads) < MIN_LINKS:
        return
    mean = sum(loads.values()) / len(loads)
    ranked = sorted(loads, key=lambda wire: -loads[wire])
    fullest, emptiest = ranked[0], ranked[-1]
    uneven = loads[fullest] >= MIN_EXCESS * mean and loads[emptiest] <= IDLE * mean
    if loads[fullest] < MIN_LOAD or not uneven:
        return
    hot = [wire for wire in ranked if loads[wire] >= MIN_EXCESS * mean]
    yield found(
        rule,
        switch,
        "critical" if loads[fullest] >= 0.9 else "warning",
        0.8,
        f"the uplinks of {display(switch)} are loaded unevenly: {names(hot, 3)} carry up to "
        f"{loads[fullest] / mean:.1f} times the mean, {display(emptiest)} "
        f"{loads[emptiest] / mean:.1f} times",
        [
            grew(interface.TX_BYTES, wire, links[wire], f"< {MIN_EXCESS} times the mean")
            for wire in [*hot[:6], emptiest]
        ],
        affected=hot,
        explains=[("pause-root", wire) for wire in hot] + [("path-marks", wire) for wire in hot],
    )


RULE: Final = Rule(
    id="ecmp-imbalance",
    section="balance",
    title="Uplinks unevenly loaded",
    finds="switches of which one uplink is over 1.3 times and another under half the mean load",
    quiet_when=f"loads are even, or no uplink is over {MIN_LOAD:.0%} of its rate",
    cannot_tell_when=f"no switch has {MIN_LINKS} uplinks with known bytes, speed and far end",
    refutes="the uplinks have unequal weights on purpose",
    judge=judge,
    answers=("R27",),
)

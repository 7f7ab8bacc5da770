"""Uplinks of one switch carry unequal loads: flows collide in the hash (R27)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from collectors.model.entities import Interface, Switch, Wire, display
from tuner.diagnosis.connections import flows_leaving
from tuner.diagnosis.credits import is_infiniband
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.flow import marked_share
from tuner.diagnosis.load import Loads, loads
from tuner.diagnosis.pause_roots import pause_roots
from tuner.diagnosis.place import names
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.statistics import elephants, imbalance
from tuner.diagnosis.tiers import uplinks
from tuner.diagnosis.view import FabricView, Telemetry

MIN_LINKS: Final = 2
MIN_LOAD: Final = 0.5  # of the fullest uplink's rate: below it nobody suffers
MIN_EXCESS: Final = 1.3  # fullest over mean
SLACK: Final = 0.8  # of the mean: an uplink this empty shows room that the hash leaves unused
FULL: Final = 0.85
FEW_MARKS: Final = 0.005  # of its packets: an uplink that marks fewer is not congested
_UNLIKELY: Final = 0.01


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Compare the loads of each switch's links to the next tier with an even spread."""
    if is_infiniband(telemetry):
        return beside_the_point(rule)
    known = loads(telemetry, fabric)
    flows = flows_leaving(telemetry, fabric)
    findings = []
    judged = False
    for switch, wires in uplinks(telemetry, fabric).items():
        group = {wire: known.tx[wire] for wire in wires if wire in known.tx}
        if len(group) < MIN_LINKS:
            continue
        judged = True
        finding = _uneven(rule, telemetry, switch, group, known, flows.get(switch), fabric)
        if finding is not None:
            findings.append(finding)
    missing = () if judged else (f"bytes sent by {MIN_LINKS} uplinks of one switch",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _holds_up(
    telemetry: Telemetry, fabric: FabricView, hot: list[Interface], *, full: bool
) -> bool:
    """Tell whether somebody waits for these uplinks: uneven or full is no harm in itself."""
    marks = [share for wire in hot if (share := marked_share(telemetry, wire, fabric)) is not None]
    if any(root.wire in hot for root in pause_roots(telemetry, fabric)):
        return True
    if not marks:
        return full
    return max(marks) >= FEW_MARKS or (full and max(marks) > 0)


def _heavy(switch: Switch, known: Loads, fabric: FabricView) -> list[Wire]:
    """Return the few senders below a switch that send most, where there are such."""
    hosts = {
        far: known.speeds.get(far, 0.0) * known.tx[far]
        for wire in known.tx
        if isinstance(wire, Interface) and wire.switch == switch
        and (far := fabric.peer(wire)) is not None and not isinstance(far, Interface)
        and far in known.tx
    }  # fmt: skip
    wires = list(hosts)
    return [wires[place] for place in elephants(np.array(list(hosts.values())))]


def _uneven(
    rule: Rule,
    telemetry: Telemetry,
    switch: Switch,
    group: Mapping[Interface, float],
    known: Loads,
    flows: int | None,
    fabric: FabricView,
) -> Finding | None:
    mean = sum(group.values()) / len(group)
    ranked = sorted(group, key=lambda wire: (-group[wire], str(wire)))
    fullest, emptiest = ranked[0], ranked[-1]
    excess = group[fullest] / mean if mean else 1.0
    if excess < MIN_EXCESS or group[emptiest] > SLACK * mean or group[fullest] < MIN_LOAD:
        return None
    hot = [wire for wire in ranked if group[wire] >= MIN_EXCESS * mean]
    full = group[fullest] >= FULL
    holds_up = _holds_up(telemetry, fabric, hot, full=full)
    chance, counted = "", []
    if flows:
        spread = imbalance(np.array(list(group.values())), flows)
        why = "the hash is blind" if spread.p_value < _UNLIKELY else "too few flows to spread"
        chance = (
            f"; {flows} flows hashed at random reach {spread.expected:.1f} times the mean and as "
            f"much as here in {spread.p_value:.2g} of cases: {why}"
        )
        counted = [
            Evidence("flows", switch, float(flows), "count"),
            Evidence("chance of this imbalance", switch, spread.p_value, "", f">= {_UNLIKELY}"),
        ]
    heavy = _heavy(switch, known, fabric)
    if heavy:
        chance += f"; most comes from {names(heavy, 3)}"
    return found(
        rule,
        switch,
        "info" if not holds_up else "critical" if full else "warning",
        0.85 if full else 0.75,
        f"the uplinks of {display(switch)} are loaded unevenly: {names(hot, 3)} carry up to "
        f"{excess:.1f} times the mean, {display(emptiest)} {group[emptiest] / mean:.1f} times"
        f"{chance}",
        [
            *(known.evidence(w, "tx", f"< {MIN_EXCESS} times the mean") for w in hot[:6]),
            known.evidence(emptiest),
            *counted,
        ],
        affected=hot,
        explains=[
            (name, wire)
            for wire in hot
            for name in ("pause-root", "path-marks", "queue-drops", "marking-saturated")
        ]
        + [("pfc-before-ecn", wire) for wire in hot],
    )


RULE: Final = Rule(
    id="ecmp-imbalance",
    section="balance",
    title="Uplinks unevenly loaded",
    finds=f"switches of which one uplink carries over {MIN_EXCESS} times the mean load while "
    f"another has room, with what chance gives for the number of flows",
    quiet_when=f"loads are even, or no uplink is over {MIN_LOAD:.0%} of its rate",
    cannot_tell_when=f"no switch has {MIN_LINKS} uplinks with known bytes, speed and far end",
    refutes="the uplinks have unequal weights on purpose",
    judge=judge,
    answers=("R27",),
)

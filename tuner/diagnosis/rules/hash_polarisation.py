"""The next tier hashes like the one below and uses only some of its links (R28)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from collectors.model.entities import Interface, Switch, display
from tuner.diagnosis.connections import flows_leaving
from tuner.diagnosis.credits import is_infiniband
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.load import Loads, loads
from tuner.diagnosis.place import names
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.statistics import polarisation
from tuner.diagnosis.tiers import tiers, uplinks
from tuner.diagnosis.view import FabricView, Telemetry

MIN_LINKS: Final = 2
IDLE: Final = 0.05  # of the switch's fullest uplink
MIN_LOAD: Final = 0.3  # of the fullest uplink's rate
MOST_USED: Final = 0.5  # of the links: an even hash leaves so many unused only with few flows
_CHANCE: Final = 0.01
_SEED: Final = "ecmp_hash_seed"
_LIKE: Final = ("ecmp_hash_seed", "ecmp_hash_algorithm", "ecmp_hash_offset")


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find switches above the first tier of whose uplinks half or more stay unused."""
    if is_infiniband(telemetry):
        return beside_the_point(rule)
    known = loads(telemetry, fabric)
    flows = flows_leaving(telemetry, fabric)
    level = tiers(telemetry, fabric)
    groups = uplinks(telemetry, fabric)
    findings: list[Finding] = []
    judged = False
    for switch, wires in groups.items():
        group = {wire: known.tx[wire] for wire in wires if wire in known.tx}
        if level[switch] < 1 or len(group) < MIN_LINKS:
            continue
        judged = True
        most = max(group.values())
        unused = [wire for wire, load in group.items() if load <= IDLE * most]
        if most < MIN_LOAD or len(unused) < (1 - MOST_USED) * len(group):
            continue
        below = _below(switch, groups, fabric)
        if not below or not _spread(below, groups, known):
            continue
        passing = _passing(switch, below, groups, known, fabric, flows)
        findings.append(_finding(rule, telemetry, switch, group, unused, below, known, passing))
    missing = () if judged else ("bytes of the uplinks of a switch above the first tier",)
    return verdict(rule, findings, judged=judged, missing=missing)


def _below(
    switch: Switch, groups: Mapping[Switch, tuple[Interface, ...]], fabric: FabricView
) -> list[Switch]:
    return [
        lower
        for lower, wires in groups.items()
        if any(isinstance(far := fabric.peer(w), Interface) and far.switch == switch for w in wires)
    ]


def _spread(
    below: list[Switch], groups: Mapping[Switch, tuple[Interface, ...]], known: Loads
) -> bool:
    """Tell whether the tier below uses most of its own uplinks."""
    for lower in below:
        group = [known.tx[wire] for wire in groups[lower] if wire in known.tx]
        most = max(group, default=0.0)
        if most and sum(load > IDLE * most for load in group) > MOST_USED * len(group):
            return True
    return False


def _passing(
    switch: Switch, below: list[Switch], groups: Mapping[Switch, tuple[Interface, ...]],
    known: Loads, fabric: FabricView, flows: Mapping[Switch, int],
) -> int:  # fmt: skip
    """Return how many flows come up to a switch, by its share of the load of those below."""
    total = 0.0
    for lower in below:
        sent = {wire: known.tx.get(wire, 0.0) for wire in groups[lower]}
        whole = sum(sent.values())
        here = sum(
            load for wire, load in sent.items()
            if isinstance(far := fabric.peer(wire), Interface) and far.switch == switch
        )  # fmt: skip
        total += flows.get(lower, 0) * here / whole if whole else 0.0
    return round(total)


def _finding(
    rule: Rule,
    telemetry: Telemetry,
    switch: Switch,
    group: Mapping[Interface, float],
    unused: list[Interface],
    below: list[Switch],
    known: Loads,
    passing: int,
) -> Finding:
    used = [wire for wire in group if wire not in unused]
    own, theirs = telemetry.settings(switch), telemetry.settings(below[0])
    alike = [n for n in _LIKE if n in own and n in theirs and own[n].value == theirs[n].value]
    settings = [
        Evidence(name, place, str(held[name].value), "", "differs by tier", note=held[name].where)
        for name in alike
        for place, held in ((switch, own), (below[0], theirs))
    ]
    sure = 0.85 if _SEED in alike else 0.6 if _SEED in own else 0.7
    told = ""
    if passing:
        spread = polarisation(np.array(list(group.values())), passing)
        settings.append(Evidence("chance of so few uplinks", switch, spread.p_value, "", "< 0.01"))
        if spread.p_value >= _CHANCE:
            sure, told = min(sure, 0.4), f"; of {passing} flows chance alone leaves so many unused"
    same = f" with {names(below[:1])} hashing alike" if alike else ""
    return found(
        rule,
        switch,
        "critical",
        sure,
        f"{display(switch)} uses {len(used)} of {len(group)} uplinks while the tier below spreads"
        f"{same}: polarised hash{told}",
        [*settings, *(known.evidence(wire) for wire in (*used[:4], *unused[:4]))],
        affected=used,
        explains=[("ecmp-imbalance", switch), ("pinned-paths", switch)]
        + [
            (name, wire)
            for wire in used
            for name in ("pause-root", "path-marks", "queue-drops", "pfc-before-ecn")
        ],
    )


RULE: Final = Rule(
    id="hash-polarisation",
    section="balance",
    title="Hash polarised between tiers",
    finds="switches above the first tier that leave half or more of their uplinks unused while "
    "the tier below spreads over its own",
    quiet_when="most uplinks are used, or the fullest is not loaded",
    cannot_tell_when="there is no such tier, or bytes of its uplinks are not known",
    refutes="seeds, algorithms or offsets differ by tier, or only few flows pass",
    judge=judge,
    answers=("R28",),
)

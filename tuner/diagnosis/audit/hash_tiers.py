"""Tiers that hash alike: what one switch sent one way, the next sends one way again (R28).

A CRC's seed only renumbers the members of a group of 2^n (collectors/model/ecmp_hash.py), so
another seed alone is said to be weak there.
"""

from __future__ import annotations

from typing import Final

from collectors.model.entities import Interface, Switch, display
from collectors.model.facts import Setting
from tuner.diagnosis.finding import Evidence, Finding, Severity, Verdict
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.tiers import tiers
from tuner.diagnosis.view import FabricView, Telemetry
from tuner.fabric.roles import tier_name

_NAMES: Final = ("ecmp_hash_seed", "ecmp_hash_algorithm", "ecmp_hash_offset", "ecmp_hash_fields")
_SEED: Final = "ecmp_hash_seed"
_MANY: Final = 2  # uplinks: with one there is nothing to choose


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Compare the hash settings of each switch with those of the tier above."""
    known = tiers(telemetry, fabric)
    up: dict[Switch, dict[Switch, int]] = {}
    for cable in fabric.links():
        if not isinstance(cable.a, Interface) or not isinstance(cable.b, Interface):
            continue
        low, high = sorted((cable.a.switch, cable.b.switch), key=lambda one: known.get(one, 0))
        if known.get(low, 0) < known.get(high, 0):
            ways = up.setdefault(low, {})
            ways[high] = ways.get(high, 0) + 1
    choosing = {switch for switch, ways in up.items() if sum(ways.values()) >= _MANY}
    pairs = [(low, high) for low in choosing for high in up[low] if high in choosing]
    if known and not pairs:
        return beside_the_point(rule)
    hashes = {switch: _hash(telemetry, switch) for pair in pairs for switch in pair}
    judged = 0
    alike: dict[tuple[int, bool], list[tuple[Switch, Switch]]] = {}
    for low, high in pairs:
        one, two = hashes[low], hashes[high]
        if _SEED not in one or _SEED not in two:
            continue
        judged += 1
        same = {n: one[n].value == two[n].value for n in _NAMES if n in one and n in two}
        crc = "crc" in str(one["ecmp_hash_algorithm"].value).lower() if _NAMES[1] in one else False
        uplinks = sum(up[high].values())
        power = uplinks & (uplinks - 1) == 0
        if all(same.values()):
            alike.setdefault((known[low], True), []).append((low, high))
        elif crc and power and all(v for n, v in same.items() if n != _SEED):
            alike.setdefault((known[low], False), []).append((low, high))
    findings = [
        _finding(rule, tier, found_pairs, hashes, whole=whole)
        for (tier, whole), found_pairs in alike.items()
    ]
    missing = () if judged else ("hash seeds of two adjacent tiers that both choose among uplinks",)
    return verdict(rule, findings, judged=judged > 0, missing=missing)


def _hash(telemetry: Telemetry, switch: Switch) -> dict[str, Setting]:
    settings = telemetry.settings(switch)
    return {name: settings[name] for name in _NAMES if name in settings}


def _finding(
    rule: Rule, tier: int, pairs: list[tuple[Switch, Switch]],
    hashes: dict[Switch, dict[str, Setting]], *, whole: bool,
) -> Finding:  # fmt: skip
    low, high = min(pairs, key=str)
    severity: Severity = "warning" if whole else "info"
    text = (
        "hash with the same seed and algorithm: the upper one uses only part of its uplinks"
        if whole
        else "differ in the seed alone, which for a CRC over 2^n uplinks only renumbers them"
    )
    return found(
        rule, high, severity, 0.8 if whole else 0.5,
        f"{tier_name(tier)} and {tier_name(tier + 1)} switches {text} "
        f"({len(pairs)} pairs, as {display(low)} and {display(high)})",
        [
            Evidence(name, switch, str(setting.value), "", "one a tier", note=setting.where)
            for switch in (low, high)
            for name, setting in hashes[switch].items()
        ],
        affected=sorted({switch for pair in pairs for switch in pair}, key=str)[:16],
        explains=[("hash-polarisation", switch) for _, switch in pairs],
    )  # fmt: skip


RULE: Final = Rule(
    id="hash-tiers",
    section="balance",
    title="Adjacent tiers hash alike",
    finds="tiers that choose uplinks by the same seed, algorithm, offset and fields",
    quiet_when="each tier hashes in a way of its own",
    cannot_tell_when="the hash seeds of two adjacent tiers are unknown",
    refutes="the device mixes something of its own (ingress port, chip id) into the hash",
    judge=judge,
)

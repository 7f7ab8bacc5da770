"""A hop at which the RoCE class has no PFC although it has it everywhere else (R12)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from collectors.model.entities import Entity, Interface, Switch, Wire, display, link, wire_of
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.lossless import (
    PFC,
    losses_behind,
    lossless_drops,
    usual_lossless,
    with_pfc,
)
from tuner.diagnosis.place import names, only_software_rdma
from tuner.diagnosis.rule import Rule, beside_the_point, found, verdict
from tuner.diagnosis.view import FabricView, Telemetry

MIN_WIRES: Final = 3  # fewer have no majority


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find cables, or whole switches, without PFC for a priority that most have it for."""
    known = with_pfc(telemetry)
    if not known and only_software_rdma(telemetry, fabric):
        return beside_the_point(rule)
    enough = sum(map(len, known.values())) >= MIN_WIRES
    usual = usual_lossless(telemetry) if enough else frozenset()
    lacking = {wire: on for on, wires in known.items() if not usual <= on for wire in wires}
    if not usual:
        settled = enough and not any(known)
        return verdict(rule, (), judged=settled, missing=() if settled else ("PFC of most ports",))
    told = map(wire_of, telemetry.setting_all(PFC)) if lacking else ()
    without = list(dict.fromkeys(wire for wire in told if wire in lacking))
    by_switch: dict[Switch, list[Wire]] = {}
    for wire in without:
        if isinstance(wire, Interface):
            by_switch.setdefault(wire.switch, []).append(wire)
    every = Counter(
        wire.switch
        for wires in (known.values() if by_switch else ())
        for wire in wires
        if isinstance(wire, Interface)
    )
    whole = {s for s, wires in by_switch.items() if len(wires) > 1 and 2 * len(wires) > every[s]}
    findings: dict[Entity, Finding] = {}
    for switch in whole:
        findings[switch] = _finding(rule, telemetry, switch, by_switch[switch], lacking, usual)
    for wire in without:
        far = fabric.peer(wire)
        if any(isinstance(end, Interface) and end.switch in whole for end in (wire, far)):
            continue
        place = wire if far is None or far not in lacking else link(wire, far)
        findings.setdefault(place, _finding(rule, telemetry, place, [wire], lacking, usual))
    return verdict(rule, findings.values(), judged=True)


def _finding(
    rule: Rule,
    telemetry: Telemetry,
    place: Entity,
    wires: list[Wire],
    on: Mapping[Wire, frozenset[int]],
    usual: frozenset[int],
) -> Finding:
    lacking = ", ".join(map(str, sorted(usual - on[wires[0]])))
    drops = lossless_drops(telemetry)
    near = {wire.switch for wire in wires if isinstance(wire, Interface)}
    lost = [drops[switch] for switch in near if switch in drops]
    evidence = [
        Evidence(PFC, wire, ",".join(map(str, sorted(on[wire]))) or "none", "", "as most ports")
        for wire in wires[:6]
    ]
    return found(
        rule,
        place,
        "critical" if lost else "warning",
        0.9 if lost else 0.8,
        f"{display(place)} has no PFC for priority {lacking}, which is lossless elsewhere "
        f"({names(wires)})" + (": it drops packets of it" if lost else ""),
        [*evidence, *(item for found_ in lost for item in found_.evidence[:3])],
        affected=wires,
        explains=[
            *(claim for wire in wires for claim in losses_behind(wire)),
            *(("pfc-mismatch", wire) for wire in wires),
            *(claim for found_ in lost for at in found_.at_egress for claim in losses_behind(at)),
            *((name, switch) for switch in near for name in ("headroom-too-small",)),
        ],
    )


RULE: Final = Rule(
    id="class-not-lossless",
    section="config",
    title="RoCE class not lossless at a hop",
    finds="cables and switches without PFC for the priorities that most of the fabric has it for",
    quiet_when="all agree, or the fabric has no lossless priority",
    cannot_tell_when=f"PFC of fewer than {MIN_WIRES} ports is known, or there is no majority",
    refutes="no RoCE traffic passes there (storage, management, other tenants)",
    judge=judge,
    answers=("R12",),
)

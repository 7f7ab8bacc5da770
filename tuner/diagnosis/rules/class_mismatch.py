"""A switch puts RoCE into another class than its neighbours do: trust or DSCP map (R13)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from collectors.model.catalogue import interface, rdma
from collectors.model.entities import Entity, Interface, Switch, display, queue, wire_of
from collectors.model.facts import Setting, Value
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.lossless import losses_behind, usual_lossless
from tuner.diagnosis.place import QUORUM, usual_of
from tuner.diagnosis.rule import Rule, found, grew, verdict
from tuner.diagnosis.view import FabricView, Telemetry

MIN_SHARE: Final = 0.3  # of an egress's bytes in a queue without PFC
MIN_RDMA: Final = 0.7  # of what the host behind it receives
MIN_DROPS: Final = 10
_MAPS: Final = ("dscp_to_traffic_class", "dscp_to_priority")
_TRUST: Final = "trust"


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Compare how switches classify the DSCPs of RoCE data, then look where its bytes went."""
    codes = _data_codes(telemetry)
    findings: dict[Entity, Finding] = {}
    judged = False
    for name in _MAPS:
        known = _of_switches(telemetry, name)
        for code in codes:
            classes = _by_class(known, code)
            usual = usual_of(classes)
            judged = judged or usual is not None
            if usual is not None and len(classes) > 1:
                text = f"DSCP {code}: {usual} elsewhere"
                for place, shown in _odd(telemetry, name, classes, usual).items():
                    findings.setdefault(place, _finding(rule, place, shown, text))
    trusts = _of_switches(telemetry, _TRUST)
    usual = usual_of(trusts)
    judged = judged or usual is not None
    if usual == "dscp" and len(trusts) > 1:
        for place, shown in _odd(telemetry, _TRUST, trusts, usual).items():
            findings.setdefault(place, _finding(rule, place, shown, "dscp as elsewhere"))
    astray, counted = _astray(rule, telemetry, fabric)
    for finding in astray:
        findings.setdefault(finding.subject, finding)
    missing = ("DSCP maps or trust of several switches, or bytes by queue",)
    judged = judged or counted
    return verdict(rule, findings.values(), judged=judged, missing=() if judged else missing)


def _data_codes(telemetry: Telemetry) -> list[int]:
    """Return the DSCPs of RoCE data: as set on NICs, and of the queue pairs that exist."""
    told = [setting.value for setting in telemetry.setting_all("roce_dscp").values()]
    told += [pair.tclass >> 2 for pair in telemetry.queue_pairs() if pair.tclass is not None]
    return [code for code in dict.fromkeys(told) if isinstance(code, int) and 0 <= code < 64]


def _of_switches(telemetry: Telemetry, name: str) -> dict[Value, list[Entity]]:
    """Return the switches and interfaces that have a setting by its value."""
    kept: dict[Value, list[Entity]] = {
        value: [entity for entity in entities if isinstance(entity, (Interface, Switch))]
        for value, entities in telemetry.alike(name).items()
    }
    return {value: entities for value, entities in kept.items() if entities}


def _by_class(maps: Mapping[Value, list[Entity]], code: int) -> dict[Value, list[Entity]]:
    """Return the places by the class that their map gives to a DSCP."""
    classes: dict[Value, list[Entity]] = {}
    for value, places in maps.items():
        if isinstance(value, tuple) and len(value) > code:
            classes.setdefault(value[code], []).extend(places)
    return classes


def _odd(
    telemetry: Telemetry, name: str, classes: Mapping[Value, list[Entity]], usual: Value
) -> dict[Entity, list[tuple[Setting, str]]]:
    """Return settings and classes unlike the usual: by switch where most of it is, else singly."""
    settings = telemetry.setting_all(name)
    class_of = {place: value for value, places in classes.items() for place in places}
    known = [place for place in settings if place in class_of]
    odd = [place for place in known if class_of[place] != usual]
    return {
        place: [(settings[one], str(class_of[one])) for one in places]
        for place, places in _by_switch(odd, known).items()
    }


def _by_switch(odd: Sequence[Entity], known: Iterable[Entity]) -> dict[Entity, list[Entity]]:
    """Return odd places by switch where most of it is odd, else one by one."""
    of: dict[Entity, list[Entity]] = {}
    for place in odd:
        of.setdefault(_switch(place), []).append(place)
    every = Counter(map(_switch, known))
    grouped: dict[Entity, list[Entity]] = {}
    for switch, places in of.items():
        if 2 * len(places) > every[switch]:
            grouped[switch] = places
        else:
            grouped |= {place: [place] for place in places}
    return grouped


def _switch(place: Entity) -> Entity:
    return place.switch if isinstance(place, Interface) else place


def _finding(rule: Rule, place: Entity, shown: list[tuple[Setting, str]], expected: str) -> Finding:
    setting, value = shown[0]
    return found(
        rule,
        place,
        "critical",
        0.85,
        f"{display(place)} classifies RoCE data in its own way: {setting.name} gives {value} "
        f"({expected})",
        [
            Evidence(held.name, held.entity, text, "", expected, note=held.where)
            for held, text in shown[:6]
        ],
        affected=[held.entity for held, _ in shown],
        explains=[
            claim
            for held, _ in shown
            for claim in (*losses_behind(held.entity), ("class-not-lossless", held.entity))
        ],
    )


def _astray(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> tuple[Iterable[Finding], bool]:
    """Return egresses that drop RDMA in a queue without PFC, and whether bytes are known."""
    lossless = usual_lossless(telemetry)
    if not lossless or not telemetry.counted(interface.QUEUE_TX_BYTES.name):
        return (), False
    dropped = telemetry.growing(interface.QUEUE_DROPS.name, MIN_DROPS)
    dropping = {wire_of(slot) for slot in dropped}
    sent = telemetry.growth_all(interface.QUEUE_TX_BYTES.name)
    findings = []
    for port in fabric.ports() if dropping else ():
        egress = fabric.peer(fabric.attached(port))
        if not isinstance(egress, Interface) or egress not in dropping:
            continue
        received = telemetry.growth(rdma.RX_BYTES.name, port)
        if received is None:
            continue
        slots = [queue(egress, index) for index in range(8)]
        carried = {slot: sent[slot].total for slot in slots if slot in sent}
        total = sum(carried.values())
        for slot, count in carried.items():
            drops = dropped.get(slot)
            if slot.index in lossless or count < MIN_SHARE * total or drops is None:
                continue
            if received.total >= MIN_RDMA * total:
                findings.append(
                    found(
                        rule,
                        egress,
                        "critical",
                        0.7,
                        f"RoCE data to {display(port)} travels in queue {slot.index}, which has no "
                        "PFC, and is dropped there",
                        [
                            grew(interface.QUEUE_TX_BYTES, slot, sent[slot], "lossless queue"),
                            grew(interface.QUEUE_DROPS, slot, drops, f"< {MIN_DROPS}"),
                            grew(rdma.RX_BYTES, port, received),
                        ],
                        affected=[port],
                        explains=losses_behind(egress),
                    )
                )
    return findings, True


RULE: Final = Rule(
    id="class-mismatch",
    section="config",
    title="RoCE in another class at a switch",
    finds="switches whose trust or DSCP map differs from most for the DSCPs of RoCE data; egresses "
    "that drop RoCE data in a queue without PFC",
    quiet_when="all classify alike, and RoCE bytes leave in lossless queues or are not dropped",
    cannot_tell_when=f"fewer than {QUORUM} maps and no bytes by queue are known",
    refutes="that switch carries no RoCE traffic",
    judge=judge,
    answers=("R13",),
)

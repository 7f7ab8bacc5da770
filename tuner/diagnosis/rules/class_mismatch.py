"""A switch puts RoCE into another class than its neighbours do: trust or DSCP map (R13)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from collectors.model.catalogue import interface, rdma
from collectors.model.entities import Entity, Interface, Switch, display, queue
from collectors.model.facts import Setting
from tuner.diagnosis.finding import Evidence, Finding, Verdict
from tuner.diagnosis.lossless import losses_behind, usual_lossless
from tuner.diagnosis.place import majority
from tuner.diagnosis.rule import Rule, found, grew, verdict
from tuner.diagnosis.view import FabricView, Telemetry

MIN_PLACES: Final = 3  # fewer have no majority
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
        maps = _of_switches(telemetry.setting_all(name))
        for code in codes:
            classes = {e: s.value[code] for e, s in maps.items() if _has(s, code)}  # type: ignore[index]
            usual = majority(classes) if len(classes) >= MIN_PLACES else None
            judged = judged or usual is not None
            odd = [e for e, value in classes.items() if usual is not None and value != usual]
            text = f"DSCP {code}: {usual} elsewhere"
            for switch, places in _by_switch(odd, classes).items():
                shown = [(maps[p], str(classes[p])) for p in places]
                findings.setdefault(switch, _finding(rule, switch, shown, text))
    trusts = _of_switches(telemetry.setting_all(_TRUST))
    usual = majority({e: s.value for e, s in trusts.items()})
    judged = judged or usual is not None
    odd = [e for e, s in trusts.items() if usual == "dscp" and s.value != usual]
    for switch, places in _by_switch(odd, trusts).items():
        shown = [(trusts[p], str(trusts[p].value)) for p in places]
        findings.setdefault(switch, _finding(rule, switch, shown, "dscp as elsewhere"))
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


def _of_switches(settings: Mapping[Entity, Setting]) -> dict[Entity, Setting]:
    return {e: s for e, s in settings.items() if isinstance(e, (Interface, Switch))}


def _has(setting: Setting, code: int) -> bool:
    return isinstance(setting.value, tuple) and len(setting.value) > code


def _by_switch(odd: list[Entity], known: Mapping[Entity, object]) -> dict[Entity, list[Entity]]:
    """Return odd places by switch where most of it is odd, else one by one."""
    of: dict[Entity, list[Entity]] = {}
    for place in odd:
        of.setdefault(place.switch if isinstance(place, Interface) else place, []).append(place)
    every: Counter[Entity] = Counter(
        place.switch if isinstance(place, Interface) else place for place in known
    )
    grouped: dict[Entity, list[Entity]] = {}
    for switch, places in of.items():
        if 2 * len(places) > every[switch]:
            grouped[switch] = places
        else:
            grouped |= {place: [place] for place in places}
    return grouped


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
    sent = telemetry.growth_all(interface.QUEUE_TX_BYTES.name)
    findings = []
    if not lossless or not sent:
        return (), False
    for port in fabric.ports():
        received = telemetry.growth(rdma.RX_BYTES.name, port)
        egress = fabric.peer(fabric.attached(port))
        if received is None or not isinstance(egress, Interface):
            continue
        slots = [queue(egress, index) for index in range(8)]
        carried = {slot: sent[slot].total for slot in slots if slot in sent}
        total = sum(carried.values())
        for slot, count in carried.items():
            drops = telemetry.growth(interface.QUEUE_DROPS.name, slot)
            if slot.index in lossless or count < MIN_SHARE * total or drops is None:
                continue
            if drops.total >= MIN_DROPS and received.total >= MIN_RDMA * total:
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
    cannot_tell_when=f"fewer than {MIN_PLACES} maps and no bytes by queue are known",
    refutes="that switch carries no RoCE traffic",
    judge=judge,
    answers=("R13",),
)

"""From recommendations to a plan: no step that contradicts another, each device in safe order.

Order within a device: what people repair, room for pauses before pauses, pauses before the class
that relies on them, marking before senders that react to it, jobs last. Undo goes backwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from collectors.model.entities import (
    Entity,
    Host,
    Interface,
    Link,
    Netdev,
    Port,
    Slot,
    Switch,
    Wire,
    display,
    host_of,
    wire_of,
)
from collectors.model.facts import Attribute, Setting
from tuner.advice.knobs import classes, dcqcn, infiniband, jobs, lossless, nic, paths, queues
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.knobs.knob import Knob, shown
from tuner.advice.language import platform_of
from tuner.advice.plan import Check, Conflict, DevicePlan, Plan, Refusal, Step
from tuner.advice.recommendation import Recommendation
from tuner.advice.rollout import HOLD_S, stages
from tuner.advice.words import effect
from tuner.fabric.natural import natural

_AREAS: Final = (paths, lossless, classes, queues, nic, dcqcn, infiniband, jobs)
_RANK: Final = {
    knob.name: (area, place)
    for area, module in enumerate(_AREAS)
    for place, knob in enumerate(module.KNOBS)
}
# Room for pauses before pauses themselves.
_FIRST: Final = (
    "link_repair", "buffer_alpha_exponent", "reserved_buffer_bytes", "buffer_bytes",
    "priority_to_buffer", "xoff_bytes", "xon_bytes", "xon_offset_bytes",
    "pause_threshold_bytes", "resume_threshold_bytes", "pfc_cable_length_metres",
)  # fmt: skip
# (smaller, larger): settings of one place that must stay in this order.
_ORDERED: Final = (
    ("kmin_bytes", "kmax_bytes"),
    ("kmin_fill_ratio", "kmax_fill_ratio"),
    ("resume_threshold_bytes", "pause_threshold_bytes"),
    ("pfc_watchdog_poll_seconds", "pfc_watchdog_detection_seconds"),
    ("dcqcn_ai_bps", "dcqcn_hai_bps"),
)
# Knobs that both ends of a cable must have alike.
_BOTH_ENDS: Final = ("pfc_priorities", "mtu_bytes", "speed_bps", "fec")


class PlanFacts(Protocol):
    """What a plan needs to know of the devices: a window satisfies it."""

    def known_owners(self) -> Sequence[Entity]:
        """Return every entity that readings or facts speak of; of a slot what it is part of."""

    def parts_of(self, owners: Iterable[Entity]) -> Iterable[Entity]:
        """Return those of some entities that are known, and all their slots, each once."""

    def settings(self, entity: Entity) -> Mapping[str, Setting]:
        """Return the running settings of an entity by name."""

    def attributes(self, entity: Entity) -> Mapping[str, Attribute]:
        """Return identity and inventory of an entity by name."""


class Cables(Protocol):
    """Who hangs on whom: a fabric satisfies it."""

    def peer(self, wire: Wire) -> Wire | None:
        """Return the other end of a cable."""


def device_of(entity: Entity) -> Host | Switch | None:
    """Return the host or switch that is configured where an entity is changed."""
    match entity:
        case Host() | Switch():
            return entity
        case Interface(switch):
            return switch
        case Slot(parent):
            return device_of(parent)
        case Link(a, b):
            return device_of(a if isinstance(a, Interface) else b)
        case _:
            host = host_of(entity)
            return None if host is None else Host(host)


def build_plan(
    recommendations: Sequence[Recommendation],
    facts: PlanFacts,
    cables: Cables,
    reasons: Mapping[str, str],
) -> Plan:
    """Return the plan of some recommendations, the more urgent first among them.

    reasons: finding id -> summary.
    """
    refused: list[Refusal] = []
    conflicts: list[Conflict] = []
    chosen: dict[tuple[Entity, str], Recommendation] = {}
    for rec in (one for wide in recommendations for one in wide.each()):
        why = _unfit(rec, facts)
        if why:
            refused.append(Refusal(rec.id, rec.knob, rec.scope, why))
            continue
        key = (rec.scope, rec.knob)
        rival = chosen.setdefault(key, rec)
        if rival is not rec and rival.proposed != rec.proposed:
            conflicts.append(_rivals(rival, rec))
    conflicts += _disordered(chosen, facts)
    devices = tuple(_devices(chosen.values(), facts, reasons))
    conflicts += _unlike_ends(chosen, facts, cables)
    return Plan(devices, stages(devices, chosen.values(), cables), tuple(conflicts), tuple(refused))


def _unfit(rec: Recommendation, facts: PlanFacts) -> str:
    """Return why a recommendation may not be carried out, '' where it may."""
    knob = KNOBS.get(rec.knob)
    if knob is None:
        return "the catalogue has no such knob"
    if knob.owner == "firmware":
        return "the firmware owns this knob"
    why = knob.unfit(rec.proposed)
    if why:
        return f"{rec.knob}: {why}"
    if rec.knob.startswith("dcqcn_") and isinstance(rec.scope, Port):
        algorithm = facts.settings(rec.scope).get("congestion_control")
        running = "unknown" if algorithm is None else algorithm.value
        if running != "dcqcn":
            return f"the algorithm of {display(rec.scope)} is {running}, not known to be DCQCN"
    if isinstance(rec.scope, Netdev) and _by_dcb(knob):
        mode = facts.settings(rec.scope).get("dcbx_mode")
        modes = mode.value if mode is not None and isinstance(mode.value, tuple) else ()
        if "firmware" in modes and "host" not in modes:
            return (
                f"the firmware manages DCB of {display(rec.scope)} and would overwrite it: let "
                "the host manage it first (mlnx_qos -d os, or switch the fw-lldp-agent off)"
            )
    return ""


def _by_dcb(knob: Knob) -> bool:
    home = knob.home("linux")
    return home is not None and home.place.startswith(("dcb ", "mlnx_qos"))


def _rivals(kept: Recommendation, other: Recommendation) -> Conflict:
    return Conflict(
        (kept.id, other.id),
        f"{kept.knob} of {display(kept.scope)}: {shown(kept.proposed, kept.unit)} and "
        f"{shown(other.proposed, other.unit)} are both recommended; the first is more urgent",
        kept.id,
    )


def _disordered(
    chosen: dict[tuple[Entity, str], Recommendation], facts: PlanFacts
) -> Iterator[Conflict]:
    """Leave out the later one of two that would turn an order round, e.g. Kmin above Kmax."""
    for (scope, name), rec in list(chosen.items()):
        for low, high in _ORDERED:
            if name not in (low, high) or (scope, name) not in chosen:
                continue
            other = high if name == low else low
            rival = chosen.get((scope, other))
            known = facts.settings(scope).get(other)
            value = rival.proposed if rival else None if known is None else known.value
            if not isinstance(value, (int, float)) or not isinstance(rec.proposed, (int, float)):
                continue
            small, large = (rec.proposed, value) if name == low else (value, rec.proposed)
            if small <= large:
                continue
            order = list(chosen)
            later = rec
            if rival is not None and order.index((scope, other)) > order.index((scope, name)):
                later = rival
            del chosen[scope, later.knob]
            yield Conflict(
                tuple(r.id for r in (rec, rival) if r is not None),
                f"{display(scope)}: {low} {shown(small, rec.unit)} would be above {high} "
                f"{shown(large, rec.unit)}; "
                f"{later.knob} is left out",
                "" if rival is None else (rec if later is rival else rival).id,
            )


def _unlike_ends(
    chosen: Mapping[tuple[Entity, str], Recommendation], facts: PlanFacts, cables: Cables
) -> Iterator[Conflict]:
    """Name cables whose ends would differ after the plan in what must be alike."""
    for (scope, name), rec in chosen.items():
        wire = wire_of(scope)
        far = None if wire is None or scope != wire else cables.peer(wire)
        if name not in _BOTH_ENDS or far is None:
            continue
        rival = chosen.get((far, name))
        known = facts.settings(far).get(name)
        value = rival.proposed if rival else None if known is None else known.value
        if value is not None and value != rec.proposed:
            yield Conflict(
                (rec.id,) if rival is None else (rec.id, rival.id),
                f"{name}: {display(scope)} would be {shown(rec.proposed, rec.unit)}, its peer "
                f"{display(far)} {shown(value, rec.unit)}; both ends must be alike",
            )


def _devices(
    chosen: Iterable[Recommendation], facts: PlanFacts, reasons: Mapping[str, str]
) -> Iterator[DevicePlan]:
    by_device: dict[Host | Switch, list[Recommendation]] = {}
    for rec in chosen:
        device = device_of(rec.scope)
        if device is not None:
            by_device.setdefault(device, []).append(rec)
    if not by_device:
        return
    parts: dict[Host | Switch, list[Entity]] = {}
    planned = [owner for owner in facts.known_owners() if device_of(owner) in by_device]
    for entity in facts.parts_of(planned):
        device = device_of(entity)
        if device is not None:
            parts.setdefault(device, []).append(entity)
    for device, recs in by_device.items():
        entities = parts.get(device, [])
        settings = tuple(row for e in entities for row in facts.settings(e).values())
        attributes = tuple(row for e in entities for row in facts.attributes(e).values())
        ordered = sorted(recs, key=lambda rec: rank(rec.knob, rec.scope))
        yield DevicePlan(
            device,
            display(device) if device.name else str(device),
            platform_of(device, settings, attributes),
            tuple(step_of(number, rec, reasons) for number, rec in enumerate(ordered, 1)),
            settings,
            attributes,
        )


def rank(knob: str, scope: Entity) -> tuple[int, int, int, list[tuple[int, str]]]:
    """Return what to sort the changes of a device by, to have them in a safe order."""
    first = _FIRST.index(knob) if knob in _FIRST else len(_FIRST)
    return (first, *_RANK[knob], natural(str(scope)))


def step_of(number: int, rec: Recommendation, reasons: Mapping[str, str]) -> Step:
    """Return the step of a recommendation."""
    return Step(
        number,
        rec.id,
        rec.knob,
        rec.scope,
        rec.current,
        rec.proposed,
        rec.unit,
        rec.summary,
        tuple(reasons.get(finding, finding) for finding in rec.because),
        rec.risk,
        rec.risk_reason,
        rec.how,
        rec.undo,
        Check(
            _reads_back(rec),
            effect(rec.effects[0]) if rec.effects else "",
            HOLD_S,
        ),
    )


def _reads_back(rec: Recommendation) -> str:
    if not KNOBS[rec.knob].homes:
        return "done by hand: the finding is gone from `tuner suggest`"
    return f"{rec.knob} of {display(rec.scope)} reads {shown(rec.proposed, rec.unit)}"

"""Fleet drift: who is set otherwise than most of its like, by vendor, model and tier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from collectors.model.catalogue.settings import ATTRIBUTES, SETTINGS
from collectors.model.entities import (
    Entity,
    Host,
    Interface,
    Slot,
    Switch,
    display,
    host_of,
    wire_of,
)
from collectors.model.facts import Value
from tuner.diagnosis.finding import Evidence, Finding, Severity, Verdict
from tuner.diagnosis.place import names
from tuner.diagnosis.rule import Rule, found, verdict
from tuner.diagnosis.view import FabricView, Telemetry
from tuner.fabric.roles import Roles

LEAST: Final = 4  # of one role: fewer have no custom
MOST: Final = 0.75  # share that must agree

_OWN: Final = frozenset({  # differ from place to place in a sound fabric
    "job_environment", "peer_pfc_priorities", "wred_profile", "pfc_cable_length_metres",
    "ib_cc_supported", "admin_enabled", "speed_autonegotiate", "pause_autonegotiate",
})  # fmt: skip
_INVENTORY: Final = ("firmware", "driver", "software", "board_id", "max_qp")
_HARMLESS: Final = frozenset(
    {"firmware", "software", "board_id", "max_qp", "driver", "buffer_bytes"}
)


@dataclass(frozen=True, slots=True)
class _Odd:
    entity: Entity
    value: Value
    usual: Value
    role: str
    share: float
    where: str


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Compare each setting within each role; one finding a box and setting."""
    roles = Roles(telemetry, fabric)
    of: dict[Entity, str | None] = {}
    findings: list[Finding] = []
    compared = 0
    for name, values in _columns(telemetry, fabric):
        by_role: dict[str, dict[Entity, tuple[Value, str]]] = {}
        for entity, value in values:
            if entity not in of:
                of[entity] = roles.of(entity)
            role = of[entity]
            if role is not None:
                by_role.setdefault(role, {})[entity] = value
        odd: dict[Entity, list[_Odd]] = {}
        for role, members in by_role.items():
            compared += len(members) >= LEAST
            for item in _odd(role, members):
                odd.setdefault(_box(item.entity), []).append(item)
        findings += [_finding(rule, name, box, items) for box, items in odd.items()]
    missing = () if compared else (f"one setting of {LEAST} entities of the same role",)
    return verdict(rule, findings, judged=compared > 0, missing=missing)


def _columns(
    telemetry: Telemetry, fabric: FabricView
) -> Iterator[tuple[str, Iterable[tuple[Entity, tuple[Value, str]]]]]:
    """Yield each setting and each compared attribute with its values."""
    for name in SETTINGS:
        if name not in _OWN:
            rows = telemetry.setting_all(name)
            yield name, [(entity, (row.value, row.where)) for entity, row in rows.items()]
    boxes = {port.device: port for port in fabric.ports()}
    switches = {
        end.switch for cable in fabric.links() for end in (cable.a, cable.b)
        if isinstance(end, Interface)
    }  # fmt: skip
    for name in _INVENTORY:
        found_rows: list[tuple[Entity, tuple[Value, str]]] = []
        for device, port in boxes.items():
            attribute = telemetry.attributes(device).get(name)
            if attribute is not None:
                found_rows.append((port, (attribute.value, "")))
        for switch in switches:
            attribute = telemetry.attributes(switch).get(name)
            if attribute is not None:
                found_rows.append((switch, (attribute.value, "")))
        yield name, found_rows


def _odd(role: str, members: Mapping[Entity, tuple[Value, str]]) -> Iterator[_Odd]:
    if len(members) < LEAST:
        return
    counted = Counter(value for value, _ in members.values())
    if len(counted) == 1:
        return
    usual, times = counted.most_common(1)[0]
    share = times / len(members)
    if share < MOST:
        return
    for entity, (value, where) in members.items():
        if value != usual:
            yield _Odd(entity, value, usual, role, share, where)


def _box(entity: Entity) -> Entity:
    """Return the host or switch that an entity is part of."""
    host = host_of(entity)
    if host is not None:
        return Host(host)
    if isinstance(entity, Slot) and isinstance(entity.parent, Switch):
        return entity.parent
    wire = wire_of(entity)
    return wire.switch if isinstance(wire, Interface) else entity


def _finding(rule: Rule, name: str, box: Entity, odd: list[_Odd]) -> Finding:
    first = odd[0]
    row = SETTINGS.get(name) or ATTRIBUTES[name]
    severity: Severity = "info" if name in _HARMLESS or row.unit == "count" else "warning"
    subject = first.entity if len(odd) == 1 else box
    places = [item.entity for item in odd]
    return found(
        rule, subject, severity, 0.5 + first.share / 3,
        f"{name} of {names(places, 3)} is {_text(first.value)}, {_percent(first.share)} of "
        f"{first.role} have {_text(first.usual)}",
        [
            Evidence(
                name, item.entity, _text(item.value), "", f"usual {_text(item.usual)}",
                note=item.where or f"attribute of {display(item.entity)}",
            )
            for item in odd[:8]
        ],
        affected=places[:32],
    )  # fmt: skip


def _percent(share: float) -> str:
    """Return a share that is not all, never rounded up to it."""
    return f"{int(share * 1000) / 10:g}%"


def _text(value: Value) -> str:
    """Return a value for people; of a table only the places that are set."""
    if not isinstance(value, tuple):
        return str(value)
    if all(isinstance(part, bool) for part in value):
        return ",".join(str(place) for place, on in enumerate(value) if on) or "none"
    if len(value) > 8:
        return " ".join(f"{n}:{part}" for n, part in enumerate(value) if part not in (-1, 0)) or "0"
    return " ".join(map(str, value))


RULE: Final = Rule(
    id="fleet-drift",
    section="config",
    title="Set otherwise than most of its like",
    finds=f"settings and versions that differ from those of {MOST:.0%} of the same role",
    quiet_when="every role of four members or more agrees, or has no custom",
    cannot_tell_when="no setting is known of four entities of one role",
    refutes="the box is meant to differ (another service, a trial)",
    judge=judge,
)

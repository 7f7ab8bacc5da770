"""Cures of configuration faults: give the odd place what its like have.

Which settings a rule's finding may be about is the table below; the value comes from the majority
of the like, else from what every RoCE fabric needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from collectors.model.entities import Entity, Link, display, kind_of
from collectors.model.facts import Setting, Value
from collectors.model.roce import Ecn, tclass_of_dscp
from tuner.advice.cure import Cure, end_of_loss, recommend_change
from tuner.advice.knobs.catalogue import KNOBS
from tuner.advice.norm import around, held, usual, wanted
from tuner.advice.recommendation import Recommendation, Risk
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.once import once
from tuner.diagnosis.view import FabricView, Telemetry

_PFC: Final = ("pfc_priorities",)
_MAPS: Final = (
    "trust", "dscp_to_priority", "dscp_to_traffic_class", "traffic_class_to_queue",
    "traffic_class_to_group", "priority_to_queue", "roce_dscp", "forced_tclass", "rdma_cm_tclass",
)  # fmt: skip
_PAUSE: Final = ("pause_rx_enabled", "pause_tx_enabled")
_CNP: Final = ("cnp_dscp", "cnp_priority")
_REACTION: Final = ("dcqcn_rp_enabled", "dcqcn_np_enabled")
_MTU: Final = ("mtu_bytes", "rdma_mtu_bytes")

SETTINGS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "class-not-lossless": _PFC,
        "pfc-mismatch": _PFC,
        "pfc-priority": (*_PFC, "dscp_to_priority"),
        "traffic-class": _MAPS,
        "class-mismatch": _MAPS,
        "shared-class": _MAPS,
        "adaptive-retransmission-off": ("adaptive_retransmission",),
        "slow-restart": ("slow_restart",),
        "cnp-class": _CNP,
        "reaction-off": _REACTION,
        "cnp-feedback": (*_REACTION, *_CNP),
        "roce-mtu": _MTU,
        "global-pause": _PAUSE,
        "pause-with-roce": _PAUSE,
    }
)
"""Rule id -> settings that its findings are about."""

_RISKY: Final = frozenset({"pfc_priorities", "mtu_bytes", "speed_bps", "fec", "admin_enabled"})
ALPHA: Final = "buffer_alpha"
EXPONENT: Final = "buffer_alpha_exponent"


def align(names: Iterable[str]) -> Cure:
    """Return the cure that brings these settings to what is usual."""
    chosen = tuple(names)

    def cure(
        finding: Finding, telemetry: Telemetry, fabric: FabricView
    ) -> Iterable[Recommendation]:
        return aligned(finding, telemetry, fabric, chosen)

    return cure


def aligned(
    finding: Finding, telemetry: Telemetry, fabric: FabricView, names: Iterable[str]
) -> Iterable[Recommendation]:
    """Yield the changes that bring settings at a finding's places to what is usual.

    The subject first; only where nothing is odd there, those who are affected or shown as
    evidence. Places that get the same change share a recommendation.
    """
    names = tuple(names)
    subject = around(fabric, _parts(finding.subject))
    others = around(
        fabric, [*finding.affected, *(item.entity for item in finding.evidence if item.entity)]
    )
    for places in (subject, [place for place in others if place not in subject]):
        found = list(_odd(telemetry, fabric, names, places))
        if found:
            found += _equally_wrong(telemetry, fabric, found)
            yield from _grouped(finding, telemetry, fabric, found)
            return


def _parts(subject: Entity) -> list[Entity]:
    return [subject.a, subject.b] if isinstance(subject, Link) else [subject]


def _equally_wrong(telemetry: Telemetry, fabric: FabricView, found: list[Odd]) -> list[Odd]:
    """Return the other places that are wrong in the same way: all hosts of a job, say."""
    known = {(name, entity) for name, entity, *_ in found}
    more: dict[tuple[str, Entity], Odd] = {}
    kinds: dict[tuple[str, str, Value, Value], Odd] = {}
    for one in found:
        name, place, now, value, _ = one
        kinds.setdefault((name, kind_of(place), now.value, value), one)
    for name, place, now, value, why in kinds.values():
        named = telemetry.setting_all(name)
        for entity in telemetry.alike(name).get(now.value, ()):
            if (name, entity) in known or kind_of(entity) != kind_of(place):
                continue
            better = wanted(telemetry, fabric, name, entity, now.value)
            if better is not None and better[0] == value:
                more.setdefault((name, entity), (name, entity, named[entity], value, why))
    return list(more.values())


def drifted(
    finding: Finding, telemetry: Telemetry, fabric: FabricView, names: Iterable[str]
) -> Iterable[Recommendation]:
    """Yield the changes that bring every place of the fabric to what most of its like have."""
    chosen = tuple(names)
    odd = once(telemetry, ("drift", chosen), lambda: _drift(telemetry, fabric, chosen))
    yield from _grouped(finding, telemetry, fabric, odd)


def _drift(telemetry: Telemetry, fabric: FabricView, names: Iterable[str]) -> list[Odd]:
    odd: list[Odd] = []
    for name in names:
        held_at = telemetry.setting_all(name)
        if len(telemetry.alike(name)) < 2:
            continue  # nobody differs
        for entity, setting in held_at.items():
            found = usual(telemetry, fabric, name, entity)
            if found is not None and found[0] != setting.value:
                odd.append((name, entity, setting, *found))
    return odd


Odd = tuple[str, Entity, Setting, Value, str]


def _odd(
    telemetry: Telemetry, fabric: FabricView, names: Iterable[str], places: list[Entity]
) -> Iterable[Odd]:
    for name in names:
        for entity, setting in held(telemetry, name, places).items():
            found = wanted(telemetry, fabric, name, entity, setting.value)
            if found is not None:
                yield name, entity, setting, *found


def _grouped(
    finding: Finding, telemetry: Telemetry, fabric: FabricView, odd: Iterable[Odd]
) -> Iterable[Recommendation]:
    groups: dict[tuple[str, Value, Value], list[tuple[Entity, str]]] = {}
    for name, entity, setting, value, why in odd:
        knob, now, proposed = as_knob(name, setting.value, value)
        if knob in KNOBS and KNOBS[knob].owner == "operator":
            groups.setdefault((knob, now, proposed), []).append((entity, why))
    effects = end_of_loss(telemetry, fabric, finding.affected)
    for (knob, now, proposed), members in groups.items():
        first, why = members[0]
        risk: Risk = "medium" if knob in _RISKY else "low"
        many = f" and {len(members) - 1} more" if len(members) > 1 else ""
        yield recommend_change(
            finding,
            knob,
            first,
            now,
            proposed,
            f"bring {knob} of {display(first)}{many} to what is usual: {why}",
            effects,
            confidence=finding.confidence,
            risk=risk,
            also=[entity for entity, _ in members[1:]],
        )


def as_knob(name: str, now: Value, proposed: Value) -> tuple[str, Value, Value]:
    """Return knob, current and proposed value of a setting.

    A ratio alpha becomes its exponent, the DSCP of a NIC's data the class forced on its packets.
    """
    if name == "roce_dscp" and isinstance(now, int) and isinstance(proposed, int):
        return "forced_tclass", now << 2, tclass_of_dscp(proposed, Ecn.ECT0)
    if name == ALPHA and isinstance(now, (int, float)) and isinstance(proposed, (int, float)):
        return EXPONENT, exponent_of(float(now)), exponent_of(float(proposed))
    return name, now, proposed


def exponent_of(alpha: float) -> int:
    """Return the nearest n of alpha = 2^n."""
    from math import log2

    return round(log2(alpha)) if alpha > 0 else -7

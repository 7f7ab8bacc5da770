"""Lossless priorities, and where queues and groups lose packets of them all the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collectors.model.catalogue import interface, switch
from collectors.model.entities import Entity, Interface, Slot, Switch, Wire, wire_of
from tuner.diagnosis.finding import Evidence
from tuner.diagnosis.once import once
from tuner.diagnosis.rule import grew
from tuner.diagnosis.view import Telemetry

PFC = "pfc_priorities"


def pfc_of(telemetry: Telemetry) -> Mapping[Wire, frozenset[int]]:
    """Return the priorities with PFC of every wire whose setting is known."""

    def found() -> dict[Wire, frozenset[int]]:
        return {wire: on for on, wires in with_pfc(telemetry).items() for wire in wires}

    return once(telemetry, "pfc_of", found)


def with_pfc(telemetry: Telemetry) -> Mapping[frozenset[int], list[Wire]]:
    """Return the wires of which the priorities with PFC are known, by these."""

    def found() -> dict[frozenset[int], list[Wire]]:
        known: dict[frozenset[int], list[Wire]] = {}
        for value, entities in telemetry.alike(PFC).items():
            wires = [wire for wire in map(wire_of, entities) if wire is not None]
            if isinstance(value, tuple) and wires:
                known.setdefault(frozenset(p for p, on in enumerate(value) if on), []).extend(wires)
        return known

    return once(telemetry, "with_pfc", found)


def usual_lossless(telemetry: Telemetry) -> frozenset[int]:
    """Return the priorities with PFC on most wires; empty where most have none or none is known."""
    counts = {on: len(wires) for on, wires in with_pfc(telemetry).items()}
    usual = max(counts, key=counts.__getitem__, default=frozenset[int]())
    return usual if usual and 2 * counts[usual] > sum(counts.values()) else frozenset()


@dataclass(frozen=True)
class Drops:
    """Packets that a switch lost of a lossless priority: at ingress groups, at egress queues."""

    at_ingress: dict[Interface, tuple[float, Evidence]]
    at_egress: dict[Interface, tuple[float, Evidence]]

    @property
    def total(self) -> float:
        """All packets; both ends of one loss may be counted."""
        places = (*self.at_ingress.values(), *self.at_egress.values())
        return sum(packets for packets, _ in places)

    @property
    def evidence(self) -> list[Evidence]:
        """The places that lost most."""
        places = sorted((*self.at_ingress.values(), *self.at_egress.values()), key=lambda p: -p[0])
        return [evidence for _, evidence in places[:6]]


def lossless_drops(telemetry: Telemetry) -> Mapping[Switch, Drops]:
    """Return by switch what was dropped of the fabric's lossless priorities."""

    def found() -> dict[Switch, Drops]:
        lossless = usual_lossless(telemetry)
        by_switch: dict[Switch, Drops] = {}
        for metric in (switch.GROUP_DROPS, switch.GROUP_BUFFER_DROPS, interface.QUEUE_DROPS):
            for slot, growth in telemetry.growing(metric.name).items():
                place = slot.parent if isinstance(slot, Slot) and slot.index in lossless else None
                if not isinstance(place, Interface):
                    continue
                drops = by_switch.setdefault(place.switch, Drops({}, {}))
                side = drops.at_egress if metric is interface.QUEUE_DROPS else drops.at_ingress
                before = side[place][0] if place in side else 0.0
                evidence = grew(metric, slot, growth, "0 in a lossless priority")
                side[place] = before + growth.total, evidence
        return by_switch

    return once(telemetry, "lossless_drops", found)


def are_counted(telemetry: Telemetry) -> bool:
    """Tell whether any switch counts drops by queue or priority group."""
    return any(
        telemetry.counted(metric.name) for metric in (interface.QUEUE_DROPS, switch.GROUP_DROPS)
    )


def drops_at_all(telemetry: Telemetry) -> bool | None:
    """Tell whether anything is dropped or damaged; None unless queues, groups and links count."""
    kinds = (interface.QUEUE_DROPS, switch.GROUP_DROPS, interface.RX_ERRORS)
    if any(telemetry.growing(metric.name) for metric in kinds):
        return True
    return False if all(telemetry.counted(metric.name) for metric in kinds) else None


def losses_behind(place: Entity) -> list[tuple[str, Entity]]:
    """Return the findings that packets dropped at a wire explain there."""
    return [(rule, place) for rule in ("queue-drops", "loss-on-path", "ack-timeouts")]

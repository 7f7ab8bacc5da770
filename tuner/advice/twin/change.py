"""Changes for a twin: knob, value, place; and what a twin can show of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from collectors.model.entities import (
    Device,
    Entity,
    Host,
    Interface,
    Link,
    Slot,
    Switch,
    host_of,
    wire_of,
)
from collectors.model.facts import Value

QUEUE_PAIRS: Final = "qps_per_connection"
REPAIR: Final = "link_repair"
SPEED: Final = "speed_bps"
HOST: Final = "host_repair"

SHOWN: Final = frozenset(
    {
        "buffer_alpha", "buffer_alpha_exponent", "cnp_priority", "congestion_control",
        "dcqcn_np_enabled", "dcqcn_rp_enabled", "ecmp_hash_algorithm", "ecmp_hash_fields",
        "ecmp_hash_offset", "ecmp_hash_rdma_qp", "ecmp_hash_seed",
        "ecmp_weight", "ecn_enabled", "kmax_bytes", "kmin_bytes", "load_balancing",
        "mtu_bytes", "pause_threshold_bytes", "pfc_priorities", "pfc_watchdog_enabled",
        "pfc_watchdog_detection_seconds", "pfc_watchdog_restoration_seconds",
        "out_of_order_placement", "pmax_ratio",
        "pool_size_bytes", "queue_limit_bytes", "rdma_mtu_bytes", "roce_ecn_codepoint",
        "xoff_bytes", "xon_offset_bytes", HOST, QUEUE_PAIRS, REPAIR, SPEED,
    }
)  # fmt: skip
"""Knobs that change what a twin does, beside every dcqcn_*; others are beyond it."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A knob gets a value at a place and all its parts, or everywhere (None)."""

    knob: str
    value: Value
    place: Entity | None = None

    def holds_for(self, entity: Entity) -> bool:
        """Tell whether an entity is the place or a part of it."""
        place = self.place
        if place is None or entity == place:
            return True
        match place:
            case Host(name):
                return host_of(entity) == name
            case Device():
                return getattr(wire_of(entity), "device", None) == place
            case Switch():
                wire = wire_of(entity)
                inside = isinstance(wire, Interface) and wire.switch == place
                return inside or (isinstance(entity, Slot) and entity.parent == place)
            case Link(a, b):
                return wire_of(entity) in (a, b)
            case _:
                return isinstance(entity, Slot) and entity.parent == place


def shows(knob: str) -> bool:
    """Tell whether a twin's behaviour depends on a knob."""
    return knob in SHOWN or knob.startswith("dcqcn_")

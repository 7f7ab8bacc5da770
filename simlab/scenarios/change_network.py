"""How settings of switches, cables and routing act in the simulator's model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from collectors.model.ecmp_hash import HashAlgorithm, HashField, HashSpec
from collectors.model.entities import Entity, Interface, Switch
from collectors.model.errors import ConfigInvalid
from collectors.model.facts import Value
from simlab.packet.interventions import What
from simlab.packet.parameters import Spread, SwitchModel
from simlab.packet.telemetry_switch_facts import DATA_DSCP, DSCP_TO_CLASS, SWITCH_MTU
from simlab.packet.traffic import DATA_PRIORITY
from simlab.scenarios import change_host
from simlab.scenarios.edit import Edit, enabled, is_switch_place, number

_MAP: Final = "dscp_to_traffic_class"
_CABLE_EVENTS: Final = (What.LINK_DOWN, What.LINK_UP, What.RATE, What.ERROR_RATE)
_SPREADS: Final = {
    "static": Spread.ECMP,
    "flowlet": Spread.FLOWLET,
    "per_packet": Spread.SPRAY,
    "adaptive": Spread.LEAST_QUEUE,
}


def marking(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """ECN of a queue, of all queues of an interface or switch."""
    wanted = value if setting == "ecn_enabled" else number(entity, setting, value)
    for port in edit.ports(entity):
        edit.marking[port, setting] = wanted


def _of_switch(name: str, kind: Callable[[float], Any] = round) -> Callable[..., None]:
    def apply(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
        wanted = kind(number(entity, setting, value))
        edit.at_switch(entity, lambda switch: replace(switch, **{name: wanted}))

    return apply


def _alpha(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    wanted = number(entity, setting, value)
    edit.at_switch(entity, lambda switch: replace(switch, alpha=wanted, xoff_bytes=None))


def _alpha_exponent(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    _alpha(edit, entity, setting, 2.0 ** number(entity, setting, value))


def pfc(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """PFC priorities of an interface, a switch or a host."""
    if not is_switch_place(entity):
        change_host.pfc(edit, entity, setting, value)
        return
    on = tuple(p for p in range(8) if enabled(value, p))
    edit.at_switch(entity, lambda switch: replace(switch, lossless=on, pfc=bool(on)))


def mtu(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """MTU of an interface of a switch or host: it loses what is longer."""
    bytes_ = round(number(entity, setting, value))
    limit = 0 if bytes_ >= SWITCH_MTU else bytes_
    if is_switch_place(entity):
        edit.at_switch(entity, lambda switch: replace(switch, mtu_bytes=limit))
    else:
        edit.at_nic(entity, lambda nic: replace(nic, mtu_bytes=limit))


def trust(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """Field that the class comes from; untagged packets are of class 0 where it is not DSCP.

    The DSCP map stays in the configuration then, without effect, until DSCPs are trusted again.
    """
    if not is_switch_place(entity):
        edit.show(entity, setting, value)
        change_host.classify(edit, entity)
        return
    for port in edit.ports(entity):
        edit.show(edit.places.names.interface(port), setting, value)
    whole = _switch_of(edit, entity)
    idle = (_interfaces(edit, whole)[0], _MAP) in edit.shown
    if _trusts_dscp(edit, whole):
        if idle:
            held = [edit.shown.pop((one, _MAP)) for one in _interfaces(edit, whole)]
            _classify(edit, whole, _classes(held[0]))
        return
    if not idle:
        classes = edit.model.switch_at(edit.places.switch(whole)).classes
        _show_map(edit, whole, tuple(classes.get(p, p) for p in DSCP_TO_CLASS))
    _classify(edit, whole, dict.fromkeys(range(8), 0))


def dscp_map(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """Traffic class of each DSCP, at a switch or interface."""
    if not isinstance(value, tuple) or len(value) <= DATA_DSCP:
        raise ConfigInvalid(str(entity), setting, "must have a place for each DSCP")
    whole = _switch_of(edit, entity)
    if _trusts_dscp(edit, whole):
        _classify(edit, whole, _classes(value))
    else:
        _show_map(edit, whole, value)


def _trusts_dscp(edit: Edit, switch: Switch) -> bool:
    """Tell whether all interfaces of a switch do: it classifies by one table here."""
    return all(
        edit.shown.get((one, "trust"), "dscp") == "dscp" for one in _interfaces(edit, switch)
    )


def _show_map(edit: Edit, switch: Switch, table: Value) -> None:
    for one in _interfaces(edit, switch):
        edit.show(one, _MAP, table)


def _interfaces(edit: Edit, switch: Switch) -> list[Interface]:
    return [edit.places.names.interface(port) for port in edit.ports(switch)]


def _classify(edit: Edit, switch: Switch, classes: dict[int, int]) -> None:
    """Set the queues of the priorities, for all ports of a switch."""
    edit.at_switch(switch, lambda model: replace(model, classes=classes))


def _switch_of(edit: Edit, entity: Entity) -> Switch:
    if isinstance(entity, Switch):
        return entity
    return edit.places.names.switch(edit.topology.end(edit.places.interface(entity)))


def _classes(table: Value | None) -> dict[int, int]:
    """Return where priorities go that do not keep their own number; data by its own DSCP."""
    if not isinstance(table, tuple):
        return {}
    found = {p: int(table[p << 3]) for p in range(8)}
    found[DATA_PRIORITY] = int(table[DATA_DSCP])
    return {p: index for p, index in found.items() if p != index}


def watchdog(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """PFC watchdog of an interface or switch: on or off, or its times."""

    def change(switch: SwitchModel) -> SwitchModel:
        if setting == "pfc_watchdog_restoration_seconds":
            return replace(switch, watchdog_restore_s=number(entity, setting, value))
        if setting == "pfc_watchdog_enabled":
            seconds = (switch.watchdog_s or _DETECTION_S) if value else 0.0
        else:
            seconds = number(entity, setting, value)
        return replace(switch, watchdog_s=seconds, watchdog_restore_s=seconds)

    edit.at_switch(entity, change)


_DETECTION_S: Final = 1e-3


def speed(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """Speed of a cable, named by the link or either end."""
    index = edit.places.cable(entity)
    rate = number(entity, setting, value)
    edit.events = [e for e in edit.events if e.cable != index or e.what is not What.RATE]
    cable = replace(edit.topology.cables[index], rate_bps=rate)
    edit.topology = edit.topology.with_cables({index: cable})


def repair_link(edit: Edit, entity: Entity, setting: str, value: Value) -> None:  # noqa: ARG001
    """Make a cable good: no errors, no loss, no failure."""
    index = edit.places.cable(entity)
    ends = set(edit.places.around_cable(index))
    edit.events = [e for e in edit.events if e.cable != index or e.what not in _CABLE_EVENTS]
    edit.ticking = [one for one in edit.ticking if one.entity not in ends]
    cable = replace(edit.topology.cables[index], error_rate=0.0)
    edit.topology = edit.topology.with_cables({index: cable})


def spread(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """Load balancing; the simulator has one way for all switches."""
    edit.places.switch(entity)
    wanted = _SPREADS.get(str(value))
    if wanted is None:
        raise ConfigInvalid(str(entity), setting, f"unknown; known: {', '.join(_SPREADS)}")
    balancing = replace(edit.model.balancing, spread=wanted)
    edit.model = replace(edit.model, balancing=balancing)


def hashing(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """ECMP hash of one switch: seed, fields, algorithm or rotation."""
    node = edit.places.switch(entity)
    old = edit.model.balancing.spec_at(node, _tier(edit, node))
    try:
        new = _hash(old, setting, value)
    except ValueError as error:
        raise ConfigInvalid(str(entity), setting, str(error)) from None
    own = edit.model.balancing.switches | {node: new}
    edit.model = replace(edit.model, balancing=replace(edit.model.balancing, switches=own))


def _hash(old: HashSpec, setting: str, value: Value) -> HashSpec:
    if setting == "ecmp_hash_fields":
        words = value if isinstance(value, tuple) else tuple(str(value).split())
        return replace(old, fields=tuple(HashField(str(word)) for word in words))
    if setting == "ecmp_hash_algorithm":
        return replace(old, algorithm=HashAlgorithm(str(value)))
    name = "seed" if setting == "ecmp_hash_seed" else "rotate"
    return replace(old, **{name: int(value)})  # type: ignore[arg-type]


def _tier(edit: Edit, node: int) -> int:
    return edit.topology.tier[node] if edit.topology.tier else 1


def weight(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """Weight of a next hop among its equals."""
    port = edit.places.interface(entity)
    weights = edit.model.balancing.weights | {port: round(number(entity, setting, value))}
    edit.model = replace(edit.model, balancing=replace(edit.model.balancing, weights=weights))


def repair_routes(edit: Edit, entity: Entity, setting: str, value: Value) -> None:  # noqa: ARG001
    """Let flows go by the routing tables again, not by paths of their own."""
    if not isinstance(entity, Switch | Interface):
        raise ConfigInvalid(str(entity), setting, "must name a switch or interface")
    edit.jobs = [replace(job, paths=()) for job in edit.jobs]


SETTINGS: Final[Mapping[str, Callable[[Edit, Entity, str, Value], None]]] = MappingProxyType(
    {
        "ecn_enabled": marking,
        "kmin_bytes": marking,
        "kmax_bytes": marking,
        "pmax_ratio": marking,
        "buffer_alpha": _alpha,
        "buffer_alpha_exponent": _alpha_exponent,
        "pause_threshold_bytes": _of_switch("xoff_bytes"),
        "xoff_bytes": _of_switch("headroom_bytes"),
        "xon_offset_bytes": _of_switch("xon_offset_bytes"),
        "reserved_buffer_bytes": _of_switch("reserved_bytes"),
        "pool_size_bytes": _of_switch("buffer_bytes"),
        "pfc_priorities": pfc,
        "pfc_watchdog_enabled": watchdog,
        "pfc_watchdog_detection_seconds": watchdog,
        "pfc_watchdog_restoration_seconds": watchdog,
        "mtu_bytes": mtu,
        "trust": trust,
        "dscp_to_traffic_class": dscp_map,
        "speed_bps": speed,
        "link_repair": repair_link,
        "load_balancing": spread,
        "ecmp_hash_seed": hashing,
        "ecmp_hash_fields": hashing,
        "ecmp_hash_algorithm": hashing,
        "ecmp_hash_offset": hashing,
        "ecmp_weight": weight,
        "route_repair": repair_routes,
    }
)

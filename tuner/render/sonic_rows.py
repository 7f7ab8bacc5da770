"""A state of a SONiC switch as rows of CONFIG_DB.

Profiles and maps that many ports share are changed in place where all who use them change alike;
else the changed ports get one of their own, named after its content.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from collectors.model.entities import Entity, Interface, Slot, Switch
from collectors.model.facts import Value
from tuner.render.form import Change, State, anywhere, digest, on, percent, port_of

Row: TypeAlias = dict[str, str | list[str]]
Rows: TypeAlias = dict[tuple[str, str], Row]
"""(table, key) -> fields."""

_ROW: Final = re.compile(r"\b([A-Z][A-Z0-9_]+)\|(\S+)")
OWN: Final = "FT_"
"""Rows with these names were made here and are named after their content: never changed."""

_NEEDS_WATCHDOG: Final = ("pfc_watchdog_enabled", "pfc_watchdog_poll_seconds")
_WATCHDOG: Final = ("detection_seconds", "restoration_seconds", "action")
_COLOURS: Final = ("green", "yellow", "red")


@dataclass(frozen=True)
class _Shared:
    """Something with a name that rows refer to. names: settings in it. user, field: who refers."""

    table: str
    names: tuple[str, ...]
    user: str
    field: str
    fields: Callable[[Mapping[str, Value]], Row]


def _wred(values: Mapping[str, Value]) -> Row:
    row: Row = {}
    if "ecn_enabled" in values:
        row["ecn"] = "ecn_all" if values["ecn_enabled"] else "ecn_none"
    for colour in _COLOURS:
        if "kmin_bytes" in values and "kmax_bytes" in values:
            row[f"wred_{colour}_enable"] = "true"
        for name, field in (("kmin_bytes", "min_threshold"), ("kmax_bytes", "max_threshold")):
            if name in values:
                row[f"{colour}_{field}"] = str(round(_number(values[name])))
        if "pmax_ratio" in values:
            row[f"{colour}_drop_probability"] = str(percent(_number(values["pmax_ratio"])))
    return row


def _scheduler(values: Mapping[str, Value]) -> Row:
    row: Row = {}
    if "scheduler" in values:
        row["type"] = str(values["scheduler"]).upper()
    if "scheduler_weight" in values:
        row["weight"] = str(values["scheduler_weight"])
    return row


_BUFFER: Final = {
    "xoff_bytes": "xoff",
    "xon_bytes": "xon",
    "xon_offset_bytes": "xon_offset",
    "reserved_buffer_bytes": "size",
    "buffer_alpha_exponent": "dynamic_th",
}


def _buffer(values: Mapping[str, Value]) -> Row:
    row: Row = {"pool": "ingress_lossless_pool"}
    return row | {_BUFFER[name]: str(round(_number(v))) for name, v in values.items()}


def _map(values: Mapping[str, Value]) -> Row:
    (places,) = values.values()
    row = places if isinstance(places, tuple) else ()
    return {str(at): str(value) for at, value in enumerate(row) if value != -1}


def _mapping(table: str, name: str, field: str) -> _Shared:
    return _Shared(table, (name,), "PORT_QOS_MAP", field, _map)


SHARED: Final = (
    _Shared(
        "WRED_PROFILE",
        ("ecn_enabled", "kmin_bytes", "kmax_bytes", "pmax_ratio"),
        "QUEUE",
        "wred_profile",
        _wred,
    ),
    _Shared("SCHEDULER", ("scheduler", "scheduler_weight"), "QUEUE", "scheduler", _scheduler),
    _Shared("BUFFER_PROFILE", tuple(_BUFFER), "BUFFER_PG", "profile", _buffer),
    _mapping("DSCP_TO_TC_MAP", "dscp_to_traffic_class", "dscp_to_tc_map"),
    _mapping("DOT1P_TO_TC_MAP", "pcp_to_traffic_class", "dot1p_to_tc_map"),
    _mapping("TC_TO_QUEUE_MAP", "traffic_class_to_queue", "tc_to_queue_map"),
    _mapping("TC_TO_PRIORITY_GROUP_MAP", "traffic_class_to_group", "tc_to_pg_map"),
    _mapping("MAP_PFC_PRIORITY_TO_QUEUE", "priority_to_queue", "pfc_to_queue_map"),
)


def _number(value: Value) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def rows_of(change: Change) -> tuple[Rows, Rows]:
    """Return the rows that the change touches, in the state that it leaves and that it makes."""
    old: Rows = {}
    new: Rows = {}
    original, other = (old, new) if change.way == "apply" else (new, old)
    for rows, state in ((old, change.before), (new, change.after)):
        for place, name in change.keys:
            _own(rows, state, place, name, change)
    for shared in SHARED:
        _share(shared, change, original, other)
    return old, new


def _own(rows: Rows, state: State, place: Entity, name: str, change: Change) -> None:
    """Add the fields of a setting that has its own, in one state."""
    value = state.get((place, name))
    runs = any((place, f"pfc_watchdog_{part}") in state for part in _WATCHDOG)
    if name in _NEEDS_WATCHDOG and value and state is change.after and not runs:
        why = "SONiC runs no watchdog on a port without its detection time, which is not known"
        change.lacks([place], [name], why)
    if isinstance(place, Interface):
        for table, key, field, text in _port_fields(place, name, value, state, change):
            row = rows.setdefault((table, key), {})
            if text is not None:
                row[field] = text
    elif isinstance(place, Switch) and name.startswith("ecmp_hash"):
        row = rows.setdefault(("SWITCH_HASH", "GLOBAL"), {})
        if isinstance(value, tuple):
            row["ecmp_hash"] = [str(word) for word in value]
        elif value is not None:
            row["ecmp_hash_algorithm"] = str(value)


def _port_fields(
    port: Interface, name: str, value: Value | None, state: State, change: Change
) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield table, key, field and text (None: not there) of a setting of a port."""
    text = None if value is None else str(value)
    known = isinstance(value, (int, float))
    match name:
        case "mtu_bytes" | "fec":
            yield "PORT", port.name, name.removesuffix("_bytes"), text
        case "speed_bps":
            yield "PORT", port.name, "speed", str(round(_number(value)) // 10**6) if known else None  # type: ignore[arg-type]
        case "admin_enabled":
            up = None if value is None else "up" if value else "down"
            yield "PORT", port.name, "admin_status", up
        case "pfc_priorities" | "pfc_watchdog_enabled":
            row = state.get((port, "pfc_priorities"), ())
            listed = ",".join(map(str, on(row))) if isinstance(row, tuple) else ""
            watched = state.get((port, "pfc_watchdog_enabled"))
            field = "pfc_enable" if name == "pfc_priorities" else "pfcwd_sw_enable"
            there = listed and (name == "pfc_priorities" or watched)
            yield "PORT_QOS_MAP", port.name, field, listed if there else None
        case "trust":
            for word, field, table in (
                ("dscp", "dscp_to_tc_map", "DSCP_TO_TC_MAP"),
                ("pcp", "dot1p_to_tc_map", "DOT1P_TO_TC_MAP"),
            ):
                used = _named(change, port, f"{word}_to_traffic_class", table) or "AZURE"
                there = value in (word, "both")
                yield "PORT_QOS_MAP", port.name, field, used if there else None
        case "pfc_watchdog_poll_seconds":
            poll = anywhere(state, name) if value is None else value
            yield "PFC_WD", "GLOBAL", "POLL_INTERVAL", _milliseconds(poll)
        case "pfc_watchdog_detection_seconds" | "pfc_watchdog_restoration_seconds":
            field = "detection_time" if "detection" in name else "restoration_time"
            yield "PFC_WD", port.name, field, _milliseconds(value)
        case "pfc_watchdog_action":
            yield "PFC_WD", port.name, "action", text
        case "pfc_cable_length_metres":
            used = _named(change, port, name, "CABLE_LENGTH") or "AZURE"
            yield "CABLE_LENGTH", used, port.name, None if text is None else f"{text}m"


def _milliseconds(value: Value | None) -> str | None:
    return None if value is None else str(round(_number(value) * 1000))


def _named(change: Change, place: Entity, name: str, table: str) -> str:
    """Return the name of the row of a table that a setting was read from, '' where it was not."""
    found = dict(_ROW.findall(change.where(place, name)))
    return str(found.get(table, ""))


def _share(shared: _Shared, change: Change, original: Rows, other: Rows) -> None:
    """Add the rows of something shared: changed in place, or a new one beside the former."""
    before, after = change.before, change.after
    first, second = (before, after) if change.way == "apply" else (after, before)
    known = {
        place: None for state in (before, after) for place, name in state if name in shared.names
    }
    names = {place: _name_of(shared, change, place) for place in known}
    for place in change.places(*shared.names):
        former = names[place]
        alike = [p for p, name in names.items() if name == former]
        in_place = (
            former
            and not former.startswith(OWN)
            and all(
                _values(shared, state, p) == _values(shared, state, place)
                for state in (first, second)
                for p in alike
            )
        )
        was, will = (_values(shared, state, place) for state in (first, second))
        key = _user(shared, change, place)
        user = (shared.user, key)
        together = [p for p in known if _user(shared, change, p) == key]
        if not in_place and any(_values(shared, second, p) != will for p in together):
            why = f"the row {shared.user}|{key} holds for other places, too: split it first"
            change.lacks([place], shared.names, why)
            continue
        unsettled = change.unsettled([place]) if shared.table == "WRED_PROFILE" else ""
        if unsettled:
            change.lacks([place], shared.names, f"no WRED profile without thresholds: {unsettled}")
            continue
        if in_place:
            original[shared.table, former] = shared.fields(was)
            other[shared.table, former] = shared.fields(will)
            continue
        row = original.setdefault(user, {})
        if former:
            row[shared.field] = former
        if will:
            made = f"{OWN}{digest(shared.table, sorted(will.items(), key=str))}"
            other.setdefault(user, {})[shared.field] = made
            if made not in rows_read(change).get(shared.table, ()):
                other[shared.table, made] = shared.fields(will)


def _name_of(shared: _Shared, change: Change, place: Entity) -> str:
    names = (_named(change, place, name, shared.table) for name in shared.names)
    return next(filter(None, names), "")


def _values(shared: _Shared, state: State, place: Entity) -> dict[str, Value]:
    return {name: state[place, name] for name in shared.names if (place, name) in state}


def _user(shared: _Shared, change: Change, place: Entity) -> str:
    """Return the key of the row that refers: as it was read, else the place's own."""
    names = (*shared.names, shared.field)
    read = next(filter(None, (_named(change, place, name, shared.user) for name in names)), "")
    if read:
        return read
    port = port_of(place)
    own = port.name if port is not None else "global"
    return f"{own}|{place.index}" if isinstance(place, Slot) else own


def rows_read(change: Change) -> dict[str, set[str]]:
    """Return the rows that the settings were read from: table -> keys."""
    found: dict[str, set[str]] = {}
    for setting in change.device.settings:
        for table, key in _ROW.findall(setting.where):
            found.setdefault(table, set()).add(key)
    return found

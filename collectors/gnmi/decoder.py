"""Notifications of one target into the latest value of every series; pure but for its memory.

Where a path leads is worked out once and remembered by the bytes of the path as they came
(`messages.SealedResponse`), because devices send the same few thousand paths for ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from collectors.codec.sonic_counters import fields, parse_hash, split_name
from collectors.gnmi.lldp import Neighbours
from collectors.gnmi.messages import DecodeError, gnmi
from collectors.gnmi.paths import Location, interface_of, number_of, parse_location
from collectors.gnmi.values import NotDecoded, decode, number, parse_value
from collectors.gnmi.vendors import Vendor
from collectors.model.catalogue.registry import sources_of
from collectors.model.catalogue.sources import parse_key
from collectors.model.entities import Entity, Interface, Slot, Switch
from collectors.model.metric import Column
from collectors.model.reading import Instant, Reading

Gap = Callable[[str, str], None]
_NEVER: Final = Instant(0, 0)
_KEY_NAMES: Final = frozenset(
    {"name", "interface-id", "index", "id", "priority", "queue-number", "cmapName", "queue-type"}
)
_JSON: Final = ("json_ietf_val", "json_val")
_SCALAR_STARTS: Final = tuple(bytes([octet]) for octet in b'"-0123456789tfn')
_UINT: Final = 1
_JSON_IETF: Final = 2
_JSON_PLAIN: Final = 3
_UNKNOWN: Final[Any] = object()


@dataclass(frozen=True, slots=True)
class Leaf:
    """What a schema path means. fixed: the priority where the leaf's name carries it."""

    column: Column
    kinds: tuple[str, ...]
    fixed: int | None


def _form(value: Any, is_int: bool) -> int:
    """Return which quick way decodes a value of this kind."""
    kind = value.WhichOneof("value")
    if not is_int:
        return 0
    return {"uint_val": _UINT, "json_ietf_val": _JSON_IETF, "json_val": _JSON_PLAIN}.get(kind, 0)


def leaves(driver: str) -> dict[str, Leaf]:
    """Return schema path -> meaning for OpenConfig and one vendor."""
    found: dict[str, Leaf] = {}
    for metric, source in sources_of("gnmi", "*", driver):
        schema, braces = parse_key(source.key)
        found[schema] = Leaf(metric.column(source), metric.on, braces.get("priority"))
    return found


@dataclass
class _Series:
    """The latest values of one entity."""

    entity: Entity
    values: dict[Column, int | float] = field(default_factory=dict)
    when: Instant = _NEVER
    fresh: bool = False


Place = tuple[_Series, Column, bool] | None


class Decoder:
    """The state of one target, fed with notifications, asked for readings."""

    def __init__(
        self,
        switch: Switch,
        vendor: Vendor,
        wants: Callable[[str], bool],
        gap: Gap,
        *,
        aliases: dict[str, str] | None = None,
        modules: frozenset[str] = frozenset(),
        max_series: int = 200_000,
    ) -> None:
        self._switch = switch
        self._vendor = vendor
        self._wants = wants
        self._gap = gap
        self._aliases = aliases if aliases is not None else {}
        self.modules = modules
        self._leaves = leaves(vendor.driver)
        self._max_series = max_series
        self._series: list[_Series] = []
        self._numbers: dict[Entity, int] = {}
        self._places: dict[bytes, dict[bytes, Any]] = {}
        self.neighbours = Neighbours(switch)
        self.updates = 0
        self.overwritten = 0
        self.seen: set[str] = set()

    def take(self, notification: Any, received: Instant) -> int:  # noqa: C901  the hot loop
        """Take one notification of a SealedResponse; return how many values it brought."""
        before = self.updates
        when = received.corrected(notification.timestamp)
        prefix = notification.prefix
        if notification.delete:
            self._deletes(prefix, notification.delete)
        places = self._places.setdefault(prefix, {})
        taken = 0
        decoded: int | float | None
        for update in notification.update:
            path_bytes = update.path
            value = update.val
            place = places.get(path_bytes, _UNKNOWN)
            if place is _UNKNOWN:
                place = self._first_sight(prefix, update, when)
                if place is _UNKNOWN:
                    continue
                if place is not None:  # with the form that this leaf came in: most stay with it
                    place = (place[0], place[1], _form(value, place[2]))
                places[path_bytes] = place
            if place is None:
                continue
            row, column, form = place
            decoded = None
            if form is _JSON_IETF or form is _JSON_PLAIN:
                raw = value.json_ietf_val if form is _JSON_IETF else value.json_val
                raw = raw.strip(b'"')
                decoded = int(raw) if raw.isdigit() and len(raw) < 20 else None
            elif form is _UINT:
                decoded = value.uint_val
                if not decoded and value.WhichOneof("value") != "uint_val":
                    decoded = None  # not 0, but not there
            if decoded is None:
                decoded = decode(value, column)
                if decoded is None:
                    self._gap(column.metric, "not numeric")
                    continue
            if row.when is not when:
                if row.fresh and column in row.values:
                    self.overwritten += 1
                row.when = when
                row.fresh = True
            row.values[column] = decoded
            taken += 1
        self.updates += taken
        return self.updates - before

    def _deletes(self, prefix: bytes, paths: Any) -> None:
        for path in paths:
            location = self._opened(prefix, path.SerializeToString())
            if location is not None:
                self._delete(location)

    def _opened(self, prefix: bytes, path: bytes) -> Location | None:
        try:
            opened = gnmi.Path.FromString(prefix), gnmi.Path.FromString(path)
        except DecodeError:
            self._gap("path", "malformed")
            return None
        return parse_location(*opened, self.modules)

    def _first_sight(self, prefix: bytes, update: Any, when: Instant) -> Any:
        """Return the place of a path not seen before; _UNKNOWN where it has none of its own."""
        location = self._opened(prefix, update.path)
        if location is None:
            return _UNKNOWN
        kind = update.val.WhichOneof("value")
        if kind in _JSON and self._is_nested(update.val, kind):
            self._json(location, update.val, when)
            return _UNKNOWN
        return self._locate(location, update.val)

    def readings(
        self, *, everything: bool = False, now: Instant | None = None
    ) -> Iterator[Reading]:
        """Yield a reading for each entity with news, or for all that is still valid.

        everything: for ON_CHANGE, where silence means `as before`; they carry the time `now`.
        """
        for row in self._series:
            if row.values and (row.fresh or everything):
                when = now if everything and now is not None and not row.fresh else row.when
                yield Reading(row.entity, dict(row.values), when)
                row.fresh = False

    def expected(self, paths: tuple[str, ...]) -> set[str]:
        """Return the metrics that subscriptions to these paths may bring."""
        roots = [re.sub(r"\[[^]]*\]", "", path) for path in paths]
        if self._vendor.sonic:
            return {field.column.metric for field in fields().values()}
        return {
            leaf.column.metric
            for schema, leaf in self._leaves.items()
            if any(schema == root or schema.startswith(root + "/") for root in roots)
        }

    def _is_nested(self, value: Any, kind: str) -> bool:
        return self._vendor.sonic or getattr(value, kind)[:1] not in _SCALAR_STARTS

    def _locate(self, location: Location, value: Any) -> Any:
        if location.schema.startswith("/lldp/"):
            try:
                self.neighbours.take(location, parse_value(value))
            except NotDecoded as error:
                self._gap("lldp", str(error))
            return _UNKNOWN
        return self._place(location)

    def _place(self, location: Location) -> Place:
        leaf = self._leaves.get(location.schema)
        if leaf is None:
            return None
        name = interface_of(location)
        if name is None:
            self._gap(leaf.column.metric, "no interface in the path")
            return None
        name = self._aliases.get(name, name)
        if not self._wants(name):
            return None
        entity: Entity = Interface(self._switch, name)
        if "interface" not in leaf.kinds:
            index = leaf.fixed if leaf.fixed is not None else number_of(location)
            if index is None:
                self._gap(leaf.column.metric, "no queue or priority in the path")
                return None
            entity = Slot(entity, leaf.kinds[0], index)  # type: ignore[arg-type]
        return self._row(entity, leaf.column)

    def _row(self, entity: Entity, column: Column) -> Place:
        at = self._numbers.get(entity)
        if at is None:
            if len(self._series) >= self._max_series:
                self._gap(column.metric, "too many series")
                return None
            at = self._numbers[entity] = len(self._series)
            self._series.append(_Series(entity))
        self.seen.add(column.metric)
        return self._series[at], column, column.number == "int"

    def _store(self, place: Place, raw: Any, when: Instant) -> None:
        if place is None:
            return
        row, column, _ = place
        decoded = number(raw, column)
        if decoded is None:
            self._gap(column.metric, "not numeric")
            return
        row.values[column] = decoded
        row.when, row.fresh = when, True
        self.updates += 1

    def _json(self, location: Location, value: Any, when: Instant) -> None:
        try:
            data = parse_value(value)
        except NotDecoded as error:
            self._gap(location.schema, str(error))
            return
        if self._vendor.sonic and (not location.keys or "Ethernet" in location.schema):
            self._sonic(location, data, when)
            return
        self._walk(location.schema, location.keys, data, when)

    def _walk(
        self, schema: str, keys: tuple[tuple[str, str, str], ...], data: Any, when: Instant
    ) -> None:
        """Take every leaf below a container; list entries lend their keys to the path."""
        if isinstance(data, dict):
            for name, value in data.items():
                plain = name.rpartition(":")[2]
                self._walk(f"{schema.rstrip('/')}/{plain}", keys, value, when)
        elif isinstance(data, list) and data and isinstance(data[0], dict):
            element = schema.rpartition("/")[2]
            for entry in data:
                own = tuple(
                    (element, name.rpartition(":")[2], str(value))
                    for name, value in entry.items()
                    if name.rpartition(":")[2] in _KEY_NAMES and not isinstance(value, (dict, list))
                )
                self._walk(schema, (*keys, *own), entry, when)
        elif data is not None and not isinstance(data, list):
            location = Location(schema, keys)
            if schema.startswith("/lldp/"):
                self.neighbours.take(location, data)
            else:
                self._store(self._place(location), data, when)

    # --- SONiC: hashes instead of leaves -------------------------------------------------------

    def _sonic(self, location: Location, data: Any, when: Instant) -> None:
        """Take `{field: text}` of one port, or `{port or port:queue: {field: text}}` of many."""
        if not isinstance(data, dict):
            if isinstance(data, str):
                names = location.schema.split("/")
                self._hash(names[-2], {names[-1]: data}, when)
            else:
                self._gap(location.schema, "not a SONiC object")
            return
        if not data:
            self._gap(location.schema, "empty")
            return
        if all(isinstance(value, str) for value in data.values()):
            names = [name for name in location.schema.split("/") if name.startswith("Ethernet")]
            if not names or "*" in names[0]:
                self._gap(location.schema, "no port in the path")
                return
            self._hash(names[0], data, when)
            return
        for name in sorted(data, key=lambda key: key.endswith(":periodic")):
            if isinstance(data[name], dict):
                self._hash(name, data[name], when)

    def _hash(self, name: str, hash_fields: dict[str, str], when: Instant) -> None:
        port, index, periodic = split_name(name)
        port = self._aliases.get(port, port)
        if not self._wants(port):
            return
        interface = Interface(self._switch, port)
        for value in parse_hash(hash_fields):
            kind, slot = value.field.kind, value.field.index
            entity: Entity = interface
            if kind != "interface":
                number_in_name = slot if slot is not None else index
                if number_in_name is None:
                    continue
                entity = Slot(interface, kind, number_in_name)  # type: ignore[arg-type]
            column = value.field.column
            if value.value is None:
                self._gap(column.metric, f"not numeric: {value.text}"[:60])
                continue
            place = self._row(entity, column)
            if place is None:
                continue
            row = place[0]
            if periodic and row.when == when and column in row.values:
                continue
            row.values[column] = value.value
            row.when, row.fresh = when, True
            self.updates += 1

    def _delete(self, location: Location) -> None:
        """Remove every series at or below a path."""
        name = interface_of(location)
        index = number_of(location)
        schema = location.schema.rstrip("/")
        kinds = {
            leaf.column.metric
            for path, leaf in self._leaves.items()
            if path == schema or path.startswith(schema + "/")
        }
        self.neighbours.delete(location)
        for row in self._series:
            entity = row.entity
            parent = entity.parent if isinstance(entity, Slot) else entity
            if name is not None and (not isinstance(parent, Interface) or parent.name != name):
                continue
            if index is not None and isinstance(entity, Slot) and entity.index != index:
                continue
            for column in [column for column in row.values if column.metric in kinds]:
                del row.values[column]

"""Records changed by mappings from a file: field by field, records in records, records by place."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from collectors.model.errors import ConfigInvalid

T = TypeVar("T")
Records = Mapping[type, Any]


def changed(record: T, data: Any, where: str, *, usual: Records | None = None) -> T:
    """Return a dataclass record with fields changed by a mapping, recursively.

    What is given for single places (switches, ports, tiers ...) changes what holds everywhere: the
    record of the same type beside it, or of an outer record (`usual`). ConfigInvalid names an
    unknown key or a bad value.
    """
    values = _values(type(record), record, data, where, usual or {})
    try:
        return replace(record, **values)  # type: ignore[type-var]
    except (TypeError, ValueError) as error:
        raise ConfigInvalid(where, "value", str(error)) from None


def made(kind: type[T], data: Any, where: str) -> T:
    """Return a new record of a mapping; ConfigInvalid names what is wrong or missing."""
    values = _values(kind, None, data, where, {})
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise ConfigInvalid(where, "value", str(error)) from None


def _values(kind: Any, record: Any, data: Any, where: str, usual: Records) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ConfigInvalid(where, "value", "must be a mapping")
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    kinds = {key: _place_type(hints[key]) for key in data if key in hints}
    by_place = {key: one for key, one in kinds.items() if one is not None}
    for key, value in data.items():
        if key not in hints:
            raise ConfigInvalid(where, str(key), f"unknown key; known: {', '.join(hints)}")
        inner = _record_type(hints[key])
        if key in by_place:
            continue
        if inner is not None and isinstance(value, dict):
            old = getattr(record, key, None)
            base = old if isinstance(old, inner) else usual.get(inner) or inner()
            values[key] = changed(base, value, f"{where}.{key}", usual=usual)
        else:
            values[key] = _converted(value, hints[key], f"{where}.{key}")
    everywhere = {**usual}
    for field in dataclasses.fields(kind):
        one = values.get(field.name, getattr(record, field.name, None))
        if dataclasses.is_dataclass(one):
            everywhere[type(one)] = one
    for key, inner in by_place.items():
        places = _converted(data[key], dict[int, Any], f"{where}.{key}")
        values[key] = {
            place: changed(
                everywhere.get(inner) or inner(), one, f"{where}.{key}[{place}]", usual=everywhere
            )
            for place, one in places.items()
        }
    return values


def _converted(value: Any, hint: Any, where: str) -> Any:
    try:
        return msgspec.convert(value, hint, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigInvalid(where, "value", str(error)) from None


def _record_type(hint: Any) -> type | None:
    """Return the dataclass that a field holds (alone or as an alternative to None)."""
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for option in options:
        if isinstance(option, type) and dataclasses.is_dataclass(option):
            return option
    return None


def _place_type(hint: Any) -> type | None:
    """Return the dataclass that a field holds by number of a place."""
    if typing.get_origin(hint) is not dict:
        return None
    return _record_type(typing.get_args(hint)[1])

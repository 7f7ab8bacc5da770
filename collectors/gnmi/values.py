"""Values of updates: every encoding that devices use, as numbers, text or nested data."""

from __future__ import annotations

import base64
import binascii
import json
import math
import struct
from typing import Any, Final

from collectors.model.metric import Column

OPER_STATES: Final = {
    "UP": 1, "DOWN": 2, "TESTING": 3, "UNKNOWN": 4, "DORMANT": 5, "NOT_PRESENT": 6,
    "LOWER_LAYER_DOWN": 7,
}  # fmt: skip


class NotDecoded(ValueError):
    """The value is of a form that carries no data for us; the text says which."""


def parse_value(value: Any) -> Any:
    """Return a TypedValue as int, float, bool, str, bytes, list or dict.

    Raises NotDecoded for an empty value, `Any`, or JSON that is none.
    """
    kind = value.WhichOneof("value")
    match kind:
        case "uint_val" | "int_val" | "string_val" | "bool_val" | "double_val" | "float_val":
            return getattr(value, kind)
        case "ascii_val" | "bytes_val" | "proto_bytes":
            return getattr(value, kind)
        case "json_val" | "json_ietf_val":
            raw = getattr(value, kind)
            try:
                return json.loads(raw) if raw else None
            except (ValueError, RecursionError) as error:
                raise NotDecoded("JSON that is none") from error
        case "decimal_val":
            return value.decimal_val.digits / 10**value.decimal_val.precision
        case "leaflist_val":
            return [parse_value(element) for element in value.leaflist_val.element]
        case _:
            raise NotDecoded(f"a value of kind {kind or 'nothing'}")


def decode(value: Any, column: Column) -> int | float | None:
    """Return a TypedValue for a column, None where it is no number that the column can hold."""
    try:
        return number(parse_value(value), column)
    except NotDecoded:
        return None


def number(raw: Any, column: Column) -> int | float | None:
    """Return a value for a column, None where it is no number that the column can hold.

    Texts are numbers (RFC 7951 writes uint64 so), names of states, or base64 of an IEEE float.
    """
    if type(raw) is str:
        raw = _of_text(raw, column)
    elif isinstance(raw, bytes):
        raw = _of_float_bytes(raw)
    if raw is None:
        return None
    if isinstance(raw, bool):
        return int(raw)
    if not isinstance(raw, (int, float)) or not math.isfinite(raw) or raw < 0:
        return None
    if column.number == "float":
        return float(raw)
    whole = int(raw)
    return whole if whole == raw and whole < 1 << 64 else None


def _of_text(text: str, column: Column) -> int | float | None:
    try:
        return int(text)
    except ValueError:
        pass
    if column.kind == "state":
        return OPER_STATES.get(text.rpartition(":")[2].upper().replace("-", "_"))
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return _of_float_bytes(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return None


def _of_float_bytes(raw: bytes) -> float | None:
    if len(raw) == 4:
        return float(struct.unpack(">f", raw)[0])
    if len(raw) == 8:
        return float(struct.unpack(">d", raw)[0])
    return None

"""Every key of a configuration with its default, as YAML to copy from."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec
import yaml

from collectors.model.dcqcn import FIRMWARE_KNOBS, FirmwareDcqcn
from collectors.model.ecn import EcnThresholds
from simlab.packet.config import Config, Record, TopologyChoice, Watch, Workload
from simlab.packet.interventions import Intervention
from simlab.packet.parameters import EcnAt, InfinibandLink, Model, NicModel

REQUIRED = "REQUIRED"


def settings_text() -> str:
    """Return the whole reference; every section is YAML by itself."""
    registers = FirmwareDcqcn()
    units = {knob.name: knob.unit for knob in FIRMWARE_KNOBS}
    sections = [
        ("the file; numbers stand in the unit that ends the key's name", _struct(Config)),
        *((f"topology of kind {_tag(one)}", _struct(one)) for one in _choices(TopologyChoice)),
        *((f"workload of kind {_tag(one)}", _struct(one)) for one in _choices(Workload)),
        ("watch: samples of queues, [directed port, priority]; none: those that fill most",
         _struct(Watch)),
        ("telemetry: of simlab fabric run", _struct(Record)),
        ("events: a list of", _record(Intervention)),
        ("model; switches, nics (by node) and ports (2i, 2i+1: ends of cable i) change the rest",
         _record(Model)),
        ("model.switch.ecn: a list of", _record(EcnAt) | {"thresholds": _record(EcnThresholds)}),
        ("model.nics[HOST]", _record(NicModel)),
        ("model.infiniband: credits instead of PFC", _record(InfinibandLink)),
        ("model.congestion.registers: a NIC's, in its own units, instead of dcqcn or profile",
         {name: _Commented(getattr(registers, name), unit) for name, unit in units.items()}),
    ]  # fmt: skip
    return "\n".join(f"# {title}\n{''.join(_lines(keys, ''))}" for title, keys in sections)


@dataclasses.dataclass(frozen=True)
class _Commented:
    value: Any
    comment: str


def _choices(union: Any) -> tuple[Any, ...]:
    return typing.get_args(union)


def _tag(kind: Any) -> str:
    return str(kind.__struct_config__.tag)


def _struct(kind: Any) -> dict[str, Any]:
    """Return the keys of a msgspec structure with their defaults."""
    return {
        field.name: _default(field.type, field.default, field.default_factory)
        for field in msgspec.structs.fields(kind)
    }


def _record(kind: Any) -> dict[str, Any]:
    """Return the keys of a dataclass with their defaults, records in it likewise."""
    hints = typing.get_type_hints(kind)
    return {
        field.name: _default(hints[field.name], field.default, field.default_factory)
        for field in dataclasses.fields(kind)
    }


def _default(hint: Any, value: Any, factory: Any) -> Any:
    missing = (msgspec.NODEFAULT, dataclasses.MISSING)
    if value in missing:
        value = REQUIRED if factory in missing else factory()
    if dataclasses.is_dataclass(value):
        return {
            field.name: _default(typing.get_type_hints(type(value))[field.name], own, None)
            for field in dataclasses.fields(value)
            for own in (getattr(value, field.name),)
        }
    if isinstance(hint, type) and issubclass(hint, Enum):
        shown = value.value if isinstance(value, Enum) else value
        return _Commented(shown, ", ".join(str(one.value) for one in hint))
    if isinstance(value, float):
        return float(f"{value:.12g}")  # 55 µs, not 54.999999999999995
    return msgspec.to_builtins(value)


def _lines(keys: dict[str, Any], indent: str) -> Iterator[str]:
    for key, value in keys.items():
        plain = value.value if isinstance(value, _Commented) else value
        if isinstance(plain, dict) and plain:
            yield f"{indent}{key}:\n"
            yield from _lines(plain, indent + "  ")
            continue
        text = yaml.safe_dump(plain, default_flow_style=True, width=10**6).split("\n", 1)[0]
        comment = value.comment if isinstance(value, _Commented) else ""
        yield f"{indent}{key}: {text}{f'  # {comment}' if comment else ''}\n"

"""Facts as JSON on the wire, and back. Entities travel as canonical strings with their label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import intern
from typing import Final, TypeVar

import msgspec

from collectors.model.entities import (
    Device,
    Entity,
    Host,
    Interface,
    Netdev,
    Port,
    Wire,
    label_of,
    parse_entity,
)
from collectors.model.errors import Malformed
from collectors.model.facts import (
    Attribute,
    Facts,
    Gap,
    Gid,
    Neighbour,
    QueuePairFact,
    Setting,
    Value,
)
from collectors.model.sheets import Sheets
from collectors.wire.setting_runs import BEGIN, parse_runs

VERSION: Final = 1

T = TypeVar("T")


class _Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    entity: list[str]
    name: str
    value: str | int | float | bool | list[str | int | float | bool]
    where: str
    applies: str


class _Attribute(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    entity: list[str]
    name: str
    value: str | int | float | bool | list[str | int | float | bool]


class _Gid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    port: list[str]
    index: int
    gid: str
    type: str
    netdev: str


class _Neighbour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    local: list[str]
    remote: list[str]
    how: str


class _QueuePair(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    device: list[str]
    port: int
    local_qpn: int
    remote_qpn: int | None
    type: str
    state: str
    pid: int | None
    process: str
    job: str
    local_address: str
    remote_address: str
    udp_source_port: int | None
    tclass: int | None


class _Facts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    settings: list[_Setting]
    attributes: list[_Attribute]
    gids: list[_Gid]
    neighbours: list[_Neighbour]
    queue_pairs: list[_QueuePair]
    gaps: list[Gap]
    versions: list[tuple[str, str]]


_decoder: Final = msgspec.json.Decoder(_Facts)


def pack_facts(facts: Facts) -> bytes:
    """Return the JSON of facts; the same facts give the same bytes."""
    return msgspec.json.encode(
        _Facts(
            VERSION,
            [
                _Setting(_pair(s.entity), s.name, _plain(s.value), s.where, s.applies)
                for s in facts.settings
            ],
            [_Attribute(_pair(a.entity), a.name, _plain(a.value)) for a in facts.attributes],
            [_Gid(_pair(g.port), g.index, g.gid, g.type, g.netdev) for g in facts.gids],
            [_Neighbour(_pair(n.local), _pair(n.remote), n.how) for n in facts.neighbours],
            [
                _QueuePair(
                    _pair(q.device), q.port, q.local_qpn, q.remote_qpn, q.type, q.state, q.pid,
                    q.process, q.job, q.local_address, q.remote_address, q.udp_source_port,
                    q.tclass,
                )
                for q in facts.queue_pairs
            ],
            list(facts.gaps),
            list(facts.versions),
        )
    )  # fmt: skip


def parse_facts(data: bytes) -> Facts:
    """Return the facts of a JSON text.

    Raises Malformed where the text is not what `pack_facts` writes, or of another version.
    """
    read = parse_runs(data)
    parse = _Entities().parse
    settings: Sequence[Setting]
    if read is not None:
        runs, place = read
        settings, raw = Sheets(runs), _decoded(BEGIN + data[place:], data)
    else:
        raw = _decoded(data, data)
        settings = tuple(
            Setting(
                parse(s.entity),
                intern(s.name),  # of a few hundred words, in millions of rows of a large fabric
                _value(s.value),
                intern(s.where),
                "next_boot" if s.applies == "next_boot" else "running",
            )
            for s in raw.settings
        )
    return Facts(
        settings,
        tuple(
            [Attribute(parse(a.entity), intern(a.name), _value(a.value)) for a in raw.attributes]
        ),
        tuple([Gid(_as(parse(g.port), Port), g.index, g.gid, g.type, g.netdev) for g in raw.gids]),
        tuple([Neighbour(_wire(n.local), _wire(n.remote), n.how) for n in raw.neighbours]),
        tuple([_queue_pair(_as(parse(q.device), Device), q) for q in raw.queue_pairs]),
        tuple(raw.gaps),
        tuple(raw.versions),
    )


def _queue_pair(device: Device, q: _QueuePair) -> QueuePairFact:
    return QueuePairFact(
        device, q.port, q.local_qpn, q.remote_qpn, q.type, q.state, q.pid, q.process, q.job,
        q.local_address, q.remote_address, q.udp_source_port, q.tclass,
    )  # fmt: skip


def _decoded(data: bytes, whole: bytes) -> _Facts:
    """Return the message of a text; whole: what it is part of, and what an error speaks of."""
    try:
        raw = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if data is not whole:
            return _decoded(whole, whole)
        raise Malformed("facts", "parse", str(error), data) from error
    if raw.version != VERSION:
        raise Malformed("facts", "parse", f"version {raw.version}, this program knows {VERSION}")
    return raw


def map_facts(
    facts: Facts, entity: Callable[[Entity], Entity], text: Callable[[str], str]
) -> Facts:
    """Return the facts with every entity and every free text replaced (for pseudonyms).

    `text` gets addresses, host names in gaps and string values; it must be a pure function.
    """

    def wire(end: Wire) -> Wire:
        return _as_wire(entity(end))

    def value(of: Value) -> Value:
        if isinstance(of, tuple):
            return tuple(text(part) if isinstance(part, str) else part for part in of)
        return text(of) if isinstance(of, str) else of

    return Facts(
        tuple(
            Setting(entity(s.entity), s.name, value(s.value), text(s.where), s.applies)
            for s in facts.settings
        ),
        tuple(Attribute(entity(a.entity), a.name, value(a.value)) for a in facts.attributes),
        tuple(
            Gid(_as(entity(g.port), Port), g.index, text(g.gid), g.type, text(g.netdev))
            for g in facts.gids
        ),
        tuple(Neighbour(wire(n.local), wire(n.remote), n.how) for n in facts.neighbours),
        tuple(
            QueuePairFact(
                _as(entity(q.device), Device), q.port, q.local_qpn, q.remote_qpn, q.type,
                q.state, q.pid, text(q.process), text(q.job), text(q.local_address),
                text(q.remote_address), q.udp_source_port, q.tclass,
            )
            for q in facts.queue_pairs
        ),
        tuple(
            Gap(text(g.subject), g.collector, g.what, g.reason, text(g.detail), g.count)
            for g in facts.gaps
        ),
        facts.versions,
    )  # fmt: skip


def _pair(entity: Entity) -> list[str]:
    label = label_of(entity)
    return [str(entity), label] if label else [str(entity)]


def _plain(value: Value) -> str | float | list[str | int | float | bool]:
    return list(value) if isinstance(value, tuple) else value


def _value(value: str | float | list[str | int | float | bool]) -> Value:
    return tuple(value) if isinstance(value, list) else value


def _entity(pair: list[str]) -> Entity:
    if not 1 <= len(pair) <= 2:
        raise Malformed("facts", "parse", f"an entity is [id] or [id, label], not {pair}")
    return parse_entity(*pair)


class _Entities:
    """Parses entities that mostly come in runs of one."""

    def __init__(self) -> None:
        self._last: list[str] = []
        self._entity: Entity = Host("")

    def parse(self, pair: list[str]) -> Entity:
        if pair != self._last:
            self._entity, self._last = _entity(pair), pair
        return self._entity


def _as(entity: Entity, kind: type[T]) -> T:
    if not isinstance(entity, kind):
        raise Malformed(str(entity), "parse facts", f"must be a {kind.__name__.lower()}")
    return entity


def _as_wire(entity: Entity) -> Wire:
    if not isinstance(entity, (Port, Netdev, Interface)):
        raise Malformed(str(entity), "parse facts", "must be a port, netdev or interface")
    return entity


def _wire(pair: list[str]) -> Wire:
    return _as_wire(_entity(pair))

"""Facts: what columns of numbers cannot carry. Sent whole, per collector, when they change.

What a large fabric has by the hundred thousand is a msgspec Struct: quick to make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from collectors.model.entities import Device, Entity, Port, Wire

Scalar: TypeAlias = str | int | float | bool
Value: TypeAlias = Scalar | tuple[Scalar, ...]
"""A setting's value; tuples are indexed by priority, DSCP, queue... as the setting's row says."""

Applies: TypeAlias = Literal["running", "next_boot"]


class Setting(msgspec.Struct, frozen=True, gc=False):
    """A configured value. name: a row of the settings table; where: file, OID, path or command."""

    entity: Entity
    name: str
    value: Value
    where: str = ""
    applies: Applies = "running"


class Attribute(msgspec.Struct, frozen=True, gc=False):
    """Identity and inventory: firmware, driver, netdev of a port... name: a row of that table."""

    entity: Entity
    name: str
    value: Value


class Gid(msgspec.Struct, frozen=True, gc=False):
    """An entry of a port's GID table. type: `IB`, `RoCE v1` or `RoCE v2`. gid: as IPv6 text."""

    port: Port
    index: int
    gid: str
    type: str
    netdev: str = ""


class Neighbour(msgspec.Struct, frozen=True, gc=False):
    """A link as one of its ends saw it. how: `lldp`, `ib`, `topology file`, `lab`..."""

    local: Wire
    remote: Wire
    how: str


class QueuePairFact(msgspec.Struct, frozen=True, gc=False):
    """A queue pair that exists. Numbers that are unknown are None, texts ''."""

    device: Device
    port: int
    local_qpn: int
    remote_qpn: int | None = None
    type: str = ""
    state: str = ""
    pid: int | None = None
    process: str = ""
    job: str = ""
    local_address: str = ""
    remote_address: str = ""
    udp_source_port: int | None = None
    tclass: int | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """What could not be read, and why.

    subject: canonical entity or target. what: file, statistic, message... reason: short and
    countable (`EINVAL`, `deadline`, `not numeric`). detail: for people. count: in this pass.
    """

    subject: str
    collector: str
    what: str
    reason: str
    detail: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts of one collector."""

    settings: Sequence[Setting] = ()  # immutable and hashable: a tuple or `sheets.Sheets`
    attributes: tuple[Attribute, ...] = ()
    gids: tuple[Gid, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    queue_pairs: tuple[QueuePairFact, ...] = ()
    gaps: tuple[Gap, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()

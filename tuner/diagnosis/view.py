"""What a rule may look at: telemetry of a span of time, and the fabric it was seen on.

Both are protocols. The tuner's `Window` and `Fabric` satisfy them; so does what the agent's
doctor knows of its own host, which is why rules under `host/` can run in both.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from collectors.model.entities import Entity, Link, Netdev, Port, Wire
from collectors.model.facts import Attribute, Gap, Gid, Neighbour, QueuePairFact, Setting, Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Growing(Protocol):
    """How a counter grew over the span, in its metric's unit."""

    @property
    def total(self) -> float:
        """Growth."""

    @property
    def seconds(self) -> float:
        """Measured time between the first and the last reading."""

    @property
    def rate(self) -> float:
        """Growth per second."""

    @property
    def samples(self) -> int:
        """Readings that it rests on."""

    @property
    def first_at_ns(self) -> int:
        """Wall clock of the first reading."""

    @property
    def last_at_ns(self) -> int:
        """Wall clock of the last reading."""

    @property
    def resets(self) -> int:
        """Times that it began anew; growth before a reset may be missing."""

    @property
    def saturated(self) -> bool:
        """The counter stands at its maximum: growth is a lower bound."""


class Seen(Protocol):
    """The latest value of a gauge or state."""

    @property
    def value(self) -> float:
        """In the metric's unit."""

    @property
    def at_ns(self) -> int:
        """Wall clock of the reading."""


class Table(Protocol):
    """How one counter grew at many entities: arrays of shape (n,), in the metric's unit."""

    @property
    def number(self) -> NDArray[np.int64]:
        """Number of the entity, as `Telemetry.everything` counts."""

    @property
    def total(self) -> NDArray[np.float64]:
        """Growth."""

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Measured time, more than 0."""

    @property
    def rate(self) -> NDArray[np.float64]:
        """Growth per second."""

    @property
    def first_at_ns(self) -> NDArray[np.int64]:
        """Wall clock of the first reading."""

    @property
    def last_at_ns(self) -> NDArray[np.int64]:
        """Wall clock of the last reading."""

    @property
    def resets(self) -> NDArray[np.int64]:
        """Times that it began anew."""


class Layout(Protocol):
    """What the entities of tables are part of."""

    @property
    def owners(self) -> Sequence[Entity]:
        """Whatever is no slot or has some, each once."""

    @property
    def owner(self) -> NDArray[np.int64]:
        """Of each entity, by its number in `owners`; what is no slot owns itself."""

    @property
    def slot(self) -> NDArray[np.int64]:
        """Index of each entity that is a slot, -1 of others."""


class HostTelemetry(Protocol):
    """What is known of entities; None and empty mean unknown, never zero.

    A fabric has hundred thousands of counters of which nearly none matters to a rule: it asks
    for those that do (`growing`, `unlike`) and not for all to look through them.
    """

    @property
    def since_ns(self) -> int:
        """Begin of the span."""

    @property
    def until_ns(self) -> int:
        """End of the span."""

    def entities(self, metric: str) -> Sequence[Entity]:
        """Return the entities that this metric was read of."""

    def growth(self, metric: str, entity: Entity) -> Growing | None:
        """Return how a counter grew, None where it was read less than twice."""

    def counted(self, metric: str) -> bool:
        """Tell whether it is known of any entity how this counter grew."""

    def growing(
        self, metric: str, least: float | None = None, *, or_saturated: bool = False
    ) -> Mapping[Entity, Growing]:
        """Return the growth only where it is `least` or more; without `least`, more than nothing.

        or_saturated: counters that stand at their maximum, too, for their growth is a lower bound.
        """

    def totals(self, metric: str, entities: Iterable[Entity]) -> list[float | None]:
        """Return what a counter grew by at each of many entities, None where it is unknown."""

    def latest(self, metric: str, entity: Entity) -> Seen | None:
        """Return the newest value."""

    def unlike(self, metric: str, value: float) -> Mapping[Entity, Seen]:
        """Return the newest values only where they are not this one."""

    def settings(self, entity: Entity) -> Mapping[str, Setting]:
        """Return the running settings of an entity by name."""

    def setting_all(self, name: str) -> Mapping[Entity, Setting]:
        """Return one running setting of every entity that has it."""

    def likeness(self, entity: Entity) -> Hashable:
        """Return what is equal for two entities only if all their settings are."""

    def attributes(self, entity: Entity) -> Mapping[str, Attribute]:
        """Return identity and inventory of an entity by name."""

    def gids(self, port: Port) -> Sequence[Gid]:
        """Return the GID table of a port."""

    def queue_pairs(self) -> Sequence[QueuePairFact]:
        """Return the queue pairs that are known."""

    def gaps(self) -> Sequence[Gap]:
        """Return what could not be read."""


class Telemetry(HostTelemetry, Protocol):
    """Telemetry of many hosts and switches."""

    def growth_all(self, metric: str) -> Mapping[Entity, Growing]:
        """Return how a counter grew at every entity that has it."""

    def growth_table(self, metric: str) -> Table:
        """Return the same as arrays."""

    def value_table(
        self, metric: str, *, highest: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return (number of each entity, its newest or highest value) as arrays."""

    def everything(self) -> Sequence[Entity]:
        """Return the entities by number, as tables count them."""

    def layout(self) -> Layout:
        """Return what they are part of."""

    def latest_all(self, metric: str) -> Mapping[Entity, Seen]:
        """Return the newest value at every entity that has it."""

    def highest_all(self, metric: str) -> Mapping[Entity, Seen]:
        """Return the highest value within the span at every entity that has it."""

    def rates(self, metric: str, entity: Entity) -> tuple[Iterable[int], Iterable[float]] | None:
        """Return growth per second from reading to reading: (wall clock of the later, rate)."""

    def alike(self, name: str) -> Mapping[Value, Sequence[Entity]]:
        """Return the entities of which a running setting is known by its value."""

    def neighbours(self) -> Sequence[Neighbour]:
        """Return the links as their ends saw them."""


class FabricView(Protocol):
    """Who is who and what hangs on what."""

    @property
    def peers(self) -> Mapping[Wire, Wire]:
        """The other end of every cable that is known, both ways."""

    def peer(self, wire: Wire) -> Wire | None:
        """Return the other end of the cable, None where it is unknown."""

    def netdev_of(self, port: Port) -> Netdev | None:
        """Return the network interface of a RoCE port."""

    def port_of(self, netdev: Netdev) -> Port | None:
        """Return the RDMA port of a network interface."""

    def ports(self) -> Sequence[Port]:
        """Return all RDMA ports."""

    def attached(self, port: Port) -> Wire:
        """Return what the cable of a port is plugged into: its netdev where it has one."""

    def links(self) -> Sequence[Link]:
        """Return every cable once."""

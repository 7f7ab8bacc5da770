"""The form of the metric catalogue: a metric is one row, with every place that exposes it.

A `Metric` says what a number means; a `Source` says where one driver, MIB or model exposes it
and how (native unit, width, overflow); the `Column` made of both is what readings and the wire
carry, because arithmetic on a counter needs the width and scale of the source it came from.
Values stay in the source's native integers up to the window, so that 2^64-1 words stay exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["counter", "gauge", "state"]
Overflow: TypeAlias = Literal["wraps", "saturates"]
Number: TypeAlias = Literal["int", "float"]
Unit: TypeAlias = Literal[
    "packets", "bytes", "frames", "events", "seconds", "bytes_per_second", "bps", "ratio",
    "celsius", "watts", "dbm", "requests", "messages", "errors", "bits", "symbols", "blocks",
    "id", "bool", "count", "ticks", "amperes", "volts",
]  # fmt: skip
Via: TypeAlias = Literal[
    "sysfs_counters",  # /sys/class/infiniband/<dev>/ports/<n>/counters/<key>
    "hw_counters",  # .../hw_counters/<key>, and the same names in netlink STAT_GET
    "sysfs_port",  # .../ports/<n>/<key>
    "dev_snmp6",  # /proc/net/dev_snmp6/<netdev>
    "netstat",  # /proc/net/netstat, "<group> <key>"
    "netdev",  # /sys/class/net/<netdev>/statistics/<key> and files beside it
    "ethtool",  # ethtool -S name, {p} for the priority, {lane} for the lane
    "ethtool_nl",  # generic netlink, "<group> <attribute>"
    "dcb",  # dcbnl attribute
    "qdisc",  # tc -s -j, "<qdisc> <key>"
    "pci",  # /sys/bus/pci/devices/<bdf>/<key>
    "cm",  # CM counters, "<group>/<message>"
    "qp_counter",  # per-QP counter sets over netlink
    "snmp",  # OID of the column
    "gnmi",  # path
    "sonic_db",  # COUNTERS_DB field
    "otlp",  # OTLP metric name
    "mad",  # "<Attribute>.<Field>"
    "sflow",
    "packet",  # decoded packets of a capture
    "derived",  # computed by the agent from other readings of the same pass
]


@dataclass(frozen=True, slots=True)
class Source:
    """One place that exposes a metric.

    key: name there (file, statistic, OID, path, MAD field). driver: driver, MIB or model, `*`
    for any. scale: native unit times scale is the metric's unit. width, overflow: where the
    source differs from the row. note: a trap worth knowing.
    """

    via: Via
    key: str
    driver: str = "*"
    scale: Fraction = Fraction(1)
    width: int | None = None
    overflow: Overflow | None = None
    number: Number | None = None
    note: str = ""


@dataclass(frozen=True)
class Column:
    """A metric as one source encodes it: what arithmetic on its values needs to know.

    width: bits before the value wraps or saturates. scale: native value times scale is in the
    metric's unit. Floats have no width.
    """

    metric: str
    kind: Kind
    via: str
    width: int = 64
    overflow: Overflow = "wraps"
    scale: Fraction = Fraction(1)
    number: Number = "int"

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.metric, self.kind, self.via, self.width, self.overflow, self.scale))

    @cached_property
    def modulus(self) -> int:
        """Number of distinct native values."""
        return 1 << self.width

    @cached_property
    def native(self) -> bool:
        """Native values are in the metric's unit already."""
        return self.scale == 1

    def to_unit(self, value: float) -> float:
        """Return a native value in the metric's unit; exact where the result is an integer."""
        if self.native:
            return value
        if isinstance(value, int):
            scaled = value * self.scale
            return scaled.numerator if scaled.denominator == 1 else float(scaled)
        return value * float(self.scale)


@dataclass(frozen=True)
class Metric:
    """One row of the catalogue.

    name: the exposition name, with unit and `_total` as Prometheus wants them. on: kinds of
    entity that carry it (`port`, `netdev`, `priority`...). meaning: one line for people.
    """

    name: str
    unit: Unit
    kind: Kind
    meaning: str
    on: tuple[str, ...]
    width: int
    overflow: Overflow
    number: Number
    sources: tuple[Source, ...]

    def column(self, source: Source) -> Column:
        """Return the column that values of this source travel in."""
        return Column(
            self.name,
            self.kind,
            source.via,
            source.width or self.width,
            source.overflow or self.overflow,
            source.scale,
            source.number or self.number,
        )


def counter(
    name: str,
    unit: Unit,
    meaning: str,
    *sources: Source,
    on: str | tuple[str, ...] = "port",
    width: int = 64,
    overflow: Overflow = "wraps",
    number: Number = "int",
) -> Metric:
    """Return the row of a number that only grows, until it wraps, saturates or is reset."""
    on = (on,) if isinstance(on, str) else on
    return Metric(name, unit, "counter", meaning, on, width, overflow, number, sources)


def gauge(
    name: str,
    unit: Unit,
    meaning: str,
    *sources: Source,
    on: str | tuple[str, ...] = "port",
    number: Number = "int",
) -> Metric:
    """Return the row of a number that goes up and down."""
    on = (on,) if isinstance(on, str) else on
    return Metric(name, unit, "gauge", meaning, on, 64, "wraps", number, sources)


def state(
    name: str,
    meaning: str,
    *sources: Source,
    on: str | tuple[str, ...] = "port",
) -> Metric:
    """Return the row of an enumerated condition; the meaning lists the numbers."""
    on = (on,) if isinstance(on, str) else on
    return Metric(name, "id", "state", meaning, on, 64, "wraps", "int", sources)

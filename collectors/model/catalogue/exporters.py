"""Names under which other exporters serve what the catalogue knows, and whom their labels mean.

A time series database often holds a fabric's counters already, written by node_exporter,
rdma_exporter, gnmic or snmp_exporter. Their names follow by rule from the keys of the rows'
sources (a sysfs file, an `ethtool -S` name, a schema path), so that a new row is known here
too; only the objects of MIBs need a table, as OIDs do not tell their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import Final, TypeAlias, get_args

from collectors.model.catalogue.registry import CATALOGUE
from collectors.model.catalogue.sources import (
    CISCO_PFC,
    DOT3,
    IF,
    IF_HC,
    parse_key,
)
from collectors.model.entities import (
    Device,
    Entity,
    Host,
    Interface,
    Netdev,
    Port,
    Slot,
    SlotKind,
    Switch,
    Wire,
    kind_of,
)
from collectors.model.metric import Metric, Source

Labels: TypeAlias = Mapping[str, str]
_ENDS: Final = frozenset(("port", "netdev", "interface"))


@dataclass(frozen=True, slots=True)
class Series:
    """What a name stands for. scale: value times scale is in the metric's unit.

    exporter: whose labels they are. slot: part of the entity that the name itself tells.
    """

    metric: Metric
    exporter: str
    scale: Fraction = Fraction(1)
    slot: tuple[SlotKind, int] | None = None


# What /proc/net/dev calls the files under /sys/class/net/*/statistics (node_exporter).
_NETDEV: Final = {
    "statistics/rx_bytes": "receive_bytes_total",
    "statistics/rx_packets": "receive_packets_total",
    "statistics/rx_errors": "receive_errs_total",
    "statistics/rx_dropped": "receive_drop_total",
    "statistics/tx_bytes": "transmit_bytes_total",
    "statistics/tx_packets": "transmit_packets_total",
    "statistics/tx_errors": "transmit_errs_total",
    "statistics/tx_dropped": "transmit_drop_total",
    "carrier": "carrier",
    "carrier_changes": "carrier_changes_total",
    "carrier_down_count": "carrier_down_changes_total",
}
# rdma_exporter tells the direction by a label.
_RDMA_PAUSE: Final = {
    "rdma_roce_pfc_pause_frames_total": ("fabric_pfc_{}_frames_total", Fraction(1)),
    "rdma_roce_pfc_pause_duration_total": (
        "fabric_pfc_{}_pause_seconds_total",
        Fraction(1, 10**6),
    ),
    "rdma_roce_pfc_pause_transitions_total": ("fabric_pfc_{}_transitions_total", Fraction(1)),
}
_SPEED: Final = "fabric_interface_speed_bps"  # node_network_speed_bytes is in bytes a second

_MIB_OBJECTS: Final = {
    f"{IF_HC}.6": "ifHCInOctets",
    f"{IF_HC}.7": "ifHCInUcastPkts",
    f"{IF_HC}.10": "ifHCOutOctets",
    f"{IF_HC}.11": "ifHCOutUcastPkts",
    f"{IF}.8": "ifOperStatus",
    f"{IF}.13": "ifInDiscards",
    f"{IF}.14": "ifInErrors",
    f"{IF}.19": "ifOutDiscards",
    f"{IF}.20": "ifOutErrors",
    f"{DOT3}.2.1.3": "dot3StatsFCSErrors",
    f"{DOT3}.2.1.18": "dot3StatsSymbolErrors",
    f"{DOT3}.10.1.3": "dot3InPauseFrames",
    f"{DOT3}.10.1.4": "dot3OutPauseFrames",
    f"{DOT3}.10.1.5": "dot3HCInPauseFrames",
    f"{DOT3}.10.1.6": "dot3HCOutPauseFrames",
    f"{CISCO_PFC}.2.1.2": "cpfcIfPriorityRequests",
    f"{CISCO_PFC}.2.1.3": "cpfcIfPriorityIndications",
}


def series_of(labels: Labels) -> Series | None:
    """Return what a series of these labels (`__name__` among them) stands for, None if unknown."""
    name = labels.get("__name__", "")
    if name in _RDMA_PAUSE:
        pattern, scale = _RDMA_PAUSE[name]
        metric = CATALOGUE.get(pattern.format(labels.get("direction", "")))
        return None if metric is None else Series(metric, "rdma_exporter", scale)
    return _by_name().get(name)


def known_names() -> frozenset[str]:
    """Return every name that stands for something."""
    return frozenset((*_by_name(), *_RDMA_PAUSE))


@cache
def _by_name() -> Mapping[str, Series]:
    found = {name: Series(metric, "fabric") for name, metric in CATALOGUE.items()}
    for metric in CATALOGUE.values():
        for source in metric.sources:
            for name, series in _names(metric, source):
                found.setdefault(name, series)
    speed = CATALOGUE[_SPEED]
    found["node_network_speed_bytes"] = Series(speed, "node_exporter", Fraction(8))
    return MappingProxyType(found)


def _names(metric: Metric, source: Source) -> Iterator[tuple[str, Series]]:
    match source.via:
        case "netdev" if source.key in _NETDEV:
            yield f"node_network_{_NETDEV[source.key]}", Series(metric, "node_exporter")
        case "netstat" if "host" in metric.on:
            name = f"node_netstat_{source.key.replace(' ', '_')}"
            yield name, Series(metric, "node_exporter", source.scale)
        case "ethtool":
            yield from _ethtool(metric, source)
        case "sysfs_counters" | "hw_counters":
            suffix = "_total" if metric.kind == "counter" else ""
            name = f"rdma_{source.key.lower()}{suffix}"
            yield name, Series(metric, "rdma_exporter", source.scale)
        case "gnmi":
            path, slots = parse_key(source.key)
            name = re.sub(r"[^A-Za-z0-9]+", "_", path.strip("/"))
            yield name, Series(metric, "gnmic", source.scale, _slot(slots))
        case "snmp":
            oid, slots = parse_key(source.key)
            if oid in _MIB_OBJECTS:
                yield (
                    _MIB_OBJECTS[oid],
                    Series(metric, "snmp_exporter", source.scale, _slot(slots)),
                )


def _ethtool(metric: Metric, source: Source) -> Iterator[tuple[str, Series]]:
    """Yield node_exporter's names: rx and tx in full, what is no letter or digit as `_`."""
    numbers: list[int | None] = list(range(8)) if "{p}" in source.key else [None]
    if "{lane}" in source.key:
        return
    for number in numbers:
        name = re.sub(r"[^A-Za-z0-9]+", "_", source.key.replace("{p}", str(number)))
        name = re.sub(r"(^|_)rx(?=_|$)", r"\1received", name)
        name = re.sub(r"(^|_)tx(?=_|$)", r"\1transmitted", name)
        slot: tuple[SlotKind, int] | None = None if number is None else ("priority", number)
        yield f"node_ethtool_{name}", Series(metric, "node_exporter", source.scale, slot)


def _slot(told: Mapping[str, int]) -> tuple[SlotKind, int] | None:
    return ("priority", told["priority"]) if "priority" in told else None


def entity_of(series: Series, labels: Labels) -> Entity | None:
    """Return whom a series is about, None where its labels do not tell.

    The scrape's `instance` (without its port) is the host, or the switch of snmp_exporter;
    gnmic names the switch in `source`.
    """
    own = _bare(labels.get("instance", ""))
    match series.exporter:
        case "fabric":
            return _ours(series.metric, labels, labels.get("host") or own)
        case "node_exporter":
            name = labels.get("device", "")
            if "host" in series.metric.on and not name:
                return Host(own) if own else None
            wire: Wire | None = Netdev(own, name) if own and name else None
        case "rdma_exporter":
            netdev = labels.get("netdev", "")
            on_netdev = own and netdev and "port" not in series.metric.on
            wire = Netdev(own, netdev) if on_netdev else _port(labels, own)
        case "gnmic":
            name = _first(labels, "interface_name", "interface_interface_id", "name")
            wire = _interface(_bare(labels.get("source", "")) or own, name)
        case _:
            wire = _interface(own, _first(labels, "ifName", "ifDescr"))
    return None if wire is None else _part(series, wire, labels)


def _ours(metric: Metric, labels: Labels, host: str) -> Entity | None:
    """Return the entity of labels as the agent writes them (agent/labels.py)."""
    parent: Wire | Switch | None
    if "switch" in labels:
        switch = Switch(labels["switch"], labels["switch"])
        parent = Interface(switch, labels["interface"]) if "interface" in labels else switch
    elif not host:
        return None
    elif "netdev" in labels:
        parent = Netdev(host, labels["netdev"])
    elif "port" in labels:
        parent = _port(labels, host)
    elif "device" in labels:
        device = Device(host, labels["device"], labels["device"])
        return device if "device" in metric.on else None
    else:
        return Host(host) if "host" in metric.on else None
    if parent is None:
        return None
    for kind in get_args(SlotKind):
        if kind in metric.on and labels.get(kind, "").isdigit():
            return Slot(parent, kind, int(labels[kind]))
    return parent if kind_of(parent) in metric.on else None


def _part(series: Series, wire: Wire, labels: Labels) -> Entity | None:
    """Return the entity itself, or the slot of it that name or labels tell."""
    if series.slot is not None:
        return Slot(wire, *series.slot)
    kinds: tuple[SlotKind, ...] = ("priority", "queue", "traffic_class")
    for kind in kinds:
        if kind not in series.metric.on:
            continue
        for label, value in labels.items():
            number = re.search(r"(\d+)$", value)
            if kind.split("_", maxsplit=1)[0] in label.lower() and number:
                return Slot(wire, kind, int(number[1]))
    return wire if _ENDS & set(series.metric.on) else None


def _port(labels: Labels, host: str) -> Port | None:
    device, number = labels.get("device", ""), labels.get("port", "")
    if not host or not device or not number.isdigit():
        return None
    return Port(Device(host, device, device), int(number))


def _interface(switch: str, name: str) -> Interface | None:
    return Interface(Switch(switch, switch), name) if switch and name else None


def _first(labels: Labels, *names: str) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _bare(address: str) -> str:
    """Return an address without its port; IPv6 without its brackets."""
    bracketed = re.fullmatch(r"\[(.+)\](?::\d+)?", address)
    if bracketed is not None:
        return bracketed[1]
    return address.rpartition(":")[0] if address.count(":") == 1 else address

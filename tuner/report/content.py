"""What a report shows, drawn from a window: topology, heat maps, pause trees, plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from collectors.model.catalogue import interface, rdma
from collectors.model.catalogue.registry import CATALOGUE
from collectors.model.entities import Entity, Host, Link, Switch, Wire, display, wire_of
from collectors.model.metric import Metric
from tuner.diagnosis.finding import Diagnosis, Finding
from tuner.diagnosis.flow import PriorityFlow
from tuner.diagnosis.stall_graph import device_of
from tuner.fabric.graph import Fabric
from tuner.fabric.steps import steps_from
from tuner.report.svg import Edge, HeatMap, Line, Node, Tone, heat_map, plot, topology

if TYPE_CHECKING:
    from tuner.store.arithmetic import Floats, Ints
    from tuner.store.window import Window

MOST_NODES: Final = 160  # more are no picture any more: then only what findings concern
MOST_ROWS: Final = 24
MOST_BINS: Final = 48
MOST_PLOTS: Final = 2  # of a finding
MOST_LINES: Final = 4
PAUSED: Final = 0.01  # share of time
BUSY: Final = 0.5  # of line rate
_LEVELS: Final[tuple[Tone, ...]] = ("plain", "busy", "paused", "fault")


@dataclass(frozen=True, slots=True)
class Heat:
    """A kind of heat map. full: value of the darkest tint, 0 for the largest that occurs.

    of_speed: rates are shown as a share of the interface's speed.
    """

    title: str
    unit: str
    metric: Metric
    full: float = 0.0
    of_speed: bool = False


HEATS: Final = (
    Heat("Load of links, sent", "of line rate", interface.TX_BYTES, 1.0, of_speed=True),
    Heat("Time paused by the peer (PFC received)", "of time", interface.PFC_RX_PAUSE, 1.0),
    Heat("Packets that arrive marked (CE)", "packets/s", rdma.CE_MARKED_RX),
    Heat("Packets out of sequence", "packets/s", rdma.OUT_OF_SEQUENCE_RX),
    Heat("Packets dropped by queues", "packets/s", interface.QUEUE_DROPS),
)


def fabric_picture(
    fabric: Fabric, diagnosis: Diagnosis, flows: Sequence[PriorityFlow], window: Window
) -> tuple[str, str]:
    """Return (SVG, what was left out or '')."""
    tones = _tones(diagnosis, flows, window)
    cables: dict[tuple[Entity, Entity], list[Link]] = {}
    for cable in fabric.links():
        ends = (device_of(cable.a), device_of(cable.b))
        first, second = sorted(ends, key=str)
        cables.setdefault((first, second), []).append(cable)
    devices = dict.fromkeys(device for pair in cables for device in pair)
    left_out = ""
    if len(devices) > MOST_NODES:
        shown = _concerned(diagnosis, cables)
        left_out = (
            f"{len(devices)} devices: only those that findings concern and their neighbours "
            f"are drawn, {len(shown)}."
        )
        devices = dict.fromkeys(device for device in devices if device in shown)
    tiers = _tiers(devices, cables)
    worst: dict[Entity, Tone] = {}
    edges = []
    for (a, b), links in cables.items():
        tone = _worst(tones.get(wire, "plain") for link in links for wire in (link.a, link.b))
        title = "\n".join(f"{display(link.a)} – {display(link.b)}" for link in links[:8])
        edges.append(Edge(str(a), str(b), tone, title))
    for wire, tone in tones.items():
        device = device_of(wire)
        worst[device] = _worst((worst.get(device, "plain"), tone))
    nodes = [
        Node(str(device), display(device), tiers[device], worst.get(device, "plain"),
             display(device))
        for device in devices
    ]  # fmt: skip
    return topology(nodes, edges), left_out


def heat_maps(window: Window) -> list[tuple[str, str]]:
    """Return (title, SVG) of each kind that has anything to show: the fullest rows, by time."""
    return [
        (f"{heat.title} ({heat.unit})", heat_map(made))
        for heat in HEATS
        if (made := _heat(window, heat)) is not None
    ]


def finding_plots(window: Window, finding: Finding) -> list[str]:
    """Return plots of the counters that a finding rests on, one a metric."""
    by_metric: dict[str, dict[Entity, tuple[Ints, Floats]]] = {}
    for item in finding.evidence:
        row = CATALOGUE.get(item.name)
        rates = None if row is None else window.rates(item.name, item.entity)
        if rates is not None and len(rates[0]):
            by_metric.setdefault(item.name, {})[item.entity] = rates
    plots = []
    for name, series in list(by_metric.items())[:MOST_PLOTS]:
        begin = min(int(at[0]) for at, _ in series.values())
        lines = [
            Line(display(entity), _points(at - begin, rate))
            for entity, (at, rate) in list(series.items())[:MOST_LINES]
        ]
        plots.append(plot(name, f"{CATALOGUE[name].unit}/s", lines))
    return plots


def _heat(window: Window, heat: Heat) -> HeatMap | None:
    grown = window.growth_all(heat.metric.name)
    speeds = window.latest_all(interface.SPEED.name) if heat.of_speed else {}
    scaled: dict[Entity, float] = {}
    for entity, growth in grown.items():
        scale = _scale(entity, heat, speeds)
        if scale and growth.rate > 0:
            scaled[entity] = growth.rate * scale
    top = sorted(scaled, key=lambda entity: (-scaled[entity], str(entity)))[:MOST_ROWS]
    if not top:
        return None
    begin = min(grown[entity].first_at_ns for entity in top)
    until = max(grown[entity].last_at_ns for entity in top)
    bins = min(MOST_BINS, max(grown[entity].samples - 1 for entity in top))
    bin_ns = max((until - begin) / bins, 1.0)
    rows = {}
    for entity in top:
        rates = window.rates(heat.metric.name, entity)
        if rates is not None:
            scale = _scale(entity, heat, speeds)
            rows[display(entity)] = _binned(rates[0] - begin, rates[1] * scale, bin_ns, bins)
    known = [value for values in rows.values() for value in values if value is not None]
    return HeatMap(heat.title, heat.unit, rows, bin_ns / 1e9, heat.full or max(known, default=1.0))


def _scale(entity: Entity, heat: Heat, speeds: Mapping[Entity, object]) -> float:
    if not heat.of_speed:
        return 1.0
    speed = getattr(speeds.get(entity), "value", 0.0)
    return 8.0 / speed if speed else 0.0


def _binned(since_ns: Ints, values: Floats, bin_ns: float, bins: int) -> list[float | None]:
    """Return the largest rate of each bin; a bin between two readings has the later one's."""
    # A rate holds up to its reading: that at the end of a bin belongs to the bin.
    places = np.clip(np.ceil(since_ns / bin_ns).astype(int) - 1, 0, bins - 1)
    row: list[float | None] = [None] * bins
    last = -1
    for place, value in zip(places.tolist(), values.tolist(), strict=True):
        for between in range(last + 1, place + 1):
            row[between] = value
        row[place] = max(row[place] or 0.0, value)
        last = max(last, place)
    return row


def _tones(diagnosis: Diagnosis, flows: Sequence[PriorityFlow], window: Window) -> dict[Wire, Tone]:
    tones: dict[Wire, Tone] = {}

    def note(wire: Wire | None, tone: Tone) -> None:
        if wire is not None:
            tones[wire] = _worst((tones.get(wire, "plain"), tone))

    speeds = window.latest_all(interface.SPEED.name)
    for entity, growth in window.growth_all(interface.TX_BYTES.name).items():
        speed = speeds.get(entity)
        if speed is not None and speed.value and growth.rate * 8 / speed.value >= BUSY:
            note(wire_of(entity), "busy")
    for flow in flows:
        for wire, share in flow.graph.stalled.items():
            if share >= PAUSED:
                note(wire, "paused")
    for finding in diagnosis.findings:
        if finding.severity != "info" and not finding.explained_by:
            for part in _parts(finding.subject):
                note(part, "fault")
    return tones


def _parts(place: Entity) -> list[Wire]:
    if isinstance(place, Link):
        return [place.a, place.b]
    wire = wire_of(place)
    return [] if wire is None else [wire]


def _worst(tones: Iterable[Tone]) -> Tone:
    return max(tones, key=_LEVELS.index, default="plain")


def _concerned(
    diagnosis: Diagnosis, cables: Mapping[tuple[Entity, Entity], Sequence[Link]]
) -> set[Entity]:
    """Return the devices of findings' places, and their neighbours as long as there is room."""
    core: set[Entity] = set()
    for finding in diagnosis.findings:
        for place in (finding.subject, *finding.affected):
            if len(core) < MOST_NODES // 2:
                core |= {device_of(part) for part in _parts(place)}
                core |= {place} if isinstance(place, (Host, Switch)) else set()
    shown = set(core)
    for a, b in cables:
        if len(shown) < MOST_NODES and (a in core or b in core):
            shown |= {a, b}
    return shown


def _tiers(
    devices: Iterable[Entity], cables: Mapping[tuple[Entity, Entity], Sequence[Link]]
) -> dict[Entity, int]:
    """Return how far each device is from the hosts: 0 a host, 1 a leaf, 2 a spine ..."""
    around: dict[Entity, list[Entity]] = {}
    for a, b in cables:
        for device, other in ((a, b), (b, a)):
            if isinstance(other, Switch):
                around.setdefault(device, []).append(other)
    tiers = steps_from([d for d in devices if not isinstance(d, Switch)], around)
    return {device: tiers.get(device, 1) for device in devices}


def _points(since_ns: Ints, rates: Floats) -> list[tuple[float, float]]:
    """Return at most 240 (seconds, rate): the highest of each stretch, so that no peak is lost."""
    points = list(zip((since_ns / 1e9).tolist(), rates.tolist(), strict=True))
    step = -(-len(points) // 240)
    return [
        max(points[start : start + step], key=lambda point: point[1])
        for start in range(0, len(points), step)
    ]

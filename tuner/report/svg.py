"""Drawings of a report as SVG text: no script, no outside file, colours by CSS class.

Every mark has a title, which browsers show when the pointer rests on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final, Literal, TypeAlias

Tone: TypeAlias = Literal["plain", "busy", "paused", "fault"]

_WIDTH: Final = 960
_ROW: Final = 16  # of a heat map
_LABEL: Final = 190
_STEPS: Final = 6  # tints of a heat map, h0 (nothing) to h6
_TIER: Final = 120
_NODE: Final = 7


@dataclass(frozen=True, slots=True)
class Node:
    """A device. tier: 0 for hosts, then outwards. tone: the worst that is known of it."""

    key: str
    name: str
    tier: int
    tone: Tone
    title: str


@dataclass(frozen=True, slots=True)
class Edge:
    """Cables between two devices, drawn as one line."""

    a: str
    b: str
    tone: Tone
    title: str


@dataclass(frozen=True)
class Line:
    """A series. points: (seconds since the begin of the plot, value)."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class HeatMap:
    """rows: name -> values by time bin, None where nothing was read. full: value of the darkest."""

    title: str
    unit: str
    rows: Mapping[str, Sequence[float | None]]
    bin_s: float
    full: float


def heat_map(heat: HeatMap) -> str:
    """Return a heat map, one row an entity, time from left to right."""
    bins = max((1, *(len(values) for values in heat.rows.values())))
    cell = (_WIDTH - _LABEL - 10) / bins
    height = _ROW * len(heat.rows) + 24
    parts = []
    for number, (name, values) in enumerate(heat.rows.items()):
        top = number * _ROW
        parts.append(_text(_LABEL - 6, top + 12, name, "end", limit=30))
        for place, value in enumerate(values):
            left = _LABEL + place * cell
            title = f"{name}, {_time(place * heat.bin_s)}: {_number(value)} {heat.unit}"
            tint = "none" if value is None else f"h{_tint(value, heat.full)}"
            parts.append(
                f'<rect x="{left:.1f}" y="{top + 1}" width="{max(cell - 1, 0.5):.1f}" '
                f'height="{_ROW - 2}" class="{tint}"><title>{escape(title)}</title></rect>'
            )
    bottom = _ROW * len(heat.rows) + 16
    parts.append(_text(_LABEL, bottom, "0", "start"))
    parts.append(_text(_WIDTH - 10, bottom, _time(bins * heat.bin_s), "end"))
    return _svg(height, parts, heat.title)


def plot(title: str, unit: str, lines: Sequence[Line]) -> str:
    """Return a line plot over time; up to four lines, each named at its right end."""
    height, left, right, top, bottom = 184, 70, 170, 26, 24
    points = [point for line in lines for point in line.points]
    if not points:
        return ""
    until = max(at for at, _ in points) or 1.0
    most = max(value for _, value in points) or 1.0

    def x(at: float) -> float:
        return left + at / until * (_WIDTH - left - right)

    def y(value: float) -> float:
        return top + (1 - value / most) * (height - top - bottom)

    parts = [f'<text x="0" y="10" class="title">{escape(title)} ({escape(unit)})</text>']
    for share in (0.0, 0.5, 1.0):
        level = y(share * most)
        parts.append(
            f'<line x1="{left}" x2="{_WIDTH - right}" y1="{level:.1f}" y2="{level:.1f}" '
            'class="grid"/>'
        )
        parts.append(_text(left - 6, level + 4, _number(share * most), "end"))
    ends = _apart([y(line.points[-1][1]) for line in lines if line.points], 13)
    for number, line in enumerate(line for line in lines if line.points):
        path = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in line.points)
        told = f"{line.name}: highest {_number(max(v for _, v in line.points))} {unit}"
        parts.append(
            f'<polyline points="{path}" class="line s{number % 4}">'
            f"<title>{escape(told)}</title></polyline>"
        )
        parts.append(_text(_WIDTH - right + 6, ends[number] + 4, line.name, "start", limit=26))
    parts.append(_text(left, height - 6, "0", "start"))
    parts.append(_text(_WIDTH - right, height - 6, _time(until), "end"))
    return _svg(height, parts, f"{title} ({unit})")


def topology(nodes: Sequence[Node], edges: Iterable[Edge]) -> str:
    """Return devices in tiers, hosts at the bottom, with the cables between them."""
    edges = list(edges)
    places = _places(nodes, edges)
    if not places:
        return ""
    height = int(max(y for _, y in places.values())) + 44
    parts = []
    for edge in edges:
        if edge.a in places and edge.b in places:
            (x1, y1), (x2, y2) = places[edge.a], places[edge.b]
            parts.append(
                f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                f'class="cable {edge.tone}"><title>{escape(edge.title)}</title></line>'
            )
    crowded = max(_counts(nodes).values()) > 24
    for node in nodes:
        x, y = places[node.key]
        shape = (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_NODE}"'
            if node.tier == 0
            else f'<rect x="{x - 9:.1f}" y="{y - 7:.1f}" width="18" height="14" rx="3"'
        )
        parts.append(
            f'{shape} class="node {node.tone}"><title>{escape(node.title)}</title></'
            f"{'circle' if node.tier == 0 else 'rect'}>"
        )
        if not crowded or node.tone == "fault":
            parts.append(_text(x, y + 22 if node.tier == 0 else y - 12, node.name, "middle", 16))
    return _svg(height, parts, "Topology")


def _places(nodes: Sequence[Node], edges: Sequence[Edge]) -> dict[str, tuple[float, float]]:
    """Return where each node is drawn: tiers stacked, within a tier in the order of neighbours."""
    around: dict[str, list[str]] = {}
    for edge in edges:
        around.setdefault(edge.a, []).append(edge.b)
        around.setdefault(edge.b, []).append(edge.a)
    top = max((node.tier for node in nodes), default=0)
    places: dict[str, tuple[float, float]] = {}
    for tier in range(top + 1):
        members = [node for node in nodes if node.tier == tier]

        def wish(node: Node) -> tuple[float, str]:
            below = [places[key][0] for key in around.get(node.key, ()) if key in places]
            return (sum(below) / len(below) if below else 0.0, node.name)

        members.sort(key=wish)
        for number, node in enumerate(members):
            x = _WIDTH * (number + 0.5) / len(members)
            places[node.key] = (x, 30 + (top - tier) * _TIER)
    return places


def _counts(nodes: Iterable[Node]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for node in nodes:
        counts[node.tier] = counts.get(node.tier, 0) + 1
    return counts


def _apart(levels: Sequence[float], least: float) -> list[float]:
    """Return levels moved down where two labels would lie on each other, in the same order."""
    order = sorted(range(len(levels)), key=lambda number: levels[number])
    moved = list(levels)
    for above, here in pairwise(order):
        moved[here] = max(moved[here], moved[above] + least)
    return moved


def _tint(value: float, full: float) -> int:
    """Return 0 for nothing, 1 to 6 for shares of full; what is above full is full."""
    if value <= 0 or full <= 0:
        return 0
    return 1 + int(min(value / full, 1.0) * (_STEPS - 1))


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 600 else f"{seconds / 60:.3g} min"


def _number(value: float | None) -> str:
    if value is None:
        return "not read"
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.3g}"


def _text(x: float, y: float, text: str, anchor: str, limit: int = 0) -> str:
    shown = text if not limit or len(text) <= limit else text[: limit - 1] + "…"
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(shown)}'
        f"<title>{escape(text)}</title></text>"
    )


def _svg(height: float, parts: Iterable[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )

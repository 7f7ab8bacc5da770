"""The stall graph as trees for people: roots, and below each what waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from collectors.model.entities import Wire, display
from tuner.diagnosis.flow import PriorityFlow


@dataclass(frozen=True, slots=True)
class Branch:
    """A place and what waits for it. share: of time stalled; of a root its score."""

    text: str
    share: float
    below: tuple[Branch, ...] = ()


@dataclass(frozen=True, slots=True)
class PauseTree:
    """Trees of one priority, worst root first, and circles, which have no root."""

    priority: int
    circles: tuple[str, ...]
    roots: tuple[Branch, ...]


def pause_trees(flows: Iterable[PriorityFlow]) -> tuple[PauseTree, ...]:
    """Return one tree a priority that has stalls."""
    return tuple(_tree(flow) for flow in flows if flow.graph.stalled)


def _tree(flow: PriorityFlow) -> PauseTree:
    waiting: dict[Wire, list[Wire]] = {}
    for edge in flow.graph.edges:
        waiting.setdefault(edge.behind, []).append(edge.waiting)
    stalled = flow.graph.stalled
    roots = [
        Branch(
            f"{display(root.wire)}  {root.kind.replace('_', ' ')}",
            root.score,
            _below(root.wire, waiting, stalled, frozenset({root.wire})),
        )
        for root in flow.graph.roots
    ]
    circles = [" → ".join(display(wire) for wire in cycle) for cycle in flow.graph.cycles]
    return PauseTree(flow.priority, tuple(circles), tuple(roots))


def _below(
    behind: Wire,
    waiting: Mapping[Wire, Sequence[Wire]],
    stalled: Mapping[Wire, float],
    passed: frozenset[Wire],
) -> tuple[Branch, ...]:
    return tuple(
        Branch(
            display(wire),
            stalled[wire],
            () if wire in passed else _below(wire, waiting, stalled, passed | {wire}),
        )
        for wire in sorted(waiting.get(behind, ()), key=lambda one: -stalled[one])
    )

"""How far things are from one another, in cables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

Node = TypeVar("Node")


def steps_from(starts: Iterable[Node], near: Mapping[Node, Iterable[Node]]) -> dict[Node, int]:
    """Return how many steps each node is from the nearest start, nearest first.

    near: whom one step leads to. Nodes that nothing leads to are left out.
    """
    found = dict.fromkeys(starts, 0)
    wave = list(found)
    for node in wave:  # it grows meanwhile
        for other in near.get(node, ()):
            if other not in found:
                found[other] = found[node] + 1
                wave.append(other)
    return found

"""The budget of simulations: work at a fixed price, not time, so that answers do not vary.

A budget of so many seconds buys as much work as the machine that the prices were measured on does
in them. What comes out depends on the budget and the seed alone. Only where the real clock shows
that a machine is far slower does it end the work, and `cut` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from simlab.packet.config import Plan

RUN_S: Final = 2e-3
PLACE_S: Final = 5e-5
EVENT_S: Final = 5e-8
"""Price of a run, of each of its nodes and connections, and of an event (tests/bench/search.py)."""
PATIENCE: Final = 10.0  # times the budget, then the clock ends the work
START_S: Final = 1.0  # on top: loading the compiled engine


def price_s(plan: Plan, events: int) -> float:
    """Return the price of a run of a plan that took so many events, in seconds."""
    places = plan.topology.node_count + len(plan.traffic.connections)
    return RUN_S + PLACE_S * places + EVENT_S * events


@dataclass
class Budget:
    """Seconds of simulated work. `clock`: the safety's, in seconds; None goes without it."""

    seconds: float
    clock: Callable[[], float] | None = None
    spent_s: float = 0.0
    cut: bool = False

    def __post_init__(self) -> None:
        """Start the safety."""
        self._end = 0.0 if self.clock is None else self.clock() + self.wall_s

    @property
    def wall_s(self) -> float:
        """The real time after which the safety ends the work, in seconds."""
        return PATIENCE * self.seconds + START_S

    @property
    def left_s(self) -> float:
        """Work that is left, in seconds."""
        return max(0.0, self.seconds - self.spent_s)

    def affords(self, cost_s: float) -> bool:
        """Tell whether work of this price may be done."""
        return cost_s <= self.left_s and not self.late()

    def late(self) -> bool:
        """Tell whether the clock has run out, and remember that it did."""
        self.cut = self.cut or (self.clock is not None and self.clock() > self._end)
        return self.cut

    def charge(self, plan: Plan, events: int) -> float:
        """Count a run that was made and return its price in seconds."""
        cost = price_s(plan, events)
        self.spent_s += cost
        return cost

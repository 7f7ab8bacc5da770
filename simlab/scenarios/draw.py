"""One drawn scenario: a fabric with its jobs, what is wrong with it, and what would cure it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from collectors.model.entities import Entity
from collectors.model.facts import Value
from simlab.packet.config import Plan
from simlab.packet.telemetry_names import Names
from simlab.scenarios.job import Job, traffic_of


@dataclass(frozen=True, slots=True)
class Change:
    """A setting of the vocabulary, or a knob (`link_repair`, `qps_per_connection` ...), set."""

    entity: Entity
    setting: str
    value: Value


@dataclass(frozen=True, slots=True)
class Truth:
    """A fault that was planted.

    causes: ids of the diagnosis rules that name it. places: subjects that are right. cure: what
    makes it go away.
    """

    causes: tuple[str, ...]
    places: tuple[Entity, ...]
    cure: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Ticking:
    """A counter of the hardware that the packet simulator does not know, with a steady rate.

    key: name at the source. The count is of chance (Poisson), by the draw's seed.
    """

    entity: Entity
    collector: str
    via: str
    driver: str
    key: str
    per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A scenario that can be simulated. No truth: nothing is wrong with it.

    plan: what simlab.packet runs; its traffic is that of `jobs`. priorities: of what a host node
    sends, where it is not the job's own. shown: settings that stand in configurations beside
    those that follow from the plan. ticking: counters beside those of the plan.
    """

    family: str
    seed: int
    plan: Plan
    jobs: tuple[Job, ...]
    truths: tuple[Truth, ...] = ()
    priorities: Mapping[int, int] = field(default_factory=dict)
    shown: tuple[Change, ...] = ()
    ticking: tuple[Ticking, ...] = ()

    @property
    def names(self) -> Names:
        """What the nodes and ports of the plan are called."""
        return Names(self.plan.topology)

    def with_jobs(self, jobs: tuple[Job, ...], priorities: Mapping[int, int] | None = None) -> Draw:
        """Return the draw with other jobs, and the traffic of these."""
        own = self.priorities if priorities is None else priorities
        plan = replace(self.plan, traffic=traffic_of(jobs, own))
        return replace(self, plan=plan, jobs=jobs, priorities=own)

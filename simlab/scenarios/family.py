"""A family of scenarios and the ground that all families build on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, TypeAlias

from collectors.model.dcqcn import profile
from collectors.model.ecn import EcnThresholds
from simlab.packet.config import Config, LeafSpine, Permutation, Plan, Record, Star
from simlab.packet.parameters import (
    MIB,
    CongestionControl,
    EcnAt,
    Form,
    InfinibandLink,
    Model,
    SwitchModel,
    Transport,
)
from simlab.packet.topology import Topology, leaf_spine, star
from simlab.packet.traffic import Traffic
from simlab.scenarios.change import applied
from simlab.scenarios.draw import Change, Draw, Truth
from simlab.scenarios.job import Job, Pattern
from simlab.scenarios.places import Places

Section: TypeAlias = Literal[
    "healthy", "link", "config", "flow_control", "balance", "control_loop", "host", "placement"
]
Make: TypeAlias = Callable[[Random], Draw]
GBPS = 1e9


@dataclass(frozen=True, slots=True)
class Family:
    """Scenarios of one kind. section: of the rule table, or healthy. varies: what is drawn."""

    name: str
    section: Section
    varies: str
    make: Make

    @property
    def faulty(self) -> bool:
        """Whether something is planted."""
        return self.section != "healthy"


def seeded(family: Family, seed: int) -> Draw:
    """Return the draw of a seed."""
    made = family.make(Random(f"{family.name}:{seed}"))
    config = made.plan.config
    named = replace_config(config, family.name, seed)
    return replace(made, family=family.name, seed=seed, plan=replace(made.plan, config=named))


def replace_config(config: Config, name: str, seed: int) -> Config:
    """Return a configuration under the name and seed of its draw."""
    fields = {key: getattr(config, key) for key in config.__struct_fields__}
    return Config(**(fields | {"name": name, "seed": seed}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A fabric without fault. kmin_scale: ECN thresholds as a multiple of HPCC's."""

    topology: Topology
    choice: Star | LeafSpine
    rate_bps: float
    model: Model
    duration_s: float

    def draw(self, jobs: tuple[Job, ...] | Job, *, busy: float = 0.8) -> Draw:
        """Return the draw of jobs that ideal NICs would need `busy` of the duration for."""
        given = (jobs,) if isinstance(jobs, Job) else jobs
        filled = tuple(job.filling(busy * self.duration_s, self.rate_bps) for job in given)
        config = Config(
            topology=self.choice,
            workload=Permutation(size_bytes=filled[0].size_bytes),
            duration_s=self.duration_s,
            stop_when_done=False,
            telemetry=Record(
                interval_s=self.duration_s / 10, switch_refresh_s=self.duration_s / 10
            ),
        )
        plan = Plan(config, self.topology, self.model, Traffic((), ()), ())
        return Draw(family="", seed=0, plan=plan, jobs=()).with_jobs(filled)


def hpcc_ecn(rate_bps: float, scale: float = 1.0) -> tuple[EcnAt, ...]:
    """Return HPCC's thresholds (4 and 16 KB per Gbit/s, Pmax 0.2), times a factor."""
    gbps = rate_bps / GBPS
    marking = EcnThresholds(4e3 * gbps * scale, 16e3 * gbps * scale, 0.2)
    return (EcnAt(rate_bps=rate_bps, thresholds=marking),)


def model_of(rate_bps: float) -> Model:
    """Return a sound model: HPCC's DCQCN and ECN, dynamic PFC thresholds, headroom to spare."""
    return Model(
        congestion=CongestionControl(form=Form.FIRMWARE, dcqcn=profile("hpcc", rate_bps)),
        transport=Transport(ack_priority=6, rto_s=1e-3, retry_limit=7),
        switch=SwitchModel(
            buffer_bytes=round(24 * MIB * rate_bps / (100 * GBPS)),
            ecn=hpcc_ecn(rate_bps),
            headroom_packets=6.0,
            pause_s=65535 * 512 / rate_bps,
        ),
    )


def small_clos(
    rng: Random,
    *,
    leaves: tuple[int, int] = (2, 4),
    spines: tuple[int, int] = (2, 4),
    hosts: tuple[int, int] = (3, 4),
    rates: tuple[float, ...] = (50, 100, 200),
    taper: float = 1.0,
) -> Ground:
    """Draw a leaf-spine fabric; `taper` is uplink over host capacity of a leaf."""
    rate = rng.choice(rates) * GBPS
    spine_count = rng.randint(*spines)
    per_leaf = rng.randint(*hosts)
    fabric = rate * max(1.0, per_leaf * taper / spine_count)
    shape = {
        "leaves": rng.randint(*leaves),
        "spines": spine_count,
        "hosts_per_leaf": per_leaf,
        "rate_bps": rate,
        "fabric_bps": fabric,
        "delay_s": rng.uniform(0.3e-6, 1.0e-6),
    }
    made = leaf_spine(**shape)  # type: ignore[arg-type]
    duration = 1.0e-3 * 1000 * GBPS / rate  # 10 ms at 100 Gbit/s
    model = model_of(rate)
    return Ground(
        topology=made, choice=LeafSpine(**shape), rate_bps=rate,  # type: ignore[arg-type]
        model=replace(model, switch=replace(model.switch, ecn=model.switch.ecn)),
        duration_s=duration,
    )  # fmt: skip


def one_switch(
    rng: Random, *, hosts: tuple[int, int] = (4, 8), rates: tuple[float, ...] = (50, 100, 200)
) -> Ground:
    """Draw hosts around one switch."""
    rate = rng.choice(rates) * GBPS
    shape = {"hosts": rng.randint(*hosts), "rate_bps": rate, "delay_s": rng.uniform(3e-7, 1e-6)}
    return Ground(
        topology=star(**shape), choice=Star(**shape), rate_bps=rate,  # type: ignore[arg-type]
        model=model_of(rate), duration_s=1.0e-3 * 1000 * GBPS / rate,
    )  # fmt: skip


def subnet(ground: Ground, credits_bytes: int = 64 * 1024) -> Ground:
    """Return the same fabric as an InfiniBand subnet without congestion control."""
    model = replace(
        ground.model,
        infiniband=InfinibandLink(credits_bytes=credits_bytes),
        congestion=replace(ground.model.congestion, form=Form.OFF),
    )
    return replace(ground, model=model)


def all_reduce(ground: Ground, rng: Random, *, ranks: tuple[int, ...] | None = None) -> Job:
    """Draw a ring all-reduce over all hosts (or `ranks`)."""
    return Job(
        name="train",
        pattern=Pattern.ALL_REDUCE,
        ranks=ranks or ground.topology.hosts,
        size_bytes=rng.randint(4, 12) * 1_000_000,
        qps=rng.choice((1, 2, 4)),
        compute_s=rng.uniform(0, 100e-6),
    )


def incast(ground: Ground, rng: Random, senders: int, *, receiver: int | None = None) -> Job:
    """Draw a repeated incast of some senders onto one receiver."""
    hosts = list(ground.topology.hosts)
    target = rng.choice(hosts) if receiver is None else receiver
    others = [host for host in hosts if host != target]
    chosen = rng.sample(others, min(senders, len(others)))
    return Job(
        name="gather",
        pattern=Pattern.INCAST,
        ranks=(*chosen, target),
        size_bytes=rng.randint(400, 1200) * 1000,
    )


def planted(
    sound: Draw,
    fault: tuple[Change, ...],
    cure: tuple[Change, ...],
    causes: tuple[str, ...],
    places: tuple[object, ...],
) -> Draw:
    """Return a sound draw with a fault set like any setting, and the truth about it added."""
    broken = applied(sound, fault)
    truth = Truth(causes, places, cure)  # type: ignore[arg-type]
    return replace(broken, truths=(*sound.truths, truth))


def places_of(draw: Draw) -> Places:
    """Return the lookup of a draw's entities."""
    return Places(draw.plan.topology)

"""The ground that families build on: sound fabrics and the jobs that run on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from collectors.model.dcqcn import profile
from collectors.model.ecn import EcnThresholds
from simlab.packet.config import Config, LeafSpine, Permutation, Plan, Record, Star, TopologyChoice
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
from simlab.scenarios.draw import Draw
from simlab.scenarios.job import Job, Pattern

GBPS = 1e9
IB_ACK_TIMEOUT_S = 16.8e-3  # timeout 12; waits for credit are long, loss is rare
POLLS = 12
RATES_GBPS = (50.0, 100.0, 200.0)
BUFFER_MIB = 24.0  # of a switch of 100 Gbit/s ports; more for faster ones
TIGHT_MIB = 6.0  # of a switch that pauses its peers when ECN does not hold the senders back


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A fabric without fault. rate_bps: of its hosts."""

    topology: Topology
    choice: TopologyChoice
    rate_bps: float
    model: Model
    duration_s: float

    def draw(self, *jobs: Job, busy: float = 0.8) -> Draw:
        """Return the draw of jobs that ideal NICs would need `busy` of the duration for."""
        filled = tuple(job.filling(busy * self.duration_s, self.rate_bps) for job in jobs)
        poll = self.duration_s / POLLS
        config = Config(
            topology=self.choice,
            workload=Permutation(size_bytes=filled[0].size_bytes),
            duration_s=self.duration_s,
            stop_when_done=False,
            telemetry=Record(interval_s=poll, switch_refresh_s=poll),
        )
        plan = Plan(config, self.topology, self.model, Traffic((), ()), ())
        return Draw(family="", seed=0, plan=plan, jobs=()).with_jobs(filled)

    def leaves(self) -> list[list[int]]:
        """Return the host nodes of each leaf switch."""
        by_leaf: dict[int, list[int]] = {}
        hosts = set(self.topology.hosts)
        for cable in self.topology.cables:
            if cable.a in hosts:
                by_leaf.setdefault(cable.b, []).append(cable.a)
        return list(by_leaf.values())


def hpcc_ecn(rate_bps: float) -> tuple[EcnAt, ...]:
    """Return HPCC's thresholds: 4 and 16 KB per Gbit/s, Pmax 0.2; other speeds in proportion."""
    gbps = rate_bps / GBPS
    return (EcnAt(rate_bps=rate_bps, thresholds=EcnThresholds(4e3 * gbps, 16e3 * gbps, 0.2)),)


def model_of(rate_bps: float, buffer_mib: float = BUFFER_MIB) -> Model:
    """Return a sound model: HPCC's ECN and DCQCN, dynamic PFC thresholds, headroom to spare.

    CNPs are moderated as NICs do, and rates grow by 1 Mbit/s for each Gbit/s of the line, so that
    they are back within a fraction of a second.
    """
    per_gbps = rate_bps / GBPS
    control = replace(
        profile("hpcc", rate_bps),
        cnp_interval_s=4e-6, ai_bps=1e6 * per_gbps, hai_bps=10e6 * per_gbps,
    )  # fmt: skip
    return Model(
        congestion=CongestionControl(form=Form.FIRMWARE, dcqcn=control),
        transport=Transport(ack_priority=6, rto_s=1e-3, retry_limit=7),
        switch=SwitchModel(
            buffer_bytes=round(buffer_mib * MIB * rate_bps / (100 * GBPS)),
            ecn=hpcc_ecn(rate_bps),
            headroom_packets=6.0,
            lossy_alpha=0.25,
            pause_s=65535 * 512 / rate_bps,
        ),
    )


def duration_of(rate_bps: float) -> float:
    """Return how long a draw is watched: 12 ms, 24 ms on slow links (CPU is spent per packet)."""
    return 24e-3 if rate_bps < 100 * GBPS else 12e-3


def clos(
    rng: Random,
    *,
    leaves: tuple[int, int] = (2, 4),
    spines: tuple[int, int] = (2, 4),
    hosts: tuple[int, int] = (3, 4),
    rates: Sequence[float] = RATES_GBPS,
    taper: float = 1.0,
    parallel: int = 1,
    buffer_mib: float = BUFFER_MIB,
) -> Ground:
    """Draw a leaf-spine fabric; `taper` is uplink over host capacity of a leaf."""
    rate = rng.choice(rates) * GBPS
    spine_count = rng.randint(*spines)
    per_leaf = rng.randint(*hosts)
    choice = LeafSpine(
        leaves=rng.randint(*leaves),
        spines=spine_count,
        hosts_per_leaf=per_leaf,
        rate_bps=rate,
        fabric_bps=rate * per_leaf * taper / (spine_count * parallel),
        delay_s=rng.uniform(0.3e-6, 1.0e-6),
        parallel=parallel,
    )
    made = leaf_spine(
        choice.leaves, spine_count, per_leaf, rate_bps=rate, fabric_bps=choice.fabric_bps,
        delay_s=choice.delay_s, parallel=parallel,
    )  # fmt: skip
    return Ground(
        topology=made, choice=choice, rate_bps=rate, model=model_of(rate, buffer_mib),
        duration_s=duration_of(rate),
    )  # fmt: skip


def one_switch(
    rng: Random,
    *,
    hosts: tuple[int, int] = (4, 8),
    rates: Sequence[float] = RATES_GBPS,
    buffer_mib: float = BUFFER_MIB,
) -> Ground:
    """Draw hosts around one switch."""
    rate = rng.choice(rates) * GBPS
    choice = Star(hosts=rng.randint(*hosts), rate_bps=rate, delay_s=rng.uniform(3e-7, 1e-6))
    made = star(choice.hosts, rate_bps=rate, delay_s=choice.delay_s)
    return Ground(
        topology=made, choice=choice, rate_bps=rate, model=model_of(rate, buffer_mib),
        duration_s=duration_of(rate),
    )  # fmt: skip


def subnet(ground: Ground, credits_bytes: int = 64 * 1024) -> Ground:
    """Return the same fabric as an InfiniBand subnet without congestion control.

    Every port grants what is under way on its fastest cable, twice, or else it waits unasked.
    """
    way = max(cable.rate_bps * 2 * cable.delay_s / 8 for cable in ground.topology.cables)
    credits_bytes = max(credits_bytes, round(2 * way))
    model = replace(
        ground.model,
        infiniband=InfinibandLink(credits_bytes=credits_bytes),
        congestion=replace(ground.model.congestion, form=Form.OFF),
        transport=replace(ground.model.transport, ack_priority=None, rto_s=IB_ACK_TIMEOUT_S),
    )
    return replace(ground, model=model)


def across(ground: Ground, per_leaf: int | None = None) -> tuple[int, ...]:
    """Return hosts in an order in which each neighbour is on another leaf."""
    rows = [row[:per_leaf] for row in ground.leaves()]
    longest = max(len(row) for row in rows)
    return tuple(row[i] for i in range(longest) for row in rows if i < len(row))


def all_reduce(
    ground: Ground, rng: Random, *, ranks: tuple[int, ...] | None = None, qps: int | None = None
) -> Job:
    """Draw a ring all-reduce over all hosts, or over `ranks`."""
    return Job(
        name="train",
        pattern=Pattern.ALL_REDUCE,
        ranks=ranks or ground.topology.hosts,
        size_bytes=rng.randint(4, 12) * 1_000_000,
        qps=rng.choice((2, 4, 8)) if qps is None else qps,
        compute_s=rng.uniform(0, 50e-6),
    )


def incast(ranks: tuple[int, ...], rng: Random, *, qps: int = 1) -> Job:
    """Draw a repeated incast of all ranks onto the last."""
    return Job(
        name="gather", pattern=Pattern.INCAST, ranks=ranks, qps=qps,
        size_bytes=rng.randint(1500, 3000) * 1000,
    )  # fmt: skip


def contended(ground: Ground, rng: Random) -> tuple[Job, Job]:
    """Draw a training job and, on other hosts of the same leaves, an incast past it.

    The incast's receiver is on the first leaf and its senders on the others, so that what backs
    up at the receiver stands in the way of the training job, which crosses the same spines.
    """
    leaves = ground.leaves()
    train = all_reduce(ground, rng, ranks=across(ground, 2), qps=4)
    receiver = leaves[0][-1]
    senders = [host for row in leaves[1:] for host in row[2:]]
    return train, incast((*senders, receiver), rng)


def contended_clos(
    rng: Random, *, rates: Sequence[float] = (100, 200), buffer_mib: float = TIGHT_MIB
) -> Ground:
    """Draw the fabric for a training job and an incast past it."""
    return clos(rng, leaves=(3, 4), spines=(2, 2), hosts=(4, 4), rates=rates, buffer_mib=buffer_mib)

"""Healthy fabrics, most of them busy: nothing is wrong, and nothing may be found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from collectors.model.entities import Host
from simlab.scenarios.change import applied
from simlab.scenarios.draw import Change, Draw
from simlab.scenarios.family import Family, Make
from simlab.scenarios.ground import (
    Ground,
    across,
    all_reduce,
    clos,
    contended,
    contended_clos,
    incast,
    one_switch,
    subnet,
)
from simlab.scenarios.job import Job, Pattern
from simlab.scenarios.sound import plain


def _roomy(rng: Random) -> Ground:
    """Draw a fabric whose uplinks have room for flows that share one by chance."""
    return clos(rng, taper=2.0)


def _ring(ground: Callable[[Random], Ground], qps: int | None = None) -> Make:
    def make(rng: Random) -> Draw:
        drawn = ground(rng)
        return drawn.draw(all_reduce(drawn, rng, qps=qps))

    return make


def _across(rng: Random) -> Draw:
    return plain(rng, qps=8)


def _pattern(pattern: Pattern, *, taper: float = 2.0, ib: bool = False, busy: float = 0.8) -> Make:
    def make(rng: Random) -> Draw:
        ground = clos(rng, taper=taper)
        if ib:
            ground = subnet(ground)
        job = Job(
            name="train", pattern=pattern, ranks=across(ground), qps=rng.choice((1, 2)),
            size_bytes=rng.randint(2, 6) * 1_000_000,
        )  # fmt: skip
        return ground.draw(job, busy=busy)

    return make


def _pairs(ground: Callable[[Random], Ground], ib: bool = False) -> Make:
    def make(rng: Random) -> Draw:
        drawn = subnet(ground(rng)) if ib else ground(rng)
        hosts = [host for row in drawn.leaves() for host in row]
        even = tuple(hosts[: len(hosts) // 2 * 2])
        job = Job(name="copy", pattern=Pattern.PAIRS, ranks=even, size_bytes=2_000_000, qps=2)
        return drawn.draw(job, busy=0.9)

    return make


def _calm_incast(rng: Random) -> Draw:
    """Two or three senders whose bursts fit under Kmin."""
    ground = one_switch(rng)
    hosts = ground.topology.hosts
    job = incast((*rng.sample(hosts[:-1], rng.randint(2, 3)), hosts[-1]), rng)
    small = replace(job, size_bytes=rng.randint(20, 60) * 1000, compute_s=rng.uniform(2e-5, 1e-4))
    return ground.draw(small, busy=0.6)


def _controlled_incast(rng: Random) -> Draw:
    """A training job beside an incast that ECN and DCQCN hold in check."""
    ground = contended_clos(rng, buffer_mib=24.0)
    return ground.draw(*contended(ground, rng))


def _two_jobs(rng: Random) -> Draw:
    ground = clos(rng, leaves=(2, 4), hosts=(4, 4), taper=2.0)
    leaves = ground.leaves()
    first = tuple(host for row in leaves for host in row[:2])
    second = tuple(host for row in leaves for host in row[2:])
    return ground.draw(
        all_reduce(ground, rng, ranks=first, qps=4),
        replace(all_reduce(ground, rng, ranks=second, qps=4), name="other"),
    )


def _idle(rng: Random) -> Draw:
    ground = clos(rng)
    job = replace(all_reduce(ground, rng), size_bytes=100_000, compute_s=rng.uniform(5e-4, 2e-3))
    return ground.draw(job, busy=0.9)


def _bursts(rng: Random) -> Draw:
    ground = clos(rng, taper=2.0)
    job = replace(all_reduce(ground, rng, qps=4), compute_s=rng.uniform(2e-4, 6e-4))
    return ground.draw(job, busy=0.9)


def _no_control(rng: Random) -> Draw:
    """DCQCN off everywhere, on purpose; no egress is asked for more than it carries."""
    drawn = _pairs(one_switch)(rng)
    hosts = sorted(drawn.names.hosts)
    return applied(drawn, [Change(Host(name), "congestion_control", "off") for name in hosts])


FAMILIES = (
    Family("healthy-ring", "healthy", "fabric, speed, buffer size, QPs", _ring(_roomy)),
    Family("healthy-ring-one-qp", "healthy", "fabric, speed, buffer size", _ring(_roomy, 1)),
    Family("healthy-ring-rack", "healthy", "hosts, speed, QPs", _ring(one_switch)),
    Family(
        "healthy-ring-fast", "healthy", "hosts, QPs",
        _ring(lambda rng: one_switch(rng, rates=(200, 400))),
    ),
    Family("healthy-ring-across", "healthy", "fabric, speed, buffer size", _across),
    Family("healthy-all-gather", "healthy", "fabric, speed", _pattern(Pattern.ALL_GATHER)),
    Family(
        "healthy-all-to-all", "healthy", "fabric, speed", _pattern(Pattern.ALL_TO_ALL, busy=0.6),
    ),
    Family("healthy-pairs-rack", "healthy", "hosts, speed", _pairs(one_switch)),
    Family("healthy-pairs", "healthy", "fabric, speed", _pairs(clos)),
    Family("healthy-calm-incast", "healthy", "senders, burst", _calm_incast),
    Family("healthy-controlled-incast", "healthy", "fabric, senders, burst", _controlled_incast),
    Family("healthy-two-jobs", "healthy", "fabric, speed, sizes", _two_jobs),
    Family("healthy-idle", "healthy", "fabric, pause between steps", _idle),
    Family("healthy-bursts", "healthy", "fabric, pause between steps", _bursts),
    Family("healthy-without-dcqcn", "healthy", "hosts, speed", _no_control),
    Family(
        "healthy-ib-ring", "healthy", "fabric, speed, QPs",
        _ring(lambda rng: subnet(clos(rng, taper=2.0))),
    ),
    Family("healthy-ib-pairs", "healthy", "hosts, speed", _pairs(one_switch, ib=True)),
    Family(
        "healthy-ib-all-gather", "healthy", "fabric, speed",
        _pattern(Pattern.ALL_GATHER, ib=True, busy=0.6),
    ),
)  # fmt: skip

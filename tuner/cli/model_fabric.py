"""`tuner model ecmp | allreduce | qp`: what the hash does to flows, and how many are enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.model_answer import WARNS, Answer, Column, Link, Plot, answer, draw, usage_errors
from tuner.cli.options import USAGE, Format, fail
from tuner.cli.quantity import count, many, rate_bps, seconds, size_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tuner.models.collective import Hierarchy, Ints
    from tuner.models.ecmp_prediction import Mode

Uplinks = Annotated[int, typer.Option("--uplinks", min=1, help="equal links of the ECMP group")]
Qps = Annotated[str, typer.Option("--qps", metavar="K,…", help="QPs per connection to try")]


def ecmp(
    connections: Annotated[
        int, typer.Option("--connections", min=1, help="connections that share the up-links")
    ] = 16,
    uplinks: Uplinks = 16,
    qps: Qps = "1,2,4,8,16,32",
    next_tier: Annotated[
        int, typer.Option("--next-tier", min=0, help="group size of the next tier, same hash")
    ] = 0,
    plot: Plot = None,
    form: Answer = Format.table,
) -> None:
    """How unevenly a random hash spreads flows over equal links: exact expectations.

    Exit codes: 0, 3 if --next-tier is polarised, 2 usage.
    """
    from collectors.model.ecmp_hash import reachable_members
    from tuner.models.balls_in_bins import max_over_mean_quantile, spread

    tried = many(qps, count)
    got = [spread(connections * k, uplinks) for k in tried]
    tails = [max_over_mean_quantile(connections * k, uplinks, 0.95) for k in tried]

    def paint(axes: Axes) -> None:
        axes.semilogx(tried, [s.carried_ratio for s in got], "o-", label="carried")
        axes.semilogx(tried, [s.slowest_share for s in got], "s-", label="slowest flow's share")
        axes.set(xlabel="QPs per connection", ylabel="ratio", ylim=(0, 1.02))
        axes.set_title(f"{connections} connections on {uplinks} up-links")

    draw(plot, paint)
    notes = []
    reach = uplinks
    if next_tier:
        reach = reachable_members(uplinks, next_tier)
        notes.append(
            f"with one hash for both tiers each up-link reaches {reach} of {next_tier} links above"
        )
    answer(
        f"ECMP, {connections} connections on {uplinks} up-links",
        (
            Column("qps", "QPs"),
            Column("flows", "flows"),
            Column("max_over_mean", "fullest/mean", "{:.3f}"),
            Column("max_over_mean_p95", "its p95", "{:.3f}"),
            Column("carried_ratio", "carried", "{:.3f}"),
            Column("slowest_share", "slowest share", "{:.3f}"),
            Column("no_collision_ratio", "no collision", "{:.2e}"),
        ),
        [
            (
                k,
                k * connections,
                s.max_over_mean,
                tail,
                s.carried_ratio,
                s.slowest_share,
                s.no_collision_ratio,
            )
            for k, s, tail in zip(tried, got, tails, strict=True)
        ],
        form,
        notes=notes,
        values={"reachable_next_tier": reach} if next_tier else None,
    )
    if next_tier and reach < next_tier:
        raise typer.Exit(WARNS)


def allreduce(
    leaves: Annotated[int, typer.Option("--leaves", min=1, help="leaf switches (per pod)")] = 8,
    nodes_per_leaf: Annotated[int, typer.Option("--nodes-per-leaf", min=1)] = 2,
    nics_per_node: Annotated[int, typer.Option("--nics-per-node", min=1, help="rails")] = 8,
    uplinks: Uplinks = 16,
    pods: Annotated[int, typer.Option("--pods", min=1, help="above 1: a third tier")] = 1,
    cores: Annotated[int, typer.Option("--cores", min=1, help="cores per aggregation")] = 16,
    link: Link = "400G",
    uplink: Annotated[
        str, typer.Option("--uplink", metavar="RATE", help="speed of an up-link [as --link]")
    ] = "",
    order: Annotated[str, typer.Option("--order", help="rank order: compact or random")] = "random",
    qps: Qps = "1,2,4,8,16",
    mode: Annotated[str, typer.Option("--mode", help="round_robin or split messages")] = (
        "round_robin"
    ),
    choice: Annotated[str, typer.Option("--paths", help="hashed, pinned or sprayed")] = "hashed",
    collective: Annotated[
        str,
        typer.Option(
            "--collective", help="allreduce, all_gather, reduce_scatter, tree or all_to_all"
        ),
    ] = "allreduce",
    size: Annotated[str, typer.Option("--size", metavar="SIZE", help="bytes per GPU")] = "1GB",
    compute: Annotated[
        str, typer.Option("--compute", metavar="TIME", help="compute per step, for the job's cost")
    ] = "",
    overlap: Annotated[
        float, typer.Option("--overlap", min=0, max=1, help="compute that hides communication")
    ] = 0.5,
    steps: Annotated[int, typer.Option("--steps", min=1, help="steps of the job")] = 100000,
    nvlink: Annotated[float, typer.Option("--nvlink", help="GB/s inside a node")] = 450.0,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="hash seeds to draw")] = 40,
    plot: Plot = None,
    form: Answer = Format.table,
) -> None:
    """Predict a hierarchical collective, one per rail: p5, p50, p95 over hash seeds.

    Exit codes: 0 some row reaches 90 % of line rate at its median, 3 none does, 2 usage.
    """
    from dataclasses import replace

    import numpy as np

    from tuner.models.collective import Hierarchy, allreduce_bus_bandwidth, job_cost
    from tuner.models.ecmp_prediction import (
        predict_connections,
        predict_rings,
        rail_rings,
        slice_keys,
    )
    from tuner.models.fabric_graph import leaf_spine, three_tier

    _one_of("--order", order, ("compact", "random"))
    _one_of("--mode", mode, ("round_robin", "split"))
    _one_of("--paths", choice, ("hashed", "pinned", "sprayed"))
    _one_of("--collective", collective, tuple(_COLLECTIVES))
    nic_bps = rate_bps(link)
    up_bps = rate_bps(uplink) if uplink else nic_bps
    under = nodes_per_leaf * nics_per_node
    nodes = pods * leaves * nodes_per_leaf
    if nodes < 2:
        fail("a ring needs two nodes or more", USAGE)
    if pods == 1:
        graph = leaf_spine(leaves, under, uplinks, nic_bps=nic_bps, uplink_bps=up_bps)
    else:
        graph = three_tier(
            pods, leaves, under, uplinks, cores,
            nic_bps=nic_bps, leaf_uplink_bps=up_bps, aggregation_uplink_bps=up_bps,
        )  # fmt: skip

    def drawn(rng: np.random.Generator) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        ranks = rng.permutation(nodes) if order == "random" else np.arange(nodes)
        return rail_rings(ranks, nics_per_node)

    dealt: Mode = "split" if mode == "split" else "round_robin"

    def rails(rng: np.random.Generator) -> tuple[Ints, Ints]:
        parts = [_COLLECTIVES[collective](rail) for rail in drawn(rng)]
        return tuple(np.concatenate(ends) for ends in zip(*parts, strict=True))  # type: ignore[return-value]

    tried = many(qps, count)
    gpus, amount = nodes * nics_per_node, size_bytes(size)
    inner = Hierarchy(nics_per_node, nodes, nvlink * 1e9, nic_bps / 8)
    rows: list[tuple[float, ...]] = []
    for k in tried:
        if collective in ("tree", "all_to_all"):
            if choice != "hashed":
                fail(f"--paths {choice}: only rings are pinned or sprayed", USAGE)
            # A NIC divides its rate among its connections: as many times the slowest of them.
            fan = 4 if collective == "tree" else nodes - 1
            slow = [
                r.min() * fan
                for r in predict_connections(graph, rails, k, range(seeds), mode=dealt)
            ]
            slowest = mean = np.array(slow)
        else:
            got = predict_rings(
                graph, drawn, k, range(seeds), mode=dealt,
                keys=slice_keys(under) if choice == "pinned" else None,
                sprayed=choice == "sprayed",
            )  # fmt: skip
            slowest, mean = got.slowest_bps, got.mean_bps
        low, middle, high = (float(q) for q in np.quantile(slowest, [0.05, 0.5, 0.95]))
        time = _time_s(collective, amount, replace(inner, nic=middle / 8))
        bus = allreduce_bus_bandwidth(amount, gpus, time) / 1e9
        if collective not in ("allreduce", "tree"):
            bus /= 2  # nccl-tests: each byte crosses once
        row = (k, low / nic_bps, middle / nic_bps, high / nic_bps, float(np.median(mean)) / nic_bps)
        costs: tuple[float, ...] = ()
        if compute:
            cost = job_cost(seconds(compute), time, overlap_ratio=overlap, gpus=gpus, steps=steps)
            costs = (cost.step_s * 1e3, cost.gpu_hours)
        rows.append((*row, time * 1e3, bus, *costs))

    def paint(axes: Axes) -> None:
        axes.fill_between(tried, [r[1] for r in rows], [r[3] for r in rows], alpha=0.25)
        axes.semilogx(tried, [r[2] for r in rows], "o-", label="slowest ring, p50 (band p5–p95)")
        axes.semilogx(tried, [r[4] for r in rows], "s--", label="mean ring, p50")
        axes.set(xlabel="QPs per connection", ylabel="share of line rate", ylim=(0, 1.05))
        axes.set_title(f"Ring AllReduce, {gpus} GPUs")

    draw(plot, paint)
    answer(
        f"{collective}, {gpus} GPUs, {order} order, {choice} paths, {mode}",
        (
            Column("qps", "QPs"),
            Column("slowest_p5", "slowest p5", "{:.3f}"),
            Column("slowest_p50", "p50", "{:.3f}"),
            Column("slowest_p95", "p95", "{:.3f}"),
            Column("mean_p50", "mean p50", "{:.3f}"),
            Column("time_ms", "time ms", "{:.2f}"),
            Column("bus_gbytes_s", "busbw GB/s", "{:.1f}"),
            *(
                (
                    Column("step_ms", "step ms", "{:.1f}"),
                    Column("gpu_hours", "GPU-h", "{:,.0f}"),
                )
                if compute
                else ()
            ),
        ),
        rows,
        form,
        notes=[f"rates as a share of {link}; time and busbw at p50, split evenly over the rails"],
    )
    if all(row[2] < 0.9 for row in rows):
        raise typer.Exit(WARNS)


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        fail(f"{option} {value!r}: not one of {', '.join(allowed)}", USAGE)


def _tree(order: Ints) -> tuple[Ints, Ints]:
    from tuner.models.collective import tree_connections

    return tree_connections(order)


def _all_to_all(order: Ints) -> tuple[Ints, Ints]:
    from tuner.models.collective import all_to_all_connections

    return all_to_all_connections(order)


def _ring(order: Ints) -> tuple[Ints, Ints]:
    from tuner.models.collective import ring_connections

    return ring_connections(order)


_COLLECTIVES: dict[str, Callable[[Ints], tuple[Ints, Ints]]] = {
    "allreduce": _ring,
    "all_gather": _ring,
    "reduce_scatter": _ring,
    "tree": _tree,
    "all_to_all": _all_to_all,
}


def _time_s(collective: str, size: float, shape: Hierarchy) -> float:
    """Return the time of a collective of `size` bytes per GPU, inside nodes and between them."""
    from tuner.models.collective import (
        all_to_all_s,
        half_ring_s,
        hierarchical_allreduce_s,
        tree_allreduce_s,
    )

    if collective == "allreduce":
        return hierarchical_allreduce_s(size, shape)
    if collective == "all_to_all":
        return all_to_all_s(size, shape.nodes, shape.nic)
    inner = half_ring_s(size, shape.gpus, shape.nvlink)
    if collective == "tree":
        return 2 * inner + tree_allreduce_s(size / shape.gpus, shape.nodes, shape.nic)
    return inner + half_ring_s(size / shape.gpus, shape.nodes, shape.nic)


def qp(
    connections: Annotated[
        int, typer.Option("--connections", min=1, help="connections leaving a leaf at once")
    ] = 16,
    uplinks: Uplinks = 16,
    evenness: Annotated[
        float, typer.Option("--evenness", help="wanted fullest/mean load of the up-links")
    ] = 1.5,
    peers: Annotated[int, typer.Option("--peers", min=1, help="peers of a NIC")] = 2,
    channels: Annotated[int, typer.Option("--channels", min=1, help="channels per NIC")] = 2,
    cache: Annotated[
        int, typer.Option("--cache", min=0, help="QP contexts the NIC caches; 0: unknown")
    ] = 0,
    timeout: Annotated[int, typer.Option("--timeout", min=0, max=31, help="timeout code")] = 20,
    retry: Annotated[int, typer.Option("--retry", min=0, max=7, help="retry count")] = 7,
    link: Link = "400G",
    flows: Annotated[int, typer.Option("--flows", min=1, help="flows at one bottleneck")] = 64,
    cnp_interval: Annotated[
        str, typer.Option("--cnp-interval", metavar="TIME", help="0s: one for every marked packet")
    ] = "4us",
    mtu: Annotated[int, typer.Option("--mtu", min=64, help="packet size for CNP limits")] = 4096,
    form: Answer = Format.table,
) -> None:
    """How many QPs are enough, what they cost, and what timers and CNPs allow.

    Exit codes: 0, 3 if no number of QPs gives the evenness or they exceed the cache, 2 usage.
    """
    from collectors.model.dcqcn import NVIDIA_FIRMWARE
    from tuner.models.queue_pairs import cnp_limits, qp_budget, qps_for_evenness, retry_budget

    with usage_errors():
        choice = qps_for_evenness(connections, uplinks, evenness)
        budget = retry_budget(timeout, retry)
        limits = cnp_limits(
            rate_bps(link),
            flows,
            packet_bytes=mtu,
            cnp_interval_s=seconds(cnp_interval),
            ai_bps=NVIDIA_FIRMWARE.ai_bps,
            increase_timer_s=NVIDIA_FIRMWARE.increase_timer_s,
        )
    rows: list[tuple[str, float | bool | str | None]] = [
        ("QPs per connection for the evenness", choice.qps_per_connection if choice else None),
        ("fullest/mean with them", choice.max_over_mean if choice else None),
        ("slowest flow's share", choice.slowest_share if choice else None),
    ]
    warns = choice is None
    if choice is not None:
        held = qp_budget(peers, channels, choice.qps_per_connection, cache)
        rows.append(("QPs that a NIC holds", held.qps))
        if cache:
            rows.append(("they fit its context cache", held.fits))
            warns = not held.fits
    rows += [
        ("ACK timeout s", budget.timeout_s),
        ("until a QP fails s, at least", budget.shortest_s),
        ("until a QP fails s, at most", budget.longest_s),
        ("packets per flow and CNP interval", limits.packets_per_interval),
        ("flows beyond which CNPs starve", limits.starved_flows),
        ("CNPs per second at most", limits.cnp_per_s),
    ]
    answer(
        f"Queue pairs, {connections} connections on {uplinks} up-links",
        (Column("what", "what"), Column("value", "value", "{:,.4g}")),
        rows,
        form,
        notes=["no number of QPs up to 128 is so even"] if choice is None else [],
    )
    if warns:
        raise typer.Exit(WARNS)


COMMANDS = (ecmp, allreduce, qp)

"""`tuner model …`: the closed forms and fluid models by themselves, for an engineer's question."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli import model_fabric
from tuner.cli.model_answer import (
    WARNS,
    Answer,
    Changed,
    Column,
    Kmax,
    Kmin,
    Link,
    Plot,
    Pmax,
    Profile,
    answer,
    dcqcn_parameters,
    draw,
    ecn_thresholds,
    usage_errors,
)
from tuner.cli.options import USAGE, Format, fail
from tuner.cli.quantity import count, many, rate_bps, seconds, size_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

app = typer.Typer(
    help="Ask the models: DCQCN, ECN against PFC, ECMP, collectives, queue pairs.",
    no_args_is_help=True,
)
for _command in model_fabric.COMMANDS:
    app.command()(_command)

_MANY_FLOWS = 1 << 16
Flows = Annotated[str, typer.Option("--flows", metavar="N,…", help="numbers of flows to try")]


@app.command("fixed-point")
def fixed_point_command(
    link: Link = "400G",
    flows: Flows = "1,2,4,8,16,32,64,128",
    kmin: Kmin = "150KB",
    kmax: Kmax = "1500KB",
    pmax: Pmax = 1.0,
    dcqcn: Profile = "paper",
    changed: Changed = None,
    plot: Plot = None,
    form: Answer = Format.table,
) -> None:
    """Where DCQCN settles: marking, queue and rate for N equal flows; is Pmax large enough.

    Exit codes: 0 all below Kmax, 3 some N saturates (p* > Pmax), 2 usage.
    """
    from tuner.models.dcqcn_fixed_point import fixed_point, most_flows_before_saturation
    from tuner.models.dcqcn_renewal import marking_for_flows

    link_bps = rate_bps(link)
    ecn = ecn_thresholds(kmin, kmax, pmax)
    parameters = dcqcn_parameters(dcqcn, changed, link_bps)
    tried = many(flows, count)
    with usage_errors():
        points = [fixed_point(parameters, ecn, link_bps, n) for n in tried]
        most = most_flows_before_saturation(parameters, ecn.pmax_ratio, link_bps, _MANY_FLOWS)

    # Followed cut by cut only where every CNP clamps the target rate, as the paper's does.
    discrete = [
        marking_for_flows(parameters, link_bps, n) if parameters.clamp_target else None
        for n in tried
    ]

    def paint(axes: Axes) -> None:
        axes.semilogx(tried, [p.queue_bytes / 1e3 for p in points], "o-", label="queue q*")
        for name, level in (("Kmin", ecn.kmin_bytes), ("Kmax", ecn.kmax_bytes)):
            axes.axhline(level / 1e3, linestyle=":", color="grey", label=name)
        axes.set(xlabel="flows", ylabel="queue in KB", title=f"DCQCN fixed point at {link}")

    draw(plot, paint)
    answer(
        f"DCQCN fixed point, {link}, {dcqcn}",
        (
            Column("flows", "flows"),
            Column("marking_ratio", "marked p*", "{:.3e}"),
            Column("marking_cut_by_cut", "cut by cut", "{:.3e}"),
            Column("queue_bytes", "queue q* B", "{:,.0f}"),
            Column("rate_bps", "rate Gb/s", "{:.4g}"),
            Column("alpha", "α", "{:.4f}"),
            Column("saturated", "p* > Pmax"),
        ),
        [
            (
                n,
                p.marking_ratio,
                by_cut,
                p.queue_bytes,
                p.rate_bps / (1e9 if form is Format.table else 1),
                p.alpha,
                p.saturated,
            )
            for n, p, by_cut in zip(tried, points, discrete, strict=True)
        ],
        form,
        notes=[f"Pmax {pmax:g} holds up to {most} flows; beyond, the queue swings around Kmax"]
        if most < _MANY_FLOWS
        else [f"Pmax {pmax:g} holds for every number of flows up to {_MANY_FLOWS}"],
        values={"most_flows": most},
    )
    if any(point.saturated for point in points):
        raise typer.Exit(WARNS)


@app.command("stability")
def stability_command(
    link: Link = "400G",
    flows: Flows = "2,4,8,16,32,64",
    delay: Annotated[
        str, typer.Option("--delay", metavar="TIME,…", help="control-loop delays τ*")
    ] = "4us,20us",
    kmin: Kmin = "150KB",
    kmax: Kmax = "1500KB",
    pmax: Pmax = 1.0,
    dcqcn: Profile = "paper",
    changed: Changed = None,
    simulate: Annotated[
        str, typer.Option("--simulate", metavar="TIME", help="integrate the fluid model as well")
    ] = "",
    plot: Plot = None,
    form: Answer = Format.table,
) -> None:
    """Does the DCQCN loop oscillate: phase margin for each N and delay, and the critical delay.

    Exit codes: 0 stable everywhere, 3 unstable or saturated somewhere, 2 usage.
    """
    from tuner.models.dcqcn_fixed_point import fixed_point
    from tuner.models.dcqcn_fluid import FluidCase, integrate_case
    from tuner.models.dcqcn_stability import critical_delay, linearise, phase_margin

    link_bps = rate_bps(link)
    ecn = ecn_thresholds(kmin, kmax, pmax)
    if math.isinf(ecn.slope_per_byte):
        fail("--kmin and --kmax: a step has no slope, so no linear stability", USAGE)
    parameters = dcqcn_parameters(dcqcn, changed, link_bps)
    tried, delays = many(flows, count), many(delay, seconds)
    rows: list[tuple[float | bool | None, ...]] = []
    with usage_errors():
        for n in tried:
            linear = linearise(parameters, ecn, link_bps, n)
            saturated = fixed_point(parameters, ecn, link_bps, n).saturated
            for late in delays:
                margin = phase_margin(linear, late).phase_margin_deg
                mean = std = None
                if simulate:
                    case = FluidCase(parameters, ecn, link_bps, (late,) * n, start="fair_share")
                    run = integrate_case(case, seconds(simulate))
                    mean, std = run.mean_queue_bytes / 1e3, run.std_queue_bytes / 1e3
                rows.append(
                    (n, late * 1e6, margin, critical_delay(linear) * 1e6, saturated, mean, std)
                )

    def paint(axes: Axes) -> None:
        many_n = range(2, 101, 2)
        for late in delays:
            margins = [
                phase_margin(linearise(parameters, ecn, link_bps, n), late).phase_margin_deg
                for n in many_n
            ]
            axes.plot(many_n, margins, label=f"τ* = {late * 1e6:g} µs")
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(xlabel="flows", ylabel="phase margin in degrees", title=f"DCQCN loop at {link}")

    draw(plot, paint)
    columns = [
        Column("flows", "flows"),
        Column("delay_us", "delay µs", "{:g}"),
        Column("phase_margin_deg", "phase margin °", "{:.1f}"),
        Column("critical_delay_us", "critical delay µs", "{:.3g}"),
        Column("saturated", "p* > Pmax"),
        Column("mean_queue_kb", "mean q KB", "{:.1f}"),
        Column("std_queue_kb", "std q KB", "{:.1f}"),
    ]
    shown = len(columns) if simulate else len(columns) - 2
    answer(
        f"DCQCN stability, {link}, {dcqcn}",
        columns[:shown],
        [row[:shown] for row in rows],
        form,
        notes=["negative margin: the queue swings; a larger Kmax−Kmin or smaller AI calms it"],
    )
    if any(row[2] is not None and (row[2] < 0 or row[4]) for row in rows):
        raise typer.Exit(WARNS)


@app.command("recovery")
def recovery_command(
    link: Link = "400G",
    fallen: Annotated[
        str, typer.Option("--from", metavar="RATE", help="current and target rate to begin at")
    ] = "200G",
    dcqcn: Profile = "nvidia_firmware",
    changed: Changed = None,
    form: Answer = Format.table,
) -> None:
    """How long a flow takes back to 99 % of line rate after congestion, by what raises it.

    Exit codes: 0 under 100 ms by timer and hyper increase, 3 slower, 2 usage.
    """
    from tuner.models.dcqcn_convergence import recovery_s

    link_bps, start = rate_bps(link), rate_bps(fallen)
    parameters = dcqcn_parameters(dcqcn, changed, link_bps)
    rows: list[tuple[str, float, float, float]] = []
    for name, target in (("target fell too", start), ("one isolated cut", link_bps)):
        additive, hyper, counted = (
            1e3
            * recovery_s(
                parameters,
                link_bps,
                rate_bps=start,
                target_bps=target,
                reach_bps=0.99 * link_bps,
                hyper=with_hyper,
                byte_counter=counter,
            )
            for with_hyper, counter in ((False, False), (True, False), (True, True))
        )
        rows.append((name, additive, hyper, counted))
    answer(
        f"DCQCN recovery {fallen} → {link}, {dcqcn}",
        (
            Column("case", "case"),
            Column("additive_ms", "timer, AI only ms", "{:,.1f}"),
            Column("hyper_ms", "timer, AI+HAI ms", "{:,.1f}"),
            Column("byte_counter_ms", "with byte counter ms", "{:,.1f}"),
        ),
        rows,
        form,
        notes=["the byte counter's unit differs by firmware: trust the timer columns first"],
    )
    if rows[0][2] > 100:
        raise typer.Exit(WARNS)


@app.command("headroom")
def headroom_command(
    link: Link = "400G",
    asic: Annotated[str, typer.Option("--asic", help="spectrum1 … spectrum6")] = "spectrum4",
    cable: Annotated[float, typer.Option("--cable", metavar="M", help="cable length in m")] = 40.0,
    mtu: Annotated[int, typer.Option("--mtu", help="port MTU")] = 9100,
    lossless_mtu: Annotated[int, typer.Option("--lossless-mtu", help="lossless MTU")] = 1500,
    small: Annotated[float, typer.Option("--small", help="percent of small packets")] = 100.0,
    buffer: Annotated[
        str, typer.Option("--buffer", metavar="SIZE", help="switch buffer, for the ECN bounds")
    ] = "",
    ports: Annotated[int, typer.Option("--ports", help="ports that share the buffer")] = 64,
    lossless: Annotated[int, typer.Option("--lossless", help="lossless priorities")] = 2,
    alpha: Annotated[float, typer.Option("--alpha", help="dynamic-threshold α")] = 0.125,
    senders: Annotated[int, typer.Option("--senders", help="k of the k-to-1 incast")] = 8,
    kmin: Kmin = "150KB",
    kmax: Kmax = "1500KB",
    plot: Plot = None,
    form: Answer = Format.table,
) -> None:
    """PFC headroom by SONiC's formula, and whether ECN marks before PFC pauses (--buffer).

    Exit codes: 0 fine, 3 pauses come before marks for this incast, 2 usage.
    """
    from tuner.models.ecn_before_pfc import SharedBuffer, ordering
    from tuner.models.headroom import SPECTRUM, headroom_parts, sonic_headroom

    link_bps = rate_bps(link)
    if asic not in SPECTRUM:
        fail(f"--asic {asic!r}: not one of {', '.join(SPECTRUM)}", USAGE)

    def xoff(length: float) -> int:
        return sonic_headroom(
            SPECTRUM[asic],
            link_bps,
            length,
            port_mtu=mtu,
            lossless_mtu=lossless_mtu,
            small_packet_percent=small,
        ).xoff_bytes

    with usage_errors():
        lengths = sorted({5.0, 40.0, 100.0, 300.0, cable})
        rows: list[tuple[str, float | bool]] = [(f"xoff, {m:g} m", xoff(m)) for m in lengths]
        try:
            parts = headroom_parts(link_bps, cable, other_mtu=mtu, lossless_mtu=lossless_mtu)
            rows.append((f"802.1Qbb components, {cable:g} m", parts.total_bytes))
        except ValueError:
            pass  # the standard's table ends at other speeds than SONiC's
        safe = True
        if buffer:
            shared = SharedBuffer(size_bytes(buffer), ports, lossless, xoff(cable))
            got = ordering(shared, alpha, ecn_thresholds(kmin, kmax, 1.0), senders)
            rows += [
                ("shared after headroom", shared.shared_bytes),
                ("Kmin bound, any pattern", got.worst_case_bytes),
                (f"Kmin and Kmax bound, {senders} to 1", got.incast_bytes),
                ("Kmin safe, any pattern", got.safe_always),
                (f"Kmin safe, {senders} to 1", got.safe_for_incast),
                (f"Kmax reachable, {senders} to 1", got.kmax_reachable),
            ]
            safe = got.safe_for_incast

    def paint(axes: Axes) -> None:
        metres = [5.0 * step for step in range(101)]
        axes.plot(metres, [xoff(m) / 1024 for m in metres])
        axes.set(xlabel="cable in m", ylabel="xoff in KiB", title=f"Headroom at {link}, {asic}")

    draw(plot, paint)
    answer(
        f"Headroom, {link}, {asic}, MTU {mtu}",
        (Column("what", "what"), Column("bytes", "bytes", "{:,.0f}")),
        rows,
        form,
        notes=[] if safe else ["lower Kmin or raise α: PFC pauses before ECN marks"],
    )
    if not safe:
        raise typer.Exit(WARNS)

"""Plots of a run: queues over time, slowdown distribution, link utilisation, rates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collectors.model.errors import Unavailable
from simlab.packet.output import sample_table
from simlab.packet.results import flow_table, port_table
from simlab.packet.simulation import Simulation

MOST_TEXT = 300  # cells of a heat map that can hold their number


class Rates:
    """Rates of some QPs and the paused time of all ports, noted between two steps of a run."""

    def __init__(self, sim: Simulation, *, most: int = 8) -> None:
        self.sim = sim
        self.slots = slots = sim.state.qp_slots
        self.qps = np.unique(np.linspace(0, slots - 1, min(most, slots)).astype(int))
        self.times: list[float] = []
        self.rates: list[NDArray[np.int64]] = []
        self.paused: list[float] = []

    def note(self) -> None:
        """Remember the rates and the paused (InfiniBand: waiting) time of this moment."""
        from simlab.packet import layout as at
        from simlab.packet.results import paused_ps, port_rows, qp_rows

        sim = self.sim
        waited = port_rows(sim)[:, at.PORT_WAIT] if sim.model.infiniband else paused_ps(sim)
        self.times.append(sim.now_s)
        self.rates.append(qp_rows(sim)[self.qps, at.QP_RATE].copy())
        self.paused.append(float(waited.sum()) / 1e12)

    def names(self) -> list[str]:
        """Say which QPs are noted: by their hosts, or by slot where slots are used again."""
        if self.sim.traffic.flows:
            return [f"QP slot {slot}" for slot in self.qps]
        pairs = [self.sim.traffic.connections[index] for index in self.qps]
        return [
            f"host {one.src} to {one.dst}, QP {index}"
            for index, one in zip(self.qps, pairs, strict=True)
        ]


def _figure() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt.subplots(figsize=(9, 4.5), constrained_layout=True)


def _save(figure: Any, folder: Path, name: str, kind: str) -> Path:
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.{kind}"
    try:
        figure.savefig(path)
    except OSError as error:
        raise Unavailable(str(path), "write", error.strerror or str(error)) from None
    finally:
        plt.close(figure)
    return path


def plot_run(
    sim: Simulation, folder: Path, *, rates: Rates | None = None, kind: str = "svg"
) -> list[Path]:
    """Draw everything that this run has; return the files (SVG or PNG by `kind`).

    Unavailable if the folder refuses.
    """
    paths = [plot_utilisation(sim, folder, kind)]
    if len(sim.samples()) > 1 and sim.watched:
        paths.append(plot_queues(sim, folder, kind))
    slowdown = np.asarray(flow_table(sim)["slowdown"], dtype=float)
    if (~np.isnan(slowdown)).any():
        paths.append(plot_slowdown(slowdown[~np.isnan(slowdown)], folder, kind))
    if rates is not None and len(rates.times) > 1:
        paths += plot_rates(rates, folder, kind)
    return paths


def plot_queues(sim: Simulation, folder: Path, kind: str) -> Path:
    """Queue lengths over time."""
    table = sample_table(sim)
    times = np.asarray(table["time_s"], dtype=float)
    numbers = sim.topology.interface_numbers()
    figure, axes = _figure()
    for (port, queue), column in zip(sim.watched, list(table.values())[1:], strict=True):
        node, peer = sim.topology.end(port), sim.topology.peer(port)
        name = f"node {node} interface {numbers[port]} to node {peer}, priority {queue}"
        axes.plot(times * 1e3, np.asarray(column, dtype=float) / 1000, lw=0.8, label=name)
    title = f"{sim.traffic.name}: length of egress queues"
    axes.set(xlabel="time (ms)", ylabel="queue (KB)", ylim=(0, None), title=title)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small")
    return _save(figure, folder, "queues", kind)


def plot_slowdown(slowdown: NDArray[np.float64], folder: Path, kind: str) -> Path:
    """Cumulative distribution of the completion time over the ideal one."""
    figure, axes = _figure()
    ordered = np.sort(slowdown)
    share = np.arange(1, len(ordered) + 1) / len(ordered)
    axes.step([ordered[0], *ordered], [0.0, *share], where="post")
    for percent, style in ((50, "--"), (99, ":")):
        value = float(np.percentile(ordered, percent))
        axes.axvline(value, ls=style, color="grey", lw=1, label=f"p{percent}: {value:.3g}")
    axes.set(
        xlabel="FCT slowdown: completion time / that of an idle fabric",
        ylabel="share of flows",
        ylim=(0, 1.02),
        title=f"slowdown of {len(ordered)} flows",
    )
    axes.set_xlim(left=min(1.0, ordered[0]))
    if ordered[-1] > 10 * ordered[0]:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="lower right")
    return _save(figure, folder, "slowdown", kind)


def plot_utilisation(sim: Simulation, folder: Path, kind: str) -> Path:
    """Heat map of link utilisation: switches down, interfaces across."""
    from matplotlib.ticker import MaxNLocator

    ports = port_table(sim)
    shown = list(sim.topology.switches)
    width = int(ports["interface"].max())
    grid = np.full((len(shown), width), np.nan)
    place = {node: i for i, node in enumerate(shown)}
    columns = zip(ports["node"], ports["interface"], ports["utilisation"], strict=True)
    for node, interface, value in columns:
        if int(node) in place:
            grid[place[int(node)], int(interface) - 1] = value
    figure, axes = _figure()
    edges = (0.5, width + 0.5, len(shown) - 0.5, -0.5)  # interfaces count from 1
    image = axes.imshow(grid, aspect="auto", vmin=0, vmax=1, cmap="viridis", extent=edges)
    if grid.size <= MOST_TEXT:
        for (row, column), value in np.ndenumerate(grid):
            if not np.isnan(value):
                ink = "black" if value > 0.6 else "white"
                axes.text(column + 1, row, f"{value:.0%}", ha="center", va="center", color=ink,
                          fontsize="small")  # fmt: skip
    title = f"{sim.traffic.name}: how busy each switch port was with sending"
    axes.set(xlabel="interface (none where white)", ylabel="switch (node, tier)", title=title)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    every = -(-len(shown) // 40)
    names = [f"{n} (t{sim.topology.tier[n]})" if sim.topology.tier else str(n) for n in shown]
    axes.set_yticks(range(0, len(shown), every), names[::every], fontsize="x-small")
    figure.colorbar(image, label="bytes sent / line rate, whole run")
    return _save(figure, folder, "utilisation", kind)


def plot_rates(rates: Rates, folder: Path, kind: str) -> list[Path]:
    """Rates of QPs, and how many ports were paused at once."""
    name = rates.sim.traffic.name
    times = np.array(rates.times) * 1e3
    figure, axes = _figure()
    lines = axes.plot(times, np.array(rates.rates) / 1e9, lw=0.8)
    title = f"{name}: rate that congestion control allows, {len(lines)} of {rates.slots} QPs"
    axes.set(xlabel="time (ms)", ylabel="QP rate (Gb/s)", ylim=(0, None), title=title)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(lines, rates.names(), fontsize="x-small")
    first = _save(figure, folder, "rates", kind)
    figure, axes = _figure()
    at_once = np.diff(rates.paused, prepend=0.0) / np.maximum(np.diff(times, prepend=0.0), 1e-9)
    axes.step(times, at_once * 1e3, where="pre")
    what = "waiting for credits" if rates.sim.model.infiniband else "paused by PFC"
    title = f"{name}: port priorities {what}"
    axes.set(xlabel="time (ms)", ylabel="how many at once, on average", title=title)
    axes.set_ylim(0, max(1.0, 1.05e3 * float(at_once.max())))
    if not any(rates.paused):
        axes.text(0.5, 0.5, f"none was {what}", transform=axes.transAxes, ha="center")
    axes.grid(visible=True, alpha=0.3)
    return [first, _save(figure, folder, "pauses", kind)]


def plot_curves(
    curves: Sequence[tuple[str, NDArray[np.float64], NDArray[np.float64]]],
    path: Path,
    *,
    xlabel: str,
    ylabel: str,
) -> Path:
    """Draw named curves into one file; its suffix says how."""
    figure, axes = _figure()
    for name, x, y in curves:
        axes.plot(x, y, label=name)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.legend()
    axes.grid(visible=True, alpha=0.3)
    return _save(figure, path.parent, path.stem, path.suffix.lstrip("."))

"""Plots of a run: queues over time, slowdown distribution, link utilisation, rates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simlab.packet.output import sample_table
from simlab.packet.results import flow_table, port_table
from simlab.packet.simulation import Simulation

RATE_POINTS = 400


class Rates:
    """Goodput of the busiest QPs over time, noted between two steps of a run."""

    def __init__(self, sim: Simulation, *, most: int = 8) -> None:
        self.sim = sim
        self.most = most
        self.times: list[float] = []
        self.rates: list[NDArray[np.int64]] = []
        self.paused: list[float] = []

    def note(self) -> None:
        """Remember the rates and the paused time of this moment."""
        from simlab.packet import layout as at
        from simlab.packet.results import paused_ps, qp_rows

        self.times.append(self.sim.now_s)
        self.rates.append(qp_rows(self.sim)[: self.most, at.QP_RATE].copy())
        self.paused.append(float(paused_ps(self.sim).sum()) / 1e12)


def _figure() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt.subplots(figsize=(9, 4.5), constrained_layout=True)


def _save(figure: Any, folder: Path, name: str, kind: str) -> Path:
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.{kind}"
    figure.savefig(path)
    plt.close(figure)
    return path


def plot_run(
    sim: Simulation, folder: Path, *, rates: Rates | None = None, kind: str = "svg"
) -> list[Path]:
    """Draw everything that this run has; return the files (SVG or PNG by `kind`)."""
    paths = [plot_utilisation(sim, folder, kind)]
    if sim.watched:
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
    figure, axes = _figure()
    for name, column in table.items():
        if name != "time_s":
            axes.plot(times * 1e3, np.asarray(column, dtype=float) / 1000, lw=0.8, label=name)
    axes.set(xlabel="time (ms)", ylabel="queue (KB)", title=sim.traffic.name)
    axes.legend(fontsize="small")
    return _save(figure, folder, "queues", kind)


def plot_slowdown(slowdown: NDArray[np.float64], folder: Path, kind: str) -> Path:
    """Cumulative distribution of the completion time over the ideal one."""
    figure, axes = _figure()
    ordered = np.sort(slowdown)
    axes.plot(ordered, np.arange(1, len(ordered) + 1) / len(ordered))
    axes.set(xlabel="FCT slowdown", ylabel="share of flows", xscale="log", ylim=(0, 1))
    axes.grid(visible=True, alpha=0.3)
    return _save(figure, folder, "slowdown", kind)


def plot_utilisation(sim: Simulation, folder: Path, kind: str) -> Path:
    """Heat map of link utilisation: nodes down, interfaces across."""
    ports = port_table(sim)
    nodes = sorted(set(ports["node"].tolist()), key=lambda n: n not in sim.topology.switches)
    shown = [node for node in nodes if node in sim.topology.switches] or nodes
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
    axes.set(xlabel="interface", ylabel="switch", title="link utilisation (sent)")
    axes.set_yticks(range(len(shown)), [str(node) for node in shown], fontsize="x-small")
    figure.colorbar(image)
    return _save(figure, folder, "utilisation", kind)


def plot_rates(rates: Rates, folder: Path, kind: str) -> list[Path]:
    """Rates of QPs and the share of time that ports were paused."""
    figure, axes = _figure()
    axes.plot(np.array(rates.times) * 1e3, np.array(rates.rates) / 1e9, linewidth=0.8)
    axes.set(xlabel="time (ms)", ylabel="QP rate (Gb/s)", ylim=(0, None))
    first = _save(figure, folder, "rates", kind)
    figure, axes = _figure()
    axes.plot(np.array(rates.times) * 1e3, np.array(rates.paused) * 1e6)
    axes.set(xlabel="time (ms)", ylabel="paused, all ports together (µs)")
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

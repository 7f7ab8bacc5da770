"""Files of a run: summary and tables as JSON, CSV or Parquet, and plots."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from collectors.model.errors import ConfigInvalid, Unavailable
from simlab.packet import layout as at
from simlab.packet.results import (
    Table,
    flow_table,
    iteration_times,
    paused_ps,
    port_table,
    qp_table,
    queue_words,
    summary,
    watermarks,
)
from simlab.packet.simulation import Simulation

FORMATS = ("csv", "parquet")
PLOT_FORMATS = ("svg", "png")
SUMMARY = "summary.json"
TABLES = ("flows", "qps", "ports", "queues", "samples")
WRITTEN = (*TABLES, "rates", "pauses", "slowdown", "utilisation")


def queue_table(sim: Simulation) -> Table:
    """Return one row an egress queue that carried or dropped anything."""
    sent = queue_words(sim, at.QUEUE_TX_PACKETS)
    dropped = queue_words(sim, at.QUEUE_DROPPED)
    port, index = np.nonzero((sent + dropped)[:, :8])
    ports = port_table(sim)
    paused = paused_ps(sim)
    return {
        "port": port,
        "node": ports["node"][port],
        "interface": ports["interface"][port],
        "queue": index,
        "tx_packets": sent[port, index],
        "tx_bytes": queue_words(sim, at.QUEUE_TX_BYTES)[port, index],
        "marked": queue_words(sim, at.QUEUE_MARKED)[port, index],
        "dropped": dropped[port, index],
        "max_bytes": watermarks(sim)[port, index],
        "paused_s": paused[port, index] / 1e12,
    }


def sample_table(sim: Simulation) -> Table:
    """Return the watched queues over time, in bytes."""
    samples = sim.samples()
    table: Table = {"time_s": np.arange(len(samples)) * sim.sample_s}
    for column, (port, index) in enumerate(sim.watched):
        table[f"port{port}_queue{index}_bytes"] = samples[:, column]
    return table


def tables(sim: Simulation) -> dict[str, Table]:
    """Return every table of a run by name."""
    found = {
        "flows": flow_table(sim), "qps": qp_table(sim), "ports": port_table(sim),
        "queues": queue_table(sim),
    }  # fmt: skip
    if sim.watched:
        found["samples"] = sample_table(sim)
    return found


def as_json(sim: Simulation) -> dict[str, object]:
    """Return the totals, the completion times and the job step times as plain values."""
    flows = flow_table(sim)
    result: dict[str, object] = dict(summary(sim).items())
    finished = flows["fct_s"][~np.isnan(flows["fct_s"])]
    if len(finished):
        result["fct_s"] = _spread(finished)
        slowdown = flows["slowdown"]
        result["slowdown"] = _spread(slowdown[~np.isnan(slowdown)])
    steps = iteration_times(sim)
    if steps:
        result["iteration_s"] = steps
    return result


def _spread(values: NDArray[np.generic]) -> dict[str, float]:
    data = np.asarray(values, dtype=float)
    points = {f"p{p}": float(np.percentile(data, p)) for p in (50, 95, 99)}
    return {"mean": float(data.mean()), **points, "max": float(data.max())}


def prepare(folder: Path, file_format: str) -> None:
    """Make sure, before a long run, that its results can be written.

    What an earlier run left stays until `write_run` has something to put there. ConfigInvalid for
    an unknown format or a folder with anything else in it, Unavailable for one that takes no files.
    """
    if file_format not in FORMATS:
        raise ConfigInvalid("--tables", "option", f"{file_format!r} is not {' or '.join(FORMATS)}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / SUMMARY).exists():
            why = "it is not empty and holds no earlier run: give another folder"
            raise ConfigInvalid(str(folder), "write", why)
        with (folder / SUMMARY).open("a") as marker:
            if not marker.tell():
                marker.write("{}\n")
    except OSError as error:
        raise Unavailable(str(folder), "write", error.strerror or str(error)) from None


def write_run(sim: Simulation, folder: Path, *, file_format: str = "csv") -> list[Path]:
    """Write summary.json and every table instead of an earlier run's files; return the new ones.

    Unavailable if the folder refuses.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for earlier in folder.iterdir():
            if earlier.stem in WRITTEN and earlier.suffix.lstrip(".") in (*FORMATS, *PLOT_FORMATS):
                earlier.unlink()
        written = [folder / SUMMARY]
        written[0].write_text(json.dumps(as_json(sim), indent=1) + "\n")
        for name, table in tables(sim).items():
            path = folder / f"{name}.{file_format}"
            if file_format == "csv":
                _write_csv(table, path)
            else:
                _write_parquet(table, path)
            written.append(path)
    except OSError as error:
        raise Unavailable(str(folder), "write", error.strerror or str(error)) from None
    return written


def _write_csv(table: Table, path: Path) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(table)
        columns = [column.tolist() for column in table.values()]
        writer.writerows(zip(*columns, strict=True))


def _write_parquet(table: Table, path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table(dict(table)), path)

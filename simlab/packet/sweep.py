"""A grid of configurations on all cores, or on a Ray cluster, resumable.

Each point's result is one JSON file named by the digest of its changes: a sweep that was stopped
goes on where it was, and one that is extended runs only what is new.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.model.errors import ConfigInvalid, NotSupported
from simlab.packet.config import load_config
from simlab.packet.interventions import run_with_events
from simlab.packet.output import as_json
from simlab.packet.simulation import Simulation


@dataclass(frozen=True, slots=True)
class Point:
    """One cell of the grid: dotted configuration keys and their values."""

    changes: tuple[tuple[str, Any], ...]

    @property
    def digest(self) -> str:
        """Name of the result file."""
        text = json.dumps(self.changes, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def grid(axes: Mapping[str, Sequence[Any]]) -> list[Point]:
    """Return every combination of the axes, in order."""
    if not axes or not all(axes.values()):
        raise ConfigInvalid("sweep", "axes", "each needs at least one value")
    return [
        Point(tuple(zip(axes, values, strict=True))) for values in itertools.product(*axes.values())
    ]


def run_point(config: str, changes: dict[str, Any]) -> dict[str, Any]:
    """Run one point and return its changes and results; a wrong point returns its error."""
    try:
        plan = load_config(Path(config), changes=changes)
        sim = Simulation(plan.topology, plan.model, plan.traffic, seed=plan.config.seed)
        run_with_events(
            sim,
            plan.config.duration_s,
            list(plan.events),
            stop_when_done=plan.config.stop_when_done,
        )
        return {"changes": changes, "result": as_json(sim)}
    except ConfigInvalid as error:
        return {"changes": changes, "error": str(error)}


def sweep(
    config: Path,
    points: Sequence[Point],
    folder: Path,
    *,
    engine: str = "processes",
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Run the points that have no result yet; return all results in the order of the points.

    `engine` is `processes` or `ray`. ConfigInvalid for another one, NotSupported without Ray.
    """
    folder.mkdir(parents=True, exist_ok=True)
    todo = [point for point in points if not _file(folder, point).exists()]
    engines = {"processes": _on_cores, "ray": _on_ray}
    if engine not in engines:
        raise ConfigInvalid("sweep", "engine", f"{engine!r} is not {' or '.join(engines)}")
    done = len(points) - len(todo)
    for point, result in engines[engine](config, todo, workers):
        path = _file(folder, point)
        half = path.with_suffix(".part")
        half.write_text(json.dumps(result))
        half.rename(path)
        done += 1
        if progress is not None:
            progress(done, len(points))
    return [json.loads(_file(folder, point).read_text()) for point in points]


def _file(folder: Path, point: Point) -> Path:
    return folder / f"{point.digest}.json"


def _on_cores(
    config: Path, points: Sequence[Point], workers: int | None
) -> Iterator[tuple[Point, dict[str, Any]]]:
    with ProcessPoolExecutor(workers or os.cpu_count()) as pool:
        jobs = {pool.submit(run_point, str(config), dict(point.changes)): point for point in points}
        for job in as_completed(jobs):
            yield jobs[job], job.result()


def _on_ray(
    config: Path, points: Sequence[Point], workers: int | None
) -> Iterator[tuple[Point, dict[str, Any]]]:
    try:
        import ray
    except ImportError:
        raise NotSupported("sweep", "ray", "not installed: pip install fabric-tuner[ray]") from None
    if not ray.is_initialized():
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    remote = ray.remote(run_point)
    waiting = {remote.remote(str(config.resolve()), dict(point.changes)): point for point in points}
    while waiting:
        ready, _ = ray.wait(list(waiting), num_returns=1)
        for job in ready:
            yield waiting.pop(job), ray.get(job)

"""A grid of configurations on all cores, or on a Ray cluster, resumable.

Each point's result is one JSON file, named by a digest of the configuration file and the point's
changes: a sweep that was stopped goes on where it was, and one that is extended runs only what is
new.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.model.errors import ConfigInvalid, FabricError, NotSupported, Unavailable
from simlab.packet.config import FlowFile, Plan, TopologyFile, load_config
from simlab.packet.interventions import run_with_events
from simlab.packet.output import as_json
from simlab.packet.simulation import Simulation

FILES = ("topology.path", "workload.path", "reference_config")


@dataclass(frozen=True, slots=True)
class Point:
    """One cell of the grid: dotted configuration keys and their values."""

    changes: tuple[tuple[str, Any], ...]

    def file(self, folder: Path, config: bytes) -> Path:
        """Return where its result is kept: named by its changes and by what it changes."""
        text = config + json.dumps(self.changes, sort_keys=True).encode()
        return folder / f"{hashlib.blake2b(text, digest_size=10).hexdigest()}.json"


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
        return run_plan(load_config(Path(config), changes=changes), changes)
    except FabricError as error:
        return {"changes": changes, "error": str(error)}


def run_plan(plan: Plan, changes: dict[str, Any]) -> dict[str, Any]:
    """Run a loaded point; it needs none of the configuration's files any more."""
    try:
        wanted = plan.config
        sim = Simulation(plan.topology, plan.model, plan.traffic, seed=wanted.seed)
        events = list(plan.events)
        run_with_events(sim, wanted.duration_s, events, stop_when_done=wanted.stop_when_done)
        return {"changes": changes, "result": as_json(sim)}
    except FabricError as error:
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

    `engine` is `processes` or `ray`. A point that failed is tried again by the next call, as are
    all after a change of the configuration file. ConfigInvalid for another engine or a file that
    cannot be read, NotSupported without Ray, Unavailable for a folder that takes no files or a
    worker that died. KeyboardInterrupt leaves the results so far in the folder.
    """
    engines = {"processes": _on_cores, "ray": _on_ray}
    if engine not in engines:
        raise ConfigInvalid("sweep", "engine", f"{engine!r} is not {' or '.join(engines)}")
    if workers is not None and workers < 1:
        raise ConfigInvalid("sweep", "workers", f"{workers} is not at least 1")
    text = _inputs(config, points)
    files = [point.file(folder, text) for point in points]
    results: dict[Path, dict[str, Any]] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        results |= {path: known for path in files if (known := _kept(path)) is not None}
        todo = [one for one, path in zip(points, files, strict=True) if path not in results]
        for point, result in engines[engine](config, todo, workers):
            path = point.file(folder, text)
            results[path] = result
            if "result" in result:
                half = path.with_suffix(".part")
                half.write_text(json.dumps(result))
                half.rename(path)
            if progress is not None:
                progress(len(results), len(points))
    except OSError as error:
        raise Unavailable(str(folder), "sweep", error.strerror or str(error)) from None
    return [results[path] for path in files]


def _inputs(config: Path, points: Sequence[Point]) -> bytes:
    """Return the configuration file and what the files that it or a point names hold."""
    try:
        text = config.read_bytes()
    except OSError as error:
        raise ConfigInvalid(str(config), "read", error.strerror or str(error)) from None
    named: set[str] = set()
    for changes in {tuple(one for one in point.changes if one[0] in FILES) for point in points}:
        try:
            plan = load_config(config, changes=dict(changes)).config
        except FabricError:
            continue  # each point says so itself
        parts = (plan.topology, plan.workload)
        named |= {one.path for one in parts if isinstance(one, (TopologyFile, FlowFile))}
        named |= {plan.reference_config} if plan.reference_config else set()
    return text + b"".join((config.parent / one).read_bytes() for one in sorted(named))


def _kept(path: Path) -> dict[str, Any] | None:
    """Return a result of an earlier call; None for none, or one that is not whole."""
    try:
        known = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return known if isinstance(known, dict) and "result" in known else None


def _on_cores(
    config: Path, points: Sequence[Point], workers: int | None
) -> Iterator[tuple[Point, dict[str, Any]]]:
    def quiet() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a worker without a traceback

    pool = ProcessPoolExecutor(workers or os.cpu_count(), initializer=quiet)
    try:
        jobs = {pool.submit(run_point, str(config), dict(point.changes)): point for point in points}
        for job in as_completed(jobs):
            yield jobs[job], job.result()
    except BrokenProcessPool:
        why = "a worker died, of too little memory perhaps: try fewer --workers"
        raise Unavailable("sweep", "processes", why) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _on_ray(
    config: Path, points: Sequence[Point], workers: int | None
) -> Iterator[tuple[Point, dict[str, Any]]]:
    """Run on the cluster of RAY_ADDRESS, or on one of this machine with so many workers."""
    try:
        import ray
    except ImportError:
        raise NotSupported("sweep", "ray", "not installed: pip install fabric-tuner[ray]") from None
    if not ray.is_initialized():
        own = None if os.environ.get("RAY_ADDRESS") else workers
        ray.init(num_cpus=own, include_dashboard=False, log_to_driver=False)
    remote = ray.remote(run_plan)
    cluster: Any = ray
    most = 2 * (workers or int(cluster.cluster_resources().get("CPU", 1)))
    left = iter(points)
    waiting: dict[Any, Point] = {}
    while True:
        for point in itertools.islice(left, most - len(waiting)):
            changes = dict(point.changes)
            try:  # loaded here: other machines need not have the files
                plan = load_config(config, changes=changes)
            except FabricError as error:
                yield point, {"changes": changes, "error": str(error)}
                continue
            waiting[remote.remote(plan, changes)] = point
        if not waiting:
            return
        ready, _ = ray.wait(list(waiting), num_returns=1)
        for job in ready:
            yield waiting.pop(job), ray.get(job)

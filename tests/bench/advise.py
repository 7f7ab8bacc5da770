"""Bench of the advice: what `tuner suggest` recommends, done in the simulator.

Each draw of simlab.scenarios (seeds that no search and no test has seen) is recorded, handed to
the product, and simulated again with N, RTT and burst drawn within ±30 %: faulty, with the truth's
cure, with the advice, and with each published preset on every NIC and switch.

A draw is curable where a fault was planted whose cure, known to the draw but not to the product,
makes the job faster by more than 5 % under the load of the second simulation; a smaller gap is
chance, and a share of it says nothing. Every draw, healthy ones too, counts for what is made
worse. How many draws fall out, and of which families, is printed.

A draw takes two to three CPU-seconds, all families three minutes on two cores. `--out FILE` keeps
finished draws: a run that was broken off goes on where it stopped, and one over all families takes
over what was made in parts before (`--family`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import msgspec

from simlab.scenarios.registry import FAMILIES
from tests.bench.advise_parts.report import best_preset, check, goals, show
from tests.bench.advise_parts.trial import CURABLE, SEEDS, Trial, run

BUDGET_S = 2.0
WORKERS = 2


def main() -> int:
    """Draw, ask, do, print, and end with the goals as one JSON object."""
    parser = argparse.ArgumentParser(description="advice done in the simulator")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draws", type=int, default=1, help="of each family")
    parser.add_argument("--family", action="append", help="only these, by the start of the name")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="of `suggest`, seconds")
    parser.add_argument("--workers", type=int, default=min(WORKERS, os.cpu_count() or 1))
    parser.add_argument("--out", type=Path, help="file of finished draws, to go on with later")
    options = parser.parse_args()
    names = [
        name
        for name in FAMILIES
        if not options.family or any(name.startswith(text) for text in options.family)
    ]
    first = SEEDS + 1000 * options.seed
    wanted = [(name, first + number) for number in range(options.draws) for name in names]
    known = {(trial.family, trial.seed): trial for trial in kept(options.out)}
    began = time.monotonic()
    for trial in tried([one for one in wanted if one not in known], options):
        known[trial.family, trial.seed] = trial
    trials = [known[one] for one in wanted if one in known]
    report(trials, f"seed {options.seed}", time.monotonic() - began, len(trials) / len(wanted))
    return 0


def kept(path: Path | None) -> list[Trial]:
    """Return the draws that earlier runs finished."""
    if path is None or not path.exists():
        return []
    return [msgspec.json.decode(line, type=Trial) for line in path.read_bytes().splitlines()]


def keep(path: Path | None, trial: Trial) -> None:
    """Add a finished draw to the file of finished draws, where there is one."""
    if path is not None:
        with path.open("ab") as file:
            file.write(msgspec.json.encode(trial) + b"\n")


def tried(todo: Sequence[tuple[str, int]], options: argparse.Namespace) -> Iterator[Trial]:
    """Yield the trials of draws as they end, and keep each at once where asked to."""
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
        jobs = {pool.submit(run, name, seed, options.budget): (name, seed) for name, seed in todo}
        for number, job in enumerate(as_completed(jobs), 1):
            try:
                trial = job.result()
            except Exception as error:  # noqa: BLE001  # one draw must not cost the others
                name, seed = jobs[job]
                print(f"{name} seed {seed} broke: {error!r}", file=sys.stderr, flush=True)
                continue
            keep(options.out, trial)
            share = f"{trial.recovered(trial.advised):6.2f}" if trial.curable else "     -"
            print(
                f"{number:4}/{len(todo)} {trial.family:30} recovered {share}  "
                f"{trial.cpu_s:5.1f} CPU-s",
                file=sys.stderr, flush=True,
            )  # fmt: skip
            yield trial


def report(trials: Sequence[Trial], drawn: str, took_s: float, ended: float) -> None:
    """Print tables and goals. ended: share of the draws that did not break."""
    best = best_preset(trials)
    show(trials, best)
    curable = sum(trial.curable for trial in trials)
    families = len({trial.family for trial in trials})
    steps = sum(trial.rendered for trial in trials)
    cpu_s = sum(trial.cpu_s for trial in trials)
    notes = [
        f"{drawn}, {len(trials)} draws of {families} families, {cpu_s:.0f} CPU-s, {took_s:.0f} s",
        f"{curable} of them curable by more than {CURABLE:.0%} of job time",
        "undo is checked on what acts at every place; repairs by hand and unseen values have none",
        f"{steps} steps of switches, rendered in each of six languages that can express them",
    ]
    checks = [*goals(trials, best), check("draws that ended", ended, 1.0, "of all")]
    print(json.dumps({"bench": "advise", "checks": checks, "notes": notes}))


if __name__ == "__main__":
    raise SystemExit(main())

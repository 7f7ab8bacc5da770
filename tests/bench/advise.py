"""Bench of the advice: what `tuner suggest` recommends, done in the simulator.

Each draw of simlab.scenarios (seeds that no search and no test has seen) is recorded, handed to
the product, and simulated again with N, RTT and burst drawn within ±30 %: faulty, with the truth's
cure, with the advice, and with each published preset on every NIC and switch.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from random import Random
from statistics import median

from simlab.scenarios.registry import FAMILIES, draw
from tests.bench.advise_parts.trial import CURABLE, Trial, run
from tuner.advice.search.presets import PRESETS

RECOVERED, OF_CURABLE = 0.8, 0.85
HARMLESS, OF_ALL = 1.02, 0.98
SEEDS = 900_000  # of draws: far from those of tests
BUDGET_S = 2.0


def main() -> int:
    """Draw, ask, do, print, and end with the goals as one JSON object."""
    parser = argparse.ArgumentParser(description="advice done in the simulator")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draws", type=int, default=1, help="of each family")
    parser.add_argument("--family", action="append", help="only these, by the start of the name")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="of `suggest`, seconds")
    options = parser.parse_args()
    names = [
        name
        for name in FAMILIES
        if not options.family or any(name.startswith(text) for text in options.family)
    ]
    began, cpu = time.monotonic(), time.process_time()
    trials: list[Trial] = []
    for number in range(options.draws):
        for name in names:
            seed = SEEDS + 1000 * options.seed + number
            rng = Random(f"{name} {seed}")
            trials.append(run(draw(name, seed), rng, PRESETS, options.budget))
            if sys.stderr.isatty():
                print(f"\r{len(trials)} draws, {name:40}", end="", file=sys.stderr, flush=True)
    best = best_preset(trials)
    show(trials, best)
    took = f"{time.monotonic() - began:.0f} s, {time.process_time() - cpu:.0f} CPU-s"
    curable = sum(trial.curable for trial in trials)
    drawn = f"seed {options.seed}, {len(trials)} draws of {len(names)} families"
    notes = [
        f"{drawn}, {curable} of them curable by more than {CURABLE:.0%} of job time, {took}",
        "undo is checked on what acts at every place; repairs by hand and unseen values have none",
    ]
    checks = goals(trials, best)
    print(json.dumps({"bench": "advise", "checks": checks, "notes": notes}))
    return 0


def best_preset(trials: Sequence[Trial]) -> str:
    """Return the preset that, applied everywhere, recovers most on average."""
    curable = [trial for trial in trials if trial.curable]

    def gain(name: str) -> float:
        return sum(bounded(trial, trial.presets[name]) for trial in curable)

    return max((preset.name for preset in PRESETS), key=gain)


def bounded(trial: Trial, job: float) -> float:
    """Return what a job time recovers of a draw, at most all and at worst the gap once more."""
    return max(-1.0, min(1.0, trial.recovered(job)))


def show(trials: Sequence[Trial], best: str) -> None:
    """Print the draws by family, then failures, harm and faults."""
    head = f"{'family':34} {'curable':>7} {'recovered':>9} {'median':>7} {'worst':>7} {best:>16}"
    print(head)
    for name in dict.fromkeys(trial.family for trial in trials):
        mine = [t for t in trials if t.family == name and t.curable]
        if not mine:
            continue
        shares = [t.recovered(t.advised) for t in mine]
        enough = sum(share >= RECOVERED for share in shares)
        preset = sum(bounded(t, t.presets[best]) for t in mine) / len(mine)
        print(
            f"{name:34} {len(mine):7} {enough:9} {median(shares):7.2f} {min(shares):7.2f} "
            f"{preset:16.2f}"
        )
    print("\nfailures (less than 80 % of the gap recovered):")
    for trial in trials:
        if trial.curable and trial.recovered(trial.advised) < RECOVERED:
            print(
                f"  {trial.family} seed {trial.seed}: {trial.recovered(trial.advised):.2f}; "
                f"found {', '.join(trial.findings) or 'nothing'}"
            )
            for text in (*trial.advice[:6], *(f"cannot follow {u}" for u in trial.unfit)):
                print(f"    {text[:150]}")
    print("\nmade worse by more than 2 %:")
    for trial in trials:
        if trial.harm > HARMLESS:
            print(f"  {trial.family} seed {trial.seed}: x {trial.harm:.3f}")
            for text in trial.advice[:6]:
                print(f"    {text[:150]}")
    print("\nrecommendations that lack something:")
    for trial in trials:
        for text in trial.unheld:
            print(f"  {trial.family} seed {trial.seed}: {text[:150]}")
    print("\npresets, mean share of the gap recovered when applied everywhere:")
    curable = [trial for trial in trials if trial.curable]
    for preset in PRESETS:
        mean = sum(bounded(t, t.presets[preset.name]) for t in curable) / max(1, len(curable))
        print(f"  {preset.name:20} {mean:6.3f}   {preset.source}")


def goals(trials: Sequence[Trial], best: str) -> list[dict[str, object]]:
    """Return the issue's goals as checks."""
    curable = [trial for trial in trials if trial.curable]
    shares = [trial.recovered(trial.advised) for trial in curable]
    count = max(1, len(curable))
    ours = sum(bounded(t, t.advised) for t in curable) / count
    preset = sum(bounded(t, t.presets[best]) for t in curable) / count
    harmless = sum(trial.harm <= HARMLESS for trial in trials) / max(1, len(trials))
    advice = sum(trial.recommended for trial in trials)
    whole = advice - sum(len({u.split(":")[0] for u in trial.unheld}) for trial in trials)
    return [
        check(
            "curable draws with 80 % of the gap recovered",
            sum(share >= RECOVERED for share in shares) / count, OF_CURABLE, "of the curable",
        ),
        check("median gap recovered", median(shares or [0.0]), RECOVERED, "of the gap"),
        check("draws made no worse than 2 %", harmless, OF_ALL, "of all"),
        check(f"mean gap recovered over that of {best}", ours - preset, 0.0, "of the gap", preset),
        check("recommendations with all fields and undo", whole / max(1, advice), 1.0, "of all"),
    ]  # fmt: skip


def check(
    name: str, ours: float, limit: float, unit: str, reference: float | None = None
) -> dict[str, object]:
    """Return one goal: ours at least the limit."""
    return {
        "name": name, "ours": ours, "reference": limit if reference is None else reference,
        "ratio": ours, "op": ">=", "limit": limit, "unit": unit,
    }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())

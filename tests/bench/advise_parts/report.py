"""What the trials of all draws come to: tables for people, goals as checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from tests.bench.advise_parts.trial import CURABLE, Trial
from tuner.advice.search.presets import PRESETS

RECOVERED, OF_CURABLE = 0.8, 0.85
HARMLESS, OF_ALL = 1.02, 0.98
SHOWN = 6  # lines of advice below a failure


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
    """Print the draws by family, then what fell out, failures, harm and faults."""
    print(f"{'family':30} {'curable':>8} {'recovered':>9} {'median':>7} {'worst':>7} {best:>20}")
    for name in dict.fromkeys(trial.family for trial in trials):
        every = [t for t in trials if t.family == name]
        mine = [t for t in every if t.curable]
        if not mine:
            continue
        shares = [t.recovered(t.advised) for t in mine]
        enough = sum(share >= RECOVERED for share in shares)
        preset = sum(bounded(t, t.presets[best]) for t in mine) / len(mine)
        print(
            f"{name:30} {f'{len(mine)}/{len(every)}':>8} {enough:9} {median(shares):7.2f} "
            f"{min(shares):7.2f} {preset:20.2f}"
        )
    _show_fallen_out(trials)
    _show_failures(trials)
    print("\nrecommendations that lack something, or read back otherwise once rendered:")
    for trial in trials:
        for text in (*trial.unheld, *trial.misread[:SHOWN]):
            print(f"  {trial.family} seed {trial.seed}: {text[:160]}")
    print("\npresets, mean share of the gap recovered when applied everywhere:")
    curable = [trial for trial in trials if trial.curable]
    for preset in PRESETS:
        mean = sum(bounded(t, t.presets[preset.name]) for t in curable) / max(1, len(curable))
        print(f"  {preset.name:20} {mean:6.3f}   {preset.source}")


def _show_fallen_out(trials: Sequence[Trial]) -> None:
    healthy = sum(not trial.has_truth for trial in trials)
    cheap = Counter(t.family for t in trials if t.has_truth and not t.curable)
    print(
        f"\nnot curable: {healthy} draws with nothing planted, and {cheap.total()} whose cure "
        f"gains less than {CURABLE:.0%} of the job's time under this load:"
    )
    for name, count in cheap.items():
        print(f"  {name} ({count})")


def _show_failures(trials: Sequence[Trial]) -> None:
    print(f"\nfailures (less than {RECOVERED:.0%} of the gap recovered):")
    for trial in trials:
        if trial.curable and trial.recovered(trial.advised) < RECOVERED:
            share = trial.recovered(trial.advised)
            print(f"  {trial.family} seed {trial.seed}: {share:.2f}; found {_found(trial)}")
            _show_advice(trial)
    print("\nmade worse by more than 2 %:")
    for trial in trials:
        if trial.harm > HARMLESS:
            print(f"  {trial.family} seed {trial.seed}: x {trial.harm:.3f}; found {_found(trial)}")
            _show_advice(trial)


def _found(trial: Trial) -> str:
    return ", ".join(f"{n} x {rule}" for rule, n in Counter(trial.findings).items()) or "nothing"


def _show_advice(trial: Trial) -> None:
    for text in (*trial.advice[:SHOWN], *(f"cannot follow {unfit}" for unfit in trial.unfit)):
        print(f"    {text[:150]}")


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
    rendered = sum(trial.rendered for trial in trials)
    misread = sum(len(trial.misread) for trial in trials)
    return [
        check(
            "curable draws with 80 % of the gap recovered",
            sum(share >= RECOVERED for share in shares) / count, OF_CURABLE, "of the curable",
        ),
        check("median gap recovered", median(shares or [0.0]), RECOVERED, "of the gap"),
        check("draws made no worse than 2 %", harmless, OF_ALL, "of all"),
        check(f"mean gap recovered over that of {best}", ours - preset, 0.0, "of the gap", preset),
        check("recommendations with all fields and undo", whole / max(1, advice), 1.0, "of all"),
        check(
            "rendered steps that read back the same", 1 - misread / max(1, rendered), 1.0, "of all",
        ),
    ]  # fmt: skip


def check(
    name: str, ours: float, limit: float, unit: str, reference: float | None = None
) -> dict[str, object]:
    """Return one goal: ours at least the limit."""
    return {
        "name": name, "ours": ours, "reference": limit if reference is None else reference,
        "ratio": ours, "op": ">=", "limit": limit, "unit": unit,
    }  # fmt: skip

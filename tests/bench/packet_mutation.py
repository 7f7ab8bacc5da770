"""Mutation run: every constant and comparison of the packet model, changed one at a time.

./run bench packet_mutation [compiled|plain [TEXT]]; `./run bench packet` runs both parts as its
last section. The compiled engine's mutants are compiled at once (packet_parts/mutants.py); those of
the other modules are chosen in the same way (packet_parts/plain_mutants.py). Each runs, in a
process of its own, the tests that reach it until one of them fails. Mutants that no test notices
are survivors and are listed; those that cannot change a result are named with the reason, and still
count as survivors. With TEXT only mutants run whose name contains it.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from hypothesis import settings
from packet_parts.equivalent import EQUIVALENT
from packet_parts.equivalent_plain import EQUIVALENT_PLAIN
from packet_parts.mutants import NOT_MUTATED, Mutant, instrument_compiled
from packet_parts.mutation_run import Run
from packet_parts.plain_mutants import forget, instrument_plain
from packet_parts.report import Report

ROOT = Path(__file__).resolve().parents[2]
PACKET = "tests/simlab/packet"
FILES = tuple(
    f"{PACKET}/test_{name}.py"
    for name in (
        "transport", "flow_control", "collectives", "invariants", "exact_times", "paths",
        "recorded_runs", "buffer_edges", "exact_counts", "engine_edges", "regions", "region_edges",
        "hashes",
    )
)  # fmt: skip
PLAIN_FILES = (
    *FILES,
    "tests/collectors/model/test_dcqcn.py",
    *(
        f"{PACKET}/test_{name}.py"
        for name in (
            "defaults", "workloads", "topology", "limits", "results", "build", "interventions",
            "region_cuts", "places", "export", "telemetry",
        )
    ),
)  # fmt: skip
PARTS = {
    "compiled": (instrument_compiled, FILES, EQUIVALENT),
    "plain": (instrument_plain, PLAIN_FILES, EQUIVALENT_PLAIN),
}


def tell(report: Report, part: str, mutants: list[Mutant], run: Run, *, whole: bool) -> None:
    """List the survivors of a part, and the shares of its modules and of the whole."""
    reasons = PARTS[part][2]
    tried = [mutants[site] for site in run.caught]
    survivors = [mutants[site] for site, test in run.caught.items() if not test]
    modules = {one.module for one in tried}
    report.title(f"{len(tried)} mutants of {len(modules)} {part} modules")
    unexplained = 0
    for mutant in survivors:
        why = reasons.get(mutant.key, "")
        unexplained += not why
        again = f" ({mutant.again + 1})" if mutant.again else ""
        report.line(f"  survived: {mutant.module}.py:{mutant.line}: {mutant.text}{again}")
        report.line(f"            {mutant.source}")
        if why:
            report.line(f"            changes no result: {why}")
    of_module, missed = (Counter(one.module for one in some) for some in (tried, survivors))
    report.line()
    for module, count in of_module.items():
        good = count - missed[module]
        report.line(f"  {module:16} {good:4} of {count:4} caught {good / count:7.1%}")
    caught = len(tried) - len(survivors)
    real = max(1, caught + unexplained)
    report.line(
        f"  {caught} of the {real} that can change a result: {caught / real:.1%} "
        f"({len(tried) - real} cannot, with the reasons above)"
    )
    name = f"mutants of the {part} modules caught"
    report.check(name, caught / max(1, len(tried)), 0.9, ">=", "", spread=f"{caught}/{len(tried)}")
    report.check(f"{part}: survivors without a reason", unexplained, 0, "<=", "")
    known = {mutant.key for mutant in survivors}
    stale = [key for key in reasons if key not in known] if whole else []
    for key in stale:
        report.line(f"  caught, with a reason why it cannot be: {key}")
    report.check(f"{part}: reasons for mutants that tests catch", len(stale), 0, "<=", "")


def one_part(part: str, text: str) -> int:
    """Run the mutants of a part in this process, whose modules they replace."""
    instrument, files, reasons = PARTS[part]
    report = Report(f"packet_mutation {part}")
    mutants = instrument()
    run = Run(mutants, [text in one.key for one in mutants], reasons, report, forget)
    settings.register_profile("mutation", derandomize=True, database=None, deadline=None)
    settings.load_profile("mutation")
    options = ["-q", "-s", "--disable-warnings", "-p", "no:cacheprovider", "-p", "no:randomly"]
    pytest.main([*options, *files], plugins=[run])
    if run.failing or not run.caught:
        print(f"fail without any mutant: {', '.join(run.failing)}", file=sys.stderr)
        return 1
    tell(report, part, mutants, run, whole=not text)
    return report.finish()


def both_parts() -> int:
    """Run each part in a process of its own, one after the other, and add them up."""
    report = Report("packet_mutation")
    counts = []
    for part in PARTS:
        told = report.include([sys.executable, __file__, part])
        shares = [check["spread"] for check in told.get("checks", ()) if "/" in check["spread"]]
        counts += [tuple(map(int, share.split("/"))) for share in shares]
    caught, tried = (sum(count[place] for count in counts) for place in (0, 1))
    report.title("compiled and plain modules together")
    report.line(f"  not mutated: {NOT_MUTATED}")
    name = "share of all mutants caught"
    share = caught / max(1, tried)
    report.check(name, share, 0.9, ">=", "", spread=f"{caught}/{tried}")
    return report.finish()


def main() -> int:
    """Run what is asked for."""
    os.chdir(ROOT)
    part, text = [*sys.argv[1:], "", ""][:2]
    if part and part not in PARTS:
        print(f"no part {part!r}; known: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    return one_part(part, text) if part else both_parts()


if __name__ == "__main__":
    sys.exit(main())

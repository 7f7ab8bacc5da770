"""Mutation run: every constant and comparison of the packet model, changed one at a time.

./run bench packet_mutation [SECONDS]; with SECONDS it stops so long after compiling, keeps what it
found and goes on from there when called again. All mutants are compiled at once (packet_parts/
mutants.py); each runs, in a process of its own, the tests that reach it until one of them fails.
Mutants that no test notices are survivors and are listed; those that cannot change a result are
named with the reason, and still count as survivors. `./run bench packet` runs this as its last
section.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from _pytest.runner import runtestprotocol
from packet_parts.equivalent import EQUIVALENT
from packet_parts.mutants import MODULES, PACKAGE, SWITCHES, Mutant, instrument, reached
from packet_parts.report import Report

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests/simlab/packet"
FILES = (
    "test_transport.py", "test_flow_control.py", "test_collectives.py", "test_invariants.py",
    "test_exact_times.py", "test_paths.py", "test_recorded_runs.py", "test_buffer_edges.py",
    "test_exact_counts.py", "test_engine_edges.py", "test_regions.py", "test_region_edges.py",
    "test_hashes.py",
)  # fmt: skip
KEPT = ROOT / ".cache/bench/packet_mutation.json"
MORE_MEMORY = 2 << 30  # a mutant that fills memory is caught by this
CPU_S, CPU_FACTOR = 1.0, 8.0  # a test may take so much longer than without a mutant


def digest() -> str:
    """Return what the results hold for: the model, its tests and this program."""
    paths = [PACKAGE / f"{name}.py" for name in MODULES]
    paths += [*sorted(TESTS.glob("*.py")), Path(__file__)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


class Run:
    """A pytest plugin that runs the collected tests for one mutant after another."""

    def __init__(self, mutants: list[Mutant], seconds: float, report: Report) -> None:
        self.mutants = mutants
        self.report = report
        self.seconds = seconds
        self.digest = digest()
        self.failing: list[str] = []
        self.caught: dict[str, str] = {}  # number of the mutant -> test, "" if none
        if KEPT.exists():
            kept = json.loads(KEPT.read_text())
            self.caught = kept["caught"] if kept["digest"] == self.digest else {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Take the time and the reach of every test, then try the mutants."""
        items = session.items
        self.report.progress(f"compiling {len(self.mutants)} mutants into one engine")
        for item in items:  # compiles
            if any(report.failed for report in runtestprotocol(item, log=False)):
                self.failing.append(item.nodeid)
        if self.failing:
            return True
        seconds: list[float] = []
        tests_at: dict[int, list[int]] = defaultdict(list)
        for number, item in enumerate(items):
            reached()
            began = time.process_time()
            runtestprotocol(item, log=False)
            seconds.append(time.process_time() - began)
            for site in reached():
                tests_at[site].append(number)
        kills: dict[tuple[str, int], int] = defaultdict(int)
        at = mmap.mmap(-1, 8)  # shared: the test that runs
        until = time.monotonic() + self.seconds
        for site, mutant in enumerate(self.mutants):
            if str(site) in self.caught:
                continue
            if time.monotonic() > until:
                break
            likely = sorted(
                tests_at[site],
                key=lambda one: -(kills[mutant.module, one] + 0.1) / (seconds[one] + 0.01),
            )
            killer = self._try(site, [(items[one], seconds[one], one) for one in likely], at)
            self.caught[str(site)] = "" if killer < 0 else items[killer].nodeid
            if killer >= 0:
                kills[mutant.module, killer] += 1
            if site % 20 == 0:
                self.keep()
                self.report.progress(f"{len(self.caught)} of {len(self.mutants)} mutants")
        self.keep()
        return True

    def keep(self) -> None:
        """Write what is known so far."""
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        KEPT.write_text(json.dumps({"digest": self.digest, "caught": self.caught}))

    @staticmethod
    def _try(site: int, tests: list[tuple[pytest.Item, float, int]], at: mmap.mmap) -> int:
        """Return the number of the test that notices the mutant of this site, -1 for none."""
        child = os.fork()
        if child == 0:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
            resource.setrlimit(resource.RLIMIT_AS, (used + MORE_MEMORY, used + MORE_MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            SWITCHES[site] = 1
            for item, seconds, number in tests:
                at[:8] = number.to_bytes(8, "little")
                signal.setitimer(signal.ITIMER_PROF, CPU_S + CPU_FACTOR * seconds)
                if any(report.failed for report in runtestprotocol(item, log=False)):
                    os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        return -1 if status == 0 else int.from_bytes(at[:8], "little")


def main() -> int:
    """Run what is left and list the survivors."""
    os.chdir(ROOT)
    report = Report("packet_mutation")
    mutants = instrument()
    run = Run(mutants, float(sys.argv[1]) if len(sys.argv) > 1 else float("inf"), report)
    from hypothesis import settings

    settings.register_profile("mutation", derandomize=True, database=None, deadline=None)
    settings.load_profile("mutation")
    options = ["-q", "-s", "--disable-warnings", "-p", "no:cacheprovider", "-p", "no:randomly"]
    pytest.main([*options, *(str(TESTS / name) for name in FILES)], plugins=[run])
    if run.failing:
        print(f"fail without any mutant: {', '.join(run.failing)}", file=sys.stderr)
        return 1
    left = len(mutants) - len(run.caught)
    report.title(f"{len(run.caught)} of {len(mutants)} mutants of {len(MODULES)} modules tried")
    survivors = [mutants[int(site)] for site, test in run.caught.items() if not test]
    unexplained = []
    for mutant in survivors:
        why = EQUIVALENT.get(mutant.key, "")
        report.line(f"  survived: {mutant.module}.py:{mutant.line}: {mutant.text}")
        report.line(f"            {mutant.source}")
        if why:
            report.line(f"            changes no result: {why}")
        else:
            unexplained.append(mutant)
    if left:
        report.note(f"{left} mutants are left: call again")
    tried = max(1, len(run.caught))
    caught = tried - len(survivors)
    real = max(1, caught + len(unexplained))
    report.line(f"\n  {caught} of all {tried} mutants caught: {caught / tried:.1%}")
    report.line(
        f"  {caught} of the {real} that can change a result: {caught / real:.1%} "
        f"({tried - real} cannot, with the reasons above)"
    )
    report.check("share of all mutants caught", caught / tried, 0.9, ">=", "")
    report.check("survivors without a reason", len(unexplained), 0, "<=", "")
    report.check("mutants not tried", left, 0, "<=", "")
    known = {mutant.key for mutant in survivors}
    stale = [] if left else [key for key in EQUIVALENT if key not in known]
    report.check("reasons for mutants that tests catch", len(stale), 0, "<=", "")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())

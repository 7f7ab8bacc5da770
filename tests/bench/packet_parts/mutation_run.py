"""Runs the collected tests for one mutant after another, the likeliest to notice it first."""

from __future__ import annotations

import mmap
import os
import resource
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from packet_parts.mutants import SWITCHES, Mutant, reached
from packet_parts.report import Report

MORE_MEMORY = 2 << 30  # a mutant that fills memory is caught by this
CPU_S, CPU_FACTOR = 1.0, 8.0  # a test may take so much longer than without a mutant
# Tests that take so long without a mutant are tried on each: on one that nothing notices, and on
# one that is said to change no result, which counts as surviving either way.
MOST_CPU_S, EXPLAINED_CPU_S = 6.0, 0.5


class Run:
    """A pytest plugin that runs the collected tests for each of the wanted mutants."""

    def __init__(
        self,
        mutants: Sequence[Mutant],
        wanted: Sequence[bool],
        reasons: Collection[str],
        report: Report,
        between: Callable[[], None],
    ) -> None:
        self.mutants = mutants
        self.sites = [site for site, is_wanted in enumerate(wanted) if is_wanted]
        self.reasons = reasons
        self.report = report
        self.between = between  # called after every test
        self.items: list[pytest.Item] = []
        self.failing: list[str] = []
        self.caught: dict[int, str] = {}  # number of the mutant -> test, "" if none

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Take the time and the reach of every test, then try the mutants."""
        self.items = session.items
        self.report.progress(f"{len(self.mutants)} mutants are compiled where they must be")
        self.failing = [item.nodeid for item in self.items if self._fails(item)]  # compiles
        if self.failing:
            return True
        seconds: list[float] = []
        reach: list[list[int]] = []
        for item in self.items:
            reached()
            began = time.process_time()
            self._fails(item)
            seconds.append(time.process_time() - began)
            reach.append(reached())
        tests_at: dict[int, list[int]] = defaultdict(list)
        for number, sites in enumerate(reach):
            for site in sites:
                tests_at[site].append(number)
        kills: Counter[tuple[str, int]] = Counter()
        for count, site in enumerate(self.sites):
            mutant = self.mutants[site]
            promise = {}  # the more a test noticed and the less it reaches, the more it promises
            for one in tests_at[site]:
                hope = kills[mutant.module, one] + 0.1 + 10 / len(reach[one])
                promise[one] = hope / (seconds[one] + 0.01)
            left = EXPLAINED_CPU_S if mutant.key in self.reasons else MOST_CPU_S
            likely: list[tuple[int, float]] = []
            for one in sorted(promise, key=lambda one: -promise[one]):
                left -= seconds[one]
                if left > 0 or not likely:
                    likely.append((one, seconds[one]))
            killer = self._try(site, likely)
            self.caught[site] = "" if killer < 0 else self.items[killer].nodeid
            if killer >= 0:
                kills[mutant.module, killer] += 1
            if count % 50 == 0:
                self.report.progress(f"{count} of {len(self.sites)} mutants")
        return True

    def _fails(self, item: pytest.Item) -> bool:
        failed = any(report.failed for report in runtestprotocol(item, log=False))
        self.between()
        return failed

    def _try(self, site: int, tests: list[tuple[int, float]]) -> int:
        """Return the number of the test that notices the mutant of this site, -1 for none."""
        at = mmap.mmap(-1, 8)  # shared: the test that runs
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
            for number, seconds in tests:
                at[:8] = number.to_bytes(8, "little")
                signal.setitimer(signal.ITIMER_PROF, CPU_S + CPU_FACTOR * seconds)
                if self._fails(self.items[number]):
                    os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        number = int.from_bytes(at[:8], "little")
        at.close()
        return -1 if status == 0 else number

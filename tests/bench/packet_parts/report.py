"""What a bench prints: a table for people, and one JSON object for machines as the last line."""

from __future__ import annotations

import json
import operator
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OPERATORS = {">=": operator.ge, "<=": operator.le}


@dataclass
class Report:
    """Collects the checks while it prints."""

    bench: str
    checks: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def line(self, text: str = "") -> None:
        print(text, flush=True)

    def progress(self, text: str) -> None:
        """Say on stderr what is being done; one line that is written over on a terminal."""
        passed = time.monotonic() - self.began
        line = f"[{passed:5.0f} s] {text}"
        end = "\r" if sys.stderr.isatty() else "\n"
        print(f"{line:90.90}", end=end, file=sys.stderr, flush=True)

    def title(self, text: str) -> None:
        self.line(f"\n{text}")

    def note(self, text: str) -> None:
        self.notes.append(text)
        self.line(f"  note: {text}")

    def row(self, name: str, ours: float, reference: float, spread: str, verdict: str) -> None:
        self.line(f"  {name:42.42} {ours:>12.6g} {reference:>12.6g}  {spread:26} {verdict}")

    def check(
        self,
        name: str,
        value: float,
        limit: float,
        op: str,
        unit: str,
        *,
        ours: float | None = None,
        reference: float | None = None,
        spread: str = "",
        why: str = "",
    ) -> None:
        """Add one check of `value` against `limit`; `ours` and `reference` are what is shown."""
        good = OPERATORS[op](value, limit)
        mine = value if ours is None else ours
        other = limit if reference is None else reference
        self.checks.append(
            {
                "name": name, "ours": mine, "reference": other,
                "ratio": mine / other if other else None, "op": op, "limit": limit,
                "value": value, "unit": unit, "pass": good, "spread": spread,
            }
        )  # fmt: skip
        verdict = "ok" if good else f"OUTSIDE {op} {limit:g} ({value:.3g})"
        label, _, rest = name.partition(" ")
        short = rest if "/" in label else name
        self.row(short, mine, other, spread, verdict)
        if not good and why:
            self.note(f"{name}: {why}")

    def include(self, argv: Sequence[str]) -> dict[str, Any]:
        """Run a bench in a process of its own, show what it prints and take over its checks.

        Return the JSON object that it ends with; where it has none, that is a check that fails.
        """
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
            last = ""
            for line in child.stdout or ():
                if last:
                    self.line(last.rstrip())
                last = line
        if not last.startswith("{"):
            self.check(f"{Path(argv[1]).stem} came to its end", 0, 1, ">=", "", why=last.strip())
            return {}
        told: dict[str, Any] = json.loads(last)
        self.checks += told["checks"]
        self.notes += told["notes"]
        return told

    def finish(self) -> int:
        """Print the summary and the JSON line; return the exit code."""
        failed = [check["name"] for check in self.checks if not check["pass"]]
        self.line(f"\n{len(self.checks) - len(failed)} of {len(self.checks)} checks hold")
        for name in failed:
            self.line(f"  outside its bound: {name}")
        print(json.dumps({"bench": self.bench, "checks": self.checks, "notes": self.notes}))
        return int(bool(failed))

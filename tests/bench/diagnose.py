"""Bench of the diagnosis: drawn scenarios, streamed over gRPC, held against the planted truth.

Each draw is simulated once. Its telemetry goes to a real tuner service, is read back as `tuner
diagnose` reads it, and is judged by all rules; then the same telemetry again, broken: a fifth of
the hosts silent, ECN marks not counted, rx and tx swapped on one switch, a reset in the middle,
one end of each cable telling. The rule of thumb "blame the port with the largest pause or error
counter" is scored on the place alone, ours on cause and place.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from simlab.scenarios.damage import damage_of, damaged
from simlab.scenarios.draw import Draw
from simlab.scenarios.observe import passes
from simlab.scenarios.registry import FAMILIES, draw
from tests.bench.diagnose_parts.score import (
    CONFIDENT,
    Answer,
    answer,
    baseline_hits,
    calibration,
)
from tests.bench.diagnose_parts.served import Loop, diagnosed

DRAWS = 200
SECTIONS = (
    "link", "config", "flow_control", "balance", "control_loop", "host", "placement", "healthy",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A draw with the answers to its whole and its broken telemetry."""

    draw: Draw
    whole: Answer
    broken: Answer
    baseline: bool

    @property
    def section(self) -> str:
        """Section of the family."""
        return FAMILIES[self.draw.family].section


def ask(loop: Loop, name: str, seed: int) -> Row:
    """Simulate a draw and have it diagnosed twice."""
    drawn = draw(name, seed)
    start_ns = time.time_ns() - round(drawn.plan.config.duration_s * 1e9)
    seen = list(passes(drawn, start_ns=start_ns))
    window, diagnosis = diagnosed(loop, seen)
    rng = Random(f"damage {name} {seed}")
    left = list(damaged(seen, damage_of(drawn, rng), rng))
    _, again = diagnosed(loop, left)
    return Row(drawn, answer(drawn, diagnosis), answer(drawn, again), baseline_hits(drawn, window))


def share(rows: Sequence[Row], what: str, part: str = "whole") -> float:
    """Return the share of rows of which an answer has a property, 1 where there are none."""
    values = [getattr(getattr(row, part), what) for row in rows]
    return sum(values) / len(values) if values else 1.0


def table(rows: Sequence[Row]) -> None:
    """Print one line a section."""
    heads = ("top-1", "top-3", "baseline", "broken top-1")
    print(f"\n{'section':14} {'draws':>5}", "{:>7} {:>7} {:>9} {:>13}".format(*heads))
    for section in (*SECTIONS, "all faulty"):
        mine = [row for row in rows if row.section == section]
        if section == "all faulty":
            mine = [row for row in rows if row.draw.truths]
        if not mine:
            continue
        if section == "healthy":
            quiet, left = 1 - share(mine, "alarm"), 1 - share(mine, "alarm", "broken")
            print(f"{section:14} {len(mine):5} {quiet:7.1%} quiet {left:22.1%} quiet")
            continue
        base = sum(row.baseline for row in mine) / len(mine)
        print(
            f"{section:14} {len(mine):5} {share(mine, 'first'):7.1%} {share(mine, 'three'):7.1%} "
            f"{base:9.1%} {share(mine, 'first', 'broken'):13.1%}"
        )


def misses(rows: Sequence[Row], part: str) -> None:
    """List every draw that was not answered rightly."""
    print(f"\nmisses, {part} telemetry:")
    by: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        got: Answer = getattr(row, part)
        wrong = not got.first or not got.three if row.draw.truths else got.alarm
        if wrong:
            by[row.draw.family].append(row)
    for family, found in by.items():
        causes = " + ".join("|".join(truth.causes) for truth in found[0].draw.truths) or "nothing"
        print(f"  {family}: expected {causes}")
        for row in found:
            got = getattr(row, part)
            kind = "not first" if got.three and row.draw.truths else ""
            print(f"    seed {row.draw.seed} {kind}: {'; '.join(got.got) or 'nothing found'}")


def main() -> int:
    """Draw, ask, print, and end with the goals as one JSON object."""
    parser = argparse.ArgumentParser(description="diagnosis against planted truth")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--family", action="append", help="only these, by the start of the name")
    options = parser.parse_args()
    names = [
        name
        for name in FAMILIES
        if not options.family or any(name.startswith(text) for text in options.family)
    ]
    loop = Loop()
    rows: list[Row] = []
    began, cpu = time.monotonic(), time.process_time()
    for number in range(options.draws):
        name = names[number % len(names)]
        rows.append(ask(loop, name, options.seed * 1000 + number // len(names)))
        if sys.stderr.isatty():
            print(f"\r{number + 1}/{options.draws} {name:40}", end="", file=sys.stderr, flush=True)
    loop.close()
    table(rows)
    misses(rows, "whole")
    misses(rows, "broken")
    faulty = [row for row in rows if row.draw.truths]
    healthy = [row for row in rows if not row.draw.truths]
    checks = goals(faulty, healthy)
    took = f"{time.monotonic() - began:.0f} s, {time.process_time() - cpu:.0f} CPU-s"
    notes = [
        f"seed {options.seed}, {len(rows)} draws over {len(names)} families in {took}",
        "top-3: every planted fault is among the first three findings above info",
        "the baseline is scored on the place alone",
    ]
    print(json.dumps({"bench": "diagnose", "checks": checks, "notes": notes}))
    return 0


def goals(faulty: Sequence[Row], healthy: Sequence[Row]) -> list[dict[str, object]]:
    """Print how stated confidence holds, and return every goal of the issue."""
    first, base = share(faulty, "first"), sum(r.baseline for r in faulty) / max(1, len(faulty))
    for part in ("whole", "broken"):
        print(f"\nconfidence of the first finding, {part} telemetry, faulty draws:")
        print(f"  {'stated':>9} {'answers':>8} {'mean':>6} {'right':>6}")
        for band, count, stated, right in calibration(
            [(row.draw, getattr(row, part)) for row in faulty]
        ):
            print(f"  {band:>9} {count:8} {stated:6.2f} {right:6.2f}")
    sure = [row.broken for row in faulty if (row.broken.stated or 0) >= CONFIDENT]
    stated = sum(one.stated or 0 for one in sure) / max(1, len(sure))
    right = sum(one.first for one in sure) / max(1, len(sure))

    def goal(name: str, ours: float, reference: float, op: str, limit: float) -> dict[str, object]:
        value = ours - reference if "points" in name or "minus" in name else ours
        return {
            "name": name, "ours": round(ours, 4), "reference": round(reference, 4),
            "ratio": round(value, 4), "op": op, "limit": limit, "unit": "share of draws",
        }  # fmt: skip

    return [
        goal("top-1 cause and place, faulty draws", first, 1.0, ">=", 0.90),
        goal("top-3 cause and place, faulty draws", share(faulty, "three"), 1.0, ">=", 0.97),
        goal(
            "healthy draws without a finding above info",
            1 - share(healthy, "alarm"),
            1.0,
            ">=",
            0.95,
        ),
        goal("points over the largest counter", first, base, ">=", 0.30),
        goal("top-1 with broken telemetry", share(faulty, "first", "broken"), 1.0, ">=", 0.75),
        goal(f"broken: right minus stated where stated >= {CONFIDENT}", right, stated, ">=", -0.10),
    ]


if __name__ == "__main__":
    sys.exit(main())

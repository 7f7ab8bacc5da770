"""./run bench science: the models beside the published numbers that they must meet.

Every line is one comparison: ours, the published value, what is held against the bound. The
last line is one JSON object. Values outside their bound stay in the list, with the reason.
`./run bench science PART...` runs some parts: dcqcn buffers ecmp estimators speed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict

from tests.bench.science_parts import (
    buffers,
    dcqcn,
    ecmp,
    estimators,
    estimators_packet,
    speed,
)
from tests.bench.science_parts.check import Check


def show(part: str, checks: Iterable[Check]) -> list[Check]:
    """Print the checks of one part as they come and return them."""
    print(f"\n{part}\n{'':4} {'what':66} {'ours':>11} {'published':>11} {'held':>9}   bound")
    done = []
    for check in checks:
        verdict = "ok" if check.passes else "FAIL"
        bound = f"{check.op} {check.limit:g} {check.unit}"
        print(
            f"{verdict:4} {check.name:66} {check.ours:11.5g} {check.reference:11.5g} "
            f"{check.ratio:9.3g}   {bound}",
            flush=True,
        )
        if check.reason and not check.passes:
            print(f"{'':4}   reason: {check.reason}")
        done.append(check)
    return done


def main() -> int:
    """Run the parts; exit 0 whatever fails: the numbers are the result."""
    notes: list[str] = []
    parts = {
        "dcqcn": dcqcn.checks,
        "buffers": buffers.checks,
        "ecmp": ecmp.checks,
        "estimators": estimators.checks,
        "packets": estimators_packet.checks,
        "speed": lambda: speed.checks(notes),
    }
    unknown = [name for name in sys.argv[1:] if name not in parts]
    if unknown:
        print(f"no part {unknown[0]!r}; known: {', '.join(parts)}", file=sys.stderr)
        return 2
    done: list[Check] = []
    for name in sys.argv[1:] or parts:
        done += show(name, parts[name]())
    if "ecmp" in (sys.argv[1:] or parts):
        notes.append(ecmp.noise_note())
    failing = [check for check in done if not check.passes]
    print(f"\n{len(done) - len(failing)} of {len(done)} comparisons within their bound")
    notes += [f"{check.name}: {check.reason}" for check in failing if check.reason]
    rows = []
    for check in done:
        row = asdict(check)
        del row["reason"]
        rows.append(row)
    print("\n".join(notes))
    print(json.dumps({"bench": "science", "checks": rows, "notes": notes}, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The packet simulator: agreement with two public simulators, speed, scale, closed forms, mutants.

./run bench packet [SECTION...]; without a section all of them run. `compare=TEXT` takes only the
scenarios whose name contains the text.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from packet_parts.compare import compare, truncation
from packet_parts.extra import infiniband, recovery, scale
from packet_parts.report import Report
from packet_parts.speed import speed


def replay(report: Report) -> None:
    """Run the reference's scenarios with its own random numbers, in its own order of events."""
    report.title("the same random numbers, in the same order of events")
    report.include([sys.executable, str(Path(__file__).with_name("packet_replay.py"))])


def mutation(report: Report) -> None:
    """Run the mutants in a process of their own: they replace the model's modules."""
    report.title("mutation of every constant and comparison of the model")
    report.include([sys.executable, str(Path(__file__).with_name("packet_mutation.py"))])


SECTIONS = {
    "compare": compare,
    "replay": replay,
    "truncation": truncation,
    "speed": speed,
    "scale": scale,
    "infiniband": infiniband,
    "recovery": recovery,
    "mutation": mutation,
}


def main() -> int:
    """Run the sections asked for."""
    chosen = sys.argv[1:] or list(SECTIONS)
    unknown = [name for name in chosen if name.split("=")[0] not in SECTIONS]
    if unknown:
        print(f"no section {unknown[0]!r}; known: {', '.join(SECTIONS)}", file=sys.stderr)
        return 2
    report = Report("packet")
    took = []
    for name in chosen:
        section, _, argument = name.partition("=")
        report.progress(f"section {section}")
        began = time.monotonic()
        if argument:
            SECTIONS[section](report, argument)  # type: ignore[call-arg]
        else:
            SECTIONS[section](report)
        took.append(f"{section} {time.monotonic() - began:.0f}")
    report.note(f"seconds: {', '.join(took)}")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())

"""The packet simulator: agreement with two public simulators, speed, scale and closed forms.

./run bench packet [SECTION...]; without a section all of them run.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from packet_parts.compare import compare, truncation
from packet_parts.extra import infiniband, recovery, scale
from packet_parts.report import Report
from packet_parts.speed import speed

SECTIONS = {
    "compare": compare,
    "truncation": truncation,
    "speed": speed,
    "scale": scale,
    "infiniband": infiniband,
    "recovery": recovery,
}


def main() -> int:
    """Run the sections asked for."""
    chosen = sys.argv[1:] or list(SECTIONS)
    unknown = [name for name in chosen if name.split("=")[0] not in SECTIONS]
    if unknown:
        print(f"no section {unknown[0]!r}; known: {', '.join(SECTIONS)}", file=sys.stderr)
        return 2
    report = Report("packet")
    for name in chosen:
        section, _, argument = name.partition("=")
        if argument:
            SECTIONS[section](report, argument)  # type: ignore[call-arg]
        else:
            SECTIONS[section](report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())

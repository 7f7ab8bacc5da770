"""The table of root causes R1 to R58: which rule answers each, and what the rest would need.

`rules_document` writes RULES.md from it and from the registry; a test keeps the two equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from tuner.diagnosis.rule import AnyRule, HostRule

CAUSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "R1": "pauses without marks: ECN off at the queue, or senders without ECT",
        "R2": "pauses before marks: Kmin above the PFC threshold",
        "R3": "pauses and marks: sustained incast or start bursts",
        "R4": "marked packets and no CNPs: notification point off",
        "R5": "slow receiver: PCIe, memory translation, NUMA",
        "R6": "RDMA loopback inside hosts",
        "R7": "PFC storm of one NIC",
        "R8": "PFC deadlock",
        "R9": "PFC watchdog fired, or falsely",
        "R10": "go-back-N livelock",
        "R11": "reordering without loss",
        "R12": "lossy queue overflows: class not lossless at a hop",
        "R13": "RoCE in the default class: DSCP, trust or map",
        "R14": "headroom too small",
        "R15": "shared buffer pool exhausted",
        "R16": "timeouts: tail loss, black hole, timeout too short",
        "R17": "one NIC or cable down or flapping",
        "R18": "one bad member of an ECMP group",
        "R19": "receiver not ready",
        "R20": "CNPs lost on the way",
        "R21": "CNPs ignored",
        "R22": "senders throttled too far",
        "R23": "slow recovery at high speed",
        "R24": "unstable control loop",
        "R25": "queue at Kmax: Pmax too low",
        "R26": "more flows than CNPs can rule",
        "R27": "hash collisions",
        "R28": "hash polarised between tiers",
        "R29": "paths pinned: the hash sees too little",
        "R30": "unequal capacity after a failure",
        "R31": "link degrades: error correction, symbol errors",
        "R32": "link slower or narrower than it should be",
        "R33": "MACsec beside PFC",
        "R34": "PFC priorities differ end to end",
        "R35": "802.3x pause instead of PFC",
        "R36": "victims of somebody else's pauses",
        "R37": "congestion leaking inside a NIC",
        "R38": "one operation per round trip",
        "R39": "packets without ECT dropped in an ECN queue",
        "R40": "MTU mismatch",
        "R41": "completion side of a host is slow",
        "R42": "responder delay of a host",
        "R43": "oversubscription and placement",
        "R44": "straggler host",
        "R45": "adaptive retransmission off",
        "R46": "slow restart throttles bursts",
        "R47": "unequal buffer share by tier",
        "R48": "lossless class shared with other traffic",
        "R49": "clear-to-send messages behind the data",
        "R50": "InfiniBand: slow adapter",
        "R51": "InfiniBand: hot link by static routing",
        "R52": "InfiniBand: starved virtual lane",
        "R53": "InfiniBand: discards after the head-of-queue lifetime",
        "R54": "InfiniBand: bad cable",
        "R55": "InfiniBand: congestion control too eager",
        "R56": "acknowledgements lost",
        "R57": "NIC buffer overflows without PFC",
        "R58": "periodic low-rate pauses",
    }
)

NOT_FED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "R33": "whether a link runs MACsec: no collector reads the state of MACsec",
        "R37": "rates of single flows on both ends, to hold against a max-min fair share; counters "
        "by queue pair exist for a few drivers only",
        "R38": "round-trip time and outstanding requests by queue pair",
        "R41": "time stamps of posting and completion of single messages",
        "R42": "time stamps of a probe at the responder (arrival and answer)",
        "R44": "begin and end of each step by rank, from the communication library or the job",
    }
)
"""Causes that no collector feeds, with what they would need."""


def rules_document(rules: Iterable[AnyRule]) -> str:
    """Return RULES.md: coverage of the causes, then the contract of every rule."""
    known = sorted(rules, key=lambda rule: rule.id)
    lines = ["# Rules of the diagnosis", ""]
    lines += [
        "Written from the registry by `python -m tuner.diagnosis.coverage`; do not edit by hand.",
        "",
        "## Root causes and the rules that name them",
        "",
        "| cause | what | rules |",
        "|---|---|---|",
    ]
    for number, what in CAUSES.items():
        named = [f"`{rule.id}`" for rule in known if number in rule.answers]
        lines.append(f"| {number} | {what} | {', '.join(named) or 'none, see below'} |")
    lines += ["", "## Causes that nothing feeds yet", "", "| cause | what it lacks |", "|---|---|"]
    lines += [f"| {number} {CAUSES[number]} | {lack} |" for number, lack in NOT_FED.items()]
    lines += ["", "## Rules", ""]
    for rule in known:
        where = ", one host is enough" if isinstance(rule, HostRule) else ""
        causes = f" ({', '.join(rule.answers)})" if rule.answers else ""
        lines += [
            f"### `{rule.id}`: {rule.title}{causes}",
            "",
            f"Section {rule.section}{where}.",
            "",
            f"- Finds: {rule.finds}.",
            f"- Quiet when: {rule.quiet_when}.",
            f"- Cannot tell when: {rule.cannot_tell_when}.",
            f"- Refuted when: {rule.refutes}.",
            "",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    from tuner.diagnosis.registry import RULES

    print(rules_document(RULES), end="")

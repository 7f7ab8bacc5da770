"""opensm.conf: the lines that recommendations ask for, and the diff to a file that exists.

Option names: OpenSM 3.3 (`opensm -c`). What one OpenSM lacks it names at start and goes on.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from collectors.model.facts import Value
from collectors.model.printable import printable
from tuner.advice.knobs.infiniband import CC_THRESHOLD
from tuner.advice.plan import Step
from tuner.render.form import Change, Renderer

Lines = tuple[tuple[str, str], ...]


def _routing(value: Value) -> Lines:
    return (("routing_engine", str(value)),)


def _adaptive(value: Value) -> Lines:
    """An engine that only NVIDIA's OpenSM has, with those that take over elsewhere."""
    return (("routing_engine", f"{value},updn,minhop"),)


def _quality_of_service(value: Value) -> Lines:
    return (("qos", str(value)),)


def _congestion(value: Value) -> Lines:
    """Congestion control with the values to begin a sweep from (LLNL opensm-cc-optimizer).

    Marks from half the buffer on, and then every packet: of LLNL's marking rates, the one that
    holds spreading congestion back soonest in the packet simulator, without a cost to calm traffic.
    """
    return (
        ("congestion_control", str(value)),
        # threshold, packet size and marking rate are valid; masks and credit starvation are not
        ("cc_sw_cong_setting_control_map", "0x14"),
        *_threshold(CC_THRESHOLD),
        ("cc_sw_cong_setting_packet_size", "1"),
        ("cc_sw_cong_setting_marking_rate", "0"),
        ("cc_ca_cong_setting_port_control", "0x0001"),
        ("cc_ca_cong_setting_control_map", "0x0001"),
        ("cc_ca_cong_setting_ccti_timer", "0 64"),
        ("cc_ca_cong_setting_ccti_increase", "0 1"),
        ("cc_ca_cong_setting_trigger_threshold", "0 1"),
        ("cc_ca_cong_setting_ccti_min", "0 0"),
        ("cc_cct", ",".join(f"0:{delay}" for delay in control_table())),
    )


def control_table(entries: int = 128) -> tuple[int, ...]:
    """Return a table of injection delays that grows with the square of its index (LLNL)."""
    return tuple(round(i * i * 7 / 95**2 / 0.408) for i in range(entries))


def _threshold(value: Value) -> Lines:
    return (("cc_sw_cong_setting_threshold", f"0x{int(str(value)):02x}"),)


def _marking(value: Value) -> Lines:
    return (("cc_sw_cong_setting_marking_rate", str(int(str(value)))),)


def _hoq(value: Value) -> Lines:
    code = f"0x{int(str(value)):02x}"
    return (("leaf_head_of_queue_lifetime", code), ("head_of_queue_lifetime", code))


def _arbitration(value: Value) -> Lines:
    lane = re.search(r"lane (\d+)", str(value))
    number = int(lane[1]) if lane else 0
    low = ",".join(f"{vl}:64" for vl in range(max(number + 1, 4)))
    return (("qos", "TRUE"), ("qos_high_limit", "4"), ("qos_vlarb_low", low))


OPTIONS: Final[Mapping[str, Callable[[Value], Lines]]] = MappingProxyType(
    {
        "opensm_routing_engine": _routing,
        "opensm_adaptive_routing": _adaptive,
        "opensm_qos": _quality_of_service,
        "opensm_congestion_control": _congestion,
        "opensm_cc_threshold": _threshold,
        "opensm_cc_marking_rate": _marking,
        "opensm_hoq_lifetime": _hoq,
        "opensm_vl_arbitration": _arbitration,
    }
)
"""Knob -> options of opensm.conf."""


def opensm_lines(steps: Iterable[Step]) -> dict[str, tuple[str, str]]:
    """Return option -> (value, why); the earlier step wins an option."""
    made: dict[str, tuple[str, str]] = {}
    for step in steps:
        write = OPTIONS.get(step.knob)
        for option, value in write(step.proposed) if write else ():
            made.setdefault(option, (value, printable(f"{step.recommendation}: {step.summary}")))
    return made


def render_opensm(steps: Iterable[Step]) -> str:
    """Write the fragment of an opensm.conf; '' where nothing is for the subnet manager."""
    text, last = "", ""
    for option, (value, why) in opensm_lines(steps).items():
        if why != last:
            text += f"# {why}\n"
            last = why
        text += f"{option} {value}\n"
    return text


def merge_opensm(current: str, steps: Iterable[Step]) -> str:
    """Return an opensm.conf with the recommended options set, everything else as it was."""
    wanted = opensm_lines(steps)
    lines, done = [], set()
    for line in current.splitlines():
        option = line.split(None, 1)[0] if line.strip() and not line.startswith("#") else ""
        if option in wanted:
            lines.append(f"{option} {wanted[option][0]}")
            done.add(option)
        else:
            lines.append(line)
    for option, (value, why) in wanted.items():
        if option not in done:
            lines += [f"# {why}", f"{option} {value}"]
    return "\n".join(lines) + "\n" if lines else ""


def diff_opensm(current: str, steps: Iterable[Step], name: str) -> str:
    """Return the unified diff from an opensm.conf to the recommended one, '' where none."""
    after = merge_opensm(current, steps)
    return "".join(
        difflib.unified_diff(
            current.splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"{name} (now)",
            f"{name} (recommended)",
        )
    )


def write(change: Change) -> str:
    """Return the fragment to merge, and on the way back how to take it out."""
    if change.way == "apply":
        return render_opensm(change.device.steps)
    names = list(opensm_lines(change.device.steps))
    return "".join(f"# take out, or set to its former value: {name}\n" for name in names)


def verify(change: Change) -> str:
    """Return the commands that show what the subnet manager made of it."""
    text = "grep -E 'SUBNET UP|Unrecognized|invalid' /var/log/opensm.log | tail\n"
    for step in change.device.steps:
        if step.knob in ("opensm_routing_engine", "opensm_adaptive_routing"):
            text += "ibdiagnet --routing; iblinkinfo -l | head\n"
        if step.knob == "opensm_vl_arbitration":
            text += "smpquery vlarb LID PORT\n"
        if step.knob == "opensm_qos":
            text += "smpquery sl2vl LID PORT\n"
    return "".join(dict.fromkeys(line + "\n" for line in text.splitlines()))


RENDERER: Final = Renderer(
    "opensm",
    "host",
    write,
    verify,
    "#",
    "opensm.conf",
    before="# keep the former file: cp /etc/opensm/opensm.conf /etc/opensm/opensm.conf.before\n"
    "# merge these lines into it, on every standby, too; then: kill -HUP $(pidof opensm)\n",
    undo_before="# all at once: cp /etc/opensm/opensm.conf.before /etc/opensm/opensm.conf\n",
)

"""Whole cases to and from the HPCC and conweave simulators: config, topology and flows together."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

from collectors.model.errors import Malformed, Unavailable
from simlab.packet import hpcc_files
from simlab.packet.config import Plan
from simlab.packet.limits import LONGEST_S


def import_config(
    path: Path, *, conweave: bool, topology: Path | None = None, flows: Path | None = None
) -> dict[str, Any]:
    """Return the configuration of `simlab packet run` for a config file as it is.

    The files that it names are looked for beside it, unless given. Malformed or NotSupported name
    the key that is wrong or asks for what we do not simulate; Unavailable a file that is missing.
    """
    where = str(path)
    text = hpcc_files.read_text(path)
    hpcc_files.parse_config(text, conweave=conweave, where=where)
    keys = hpcc_files.config_keys(text)
    plan: dict[str, Any] = {
        "name": path.stem,
        "duration_s": _duration_s(keys, where),
        "topology": {"kind": "file", "path": _file(keys, "TOPOLOGY_FILE", topology, path)},
        "workload": {
            "kind": "file", "path": _file(keys, "FLOW_FILE", flows, path), "conweave": conweave,
        },
        "reference_config": str(path.resolve()),
        "conweave": conweave,
    }  # fmt: skip
    cables = hpcc_files.parse_topology(
        hpcc_files.read_text(Path(plan["topology"]["path"])), where
    ).cables
    events = []
    try:
        lost = float(keys.get("ERROR_RATE_PER_LINK", ["0"])[0])
        moment, a, b = (float(word) for word in keys.get("LINK_DOWN", ["0", "0", "0"])[:3])
    except (ValueError, IndexError):
        lost = moment = a = b = math.nan
    if not all(map(math.isfinite, (lost, moment, a, b))):
        raise Malformed(where, "LINK_DOWN or ERROR_RATE_PER_LINK", "not numbers")
    if lost > 0:
        numbers = range(len(cables))
        events = [{"at_s": 0.0, "what": "error_rate", "cable": i, "value": lost} for i in numbers]
    if a != b:
        found = [i for i, one in enumerate(cables) if {one.a, one.b} == {int(a), int(b)}]
        if not found:
            raise Malformed(where, "LINK_DOWN", f"no link joins {a:.0f} and {b:.0f}")
        events.append({"at_s": moment * 1e-6, "what": "link_down", "cable": found[0], "value": 0})
    return plan | ({"events": events} if events else {})


def _duration_s(keys: dict[str, list[str]], where: str) -> float:
    """HPCC says when it stops; conweave runs until all flows are done."""
    words = keys.get("SIMULATOR_STOP_TIME", [])
    if not words:
        return LONGEST_S
    try:
        duration = float(words[0]) - hpcc_files.BASE_S
    except ValueError:
        duration = math.nan
    if not 0 < duration < math.inf:
        why = f"{words[0]!r} is no time after {hpcc_files.BASE_S:g} s, where traffic begins"
        raise Malformed(where, "SIMULATOR_STOP_TIME", why)
    return min(duration, LONGEST_S)


def _file(keys: dict[str, list[str]], key: str, given: Path | None, config: Path) -> str:
    if given is None:
        if not keys.get(key):
            raise Malformed(str(config), key, "missing")
        given = config.parent / keys[key][0]
        if not given.exists():
            option = "--topology" if key == "TOPOLOGY_FILE" else "--flows"
            raise Unavailable(str(given), key, f"no such file; say where it is with {option}")
    return str(given.resolve())


def export_plan(plan: Plan, folder: Path, *, conweave: bool) -> tuple[list[Path], list[str]]:
    """Write config, topology and flows of a plan; return the files and what they cannot say.

    Unavailable where the folder takes no files.
    """
    name = plan.config.name
    files = {
        f"{name}.config": hpcc_files.format_config(
            plan.model, name, conweave=conweave, duration_s=plan.config.duration_s
        ),
        f"{name}.topology": hpcc_files.format_topology(plan.topology),
        f"{name}.flows": hpcc_files.format_flows(plan.traffic, conweave=conweave),
    }
    if not conweave:
        files[f"{name}.trace"] = "0\n"  # no node is traced
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / file).write_text(text)
    except OSError as error:
        raise Unavailable(str(folder), "write", error.strerror or str(error)) from None
    return [folder / file for file in files], _losses(plan, files[f"{name}.config"], conweave)


def _losses(plan: Plan, config: str, conweave: bool) -> list[str]:
    """Say what of a plan its files do not, by reading them back."""
    model, back = plan.model, hpcc_files.parse_config(config, conweave=conweave)
    waiting = sum(bool(one.after or one.gates) for one in plan.traffic.messages)
    losses = ["UDP ports: the simulator numbers them itself, so flows may take other paths"]
    if waiting:
        losses.append(f"dependencies: {waiting} messages that wait for others start at once")
    if plan.events:
        losses.append(f"{len(plan.events)} events")
    if back.balancing.spread is not model.balancing.spread:
        losses.append(f"balancing: {model.balancing.spread.value}")
    ours, theirs = model.congestion.dcqcn, back.congestion.dcqcn
    other = [
        field.name
        for field in dataclasses.fields(ours)
        if not _alike(getattr(ours, field.name), getattr(theirs, field.name))
    ]
    if other:
        losses.append(f"DCQCN: {', '.join(other)}")
    return losses


def _alike(a: float | None, b: float | None) -> bool:
    return a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-6))

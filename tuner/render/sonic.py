"""SONiC: a JSON patch (RFC 6902) of config_db.json, and the command line where it has commands.

The patch is the difference between the rows of the two states; undo is the difference back.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from collectors.model.entities import Interface
from tuner.render.form import Change, Renderer, on
from tuner.render.sonic_rows import SHARED, Row, Rows, rows_of, rows_read

Operation: TypeAlias = dict[str, object]


def patch(change: Change) -> list[Operation]:
    """Return the operations of RFC 6902 that lead from one state to the other."""
    old, new = rows_of(change)
    there = rows_read(change)
    if change.way == "undo":  # what the way there has made is there now
        for (table, key), row in old.items():
            if row:
                there.setdefault(table, set()).add(key)
    return [*_additions(old, new, there), *_removals(old, new, rows_read(change), change)]


def _additions(old: Rows, new: Rows, there: dict[str, set[str]]) -> Iterator[Operation]:
    tables = set(there)
    for (table, key), row in _users_last(new):
        if not row:
            continue
        if table not in tables:
            yield _operation("add", {}, table)
            tables.add(table)
        if key not in there.get(table, set()):
            yield _operation("add", row, table, key)
            continue
        former = old.get((table, key), {})
        for field, value in row.items():
            if former.get(field) != value:
                yield _operation("add", value, table, key, field)


def _removals(
    old: Rows, new: Rows, original: dict[str, set[str]], change: Change
) -> Iterator[Operation]:
    """Yield what goes: fields, and on the way back the rows that the way there has made."""
    for (table, key), row in reversed(list(_users_last(old))):
        if change.way == "undo" and row and key not in original.get(table, set()):
            yield _operation("remove", None, table, key)
            continue
        for field in row:
            if field not in new.get((table, key), {}):
                yield _operation("remove", None, table, key, field)


def _users_last(rows: Rows) -> Iterator[tuple[tuple[str, str], Row]]:
    """Yield profiles and maps before the rows that refer to them."""
    users = {shared.user for shared in SHARED}
    yield from ((key, row) for key, row in rows.items() if key[0] not in users)
    yield from ((key, row) for key, row in rows.items() if key[0] in users)


def _operation(kind: str, value: object, *path: str) -> Operation:
    pointer = "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)
    operation: Operation = {"op": kind, "path": pointer}
    return operation if kind == "remove" else operation | {"value": value}


def fragment(change: Change) -> dict[str, dict[str, Row]]:
    """Return the rows to merge into a CONFIG_DB of which nothing was read."""
    config: dict[str, dict[str, Row]] = {}
    for (table, key), row in _users_last(rows_of(change)[1]):
        if row:
            config.setdefault(table, {})[key] = row
    return config


def files(change: Change) -> dict[str, str]:
    """Return the patch as a file; a fragment to merge where nothing was read to patch."""
    if rows_read(change):
        return {f"{change.way}.patch.json": json.dumps(patch(change), indent=1) + "\n"}
    config = fragment(change)
    return {f"{change.way}.config_db.json": json.dumps(config, indent=1) + "\n"} if config else {}


def write(change: Change) -> str:
    """Return the commands: the patch, and below it the same one by one where SONiC can."""
    if not rows_read(change):
        if change.way == "undo":
            made = any(rows_of(change)[0].values())
            return "sudo config rollback fabric-tuner-before\n" if made else ""
        return f"sudo config load -y {change.way}.config_db.json\n" if fragment(change) else ""
    if not patch(change):
        return ""
    text = f"sudo config apply-patch {change.way}.patch.json\n"
    lines = list(dict.fromkeys(_commands(change)))
    if lines:
        text += "# What of it SONiC's command line can do, one by one:\n"
    return text + "".join(f"# sudo {line}\n" for line in lines)


def _commands(change: Change) -> Iterable[str]:
    """Yield what SONiC's command line has commands for."""
    _, new = rows_of(change)
    for (table, key), row in new.items():
        match table:
            case "WRED_PROFILE" if "green_min_threshold" in row:
                yield (
                    f"ecnconfig -p {key} -gmin {row['green_min_threshold']} "
                    f"-gmax {row.get('green_max_threshold')} "
                    f"-gdrop {row.get('green_drop_probability')}"
                )
            case "PORT":
                yield from _port_commands(key, row)
            case "SWITCH_HASH":
                for field in ("ecmp_hash", "ecmp_hash_algorithm"):
                    value = row.get(field)
                    words = " ".join(value) if isinstance(value, list) else value
                    if words:
                        yield f"config switch-hash global {field.replace('_', '-')} {words}"
            case "PFC_WD" if "detection_time" in row:
                yield (
                    f"pfcwd start --action {row.get('action', 'drop')} ports {key} "
                    f"detection-time {row['detection_time']} "
                    f"--restoration-time {row.get('restoration_time', row['detection_time'])}"
                )
            case "PFC_WD" if "POLL_INTERVAL" in row:
                yield f"pfcwd interval {row['POLL_INTERVAL']}"
    for port in change.places("pfc_priorities"):
        former = change.before.get((port, "pfc_priorities"), ())
        was = on(former) if isinstance(former, tuple) else []
        wanted = on(change.row(port, "pfc_priorities"))
        for priority in range(8):
            if isinstance(port, Interface) and (priority in was) != (priority in wanted):
                state = "on" if priority in wanted else "off"
                yield f"config interface pfc priority {port.name} {priority} {state}"


def _port_commands(port: str, row: Row) -> Iterator[str]:
    for field in ("mtu", "speed", "fec"):
        if field in row:
            yield f"config interface {field} {port} {row[field]}"
    if "admin_status" in row:
        yield f"config interface {'startup' if row['admin_status'] == 'up' else 'shutdown'} {port}"


def verify(change: Change) -> str:
    """Return the commands that show what was changed."""
    lines = [
        f"sonic-db-cli CONFIG_DB hgetall {shlex.quote(f'{t}|{k}')}" for t, k in rows_of(change)[1]
    ]
    if change.places("kmin_bytes", "kmax_bytes", "pmax_ratio", "ecn_enabled"):
        lines.append("ecnconfig -l")
    if change.places("pfc_priorities"):
        lines.append("show pfc priority")
    if change.places("pfc_watchdog_enabled", "pfc_watchdog_detection_seconds"):
        lines.append("show pfcwd config")
    if change.places("ecmp_hash_fields", "ecmp_hash_algorithm"):
        lines.append("show switch-hash global")
    return "".join(f"{line}\n" for line in lines)


RENDERER: Final = Renderer(
    "sonic",
    "switch",
    write,
    verify,
    "#",
    "sonic.sh",
    before="sudo config checkpoint fabric-tuner-before\n",
    after="# when the checks hold: sudo config save -y\n",
    undo_before="# or all at once: sudo config rollback fabric-tuner-before\n",
    files=files,
)

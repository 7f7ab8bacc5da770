"""Arista EOS: commands of configuration mode, interface by interface."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from collectors.model.entities import Entity, Interface, Slot, Switch, display
from tuner.render.form import Change, Renderer, anywhere, on, percent, port_of, remark

_MARKING: Final = ("ecn_enabled", "kmin_bytes", "kmax_bytes", "pmax_ratio", "ecn_average_weight")
_TIMES: Final = ("pfc_watchdog_detection_seconds", "pfc_watchdog_restoration_seconds")
_PROFILED: Final = (*_MARKING, "pfc_priorities", "trust", "scheduler", "scheduler_weight")
_QUEUE: Final = (*_MARKING, "ecn_counting_enabled", "scheduler", "scheduler_weight")


def write(change: Change) -> str:
    """Return the commands."""
    text = "".join(_map(change)) + "".join(_hash(change)) + "".join(_poll(change))
    text += "".join(_profiles(change)) if change.way == "apply" else ""
    for port in dict.fromkeys(filter(None, (port_of(place) for place, _ in change.keys))):
        lines = [*_interface(change, port)]
        for slot in change.slots(port, "queue"):
            inner = _queue(change, slot)
            if inner:
                lines += [f"uc-tx-queue {slot.index}", *(f"   {line}" for line in inner)]
        if lines:
            text += f"interface {port.name}\n" + "".join(f"   {line}\n" for line in lines)
    return text


def _profiles(change: Change) -> Iterator[str]:
    """Yield what to know of settings that stand in a qos profile, which ports share."""
    users: dict[str, set[str]] = {}
    for row in change.device.settings:
        port = port_of(row.entity)
        if port is not None and row.name in _PROFILED:
            users.setdefault(row.where, set()).add(port.name)
    for place, name in change.keys:
        where = change.where(place, name)
        ports = users.get(where, set())
        if where and name in _PROFILED and len(ports) > 1:
            yield remark(
                "!",
                f"{name} of {display(place)} stands in a qos profile ({where}) that {len(ports)} "
                "ports use: change it there for all, or take the port off the profile first",
            )


def _or_no(change: Change, place: Entity, name: str, line: str) -> list[str]:
    """Return the line where the setting shall have a value, `no` and its first words where not."""
    if not change.changed(place, name):
        return []
    return [line] if (place, name) in change.after else [f"no {line.partition(' None')[0]}"]


def _interface(change: Change, port: Interface) -> list[str]:
    speed = change.whole(port, "speed_bps")
    lines = _or_no(change, port, "mtu_bytes", f"mtu {change.whole(port, 'mtu_bytes')}")
    gigabits = None if speed is None else speed // 10**9
    lines += _or_no(change, port, "speed_bps", "speed None" if not speed else f"speed {gigabits}g")
    fec = change.text(port, "fec") or None
    lines += _or_no(change, port, "fec", f"error-correction encoding {fec}")
    if change.changed(port, "admin_enabled"):
        lines.append("shutdown" if change.flag(port, "admin_enabled") is False else "no shutdown")
    trust = {"pcp": "cos", "": None}.get(word := change.text(port, "trust"), word)
    lines += _or_no(change, port, "trust", f"qos trust {trust}")
    if change.changed(port, "pfc_mode", "pfc_priorities"):
        lines += _flow_control(change, port)
    lines += _watchdog(change, port)
    return lines


def _flow_control(change: Change, port: Interface) -> list[str]:
    wanted = on(change.row(port, "pfc_priorities"))
    former = change.before.get((port, "pfc_priorities"), ())
    mode = change.text(port, "pfc_mode") or ("on" if wanted else "off")
    lines = ["priority-flow-control on" if mode == "on" else "no priority-flow-control on"]
    lines += [f"priority-flow-control priority {p} no-drop" for p in wanted]
    if isinstance(former, tuple):
        gone = [p for p in on(former) if p not in wanted]
        lines += [f"no priority-flow-control priority {p} no-drop" for p in gone]
    return lines


def _watchdog(change: Change, port: Interface) -> list[str]:
    lines = []
    if change.changed(port, *_TIMES):
        detect, restore = (change.number(port, name) for name in _TIMES)
        if detect is None and restore is None:
            lines.append("no priority-flow-control pause watchdog port timer")
        elif detect is None or restore is None:
            change.lacks([port], _TIMES, "EOS sets both times together, and one is not known")
        else:
            lines.append(
                f"priority-flow-control pause watchdog port timer timeout {detect:g} "
                f"polling-interval auto recovery-time {restore:g} forced"
            )
    action = change.text(port, "pfc_watchdog_action") or None
    word = f"priority-flow-control pause watchdog port action {action}"
    return lines + _or_no(change, port, "pfc_watchdog_action", word)


def _poll(change: Change) -> list[str]:
    """The watchdog's polling interval is one for the whole switch."""
    lines = []
    for port in change.places("pfc_watchdog_poll_seconds"):
        name = "pfc_watchdog_poll_seconds"
        poll = change.after.get((port, name), anywhere(change.after, name))
        word = "priority-flow-control pause watchdog default polling-interval"
        known = isinstance(poll, (int, float))
        lines.append(f"{word} {poll}\n" if known else f"no {word}\n")
    return list(dict.fromkeys(lines))


def _queue(change: Change, slot: Slot) -> list[str]:
    lines = []
    if change.changed(slot, *_MARKING):
        low, high = change.whole(slot, "kmin_bytes"), change.whole(slot, "kmax_bytes")
        pmax, weight = change.number(slot, "pmax_ratio"), change.whole(slot, "ecn_average_weight")
        marks = change.flag(slot, "ecn_enabled")
        unsettled = change.unsettled([slot])
        if marks is False or (marks is None and low is None and high is None):
            lines.append("no random-detect ecn minimum-threshold")
            change.lacks([slot], _MARKING[1:], "EOS keeps no thresholds of a queue with ECN off")
        elif unsettled or low is None or high is None:
            change.lacks([slot], _MARKING, f"EOS sets marking in one line: {unsettled}")
        else:
            line = (
                f"random-detect ecn minimum-threshold {low} bytes maximum-threshold {high} bytes "
                f"max-mark-probability {percent(1.0 if pmax is None else pmax)}"
            )
            lines.append(line if weight is None else f"{line} weight {weight}")
    if change.changed(slot, "ecn_counting_enabled"):
        counted = change.flag(slot, "ecn_counting_enabled")
        lines.append("random-detect ecn count" if counted else "no random-detect ecn count")
    if change.changed(slot, "scheduler"):
        strict = change.text(slot, "scheduler") == "strict"
        lines.append("priority strict" if strict else "no priority")
    share = change.whole(slot, "scheduler_weight")
    lines += _or_no(change, slot, "scheduler_weight", f"bandwidth percent {share}")
    return lines


def _map(change: Change) -> list[str]:
    lines = []
    for place in change.places("dscp_to_traffic_class"):
        if not isinstance(place, Switch):
            why = "EOS has one DSCP map for the whole switch, none for a port"
            change.lacks([place], ["dscp_to_traffic_class"], why)
            continue
        for dscp, old, new in change.moved(place, "dscp_to_traffic_class"):
            word = f"qos map dscp {dscp} to traffic-class"
            lines.append(f"no {word} {old}\n" if new < 0 else f"{word} {new}\n")
    return lines


def _hash(change: Change) -> list[str]:
    names = ("ecmp_hash_fields", "ecmp_hash_seed", "ecmp_hash_offset")
    lines = []
    for place in change.places(*names):
        fields = " ".join(str(word) for word in change.row(place, "ecmp_hash_fields")) or None
        seed, shift = change.whole(place, names[1]), change.whole(place, names[2])
        lines += _or_no(change, place, names[0], f"fields {fields}")
        lines += _or_no(change, place, names[1], f"ecmp hash seed {seed}")
        lines += _or_no(change, place, names[2], f"ecmp hash key shift {shift}")
    if not lines:
        return []
    head = ["load-balance policies\n", "   load-balance trident profile FABRIC-TUNER\n"]
    return head + [f"      {line}\n" for line in lines]


def verify(change: Change) -> str:
    """Return the commands that show what was changed."""
    lines = []
    for port in dict.fromkeys(filter(None, (port_of(place) for place, _ in change.keys))):
        lines.append(f"show running-config interfaces {port.name}")
        if any(name in _QUEUE for place, name in change.keys if port_of(place) == port):
            lines.append(f"show qos interfaces {port.name} ecn")
        if change.changed(port, "pfc_mode", "pfc_priorities", *_TIMES, "pfc_watchdog_action"):
            lines.append(f"show priority-flow-control interfaces {port.name} status")
    if change.places("dscp_to_traffic_class"):
        lines.append("show qos maps")
    if change.places("ecmp_hash_fields", "ecmp_hash_seed", "ecmp_hash_offset"):
        lines.append("show load-balance profile FABRIC-TUNER")
    return "".join(f"{line}\n" for line in lines)


RENDERER: Final = Renderer(
    "eos",
    "switch",
    write,
    verify,
    "!",
    "eos",
    before="configure checkpoint save fabric-tuner-before\nconfigure\n",
    after="end\n! when the checks hold: copy running-config startup-config\n",
    undo_before="! or all at once: configure checkpoint restore fabric-tuner-before\nconfigure\n",
)

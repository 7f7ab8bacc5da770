"""NVIDIA Onyx: flat lines of configuration mode. Thresholds are whole kilobytes."""

from __future__ import annotations

from typing import Final

from collectors.model.entities import Interface, Slot, Switch
from tuner.render.form import Change, Renderer, on, port_of

KILOBYTE: Final = 1000
_MARKING: Final = ("ecn_enabled", "kmin_bytes", "kmax_bytes")
_SCHEDULER: Final = ("scheduler", "scheduler_weight")
_PAUSES: Final = ("pfc_mode", "pfc_priorities")
_TRUST: Final = {"dscp": "L3", "pcp": "L2"}


def write(change: Change) -> str:
    """Return the lines."""
    lines = [*_map(change), *_priorities(change)]
    for port in dict.fromkeys(filter(None, (port_of(place) for place, _ in change.keys))):
        path = f"interface ethernet {port.name.removeprefix('Eth')}"
        lines += _interface(change, port, path)
        for slot in change.slots(port, "queue"):
            lines += _queue(change, slot, f"{path} traffic-class {slot.index}")
    return "".join(f"{line}\n" for line in lines)


def _or_no(change: Change, port: Interface, name: str, path: str, value: str) -> list[str]:
    if not change.changed(port, name):
        return []
    return [f"{path} {value}" if (port, name) in change.after else f"no {path}"]


def _interface(change: Change, port: Interface, path: str) -> list[str]:
    speed = (change.whole(port, "speed_bps") or 0) // 10**9
    mtu = change.whole(port, "mtu_bytes")
    lines = _or_no(change, port, "mtu_bytes", f"{path} mtu", f"{mtu} force")
    lines += _or_no(change, port, "speed_bps", f"{path} speed", f"{speed}G force")
    lines += _or_no(change, port, "fec", f"{path} fec-override", f"{change.text(port, 'fec')}")
    if change.changed(port, "admin_enabled"):
        down = change.flag(port, "admin_enabled") is False
        lines.append(f"{path} shutdown" if down else f"no {path} shutdown")
    trust = change.text(port, "trust")
    lines += _or_no(change, port, "trust", f"{path} qos trust", _TRUST.get(trust, trust))
    if change.changed(port, "pfc_watchdog_enabled"):
        watched = change.flag(port, "pfc_watchdog_enabled")
        lines.append(f"{path} pfc-wd" if watched else f"no {path} pfc-wd")
    if change.changed(port, *_PAUSES):
        mode = change.text(port, "pfc_mode")
        if not mode and (port, "pfc_priorities") in change.after:
            mode = "on" if on(change.row(port, "pfc_priorities")) else "off"
        word = f"{path} dcb priority-flow-control mode"
        lines.append(f"{word} {mode} force" if mode else f"no {word}")
    return lines


def _priorities(change: Change) -> list[str]:
    """Set the priorities with PFC, which Onyx has once for the whole switch."""
    changed = change.places("pfc_priorities")
    rows = {change.row(port, "pfc_priorities") for port in change.interfaces()} - {()}
    if not changed:
        return []
    if len(rows) > 1:
        why = "Onyx has one list of PFC priorities for the whole switch; its ports here differ"
        change.lacks(changed, ["pfc_priorities"], why)
        return []
    wanted = on(next(iter(rows))) if rows else []
    former = {
        priority
        for port in change.interfaces()
        for priority in on(change.back().row(port, "pfc_priorities"))
    }
    word = "dcb priority-flow-control"
    lines = [f"{word} enable force"] if wanted else []
    lines += [f"{word} priority {priority} enable" for priority in wanted]
    gone = sorted(former - set(wanted))
    return lines + [f"no {word} priority {priority} enable" for priority in gone]


def _queue(change: Change, slot: Slot, path: str) -> list[str]:
    lines = []
    if change.changed(slot, *_MARKING):
        lines += _marking(change, slot, f"{path} congestion-control")
    if change.changed(slot, *_SCHEDULER):
        mode, share = change.text(slot, "scheduler"), change.whole(slot, "scheduler_weight")
        if mode == "strict":
            lines.append(f"{path} dcb ets strict")
        elif share is not None:
            lines.append(f"{path} dcb ets wrr {share}")
        elif mode:
            change.lacks([slot], _SCHEDULER, "Onyx wants a weight with wrr, and none is known")
        else:
            lines.append(f"no {path} dcb ets")
    return lines


def _marking(change: Change, slot: Slot, path: str) -> list[str]:
    low, high = change.whole(slot, "kmin_bytes"), change.whole(slot, "kmax_bytes")
    marks = change.flag(slot, "ecn_enabled")
    kind = "ecn"
    if marks is False and change.way == "undo":
        kind = "red"  # thresholds that were read of a queue with ECN off are those of dropping
    elif marks is False or (marks is None and low is None and high is None):
        change.lacks([slot], _MARKING[1:], "Onyx keeps no thresholds of a queue with ECN off")
        return [f"no {path}"]
    if low is None or high is None:
        if marks is False:
            return [f"no {path}"]
        why = f"Onyx sets marking in one line: {change.unsettled([slot])}"
        change.lacks([slot], _MARKING, why)
        return []
    sizes = f"minimum-absolute {low // KILOBYTE} maximum-absolute {high // KILOBYTE}"
    return [f"{path} {kind} {sizes}"]


def _map(change: Change) -> list[str]:
    lines = []
    for place in change.places("dscp_to_traffic_class"):
        if not isinstance(place, Switch):
            why = "the DSCP map here is one for the whole switch"
            change.lacks([place], ["dscp_to_traffic_class"], why)
            continue
        for dscp, old, new in change.moved(place, "dscp_to_traffic_class"):
            word = f"qos map dscp {dscp} to switch-priority"
            lines.append(f"no {word} {old}" if new < 0 else f"{word} {new}")
    return lines


def verify(change: Change) -> str:
    """Return the commands that show what was changed."""
    lines = []
    for port in dict.fromkeys(filter(None, (port_of(place) for place, _ in change.keys))):
        name = port.name.removeprefix("Eth")
        lines.append(f"show running-config interface ethernet {name}")
        if any(change.changed(slot, *_MARKING) for slot in change.slots(port, "queue")):
            lines.append(f"show interfaces ethernet {name} congestion-control")
        if any(change.changed(slot, *_SCHEDULER) for slot in change.slots(port, "queue")):
            lines.append(f"show dcb ets interface ethernet {name}")
    if change.places(*_PAUSES):
        lines.append("show dcb priority-flow-control")
    if change.places("dscp_to_traffic_class", "trust"):
        lines.append("show qos")
    return "".join(f"{line}\n" for line in lines)


RENDERER: Final = Renderer(
    "onyx",
    "switch",
    write,
    verify,
    "##",
    "onyx",
    before="configuration write to fabric-tuner-before no-switch\nconfigure terminal\n",
    after="exit\n## when the checks hold: configuration write\n",
    undo_before="## or all at once: configuration switch-to fabric-tuner-before\n"
    "configure terminal\n",
)

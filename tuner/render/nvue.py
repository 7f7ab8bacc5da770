"""NVIDIA Cumulus Linux (NVUE): `nv set` and `nv unset` lines.

Marking, scheduling and PFC live in profiles: each port gets one made of all that is known of it,
named after its content, so that ports alike share it and undo finds the former one.
"""

from __future__ import annotations

from shlex import quote
from typing import Final

from collectors.model.entities import Interface, Slot, Switch
from tuner.render.form import Change, Renderer, digest, on, percent, port_of

_MARKING: Final = ("ecn_enabled", "kmin_bytes", "kmax_bytes", "pmax_ratio")
_PAUSES: Final = ("pfc_priorities", "pfc_cable_length_metres")
_SCHEDULER: Final = ("scheduler", "scheduler_weight")
_PROFILES: Final = {
    "congestion-control": "marking_profile",
    "egress-scheduler": "scheduler_profile",
    "pfc": "pfc_profile",
}


def write(change: Change) -> str:
    """Return the lines."""
    lines = [*_switch(change)]
    ports = dict.fromkeys(filter(None, (port_of(place) for place, _ in change.keys)))
    for port in ports:
        queues = change.slots(port, "queue")
        if any(change.changed(slot, *_MARKING) for slot in queues):
            if unsettled := change.unsettled(queues):
                why = f"the profile holds for all queues of the port: {unsettled}"
                change.lacks(queues, _MARKING, why)
            rows = [row for slot in queues for row in _marking(change, slot)]
            lines += _profile(change, port, "congestion-control", "FT-ECN", rows)
        if any(change.changed(slot, *_SCHEDULER) for slot in queues):
            rows = [row for slot in queues for row in _scheduling(change, slot)]
            lines += _profile(change, port, "egress-scheduler", "FT-ETS", rows)
        if change.changed(port, *_PAUSES):
            lines += _profile(change, port, "pfc", "FT-PFC", _pauses(change, port))
        lines += _link(change, port)
    return "".join(f"nv {line}\n" for line in dict.fromkeys(lines))


def _profile(change: Change, port: Interface, kind: str, stem: str, rows: list[str]) -> list[str]:
    if former := change.former(port, _PROFILES[kind]):
        return [f"set interface {quote(port.name)} qos {kind} profile {quote(former)}"]
    if not rows:
        return [f"unset interface {quote(port.name)} qos {kind}"]
    name = f"{stem}-{digest(*rows)}"
    lines = [f"set qos {kind} {name} {row}" for row in rows]
    return [*lines, f"set interface {quote(port.name)} qos {kind} profile {name}"]


def _pauses(change: Change, port: Interface) -> list[str]:
    wanted = on(change.row(port, "pfc_priorities"))
    rows = [f"switch-priority {priority}" for priority in wanted]
    rows += ["tx enable", "rx enable"] if (port, "pfc_priorities") in change.after else []
    length = change.whole(port, "pfc_cable_length_metres")
    return rows if length is None else [*rows, f"cable-length {length}"]


def _marking(change: Change, slot: Slot) -> list[str]:
    low, high = change.whole(slot, "kmin_bytes"), change.whole(slot, "kmax_bytes")
    pmax, marks = change.number(slot, "pmax_ratio"), change.flag(slot, "ecn_enabled")
    rows = [] if marks is None else [f"ecn {'enable' if marks else 'disable'}"]
    rows += [] if low is None else [f"min-threshold {low}"]
    rows += [] if high is None else [f"max-threshold {high}"]
    rows += [] if pmax is None else [f"probability {percent(pmax)}"]
    return [f"traffic-class {slot.index} {row}" for row in rows]


def _scheduling(change: Change, slot: Slot) -> list[str]:
    mode, share = change.text(slot, "scheduler"), change.whole(slot, "scheduler_weight")
    if mode == "wrr":
        change.lacks([slot], ["scheduler"], "NVUE has strict and dwrr, not wrr")
        return []
    rows = [f"mode {quote(mode)}"] if mode else []
    rows += [] if share is None else [f"bw-percent {share}"]
    return [f"traffic-class {slot.index} {row}" for row in rows]


def _link(change: Change, port: Interface) -> list[str]:
    lines = []
    for name, word, value in (
        ("mtu_bytes", "mtu", str(change.whole(port, "mtu_bytes"))),
        ("fec", "fec", quote(change.text(port, "fec"))),
    ):
        if change.changed(port, name):
            path = f"interface {quote(port.name)} link {word}"
            known = (port, name) in change.after
            lines.append(f"set {path} {value}" if known else f"unset {path}")
    if change.changed(port, "admin_enabled"):
        down = change.flag(port, "admin_enabled") is False
        lines.append(f"set interface {quote(port.name)} link state {'down' if down else 'up'}")
    return lines


def _switch(change: Change) -> list[str]:
    lines = []
    forwarding = "system forwarding"
    for place in change.places("ecmp_hash_fields"):
        before = change.before.get((place, "ecmp_hash_fields"), ())
        wanted = [quote(str(word)) for word in change.row(place, "ecmp_hash_fields")]
        former = [quote(str(word)) for word in before] if isinstance(before, tuple) else []
        lines += [f"unset {forwarding} ecmp-hash {f}" for f in former if f not in wanted]
        lines += [f"set {forwarding} ecmp-hash {field} on" for field in wanted]
    for place in change.places("ecmp_hash_seed"):
        seed, path = change.whole(place, "ecmp_hash_seed"), f"{forwarding} hash-seed"
        lines.append(f"unset {path}" if seed is None else f"set {path} {seed}")
    for place in change.places("load_balancing"):
        mode = change.text(place, "load_balancing")
        if mode in ("flowlet", "per_packet"):
            why = f"NVUE has adaptive routing, not {mode} balancing as such"
            change.lacks([place], ["load_balancing"], why)
        else:
            state = "on" if mode == "adaptive" else "off"
            path = "router adaptive-routing enable"
            lines.append(f"set {path} {state}" if mode else f"unset {path}")
    for place in change.places("dscp_to_traffic_class"):
        if not isinstance(place, Switch):
            why = "the DSCP map here is one for the whole switch (profile default-global)"
            change.lacks([place], ["dscp_to_traffic_class"], why)
            continue
        for dscp, _, new in change.moved(place, "dscp_to_traffic_class"):
            path = f"qos mapping default-global dscp {dscp}"
            lines.append(f"unset {path}" if new < 0 else f"set {path} switch-priority {new}")
    return lines


def verify(change: Change) -> str:
    """Return the commands that show what was changed."""
    lines = []
    for port in dict.fromkeys(filter(None, (port_of(place) for place, _ in change.keys))):
        queues = change.slots(port, "queue")
        if any(change.changed(slot, *_MARKING) for slot in queues):
            lines.append(f"nv show interface {quote(port.name)} qos congestion-control")
        if any(change.changed(slot, *_SCHEDULER) for slot in queues):
            lines.append(f"nv show interface {quote(port.name)} qos egress-scheduler")
        if change.changed(port, *_PAUSES):
            lines.append(f"nv show interface {quote(port.name)} qos pfc")
        if change.changed(port, "mtu_bytes", "fec", "admin_enabled"):
            lines.append(f"nv show interface {quote(port.name)} link")
    if change.places("dscp_to_traffic_class"):
        lines.append("nv show qos mapping default-global dscp")
    if change.places("ecmp_hash_fields", "ecmp_hash_seed"):
        lines.append("nv show system forwarding")
    if change.places("load_balancing"):
        lines.append("nv show router adaptive-routing")
    return "".join(f"{line}\n" for line in lines)


RENDERER: Final = Renderer(
    "nvue",
    "switch",
    write,
    verify,
    "#",
    "nvue.sh",
    before="nv config history | head -1   # the revision to go back to\n",
    after="nv config diff\nnv config apply\n# when the checks hold: nv config save\n",
    undo_before="# or all at once: nv config apply REVISION, with the one noted before\n",
)

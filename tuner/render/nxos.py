"""Cisco NX-OS. Queues and classes live in policies: each port gets one made of all that is known.

A policy is named after its content, so that ports alike share it and undo finds the former one.
"""

from __future__ import annotations

from typing import Final

from collectors.model.entities import Interface, Slot, Switch
from tuner.render.form import Change, Renderer, digest, on, percent, port_of

_MARKING: Final = ("ecn_enabled", "kmin_bytes", "kmax_bytes", "pmax_ratio", "ecn_average_weight")
_QUEUE: Final = (*_MARKING, "scheduler", "scheduler_weight")
_GROUP: Final = ("xoff_bytes", "pause_threshold_bytes", "resume_threshold_bytes")
_CLASSES: Final = ("dscp_to_traffic_class", "trust")
_HASH: Final = ("ecmp_hash_fields", "ecmp_hash_seed", "ecmp_hash_offset")
_BALANCE: Final = ("load_balancing", "flowlet_gap_seconds")

Block = dict[str, list[str]]
"""Header -> lines below it; two levels are enough, a deeper line brings its own indentation."""


def write(change: Change) -> str:
    """Return the commands: policies first, then what uses them."""
    blocks: Block = {}
    ports: Block = {}
    changed = dict.fromkeys(filter(None, (port_of(place) for place, _ in change.keys)))
    for port in changed:
        lines = [*_interface(change, port)]
        if any(change.changed(slot, *_QUEUE) for slot in change.slots(port, "queue")):
            former = _egress(change.back(), port, {})
            policy = change.former(port, "scheduler_profile") or _egress(change, port, blocks)
            lines += _use("queuing output", policy, former)
        groups = change.slots(port, "priority_group")
        if any(change.changed(slot, *_GROUP) for slot in groups):
            former = _ingress(change.back(), groups, {})
            policy = change.former(port, "buffer_profile") or _ingress(change, groups, blocks)
            lines += _use("queuing input", policy, former)
        if change.changed(port, *_CLASSES):
            former = _classify(change.back(), port, {})
            policy = change.former(port, "classifier_profile") or _classify(change, port, blocks)
            lines += _use("qos input", policy, former)
        if lines:
            ports[f"interface {port.name}"] = lines
    if change.places("pfc_priorities"):
        former = _network(change.back(), {})
        policy = change.former(change.device.device, "pfc_profile") or _network(change, blocks)
        blocks["system qos"] = _use("network-qos", policy, former)
    _balance(change, blocks)
    text = "".join(
        f"{header}\n" + "".join(f"  {line}\n" for line in lines)
        for header, lines in (blocks | ports).items()
    )
    return "".join(_load_sharing(change)) + text


def _use(kind: str, policy: str, former: str) -> list[str]:
    word = f"service-policy type {kind}"
    if policy:
        return [f"{word} {policy}"]
    return [f"no {word} {former}"] if former else []


def _or_no(change: Change, port: Interface, name: str, word: str, value: object) -> list[str]:
    if not change.changed(port, name):
        return []
    return [f"{word} {value}" if (port, name) in change.after else f"no {word}"]


def _interface(change: Change, port: Interface) -> list[str]:
    speed = change.whole(port, "speed_bps")
    lines = _or_no(change, port, "mtu_bytes", "mtu", change.whole(port, "mtu_bytes"))
    lines += _or_no(change, port, "speed_bps", "speed", None if not speed else speed // 10**6)
    lines += _or_no(change, port, "fec", "fec", change.text(port, "fec"))
    if change.changed(port, "admin_enabled"):
        lines.append("shutdown" if change.flag(port, "admin_enabled") is False else "no shutdown")
    if change.changed(port, "pfc_mode", "pfc_priorities"):
        mode, wanted = change.text(port, "pfc_mode"), on(change.row(port, "pfc_priorities"))
        mode = mode or ("on" if wanted else "")
        word = "priority-flow-control mode"
        lines.append(f"{word} {mode}" if mode else f"no {word}")
    watched = "on" if change.flag(port, "pfc_watchdog_enabled") else "off"
    word = "priority-flow-control watch-dog-interval"
    return lines + _or_no(change, port, "pfc_watchdog_enabled", word, watched)


def _egress(change: Change, port: Interface, blocks: Block) -> str:
    """Make the queuing policy of a port of all queues that are known; '' where none is."""
    lines: list[str] = []
    queues = change.slots(port, "queue")
    if unsettled := change.unsettled(queues):
        why = f"the policy holds for all queues of the port: {unsettled}"
        change.lacks(queues, _QUEUE, why)
    for slot in queues:
        inner = _queue(change, slot)
        if inner:
            name = f"c-out-8q-q{slot.index}" if slot.index else "c-out-8q-q-default"
            lines += [f"class type queuing {name}", *(f"  {line}" for line in inner)]
    return _policy(blocks, "queuing", "FT-OUT", lines)


def _policy(blocks: Block, kind: str, stem: str, lines: list[str]) -> str:
    if not lines:
        return ""
    name = f"{stem}-{digest(*lines)}"
    blocks[f"policy-map type {kind} {name}"] = lines
    return name


def _queue(change: Change, slot: Slot) -> list[str]:
    lines = []
    if change.text(slot, "scheduler") == "strict":
        lines.append("priority level 1")
    share = change.whole(slot, "scheduler_weight")
    if share is not None:
        lines.append(f"bandwidth remaining percent {share}")
    low, high = change.whole(slot, "kmin_bytes"), change.whole(slot, "kmax_bytes")
    pmax, weight = change.number(slot, "pmax_ratio"), change.whole(slot, "ecn_average_weight")
    marks = change.flag(slot, "ecn_enabled")
    if marks is False and change.way == "apply" and change.changed(slot, "ecn_enabled"):
        why = "NX-OS would drop, not mark, by the thresholds of a queue with ECN off"
        change.lacks([slot], _MARKING[1:], why)
    elif low is not None and high is not None:
        lines.append(
            f"random-detect minimum-threshold {low} bytes maximum-threshold {high} bytes "
            f"drop-probability {percent(1.0 if pmax is None else pmax)} weight {weight or 0}"
            f"{' ecn' if marks else ''}"
        )
    return lines


def _ingress(change: Change, groups: list[Slot], blocks: Block) -> str:
    lines: list[str] = []
    for slot in groups:
        sizes = [change.whole(slot, name) for name in _GROUP]
        if all(size is None for size in sizes):
            continue
        if None in sizes:
            why = "NX-OS sets buffer, pause and resume threshold together, and one is not known"
            change.lacks([slot], _GROUP, why)
            continue
        lines += [
            f"class type queuing c-in-q{slot.index}",
            "  pause buffer-size {} pause-threshold {} resume-threshold {}".format(*sizes),
        ]
    return _policy(blocks, "queuing", "FT-INQ", lines)


def _classify(change: Change, port: Interface, blocks: Block) -> str:
    """Make class maps of the port's DSCP map, and the policy that gives them their groups."""
    by_group: dict[int, list[int]] = {}
    for dscp, group in enumerate(change.row(port, "dscp_to_traffic_class")):
        if isinstance(group, int) and group >= 0:
            by_group.setdefault(group, []).append(dscp)
    if change.text(port, "trust") not in ("", "dscp"):
        if change.way == "undo":
            return ""  # without a policy the port is as it was: it does not look at DSCPs
        change.lacks([port], ["trust"], "NX-OS classes by DSCP here; PCP needs class maps by cos")
    lines: list[str] = []
    for group, dscps in sorted(by_group.items()):
        words = ",".join(str(dscp) for dscp in dscps)
        name = f"FT-DSCP-{digest(words)}"
        blocks[f"class-map type qos match-any {name}"] = [f"match dscp {words}"]
        lines += [f"class {name}", f"  set qos-group {group}"]
    return _policy(blocks, "qos", "FT-IN", lines)


def _network(change: Change, blocks: Block) -> str:
    """Make the policy of PFC, which NX-OS has once for the whole switch; '' where none is."""
    rows = {change.row(port, "pfc_priorities") for port in change.interfaces()} - {()}
    if not rows:
        return ""
    if len(rows) > 1:
        why = "NX-OS has one network-qos policy for the whole switch; its ports here differ"
        change.lacks(change.places("pfc_priorities"), ["pfc_priorities"], why)
        return ""
    lines: list[str] = []
    for priority in on(next(iter(rows))):
        lines += [f"class type network-qos c-8q-nq{priority}", f"  pause pfc-cos {priority}"]
        lines.append("  mtu 9216")
    lines = lines or ["class type network-qos c-8q-nq-default", "  mtu 9216"]
    return _policy(blocks, "network-qos", "FT-NQ", lines)


def _load_sharing(change: Change) -> list[str]:
    lines = []
    for place in change.places(*_HASH):
        fields = " ".join(str(word) for word in change.row(place, "ecmp_hash_fields"))
        seed = change.whole(place, "ecmp_hash_seed")
        offset = change.whole(place, "ecmp_hash_offset")
        if not fields and seed is None and offset is None:
            lines.append("no ip load-sharing address\n")
            continue
        if not fields:
            why = "NX-OS sets fields and seed in one line, and the fields are not known"
            change.lacks([place], _HASH, why)
            continue
        words = ["ip load-sharing address", fields]
        words += [] if seed is None else [f"universal-id {seed}"]
        words += [] if offset is None else [f"rotate {offset}"]
        lines.append(" ".join(words) + "\n")
    return lines


def _balance(change: Change, blocks: Block) -> None:
    for place in change.places(*_BALANCE):
        mode = change.text(place, "load_balancing")
        gap = change.number(place, "flowlet_gap_seconds")
        if mode == "adaptive":
            why = "NX-OS has flowlet and per-packet balancing, not `adaptive`"
            change.lacks([place], _BALANCE, why)
        elif mode in ("", "static"):
            blocks["no hardware profile dlb"] = []
        else:
            lines = [f"mode {mode.replace('_', '-')}"]
            lines += [] if gap is None else [f"flowlet-aging {round(gap * 10**6)}"]
            blocks["hardware profile dlb"] = lines


def verify(change: Change) -> str:
    """Return the commands that show what was changed."""
    lines = []
    for port in dict.fromkeys(filter(None, (port_of(place) for place, _ in change.keys))):
        lines.append(f"show running-config interface {port.name}")
        slots = [*change.slots(port, "queue"), *change.slots(port, "priority_group")]
        if any(change.changed(slot, *_QUEUE, *_GROUP) for slot in slots):
            lines.append(f"show policy-map interface {port.name} type queuing")
            lines.append(f"show queuing interface {port.name}")
        if change.changed(port, *_CLASSES):
            lines.append(f"show policy-map interface {port.name} input type qos")
        if change.changed(port, "pfc_mode", "pfc_priorities", "pfc_watchdog_enabled"):
            lines.append(f"show interface {port.name} priority-flow-control")
    if change.places("pfc_priorities"):
        lines.append("show policy-map system type network-qos")
    if any(isinstance(place, Switch) for place, _ in change.keys):
        lines += ["show ip load-sharing", "show hardware profile dlb"]
    return "".join(f"{line}\n" for line in lines)


RENDERER: Final = Renderer(
    "nxos",
    "switch",
    write,
    verify,
    "!",
    "nxos",
    before="checkpoint fabric-tuner-before\nconfigure terminal\n",
    after="end\n! when the checks hold: copy running-config startup-config\n"
    "! a change of `hardware profile dlb` takes hold after a reload\n",
    undo_before="! or all at once: rollback running-config checkpoint fabric-tuner-before\n"
    "configure terminal\n",
)

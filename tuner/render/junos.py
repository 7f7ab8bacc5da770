"""Junos: `set` and `delete` lines of configuration mode.

Schedulers, classifiers and PFC live in profiles: each port gets those made of all that is known
of it, named after their content, so that ports alike share them and undo finds the former ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from collectors.model.entities import Interface, Slot, Switch
from tuner.render.form import Change, Renderer, digest, on, percent, port_of

_COS: Final = "class-of-service"
_HASH: Final = "forwarding-options enhanced-hash-key"
_MARKING: Final = ("ecn_enabled", "kmin_fill_ratio", "kmax_fill_ratio", "pmax_ratio")
_LEVELS: Final = ("kmin_fill_ratio", "kmax_fill_ratio")
_QUEUE: Final = (*_MARKING, "scheduler", "scheduler_weight")
_PAUSES: Final = ("pfc_priorities", "pfc_watchdog_enabled", "pfc_cable_length_metres")
_PROFILES: Final = {
    "scheduler-map": "scheduler_profile",
    "unit * classifiers dscp": "classifier_profile",
    "congestion-notification-profile": "pfc_profile",
}
_BALANCE: Final = ("load_balancing", "flowlet_gap_seconds")


def write(change: Change) -> str:
    """Return the lines: profiles before the ports that use them."""
    lines: list[str] = []
    for port in dict.fromkeys(filter(None, (port_of(place) for place, _ in change.keys))):
        if change.changed(port, "mtu_bytes"):
            mtu, path = change.whole(port, "mtu_bytes"), f"interfaces {port.name} mtu"
            lines.append(f"delete {path}" if mtu is None else f"set {path} {mtu}")
        queues = change.slots(port, "queue")
        if any(change.changed(slot, *_QUEUE) for slot in queues):
            if unsettled := change.unsettled(queues, *_LEVELS):
                why = f"the scheduler map holds for all queues of the port: {unsettled}"
                change.lacks(queues, _QUEUE, why)
            lines += _use(change, port, "scheduler-map", *_schedulers(change, queues))
        if change.changed(port, "dscp_to_traffic_class", "trust"):
            lines += _use(change, port, "unit * classifiers dscp", *_classifier(change, port))
        if change.changed(port, *_PAUSES) or (
            change.changed(port, "dscp_to_traffic_class") and change.row(port, "pfc_priorities")
        ):
            lines += _use(change, port, "congestion-notification-profile", *_pauses(change, port))
    lines += _idle_priorities(change)
    lines += _switch(change)
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def _use(change: Change, port: Interface, kind: str, name: str, made: list[str]) -> list[str]:
    path = f"{_COS} interfaces {port.name} {kind}"
    if former := change.former(port, _PROFILES[kind]):
        return [*made, f"set {path} {former}"]
    return [*made, f"set {path} {name}"] if name else [f"delete {path}"]


def _class(change: Change, queue: int) -> tuple[str, list[str]]:
    """Return the name of the forwarding class of a queue, and the line that makes it if new."""
    known = change.attribute(Slot(change.device.device, "queue", queue), "alias")  # type: ignore[arg-type]
    if known:
        return known, []
    name = f"FT-Q{queue}"
    return name, [f"set {_COS} forwarding-classes class {name} queue-num {queue}"]


def _schedulers(change: Change, queues: list[Slot]) -> tuple[str, list[str]]:
    """Make the scheduler map of a port of all queues that are known."""
    lines: list[str] = []
    uses: list[tuple[str, str]] = []
    for slot in queues:
        made, inner = _scheduler(change, slot)
        if inner:
            scheduler = f"FT-S-{digest(*inner)}"
            name, new = _class(change, slot.index)
            lines += made + new
            lines += [f"set {_COS} schedulers {scheduler} {row}" for row in inner]
            uses.append((name, scheduler))
    if not uses:
        return "", []
    scheduler_map = f"FT-MAP-{digest(*uses)}"
    path = f"set {_COS} scheduler-maps {scheduler_map} forwarding-class"
    return scheduler_map, [*lines, *(f"{path} {name} scheduler {used}" for name, used in uses)]


def _scheduler(change: Change, slot: Slot) -> tuple[list[str], list[str]]:
    """Return the drop profile's lines and what the scheduler of a queue holds."""
    made: list[str] = []
    inner = []
    low, high = change.number(slot, "kmin_fill_ratio"), change.number(slot, "kmax_fill_ratio")
    if low is not None and high is not None:
        pmax = change.number(slot, "pmax_ratio")
        levels = (round(low * 100), round(high * 100))
        chances = (0, percent(1.0 if pmax is None else pmax))
        profile = f"FT-DP-{digest(levels, chances)}"
        path = f"set {_COS} drop-profiles {profile} interpolate"
        made = [f"{path} fill-level {level}" for level in levels]
        made += [f"{path} drop-probability {chance}" for chance in chances]
        inner = [f"drop-profile-map loss-priority any protocol any drop-profile {profile}"]
    if change.flag(slot, "ecn_enabled"):
        inner.append("explicit-congestion-notification")
    if change.text(slot, "scheduler") == "strict":
        inner.append("priority strict-high")
    share = change.whole(slot, "scheduler_weight")
    if share is not None:
        inner.append(f"transmit-rate percent {share}")
    return made, inner


def _classifier(change: Change, port: Interface) -> tuple[str, list[str]]:
    if change.text(port, "trust") not in ("", "dscp"):
        if change.way == "undo":
            return "", []  # without a classifier the port is as it was: it does not look at DSCPs
        change.lacks([port], ["trust"], "the classifier here is by DSCP")
    rows: list[str] = []
    made: list[str] = []
    for dscp, queue in enumerate(change.row(port, "dscp_to_traffic_class")):
        if isinstance(queue, int) and queue >= 0:
            name, new = _class(change, queue)
            made += new
            rows.append(f"forwarding-class {name} loss-priority low code-points {dscp:06b}")
    if not rows:
        if change.text(port, "trust"):
            why = "a Junos port trusts DSCP by its DSCP map, which is not known"
            change.lacks([port], ["trust"], why)
        return "", []
    classifier = f"FT-DSCP-{digest(*rows)}"
    path = f"set {_COS} classifiers dscp {classifier}"
    return classifier, [*dict.fromkeys(made), *(f"{path} {row}" for row in rows)]


def _queue_of(change: Change, priority: int) -> int:
    """Return the queue that a priority stops: as the classes say, else of the same number."""
    row = change.row(change.device.device, "priority_to_queue")
    queue = row[priority] if row else -1
    return queue if isinstance(queue, int) and queue >= 0 else priority


def _pauses(change: Change, port: Interface) -> tuple[str, list[str]]:
    rows: list[str] = []
    made: list[str] = []
    places = change.row(port, "dscp_to_traffic_class")
    for priority in on(change.row(port, "pfc_priorities")):
        queue = _queue_of(change, priority)
        points = [dscp for dscp, place in enumerate(places) if place == queue]
        if not points:
            why = f"no DSCP of the port leads to queue {queue}: set its DSCP map first"
            change.lacks([port], ["pfc_priorities", "dscp_to_traffic_class"], why)
            continue
        name, new = _class(change, queue)
        path = f"set {_COS} forwarding-classes class {name}"
        made += [*new, f"{path} no-loss", f"{path} pfc-priority {priority}"]
        rows += [f"input dscp code-point {dscp:06b} pfc" for dscp in points]
        rows.append(f"output ieee-802.1 code-point {priority:03b} flow-control-queue {queue}")
    if change.flag(port, "pfc_watchdog_enabled"):
        rows.append("pfc-watchdog")
    length = change.whole(port, "pfc_cable_length_metres")
    rows += [] if length is None else [f"input cable-length {length}"]
    if not rows:
        return "", []
    profile = f"FT-PFC-{digest(*rows)}"
    path = f"set {_COS} congestion-notification-profile {profile}"
    return profile, [*made, *(f"{path} {row}" for row in rows)]


def _idle_priorities(change: Change) -> Iterator[str]:
    """Yield the lines that take `no-loss` from classes whose priority no port pauses any more."""

    def used(state: Change) -> set[int]:
        return {p for port in state.interfaces() for p in on(state.row(port, "pfc_priorities"))}

    for priority in sorted(used(change.back()) - used(change)):
        name, _ = _class(change, _queue_of(change, priority))
        path = f"delete {_COS} forwarding-classes class {name}"
        yield from (f"{path} no-loss", f"{path} pfc-priority")


def _switch(change: Change) -> list[str]:
    lines = []
    for place in change.places("dscp_to_traffic_class"):
        if isinstance(place, Switch):
            why = "Junos has a DSCP map for each port, none for the switch"
            change.lacks([place], ["dscp_to_traffic_class"], why)
    for place in change.places("ecmp_hash_seed"):
        seed = change.whole(place, "ecmp_hash_seed")
        path = f"{_HASH} hash-seed"
        lines.append(f"delete {path}" if seed is None else f"set {path} {seed}")
    for place in change.places("ecmp_hash_rdma_qp"):
        off = change.flag(place, "ecmp_hash_rdma_qp") is False
        lines.append(f"{'set' if off else 'delete'} {_HASH} family inet no-rdma-queue-pair")
    for place in change.places(*_BALANCE):
        mode, gap = change.text(place, "load_balancing"), change.number(place, _BALANCE[1])
        if mode == "adaptive":
            why = "Junos has flowlet and per-packet balancing, not `adaptive`"
            change.lacks([place], _BALANCE, why)
            continue
        lines.append(f"delete {_HASH} ecmp-dlb")
        if mode == "flowlet":
            aging = "" if gap is None else f" inactivity-interval {round(gap * 10**6)}"
            lines.append(f"set {_HASH} ecmp-dlb flowlet{aging}")
        elif mode == "per_packet":
            lines.append(f"set {_HASH} ecmp-dlb per-packet")
    return lines


def verify(change: Change) -> str:
    """Return the commands that show what was changed."""
    lines = []
    for port in dict.fromkeys(filter(None, (port_of(place) for place, _ in change.keys))):
        lines.append(f"show class-of-service interface {port.name} detail")
        if any(change.changed(slot, *_QUEUE) for slot in change.slots(port, "queue")):
            lines.append(f"show interfaces queue {port.name}")
        if change.changed(port, *_PAUSES):
            lines.append(f"show interfaces {port.name} extensive | match PFC")
    if change.places("ecmp_hash_seed", "ecmp_hash_rdma_qp", *_BALANCE):
        lines.append("show forwarding-options enhanced-hash-key")
    return "".join(f"{line}\n" for line in lines)


RENDERER: Final = Renderer(
    "junos",
    "switch",
    write,
    verify,
    "#",
    "junos",
    before="configure exclusive\n",
    after="show | compare\ncommit confirmed 10\n"
    "# when the checks hold, within 10 minutes: commit\n",
    undo_before="# or all at once: rollback 1, and commit\nconfigure exclusive\n",
)

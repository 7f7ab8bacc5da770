"""Junos configuration, hierarchical or as `set` lines: class of service, PFC, load balancing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from collectors.model.entities import Slot, Switch
from collectors.model.facts import Attribute
from collectors.switchconfig.blocks import Path, Reader, matching, parse_braces, pfc_tuple, whole

COS = "class-of-service"


class _Tree:
    """Statements, asked by how they begin."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths

    def under(self, *words: str) -> Iterator[Path]:
        """Yield what follows these words, with its line."""
        size = len(words)
        for path, number in self._paths:
            if path[:size] == words:
                yield path[size:], number


def parse_junos(text: str, switch: Switch, where: str) -> Reader:
    """Return the settings of a configuration."""
    reader, tree = Reader(switch, where), _Tree(parse_braces(text))
    names = sorted({path[0] for path, _ in tree.under("interfaces") if path and "-" in path[0]})
    queues = _queues(reader, tree)
    _paused_queues(reader, tree, queues)
    for path, number in tree.under("interfaces"):
        if len(path) == 3 and path[1] == "mtu" and (mtu := whole(path[2])) is not None:
            reader.set(reader.port(path[0]), "mtu_bytes", mtu, number)
    patterns = dict.fromkeys(path[0] for path, _ in tree.under(COS, "interfaces") if path)
    for pattern in patterns:
        ports = matching(pattern, names) if "*" in pattern else [pattern]
        if not ports:
            reader.odd.append((f"{where} {COS} interfaces {pattern}", "matches no interface"))
        for port in ports:
            _interface(reader, tree, pattern, port, queues)
    _buffers(reader, tree)
    _load_balancing(reader, tree)
    return reader


def _queues(reader: Reader, tree: _Tree) -> dict[str, int]:
    """Return forwarding class -> queue."""
    found = {}
    for path, number in tree.under(COS, "forwarding-classes"):
        words = path[2:]
        if path[:1] == ("class",) and "queue-num" in words[:-1]:
            queue = whole(words[words.index("queue-num") + 1])
            if queue is None:
                reader.odd.append((f"{reader.where}:{number}", "queue-num is no number"))
            else:
                found[path[1]] = queue
                place = Slot(reader.switch, "queue", queue)
                reader.attributes.append(Attribute(place, "alias", path[1]))
    return found


def _paused_queues(reader: Reader, tree: _Tree, queues: dict[str, int]) -> None:
    """Note the queue of each priority that a class gives PFC to."""
    places = [-1] * 8
    for path, number in tree.under(COS, "forwarding-classes", "class"):
        if "pfc-priority" in path[:-1] and path[0] in queues:
            priority = whole(path[path.index("pfc-priority") + 1])
            if priority is not None and priority < 8:
                places[priority] = queues[path[0]]
                reader.set(reader.switch, "priority_to_queue", tuple(places), number)


def _interface(
    reader: Reader, tree: _Tree, pattern: str, name: str, queues: dict[str, int]
) -> None:
    port = reader.port(name)
    for path, number in tree.under(COS, "interfaces", pattern):
        if path[:1] == ("scheduler-map",) and len(path) > 1:
            reader.uses(port, "scheduler", path[1])
            classes = tree.under(COS, "scheduler-maps", path[1], "forwarding-class")
            for rest in (rest for rest, _ in classes if len(rest) == 3 and rest[0] in queues):
                _scheduler(reader, tree, Slot(port, "queue", queues[rest[0]]), rest[2])
        elif path[:1] == ("congestion-notification-profile",) and len(path) > 1:
            reader.uses(port, "pfc", path[1])
            _flow_control(reader, tree, name, path[1], number)
        elif "classifiers" in path and "dscp" in path[:-1]:
            reader.uses(port, "classifier", path[path.index("dscp") + 1])
            _classifier(reader, tree, name, path[path.index("dscp") + 1], queues)


def _scheduler(reader: Reader, tree: _Tree, queue: Slot, name: str) -> None:
    for path, number in tree.under(COS, "schedulers", name):
        if path == ("explicit-congestion-notification",):
            reader.set(queue, "ecn_enabled", True, number)
        elif "drop-profile" in path[:-1]:
            profile = path[path.index("drop-profile") + 1]
            reader.set(queue, "wred_profile", profile, number)
            _drop_profile(reader, tree, queue, profile)
        elif path[:1] == ("priority",) and "strict" in path[-1]:
            reader.set(queue, "scheduler", "strict", number)
        elif path[:2] == ("transmit-rate", "percent") and (share := whole(path[-1])) is not None:
            reader.set(queue, "scheduler_weight", share, number)


def _drop_profile(reader: Reader, tree: _Tree, queue: Slot, name: str) -> None:
    """Take first and last point of the curve: percent of the queue's buffer, not bytes."""
    points: dict[str, list[int]] = {}
    line = 0
    for path, number in tree.under(COS, "drop-profiles", name):
        words = path[1:] if path[:1] == ("interpolate",) else path
        if words and words[0] in ("fill-level", "drop-probability"):
            numbers = [int(word) for word in words[1:] if word.isdigit()]
            points.setdefault(words[0], []).extend(numbers)
            if "drop-probability" in words[1:]:  # fill-level 55 drop-probability 0
                at = words.index("drop-probability")
                points["fill-level"] = points["fill-level"][:-1]
                points.setdefault("drop-probability", []).append(int(words[at + 1]))
            line = number
    levels, chances = points.get("fill-level", []), points.get("drop-probability", [])
    if not levels or not chances:
        reader.odd.append((f"{reader.where} drop-profile {name}", "has no points"))
        return
    reader.set(queue, "kmin_fill_ratio", min(levels) / 100, line)
    reader.set(queue, "kmax_fill_ratio", max(levels) / 100, line)
    reader.set(queue, "pmax_ratio", max(chances) / 100, line)


def _flow_control(reader: Reader, tree: _Tree, name: str, profile: str, line: int) -> None:
    port = reader.port(name)
    of_class = {}
    for path, _ in tree.under(COS, "forwarding-classes", "class"):
        if "pfc-priority" in path[:-1]:
            of_class[path[0]] = whole(path[path.index("pfc-priority") + 1])
    points = {
        path[1]
        for path, _ in tree.under(COS, "congestion-notification-profile", profile, "input", "dscp")
        if path[:1] == ("code-point",) and "pfc" in path
    }
    pcp = [
        int(path[1], 2)
        for path, _ in tree.under(
            COS, "congestion-notification-profile", profile, "input", "ieee-802.1"
        )
        if path[:1] == ("code-point",) and "pfc" in path and set(path[1]) <= {"0", "1"}
    ]
    hit = _classes_of(tree, name, points) if points else set()
    priorities = [number for used, number in of_class.items() if used in hit and number is not None]
    if points and not priorities:
        reader.odd.append((f"{reader.where}:{line}", "PFC by DSCP, but no class has pfc-priority"))
    reader.set(port, "pfc_priorities", pfc_tuple([*priorities, *pcp]), line)
    for path, number in tree.under(COS, "congestion-notification-profile", profile):
        if path[:1] == ("pfc-watchdog",):
            reader.set(port, "pfc_watchdog_enabled", True, number)
        elif path[:2] == ("input", "cable-length") and (metres := whole(path[-1])) is not None:
            reader.set(port, "pfc_cable_length_metres", metres, number)


def _classes_of(tree: _Tree, name: str, points: set[str]) -> set[str]:
    """Return the classes that a port's classifier puts code points in; all where it has none."""
    every = {path[0] for path, _ in tree.under(COS, "forwarding-classes", "class")}
    used = [
        path[path.index("dscp") + 1]
        for pattern in dict.fromkeys(path[0] for path, _ in tree.under(COS, "interfaces") if path)
        if matching(pattern, [name])
        for path, _ in tree.under(COS, "interfaces", pattern)
        if "classifiers" in path and "dscp" in path[:-1]
    ]
    if not used:
        return every
    return {
        path[0]
        for path, _ in tree.under(COS, "classifiers", "dscp", used[-1], "forwarding-class")
        if "code-points" in path and points & set(path[path.index("code-points") + 1 :])
    }


def _classifier(reader: Reader, tree: _Tree, port: str, name: str, queues: dict[str, int]) -> None:
    places = [-1] * 64
    line = 0
    for path, number in tree.under(COS, "classifiers", "dscp", name, "forwarding-class"):
        if path[0] not in queues or "code-points" not in path:
            continue
        for word in path[path.index("code-points") + 1 :]:
            if set(word) <= {"0", "1"} and len(word) == 6:
                places[int(word, 2)] = queues[path[0]]
        line = number
    reader.set(reader.port(port), "dscp_to_traffic_class", tuple(places), line)
    reader.set(reader.port(port), "trust", "dscp", line)


def _buffers(reader: Reader, tree: _Tree) -> None:
    where = (COS, "shared-buffer")
    for position, way in enumerate(("ingress", "egress")):
        partitions = dict.fromkeys(
            path[1]
            for path, _ in tree.under(*where, way)
            if path[:1] == ("buffer-partition",) and len(path) > 1
        )
        for place, partition in enumerate(partitions):
            pool = Slot(reader.switch, "pool", position * 8 + place)
            _partition(reader, pool, tree.under(*where, way, "buffer-partition", partition))


def _partition(reader: Reader, pool: Slot, paths: Iterable[Path]) -> None:
    for path, number in paths:
        value = whole(path[-1]) if path else None
        if value is None:
            continue
        if path[0] == "percent":
            reader.set(pool, "pool_share_ratio", value / 100, number)
        elif path[0] == "dynamic-threshold":
            reader.set(pool, "buffer_alpha_exponent", value, number)


def _load_balancing(reader: Reader, tree: _Tree) -> None:
    for path, number in tree.under("forwarding-options", "enhanced-hash-key"):
        if path[:2] == ("ecmp-dlb", "flowlet"):
            reader.set(reader.switch, "load_balancing", "flowlet", number)
            if "inactivity-interval" in path and (us := whole(path[-1])) is not None:
                reader.set(reader.switch, "flowlet_gap_seconds", us / 10**6, number)
        elif path[:2] == ("ecmp-dlb", "per-packet"):
            reader.set(reader.switch, "load_balancing", "per_packet", number)
        elif path[:1] == ("hash-seed",) and (seed := whole(path[-1])) is not None:
            reader.set(reader.switch, "ecmp_hash_seed", seed, number)
        elif "no-rdma-queue-pair" in path:
            reader.set(reader.switch, "ecmp_hash_rdma_qp", False, number)

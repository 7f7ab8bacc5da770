"""SONiC's CONFIG_DB (`config_db.json` or Redis) as settings, inventory and neighbours. Pure.

Table and field names: sonic-yang-models and the SONiC design documents. Thresholds are bytes,
probabilities percent, watchdog times milliseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from collectors.model.entities import Entity, Interface, Slot, Switch
from collectors.model.errors import Malformed
from collectors.model.facts import Attribute, Facts, Neighbour, Setting, Value

Row = Mapping[str, str]
Config = Mapping[str, Mapping[str, Row]]
NOT_SET = -1


@dataclass
class _Reader:
    config: Config
    switch: Switch
    where: str
    settings: list[Setting] = field(default_factory=list)
    attributes: list[Attribute] = field(default_factory=list)
    odd: list[tuple[str, str]] = field(default_factory=list)

    def table(self, name: str) -> Mapping[str, Row]:
        return self.config.get(name, {})

    def set(self, entity: Entity, name: str, value: Value, key: str) -> None:
        self.settings.append(Setting(entity, name, value, f"{self.where} {key}"))

    def number(self, row: Row, name: str, key: str) -> int | None:
        text = row.get(name)
        if text is None or text == "N/A":
            return None
        try:
            return int(text)
        except (ValueError, TypeError):
            self.odd.append((f"{key} {name}", "not numeric"))
            return None

    def port(self, name: str) -> Interface:
        return Interface(self.switch, name)


def reference(text: str) -> str:
    """Return the object that a field names: `AZURE`, and `[WRED_PROFILE|AZURE]` of old."""
    return text.strip("[]").rpartition("|")[2]


def numbers(text: str) -> list[int]:
    """Return `3`, `3-4` or `3,4` as numbers; empty for what is none."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if first.isdigit() and (not dash or last.isdigit()):
            found += range(int(first), int(last if dash else first) + 1)
    return found[:256]


def spread(key: str) -> Iterator[tuple[str, int]]:
    """Yield port and number of a key like `Ethernet0,Ethernet4|3-4`."""
    ports, _, slots = key.rpartition("|")
    for port in ports.rpartition("|")[2].split(","):
        for slot in numbers(slots):
            yield port, slot


def parse_config_db(
    config: Config, switch: Switch, where: str
) -> tuple[Facts, list[tuple[str, str]]]:
    """Return facts of a CONFIG_DB given as table -> key -> fields, and what was odd in it.

    where: what the settings name as their place, before table and key.
    """
    reader = _Reader(config, switch, where)
    for read in (
        _metadata,
        _ports,
        _marking,
        _flow_control,
        _watchdog,
        _buffers,
        _cables,
        _maps,
        _hash,
    ):
        read(reader)
    facts = Facts(
        tuple(reader.settings), tuple(reader.attributes), neighbours=tuple(_neighbours(reader))
    )
    return facts, reader.odd


def parse_config_json(text: str, where: str) -> dict[str, dict[str, dict[str, str]]]:
    """Return table -> key -> fields of a file's text. Raises Malformed naming `where`."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(where, "config_db", f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise Malformed(where, "config_db", "not a JSON object")
    return config_of_json(data)


def config_of_json(data: Mapping[str, object]) -> dict[str, dict[str, dict[str, str]]]:
    """Return table -> key -> fields of `config_db.json`, or of its flat form `TABLE|key`."""
    config: dict[str, dict[str, dict[str, str]]] = {}
    for name, content in data.items():
        if not isinstance(content, Mapping):
            continue
        table, bar, key = name.partition("|")
        rows = {key: content} if bar else content
        for row_key, row in rows.items():
            if isinstance(row, Mapping):
                fields = {
                    str(field): ",".join(map(str, value)) if isinstance(value, list) else str(value)
                    for field, value in row.items()
                }
                config.setdefault(table, {})[str(row_key)] = fields
    return config


def _metadata(reader: _Reader) -> None:
    row = reader.table("DEVICE_METADATA").get("localhost", {})
    names = {"hostname": "system_name", "mac": "chassis_id", "hwsku": "platform"}
    for source, name in names.items():
        if row.get(source):
            value = row[source].lower() if source == "mac" else row[source]
            reader.attributes.append(Attribute(reader.switch, name, value))


def _ports(reader: _Reader) -> None:
    for name, row in reader.table("PORT").items():
        port, key = reader.port(name), f"PORT|{name}"
        for source, setting, scale in (("mtu", "mtu_bytes", 1), ("speed", "speed_bps", 10**6)):
            value = reader.number(row, source, key)
            if value is not None:
                reader.set(port, setting, value * scale, key)
        if "fec" in row:
            reader.set(port, "fec", row["fec"], key)
        if "admin_status" in row:
            reader.set(port, "admin_enabled", row["admin_status"] == "up", key)
        if row.get("alias"):
            reader.attributes.append(Attribute(port, "alias", row["alias"]))
    for key in reader.table("PORTCHANNEL_MEMBER"):
        lag, _, member = key.partition("|")
        reader.attributes.append(Attribute(reader.port(member), "lag", lag))


def _marking(reader: _Reader) -> None:
    profiles = reader.table("WRED_PROFILE")
    for key, row in reader.table("QUEUE").items():
        profile = reference(row.get("wred_profile", ""))
        serving = reference(row.get("scheduler", ""))
        scheduler = reader.table("SCHEDULER").get(serving, {})
        for name, number in spread(key):
            queue = Slot(reader.port(name), "queue", number)
            if profile:
                _profile(reader, queue, profile, profiles.get(profile), f"QUEUE|{key}")
            if kind := scheduler.get("type"):
                reader.set(queue, "scheduler", kind.lower(), f"QUEUE|{key} SCHEDULER|{serving}")
            weight = reader.number(scheduler, "weight", f"SCHEDULER|{serving}")
            if weight is not None:
                reader.set(queue, "scheduler_weight", weight, f"QUEUE|{key} SCHEDULER|{serving}")


def _profile(reader: _Reader, queue: Slot, name: str, row: Row | None, key: str) -> None:
    where = f"WRED_PROFILE|{name}"
    reader.set(queue, "wred_profile", name, key)
    if row is None:
        reader.odd.append((key, f"names {where}, which is not there"))
        return
    ecn = row.get("ecn", "ecn_none")
    reader.set(queue, "ecn_enabled", ecn != "ecn_none", where)
    marked = [colour for colour in ("green", "yellow", "red") if colour in ecn]
    colour = marked[0] if marked else "green"
    for source, setting in (("min_threshold", "kmin_bytes"), ("max_threshold", "kmax_bytes")):
        value = reader.number(row, f"{colour}_{source}", where)
        if value is not None:
            reader.set(queue, setting, value, where)
    percent = reader.number(row, f"{colour}_drop_probability", where)
    reader.set(queue, "pmax_ratio", (100 if percent is None else percent) / 100, where)


def _flow_control(reader: _Reader) -> None:
    for names, row in reader.table("PORT_QOS_MAP").items():
        key = f"PORT_QOS_MAP|{names}"
        for name in names.split(","):
            if name == "global":
                continue
            port = reader.port(name)
            if "pfc_enable" in row:
                on = set(numbers(row["pfc_enable"]))
                reader.set(port, "pfc_priorities", tuple(p in on for p in range(8)), key)
            if "pfcwd_sw_enable" in row:
                reader.set(port, "pfc_watchdog_enabled", bool(row["pfcwd_sw_enable"]), key)
            trust = [word for word in ("dscp", "dot1p") if f"{word}_to_tc_map" in row]
            if trust:
                word = "both" if len(trust) == 2 else trust[0].replace("dot1p", "pcp")
                reader.set(port, "trust", word, key)


def _watchdog(reader: _Reader) -> None:
    table = reader.table("PFC_WD")
    poll = reader.number(table.get("GLOBAL", {}), "POLL_INTERVAL", "PFC_WD|GLOBAL")
    for name, row in table.items():
        if name == "GLOBAL":
            continue
        port, key = reader.port(name), f"PFC_WD|{name}"
        reader.set(port, "pfc_watchdog_enabled", True, key)
        for source, setting in (
            ("detection_time", "detection"),
            ("restoration_time", "restoration"),
        ):
            value = reader.number(row, source, key)
            if value is not None:
                reader.set(port, f"pfc_watchdog_{setting}_seconds", value / 1000, key)
        if "action" in row:
            reader.set(port, "pfc_watchdog_action", row["action"], key)
        if poll is not None:
            reader.set(port, "pfc_watchdog_poll_seconds", poll / 1000, "PFC_WD|GLOBAL")


_GROUP_BUFFERS = (
    ("xoff", "xoff_bytes"),
    ("xon", "xon_bytes"),
    ("xon_offset", "xon_offset_bytes"),
    ("size", "reserved_buffer_bytes"),
    ("dynamic_th", "buffer_alpha_exponent"),
)


def _buffers(reader: _Reader) -> None:
    profiles = reader.table("BUFFER_PROFILE")
    for key, row in reader.table("BUFFER_PG").items():
        name = reference(row.get("profile", ""))
        profile = profiles.get(name)
        if profile is None:
            if name and name != "NULL":
                reader.odd.append((f"BUFFER_PG|{key}", f"BUFFER_PROFILE|{name} is not there"))
            continue
        where = f"BUFFER_PROFILE|{name}"
        values = [
            (setting, value)
            for source, setting in _GROUP_BUFFERS
            if (value := reader.number(profile, source, where)) is not None
        ]
        for port, number in spread(key):
            group = Slot(reader.port(port), "priority_group", number)
            for setting, value in values:
                reader.set(group, setting, value, f"BUFFER_PG|{key} {where}")
    for position, (name, row) in enumerate(sorted(reader.table("BUFFER_POOL").items())):
        pool = Slot(reader.switch, "pool", position)
        reader.attributes.append(Attribute(pool, "alias", name))
        for source, setting in (("size", "pool_size_bytes"), ("xoff", "pool_xoff_bytes")):
            value = reader.number(row, source, f"BUFFER_POOL|{name}")
            if value is not None:
                reader.set(pool, setting, value, f"BUFFER_POOL|{name}")
        if "mode" in row:
            reader.set(pool, "pool_mode", row["mode"], f"BUFFER_POOL|{name}")


def _cables(reader: _Reader) -> None:
    for name, lengths in reader.table("CABLE_LENGTH").items():
        for port, text in lengths.items():
            metres = text.removesuffix("m")
            if metres.isdigit() and int(metres):
                entity, where = reader.port(port), f"CABLE_LENGTH|{name}"
                reader.set(entity, "pfc_cable_length_metres", int(metres), where)


_MAPS = (
    ("dscp_to_tc_map", "DSCP_TO_TC_MAP", "dscp_to_traffic_class", 64),
    ("dot1p_to_tc_map", "DOT1P_TO_TC_MAP", "pcp_to_traffic_class", 8),
    ("tc_to_queue_map", "TC_TO_QUEUE_MAP", "traffic_class_to_queue", 8),
    ("tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP", "traffic_class_to_group", 8),
    ("pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE", "priority_to_queue", 8),
)


def _maps(reader: _Reader) -> None:
    for names, row in reader.table("PORT_QOS_MAP").items():
        for source, table, setting, size in _MAPS:
            name = reference(row.get(source, ""))
            if not name:
                continue
            content = reader.table(table).get(name)
            if content is None:
                reader.odd.append((f"PORT_QOS_MAP|{names}", f"{table}|{name} is not there"))
                continue
            given = {int(p): int(v) for p, v in content.items() if p.isdigit() and v.isdigit()}
            places = [given.get(place, NOT_SET) for place in range(size)]
            for port in names.split(","):
                entity = reader.switch if port == "global" else reader.port(port)
                where = f"PORT_QOS_MAP|{names} {table}|{name}"
                reader.set(entity, setting, tuple(places), where)


def _hash(reader: _Reader) -> None:
    row = reader.table("SWITCH_HASH").get("GLOBAL", {})
    for source in ("ecmp_hash", "ecmp_hash@"):
        if source in row:
            fields = tuple(re.split(r"[,\s]+", row[source].strip()))
            reader.set(reader.switch, "ecmp_hash_fields", fields, "SWITCH_HASH|GLOBAL")
    if "ecmp_hash_algorithm" in row:
        algorithm = row["ecmp_hash_algorithm"]
        reader.set(reader.switch, "ecmp_hash_algorithm", algorithm, "SWITCH_HASH|GLOBAL")


def _neighbours(reader: _Reader) -> Iterator[Neighbour]:
    for name, row in reader.table("DEVICE_NEIGHBOR").items():
        if row.get("name") and row.get("port"):
            remote = Interface(Switch(row["name"], row["name"]), row["port"])
            yield Neighbour(reader.port(name), remote, "config_db")

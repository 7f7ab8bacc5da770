"""Facts of a switch over SNMP: name, software, speed and MTU of interfaces, LLDP neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from collectors.model.entities import Interface, Switch
from collectors.model.errors import FabricError
from collectors.model.facts import Attribute, Facts, Neighbour, Setting
from collectors.snmp import tables
from collectors.snmp.naming import text
from collectors.snmp.session import Row, Session
from collectors.snmp.walk import Pace, table, walk

LLDP: Final = "1.0.8802.1.1.2.1"
LOCAL_CHASSIS: Final = f"{LLDP}.3.2.0"
LOCAL_PORT: Final = f"{LLDP}.3.7.1.3"
LOCAL_PORT_DESCR: Final = f"{LLDP}.3.7.1.4"
REMOTE: Final = f"{LLDP}.4.1.1"
_COLUMNS: Final = {
    4: "chassis_type",
    5: "chassis",
    6: "port_type",
    7: "port",
    8: "port_descr",
    9: "name",
}
_MAC: Final = 4  # LldpChassisIdSubtype macAddress
_PORT_MAC: Final = 3  # LldpPortIdSubtype macAddress

Noter = Callable[[str, str], None]


def identifier(value: Any, *, is_mac: bool) -> str:
    """Return an LLDP identifier as text: `00:1c:73:aa:bb:cc` for a MAC address."""
    if is_mac and isinstance(value, bytes) and len(value) == 6:
        return value.hex(":")
    return text(value)


def parse_neighbours(
    rows: dict[str, list[Row]],
    local_names: dict[int, list[str]],
    interfaces: dict[int, Interface | None],
) -> tuple[list[Neighbour], list[str]]:
    """Return neighbours of lldpRemTable rows, and what could not be placed.

    rows: name of the column -> rows with OIDs `...<timeMark>.<localPortNum>.<remIndex>`.
    local_names: localPortNum -> spellings of the local port; localPortNum is ifIndex on some
    devices only, so that names are tried first.
    """
    by_name = {port.name: port for port in interfaces.values() if port is not None}
    seen: dict[tuple[str, ...], dict[str, Any]] = {}
    for column, found in rows.items():
        for oid, value in found:
            seen.setdefault(tuple(oid.split(".")[-3:]), {})[column] = value
    neighbours, lost = [], []
    for (_, local_number, _), row in sorted(seen.items()):
        number = int(local_number)
        local = next(
            (by_name[name] for name in local_names.get(number, []) if name in by_name), None
        )
        if local is None and number not in local_names:
            local = interfaces.get(number)
        if local is None:
            unwanted = number in interfaces and interfaces[number] is None
            if not unwanted:
                lost.append(local_number)
            continue
        chassis = identifier(row.get("chassis", b""), is_mac=row.get("chassis_type") == _MAC)
        port = identifier(row.get("port", b""), is_mac=row.get("port_type") == _PORT_MAC)
        name = text(row.get("name", b""))
        if not (chassis or name) or not port:
            lost.append(local_number)
            continue
        remote = Interface(Switch(chassis or name, name), port)
        neighbours.append(Neighbour(local, remote, "lldp"))
    return neighbours, lost


async def fetch_facts(
    session: Session,
    switch: Switch,
    interfaces: dict[int, Interface | None],
    description: str,
    pace: Pace,
    ends: dict[str, int],
    gap: Noter,
) -> Facts:
    """Return the facts of a switch; what it does not have is a gap or simply not there."""
    attributes = (
        [Attribute(switch, "software", description.splitlines()[0][:200])] if description else []
    )
    found = await session.get([tables.SYS_NAME, LOCAL_CHASSIS])
    if name := text(found.get(tables.SYS_NAME, "")):
        attributes.append(Attribute(switch, "system_name", name))
    chassis = found.get(LOCAL_CHASSIS)
    if chassis:
        attributes.append(Attribute(switch, "chassis_id", identifier(chassis, is_mac=True)))
    settings: list[Setting] = []
    for oid, row, scale in (
        (tables.IF_MTU, "mtu_bytes", 1),
        (tables.IF_HIGH_SPEED, "speed_bps", 10**6),
    ):
        for index, value in (await table(session, oid, pace, ends, gap)).items():
            port = interfaces.get(index)
            if port is not None and isinstance(value, int) and value > 0:
                settings.append(Setting(port, row, value * scale, f"{oid}.{index}"))
    for index, alias in (await table(session, tables.IF_ALIAS, pace, ends, gap)).items():
        port = interfaces.get(index)
        if port is not None and alias:
            attributes.append(Attribute(port, "alias", text(alias)))
    neighbours = await _neighbours(session, interfaces, pace, ends, gap)
    return Facts(tuple(settings), tuple(attributes), neighbours=tuple(neighbours))


async def _neighbours(
    session: Session,
    interfaces: dict[int, Interface | None],
    pace: Pace,
    ends: dict[str, int],
    gap: Noter,
) -> list[Neighbour]:
    rows: dict[str, list[Row]] = {}
    try:
        for column, name in _COLUMNS.items():
            rows[name] = await walk(session, f"{REMOTE}.{column}", pace, ends, gap)
            if not rows[name] and column == min(_COLUMNS):
                gap("lldp", "not supported")
                return []
    except FabricError as error:
        gap("lldp", type(error).__name__)
        return []
    local_names: dict[int, list[str]] = {}
    for oid in (LOCAL_PORT, LOCAL_PORT_DESCR):
        for number, value in (await table(session, oid, pace, ends, gap)).items():
            local_names.setdefault(number, []).append(text(value))
    neighbours, lost = parse_neighbours(rows, local_names, interfaces)
    for unplaced in lost:
        gap(f"lldp local port {unplaced}", "unknown port")
    return neighbours

"""LLDP neighbours of a switch from OpenConfig leaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from collectors.gnmi.paths import Location
from collectors.model.entities import Interface, Switch
from collectors.model.facts import Neighbour


@dataclass
class Neighbours:
    """What LLDP leaves said so far."""

    switch: Switch
    chassis_id: str = ""
    _rows: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)

    def take(self, location: Location, value: Any) -> None:
        """Take one leaf below /lldp."""
        leaf = location.schema.rpartition("/")[2]
        if location.schema == "/lldp/state/chassis-id":
            self.chassis_id = str(value).lower()
        keys = {element: text for element, _, text in location.keys}
        if "interface" in keys and "neighbor" in keys:
            row = self._rows.setdefault((keys["interface"], keys["neighbor"]), {})
            row[leaf] = str(value)

    def delete(self, location: Location) -> None:
        """Forget what a delete names: a neighbour or all of an interface."""
        if not location.schema.startswith("/lldp/"):
            return
        keys = {element: text for element, _, text in location.keys}
        for interface, neighbour in list(self._rows):
            if keys.get("interface", interface) == interface and (
                keys.get("neighbor", neighbour) == neighbour
            ):
                del self._rows[interface, neighbour]

    def facts(self) -> tuple[Neighbour, ...]:
        """Return the neighbours that are known well enough to name their port."""
        found = []
        for (interface, _), row in sorted(self._rows.items()):
            chassis = row.get("chassis-id", "").lower()
            name = row.get("system-name", "")
            port = row.get("port-id", "")
            if port and (chassis or name):
                local = Interface(self.switch, interface)
                remote = Interface(Switch(chassis or name, name), port)
                found.append(Neighbour(local, remote, "lldp"))
        return tuple(found)

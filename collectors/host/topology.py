"""Cables as the administrator (or the lab) wrote them down, where nothing can be asked.

Option: file, a YAML or JSON file:

    links:
      - [{host: node1, netdev: eth2}, {switch: leaf1, interface: Ethernet1/1}]

Where LLDP is heard as well, the two confirm or contradict each other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from collectors.host.context import HostCollector, HostContext
from collectors.model.entities import Interface, Netdev, Switch
from collectors.model.errors import ConfigInvalid, Malformed, Unavailable
from collectors.model.facts import Facts, Neighbour
from collectors.model.reading import Clock, Pass

HOW: Final = "topology file"


def parse_topology(text: str, file: str) -> tuple[Neighbour, ...]:
    """Return the links of a topology file. Raises Malformed naming the file and the link."""
    from collectors.user_input.yaml_text import parse_yaml

    try:
        content = parse_yaml(text, file)
    except ConfigInvalid as error:
        raise Malformed(error.subject, "parse topology", error.why) from error
    if not isinstance(content, dict) or set(content) != {"links"}:
        raise Malformed(file, "parse topology", "needs one key, links")
    rows = content["links"]
    if not isinstance(rows, list):
        raise Malformed(file, "parse topology", "links is no list")
    found = []
    for place, row in enumerate(rows):
        where = f"links[{place}]"
        if not isinstance(row, list) or len(row) != 2:
            raise Malformed(file, "parse topology", f"{where}: a link has two ends")
        found.append(Neighbour(_end(row[0], file, where), _end(row[1], file, where), HOW))
    return tuple(found)


def _end(row: object, file: str, where: str) -> Netdev | Interface:
    if isinstance(row, dict) and all(isinstance(value, str) for value in row.values()):
        if set(row) == {"host", "netdev"}:
            return Netdev(row["host"], row["netdev"])
        if set(row) == {"switch", "interface"}:
            return Interface(Switch(row["switch"], row["switch"]), row["interface"])
    raise Malformed(
        file, "parse topology", f"{where}: an end is host + netdev or switch + interface"
    )


class TopologyCollector:
    """Reads the file again when it has changed."""

    name = "topology"

    def __init__(self, context: HostContext) -> None:
        file = context.options.get("file")
        if set(context.options) != {"file"} or not isinstance(file, str):
            raise ConfigInvalid("collectors.topology.options", "check", "needs file: PATH, alone")
        self._file = Path(file)
        self._seen = b""

    def read(self, _clock: Clock) -> Pass:
        """Read once. Raises Unavailable or Malformed; the links read before stay known."""
        try:
            data = self._file.read_bytes()
        except OSError as error:
            why = error.strerror or str(error)
            raise Unavailable(str(self._file), "read topology", why) from error
        if data == self._seen:
            return Pass()
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise Malformed(str(self._file), "read topology", "not UTF-8 text") from error
        neighbours = parse_topology(text, str(self._file))
        self._seen = data
        return Pass(facts=Facts(neighbours=neighbours))


TOPOLOGY: Final = HostCollector(
    "topology",
    "cables from a file, where they cannot be discovered",
    TopologyCollector,
    interval_s=30.0,
    on=False,
)

"""A simulated switch as its platform's gNMI server shows it: paths and values.

Written from the vendors' models apart from the collector's tables (see snmp_face).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from gnmi_pb import gnmi_pb2 as gnmi

from simlab.switches.state import SLOTS, SwitchState, port_alias, port_name

Leaf = tuple[str, str]  # word, path with {p} for the port and {s} for the slot
_COUNTERS = "/interfaces/interface[name={p}]/state/counters"
_QUEUE = "/qos/interfaces/interface[interface-id={p}]/output/queues/queue[name={s}]/state"
_OC: Final[tuple[Leaf, ...]] = (
    ("rx_bytes", _COUNTERS + "/in-octets"),
    ("tx_bytes", _COUNTERS + "/out-octets"),
    ("rx_drops", _COUNTERS + "/in-discards"),
    ("tx_drops", _COUNTERS + "/out-discards"),
    ("rx_crc", _COUNTERS + "/in-fcs-errors"),
    ("q_packets", _QUEUE + "/transmit-pkts"),
    ("q_bytes", _QUEUE + "/transmit-octets"),
    ("q_drops", _QUEUE + "/dropped-pkts"),
)
_ECN: Final[Leaf] = ("q_ecn", _QUEUE + "/ecn-marked-pkts")
_EOS_PFC = "/interfaces/interface[name={p}]/ethernet/pfc/priorities/priority[index={s}]/state"
_JUNOS_PFC = (
    "/interfaces/interface[name={p}]/ethernet/state/counters/jnx-pfc-statistics[priority={s}]"
)
_NXOS = (
    "/System/ipqos-items/queuing-items/policy-items/out-items/intf-items/If-list[name={p}]"
    "/queCmap-items/QueuingStats-list[cmapName=c-out-8q-q{s}]"
)
_NVUE_PFC = "/interfaces/interface[name={p}]/ethernet/state/counters"
FACES: Final[dict[str, tuple[Leaf, ...]]] = {
    "openconfig": (*_OC, _ECN),
    "eos": (
        *_OC,
        _ECN,
        ("pfc_rx", _EOS_PFC + "/in-frames"),
        ("pfc_tx", _EOS_PFC + "/out-frames"),
        ("pause_ns", _EOS_PFC + "/pfc-on-total-rx-time"),
    ),
    "junos": (
        *_OC,
        ("pfc_rx", _JUNOS_PFC + "/in-mac-pause-frames"),
        ("pfc_tx", _JUNOS_PFC + "/out-mac-pause-frames"),
    ),
    "nxos": (
        *_OC[:5],
        ("pfc_rx", _NXOS + "/pfcRxPpp"),
        ("pfc_tx", _NXOS + "/pfcTxPpp"),
        ("q_ecn", _NXOS + "/randEcnMarkedPackets"),
        ("q_bytes", _NXOS + "/txBytes"),
    ),
    "nvue": (
        *_OC[:5],
        _ECN,
        ("pfc_rx", _NVUE_PFC + "/in-pfc{s}-packets"),
        ("pfc_tx", _NVUE_PFC + "/out-pfc{s}-packets"),
    ),
    "onyx": (),
    "sonic": (),
}
_SLOTLESS = re.compile(r"\{s\}")
_PART = re.compile(r"([^\[\]/]+)((?:\[[^\]]+\])*)")


def pack(text: str) -> Any:
    """Return the message of a path."""
    elements = []
    for name, keys in _PART.findall(text):
        pairs = dict(pair.split("=", 1) for pair in re.findall(r"\[([^\]]+)\]", keys))
        elements.append(gnmi.PathElem(name=name, key=pairs))
    return gnmi.Path(elem=elements)


def matches(wanted: Any, path: Any) -> bool:
    """Tell whether a path lies at or below a subscription, `*` standing for any key."""
    if len(wanted.elem) > len(path.elem):
        return False
    for ask, have in zip(wanted.elem, path.elem, strict=False):
        if ask.name not in (have.name, "*"):
            return False
        for key, value in ask.key.items():
            if value not in ("*", have.key.get(key, "")):
                return False
    return True


@dataclass
class GnmiFace:
    """Leaves of a state; SONiC answers with objects instead."""

    state: SwitchState
    extra: dict[str, Any] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._leaves: list[tuple[Any, tuple[str, int, int]]] = []
        platform = self.state.platform
        for word, template in FACES[platform]:
            slots = range(SLOTS) if _SLOTLESS.search(template) else range(1)
            for port in range(1, self.state.ports + 1):
                name = port_name(platform, port)
                for slot in slots:
                    path = pack(template.format(p=name, s=slot))
                    self._leaves.append((path, (word, port, slot)))
        for port in range(1, self.state.ports + 1):
            name = port_name(platform, port)
            if FACES[platform]:
                self.extra[f"/interfaces/interface[name={name}]/state/oper-status"] = "UP"
            if port in self.state.neighbours and FACES[platform]:
                self._neighbour(name, *self.state.neighbours[port])
        if FACES[platform]:
            self.extra["/lldp/state/chassis-id"] = self.state.mac
        self.put({})

    def put(self, leaves: dict[str, Any]) -> None:
        """Show more leaves, or other values: path -> value, an object for a whole container."""
        self.extra |= leaves
        self._extra = [(pack(path), path) for path in self.extra]

    def _neighbour(self, port: str, chassis: str, remote: str, name: str) -> None:
        base = f"/lldp/interfaces/interface[name={port}]/neighbors/neighbor[id=1]/state"
        leaves = {"chassis-id": chassis, "port-id": remote, "system-name": name}
        for leaf, value in leaves.items():
            self.extra[f"{base}/{leaf}"] = value

    def _value(self, key: tuple[str, int, int]) -> int:
        word, port, slot = key
        if word == "pause_ns":
            return self.state.get("pause_rx_us", port, slot) * 1000
        return self.state.values[key]

    def select(self, wanted: list[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield path and value of everything below the subscriptions."""
        if self.state.platform == "sonic":
            for path in wanted:
                yield path, self._sonic([element.name for element in path.elem])
            return
        for path, key in self._leaves:
            if key[0] not in self.hidden and any(matches(ask, path) for ask in wanted):
                yield path, self._value(key)
        for path, text in self._extra:
            if any(matches(ask, path) for ask in wanted):
                yield path, self.extra[text]

    def _sonic(self, names: list[str]) -> dict[str, Any]:
        """Return the object of a SONiC path, keyed by the vendor's alias."""
        state = self.state
        found: dict[str, Any] = {}
        for port in range(1, state.ports + 1):
            alias = port_alias("sonic", port)
            if names[-1] == "Queues":
                for slot in range(SLOTS):
                    found[f"{alias}:{slot}"] = queue_hash(state, port, slot)
            elif names[-1] == "PriorityGroups":
                for slot in range(SLOTS):
                    found[f"{alias}:{slot}"] = group_hash(state, port, slot)
            else:
                found[alias] = port_hash(state, port)
        return found


def port_hash(state: SwitchState, port: int) -> dict[str, str]:
    """Return what COUNTERS holds of a port."""
    found = {
        "SAI_PORT_STAT_IF_IN_OCTETS": state.get("rx_bytes", port),
        "SAI_PORT_STAT_IF_OUT_OCTETS": state.get("tx_bytes", port),
        "SAI_PORT_STAT_IF_IN_DISCARDS": state.get("rx_drops", port),
        "SAI_PORT_STAT_IF_OUT_DISCARDS": state.get("tx_drops", port),
        "SAI_PORT_STAT_IF_IN_ERRORS": state.get("rx_errors", port),
    }
    for slot in range(SLOTS):
        found[f"SAI_PORT_STAT_PFC_{slot}_RX_PKTS"] = state.get("pfc_rx", port, slot)
        found[f"SAI_PORT_STAT_PFC_{slot}_TX_PKTS"] = state.get("pfc_tx", port, slot)
        paused = state.get("pause_rx_us", port, slot)
        found[f"SAI_PORT_STAT_PFC_{slot}_RX_PAUSE_DURATION_US"] = paused
    return {name: str(value) for name, value in found.items()}


def queue_hash(state: SwitchState, port: int, slot: int) -> dict[str, str]:
    """Return what COUNTERS holds of a queue."""
    found = {
        "SAI_QUEUE_STAT_PACKETS": state.get("q_packets", port, slot),
        "SAI_QUEUE_STAT_BYTES": state.get("q_bytes", port, slot),
        "SAI_QUEUE_STAT_DROPPED_PACKETS": state.get("q_drops", port, slot),
        "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": state.get("q_ecn", port, slot),
        "SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES": state.get("q_depth", port, slot),
        "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED": state.get("wd_storms", port, slot),
    }
    return {name: str(value) for name, value in found.items()}


def group_hash(state: SwitchState, port: int, slot: int) -> dict[str, str]:
    """Return what the watermark tables hold of a priority group."""
    shared = "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES"
    headroom = "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES"
    return {
        shared: str(state.get("pg_max", port, slot)),
        headroom: str(state.get("pg_headroom_max", port, slot)),
    }

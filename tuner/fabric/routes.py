"""Routes between two NICs: all shortest ones, and the one that known hash settings predict.

Hash functions of switches are published by name, not to the bit (collectors/model/ecmp_hash.py):
a prediction holds for the published function over members in the order of their names, and says
so. Where fields, seed or algorithm are unknown, or the switch does not hash flows at all, the
candidates are the answer.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from collectors.model.ecmp_hash import (
    FlowKey,
    HashAlgorithm,
    HashField,
    HashSpec,
    choose_member,
)
from collectors.model.entities import Entity, Interface, Port, Switch, Wire
from collectors.model.facts import QueuePairFact, Setting, Value
from tuner.fabric.graph import Fabric
from tuner.fabric.natural import natural
from tuner.fabric.steps import steps_from

How: TypeAlias = Literal["only", "predicted", "candidates"]
"""Of a hop: there is no other, the hash settings predict it, or it is one of several."""

_FIELDS: Final[Mapping[str, HashField]] = {
    word: field
    for field, words in {
        HashField.SRC_IP: "srcip sourceip sip ipsource src source",
        HashField.DST_IP: "dstip destinationip dip ipdestination dst destination",
        HashField.PROTOCOL: "ipprotocol protocol",
        HashField.SRC_PORT: "l4srcport srcport sourceport",
        HashField.DST_PORT: "l4dstport dstport destinationport",
        HashField.IN_PORT: "inport ingressinterface",
        HashField.FLOW_LABEL: "ipv6flowlabel flowlabel ipv6label",
        HashField.DST_QP: "dstqp destqp rdmaqp",
    }.items()
    for word in words.split()
}
_ALGORITHMS: Final = {
    re.sub(r"[^a-z0-9]", "", algorithm.value): algorithm for algorithm in HashAlgorithm
}
_MOST_HOPS: Final = 64
_SPRAYED: Final = ("per_packet", "flowlet", "adaptive")


class Settings(Protocol):
    """The part of a window that hash settings are read from."""

    def settings(self, entity: Entity) -> Mapping[str, Setting]:
        """Return the running settings of an entity by name."""


@dataclass(frozen=True, slots=True)
class Hop:
    """The way out of a switch, or of all switches that the flow may be at by then.

    out: the interface, or all candidates. why: in words.
    """

    switches: tuple[Switch, ...]
    out: tuple[Interface, ...]
    how: How
    why: str = ""


@dataclass(frozen=True, slots=True)
class Path:
    """From one end of a flow to the other."""

    begin: Wire
    end: Wire
    hops: tuple[Hop, ...]

    @property
    def whole(self) -> bool:
        """Every hop is the only one or predicted."""
        return all(hop.how != "candidates" for hop in self.hops)


class Router:
    """Shortest ways over the switches of a fabric."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._ways: dict[Switch, dict[Switch, list[Interface]]] = {}
        for wire in fabric.wires:
            far = fabric.peer(wire)
            if isinstance(wire, Interface) and isinstance(far, Interface):
                self._ways.setdefault(wire.switch, {}).setdefault(far.switch, []).append(wire)
        self._hops: dict[Switch, dict[Switch, int]] = {}

    def exits(self, at: Switch, end: Wire) -> tuple[Interface, ...]:
        """Return the interfaces of a switch that lead to an end on shortest ways, by name."""
        last = self._fabric.peer(end)
        if not isinstance(last, Interface):
            return ()
        if last.switch == at:
            return (last,)
        hops = self._distances(last.switch)
        if at not in hops:
            return ()
        found = [
            wire
            for switch, wires in self._ways.get(at, {}).items()
            if hops.get(switch, hops[at]) == hops[at] - 1
            for wire in wires
        ]
        return tuple(sorted(found, key=lambda wire: natural(wire.name)))

    def path(self, begin: Wire, end: Wire, flow: FlowKey | None, settings: Settings) -> Path:
        """Return the way of a flow as far as it can be told; None: of any flow."""
        entry = self._fabric.peer(begin)
        at: tuple[Switch, ...] = (entry.switch,) if isinstance(entry, Interface) else ()
        hops: list[Hop] = []
        while at and len(hops) < _MOST_HOPS:
            hop = _joined([self._hop(switch, end, flow, settings) for switch in at])
            if not hop.out:
                break
            hops.append(hop)
            entries = [self._fabric.peer(wire) for wire in hop.out]
            at = tuple(dict.fromkeys(e.switch for e in entries if isinstance(e, Interface)))
        return Path(begin, end, tuple(hops))

    def _hop(self, at: Switch, end: Wire, flow: FlowKey | None, settings: Settings) -> Hop:
        out = self.exits(at, end)
        if len(out) < 2:
            return Hop((at,), out, "only")
        if isinstance(end, Port):
            return Hop((at,), out, "candidates", "InfiniBand: forwarding tables decide, no hash")
        if flow is None:
            return Hop((at,), out, "candidates", "no queue pair is known")
        spec = hash_spec(settings.settings(at))
        if isinstance(spec, str):
            return Hop((at,), out, "candidates", spec)
        chosen = out[choose_member(flow, len(out), spec)]
        why = f"{spec.algorithm.value} as published, one of {len(out)} in order of name"
        return Hop((at,), (chosen,), "predicted", why)

    def _distances(self, to: Switch) -> dict[Switch, int]:
        found = self._hops.get(to)
        if found is None:
            found = self._hops[to] = steps_from([to], self._ways)
        return found


def _joined(hops: Sequence[Hop]) -> Hop:
    """Return the hop of several switches of which the flow is at one."""
    if len(hops) == 1:
        return hops[0]
    out = tuple(dict.fromkeys(wire for hop in hops for wire in hop.out))
    why = next((hop.why for hop in hops if hop.how == "candidates"), "")
    return Hop(tuple(switch for hop in hops for switch in hop.switches), out, "candidates", why)


def hash_spec(settings: Mapping[str, Setting]) -> HashSpec | str:
    """Return the hash of a switch, or why no path can be predicted by it."""
    mode = settings.get("load_balancing")
    if mode is not None and mode.value in _SPRAYED:
        return f"load balancing is {mode.value}: a flow has no fixed path"
    lacking = [
        name.removeprefix("ecmp_hash_")
        for name in ("ecmp_hash_fields", "ecmp_hash_seed", "ecmp_hash_algorithm")
        if name not in settings
    ]
    if lacking:
        return f"hash {', '.join(lacking)} unknown"
    fields = hash_fields(settings["ecmp_hash_fields"].value)
    if fields is None:
        return f"hash fields {settings['ecmp_hash_fields'].value} are not known here"
    if "ecmp_hash_rdma_qp" in settings and settings["ecmp_hash_rdma_qp"].value:
        fields = (*fields, HashField.DST_QP)
    word = re.sub(r"[^a-z0-9]", "", str(settings["ecmp_hash_algorithm"].value).lower())
    algorithm, seed = _ALGORITHMS.get(word), settings["ecmp_hash_seed"].value
    if algorithm is None or not isinstance(seed, int):
        return f"what {settings['ecmp_hash_algorithm'].value} computes is not public"
    offset = settings.get("ecmp_hash_offset")
    rotate = offset.value if offset is not None and isinstance(offset.value, int) else 0
    return HashSpec(algorithm, tuple(dict.fromkeys(fields)), seed, rotate)


def hash_fields(value: Value) -> tuple[HashField, ...] | None:
    """Return the fields that a vendor's words name, None where one of them is not known."""
    words = value if isinstance(value, tuple) else (value,)
    found = [_FIELDS.get(re.sub(r"[^a-z0-9]", "", str(word).lower())) for word in words]
    return None if None in found or not found else tuple(field for field in found if field)


def flow_of(pair: QueuePairFact) -> FlowKey | None:
    """Return what switches see of a queue pair's packets; None where that is not known."""
    if pair.udp_source_port is None or not pair.local_address or not pair.remote_address:
        return None
    try:
        ends = [ipaddress.ip_address(a) for a in (pair.local_address, pair.remote_address)]
    except ValueError:
        return None
    plain = [getattr(end, "ipv4_mapped", None) or end for end in ends]
    return FlowKey(
        int(plain[0]),
        int(plain[1]),
        pair.udp_source_port,
        dst_qp=pair.remote_qpn or 0,
        ip_bytes=4 if plain[0].version == 4 else 16,
    )

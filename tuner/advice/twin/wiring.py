"""The cables of a twin: hosts and switches of a fabric as nodes, and who is which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from collectors.model.catalogue import interface, rdma
from collectors.model.catalogue import switch as switch_rows
from collectors.model.entities import Interface, Netdev, Port, Switch, Wire, display
from collectors.model.errors import NotSupported
from simlab.packet.topology import Cable, Topology
from tuner.advice.twin.change import REPAIR, SPEED, Assignment
from tuner.diagnosis.view import FabricView, Telemetry
from tuner.fabric.natural import natural
from tuner.fabric.steps import steps_from

DELAY_S: Final = 1e-6  # of one hop where no cable length is known
_S_PER_METRE: Final = 5e-9
_PORT_S: Final = 0.5e-6  # of a switch's port, beside its cable
RATE_BPS: Final = 100e9


@dataclass(frozen=True)
class Wiring:
    """A topology and what its numbers mean.

    `hosts`: the RDMA port of each host node, nodes 0, 1, ... `switches`: those of the nodes after
    them. `directed`: the directed port of each cable end. `assumed`: what was not known.
    """

    topology: Topology
    hosts: tuple[Port, ...]
    switches: tuple[Switch, ...]
    directed: Mapping[Wire, int]
    node_of: Mapping[Port, int]
    assumed: tuple[str, ...]

    def switch_ports(self) -> Iterable[tuple[Interface, int]]:
        """Yield the interfaces of switches with their directed ports."""
        for wire, port in self.directed.items():
            if isinstance(wire, Interface):
                yield wire, port

    def changed(self, changes: Sequence[Assignment]) -> Wiring:
        """Return the wiring with cables at another speed, or repaired."""
        cables = dict(enumerate(self.topology.cables))
        for wire, port in self.directed.items():
            for change in changes:
                if change.place is None or not change.holds_for(wire):
                    continue
                if change.knob == REPAIR:
                    cables[port // 2] = replace(cables[port // 2], error_rate=0.0)
                elif change.knob == SPEED and isinstance(change.value, (int, float)):
                    rate = float(change.value)
                    cables[port // 2] = replace(cables[port // 2], rate_bps=rate)
        return replace(self, topology=self.topology.with_cables(cables))


def wire_up(telemetry: Telemetry, fabric: FabricView, hosts: Sequence[Port]) -> Wiring:
    """Return the wiring of these hosts with all switches on shortest paths between them.

    Nodes and cables are in the natural order of their names. Raises NotSupported where no switch
    between them is known.
    """
    hosts = sorted(hosts, key=lambda port: natural(f"{port.device.host} {display(port)}"))
    leaf_of: dict[Port, Interface] = {}
    for port in hosts:
        far = fabric.peer(fabric.attached(port))
        if isinstance(far, Interface):
            leaf_of[port] = far
    hosts = [port for port in hosts if port in leaf_of]
    if len(hosts) < 2:
        raise NotSupported(
            "twin", "wiring", "cables of fewer than two RDMA ports to switches are known (LLDP?)"
        )
    near: dict[Switch, dict[Switch, list[tuple[Interface, Interface]]]] = {}
    for cable in fabric.links():
        one, other = cable.a, cable.b
        if isinstance(one, Interface) and isinstance(other, Interface):
            near.setdefault(one.switch, {}).setdefault(other.switch, []).append((one, other))
            near.setdefault(other.switch, {}).setdefault(one.switch, []).append((other, one))
    leaves = list(dict.fromkeys(far.switch for far in leaf_of.values()))
    tiers = steps_from(leaves, near)
    switches = sorted(
        _between(leaves, near), key=lambda switch: (tiers[switch], natural(display(switch)))
    )
    nodes = {switch: len(hosts) + i for i, switch in enumerate(switches)}
    ends: list[tuple[int, Wire, int, Interface]] = [
        (i, fabric.attached(port), nodes[leaf_of[port].switch], leaf_of[port])
        for i, port in enumerate(hosts)
    ]
    for switch in switches:
        up = [
            pair
            for far, pairs in near.get(switch, {}).items()
            if far in nodes and nodes[far] > nodes[switch]
            for pair in pairs
        ]
        up.sort(key=lambda pair: natural(pair[0].name))
        ends += [(nodes[switch], own, nodes[far.switch], far) for own, far in up]
    ruler = _Ruler(telemetry, fabric)
    cables = tuple(
        Cable(a, b, ruler.rate_bps(one, other), ruler.delay_s(one, other), ruler.loss(one, other))
        for a, one, b, other in ends
    )
    directed: dict[Wire, int] = {}
    for i, (_, one, _, other) in enumerate(ends):
        directed[one], directed[other] = 2 * i, 2 * i + 1
    count = len(hosts) + len(switches)
    topology = Topology(
        count,
        tuple(range(len(hosts), count)),
        cables,
        (0,) * len(hosts) + tuple(tiers[switch] for switch in switches),
        name="twin",
    )
    return Wiring(
        topology,
        tuple(hosts),
        tuple(switches),
        directed,
        {port: i for i, port in enumerate(hosts)},
        ruler.assumed(),
    )


class _Ruler:
    """Rates and delays of cables, and what had to be assumed of them."""

    def __init__(self, telemetry: Telemetry, fabric: FabricView) -> None:
        self._fabric = fabric
        self._speeds = telemetry.latest_all(interface.SPEED.name)
        self._set = telemetry.setting_all("speed_bps")
        self._metres = telemetry.setting_all("pfc_cable_length_metres")
        self._errors = [
            telemetry.growth_all(metric.name)
            for metric in (interface.RX_ERRORS, interface.RX_CRC_ERRORS)
        ]
        self._arrived = [
            telemetry.growth_all(metric.name)
            for metric in (interface.RX_PACKETS, switch_rows.RX_UNICAST, rdma.RX_PACKETS)
        ]
        self._unknown = 0
        self._unmeasured = 0

    def rate_bps(self, one: Wire, other: Wire) -> float:
        """Return the rate of a cable: the lower of what its ends say."""
        said: list[float] = []
        for wire in (one, other):
            seen, chosen = self._speeds.get(wire), self._set.get(wire)
            if seen is not None and seen.value > 0:
                said.append(seen.value)
            elif chosen is not None and isinstance(chosen.value, (int, float)) and chosen.value:
                said.append(float(chosen.value))
        if not said:
            self._unknown += 1
        return min(said, default=RATE_BPS)

    def delay_s(self, one: Wire, other: Wire) -> float:
        """Return the one-way delay of a cable and the port behind it."""
        for wire in (one, other):
            metres = self._metres.get(wire)
            if metres is not None and isinstance(metres.value, (int, float)):
                return _PORT_S + _S_PER_METRE * float(metres.value)
        self._unmeasured += 1
        return DELAY_S

    def loss(self, one: Wire, other: Wire) -> float:
        """Return the share of packets that arrive damaged, of the worse direction."""
        worst = 0.0
        for wire in (one, other):
            damaged = max(
                (grown.total for errors in self._errors if (grown := errors.get(wire))),
                default=0.0,
            )
            port = self._fabric.port_of(wire) if isinstance(wire, Netdev) else None
            arrived = max(
                (
                    grown.total
                    for counted in self._arrived
                    for place in (wire, port)
                    if place is not None and (grown := counted.get(place))
                ),
                default=0.0,
            )
            if damaged and arrived:
                worst = max(worst, damaged / (damaged + arrived))
        return worst

    def assumed(self) -> tuple[str, ...]:
        """Return what was assumed, in words."""
        texts = []
        if self._unknown:
            texts.append(f"{self._unknown} cables of unknown speed run at {RATE_BPS / 1e9:g} Gb/s")
        if self._unmeasured:
            texts.append(
                f"{self._unmeasured} cables of unknown length take {DELAY_S * 1e6:g} µs each way"
            )
        return tuple(texts)


Near = Mapping[Switch, Mapping[Switch, Sequence[tuple[Interface, Interface]]]]


def _between(leaves: Sequence[Switch], near: Near) -> list[Switch]:
    """Return the switches on a shortest path between two of the leaves, the leaves among them."""
    away = {leaf: steps_from([leaf], near) for leaf in leaves}
    kept = dict.fromkeys(leaves)
    for i, one in enumerate(leaves):
        for other in leaves[:i]:
            length = away[one].get(other)
            if length is None:
                continue
            for switch, steps in away[one].items():
                if steps + away[other].get(switch, length + 1) == length:
                    kept.setdefault(switch)
    return list(kept)

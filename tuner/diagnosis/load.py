"""How full links are: speeds and bytes of every wire, whoever counts them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from collectors.model.catalogue import interface, rdma
from collectors.model.entities import Interface, Port, Switch, Wire, wire_of
from collectors.model.metric import Metric
from tuner.diagnosis.finding import Evidence
from tuner.diagnosis.once import once
from tuner.diagnosis.view import FabricView, Growing, Telemetry

CLOSE: Final = 0.3  # two counts of one thing, read at different moments, agree within this share
_MIN_BYTES: Final = 100_000  # below it two counts agree or differ by chance


@dataclass(frozen=True)
class Loads:
    """What every wire carries. speeds: bit/s. tx, rx: share of speed. swapped: see below."""

    speeds: Mapping[Wire, float]
    tx: Mapping[Wire, float]
    rx: Mapping[Wire, float]
    swapped: frozenset[Switch]
    _since_ns: int
    _until_ns: int

    def evidence(self, wire: Wire, side: Literal["tx", "rx"] = "tx", limit: str = "") -> Evidence:
        """Return the load of a wire as evidence."""
        value = (self.tx if side == "tx" else self.rx)[wire]
        name = (interface.TX_BYTES if side == "tx" else interface.RX_BYTES).name
        words = limit or "share of line rate"
        return Evidence(name, wire, value, "ratio", words, self._since_ns, self._until_ns)


def loads(telemetry: Telemetry, fabric: FabricView) -> Loads:
    """Return speeds and loads of all wires.

    What one end does not count the other does: what a switch sends to a silent host is what the
    host receives. A switch whose image has rx and tx bytes swapped is read the other way round.
    """
    return once(telemetry, "loads", lambda: _loads(telemetry, fabric))


def _loads(telemetry: Telemetry, fabric: FabricView) -> Loads:
    speeds = _speeds(telemetry, fabric)
    tx = _grown(telemetry, fabric, interface.TX_BYTES, rdma.TX_BYTES)
    rx = _grown(telemetry, fabric, interface.RX_BYTES, rdma.RX_BYTES)
    swapped = swapped_switches(_totals(rx), _totals(tx), fabric, _MIN_BYTES)
    if swapped:
        for wire in _of(swapped, {**tx, **rx}):
            sent, received = tx.pop(wire, None), rx.pop(wire, None)
            if received is not None:
                tx[wire] = received
            if sent is not None:
                rx[wire] = sent
    shares_tx, shares_rx = _shares(tx, speeds), _shares(rx, speeds)
    for known, other in ((shares_tx, shares_rx), (shares_rx, shares_tx)):
        for near in speeds:
            far = fabric.peer(near) if near not in known else None
            if far is not None and far in other:
                known[near] = other[far]
    return Loads(speeds, shares_tx, shares_rx, swapped, telemetry.since_ns, telemetry.until_ns)


def _speeds(telemetry: Telemetry, fabric: FabricView) -> dict[Wire, float]:
    """Return speeds as read, else as set, else as the other end has it."""
    found: dict[Wire, float] = {}
    for entity, seen in telemetry.latest_all(interface.SPEED.name).items():
        wire = wire_of(entity)
        if wire is not None and seen.value > 0:
            found[wire] = seen.value
    for entity, seen in telemetry.latest_all(rdma.RATE.name).items():
        if isinstance(entity, Port) and seen.value > 0:
            found.setdefault(fabric.attached(entity), seen.value * 8)
    for entity, setting in telemetry.setting_all("speed_bps").items():
        wire = wire_of(entity)
        if wire is not None and isinstance(setting.value, (int, float)) and setting.value > 0:
            found.setdefault(wire, float(setting.value))
    for wire in list(found):
        far = fabric.peer(wire)
        if far is not None:
            found.setdefault(far, found[wire])
    return found


def _grown(
    telemetry: Telemetry, fabric: FabricView, of_wire: Metric, of_port: Metric
) -> dict[Wire, Growing]:
    """Return bytes by wire; of a RoCE port's two counts, RDMA's and the interface's, the larger.

    Some drivers count RDMA in the interface's bytes and some do not.
    """
    found: dict[Wire, Growing] = {}
    for metric in (of_wire, of_port):
        for entity, growth in telemetry.growth_all(metric.name).items():
            wire = fabric.attached(entity) if isinstance(entity, Port) else wire_of(entity)
            if wire is not None and (wire not in found or growth.total > found[wire].total):
                found[wire] = growth
    return found


def _of(switches: frozenset[Switch], wires: Iterable[Wire]) -> list[Interface]:
    return [wire for wire in wires if isinstance(wire, Interface) and wire.switch in switches]


def _totals(grown: Mapping[Wire, Growing]) -> dict[Wire, float]:
    return {wire: growth.total for wire, growth in grown.items()}


def _shares(grown: Mapping[Wire, Growing], speeds: Mapping[Wire, float]) -> dict[Wire, float]:
    return {
        wire: min(growth.rate * 8 / speeds[wire], 1.0)
        for wire, growth in grown.items()
        if wire in speeds
    }


def swapped_switches(
    rx: Mapping[Wire, float], tx: Mapping[Wire, float], fabric: FabricView, least: float
) -> frozenset[Switch]:
    """Return the switches whose counts match their peers' only if rx and tx are exchanged.

    rx, tx: one count by wire. least: counts below it say nothing. A cable speaks against both
    its ends, so a switch is believed unless most of its cables speak against it.
    """
    votes: dict[Switch, dict[Interface, int]] = {}
    for near, received in rx.items():
        far = fabric.peer(near)
        if not isinstance(near, Interface) or far is None:
            continue
        if near not in tx or far not in rx or far not in tx:
            continue
        straight = _agree(received, tx[far], least) and _agree(tx[near], rx[far], least)
        crossed = _agree(received, rx[far], least) and _agree(tx[near], tx[far], least)
        if straight != crossed:
            votes.setdefault(near.switch, {})[near] = 1 if crossed else -1
    suspects: set[Switch] = set()
    while votes:
        worst = max(votes, key=lambda switch: (sum(votes[switch].values()), str(switch)))
        cast = votes.pop(worst)
        if sum(cast.values()) <= 0:
            break
        suspects.add(worst)
        for near in cast:  # the other ends were accused for its sake
            far = fabric.peer(near)
            if isinstance(far, Interface) and far.switch in votes:
                votes[far.switch].pop(far, None)
    return frozenset(suspects)


def _agree(one: float, two: float, least: float) -> bool:
    """Tell whether two counts can be of the same thing: both small, or within CLOSE."""
    return abs(one - two) <= max(CLOSE * max(one, two), least)

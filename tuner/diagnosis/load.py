"""How full links are: speeds and bytes of every wire, whoever counts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np

from collectors.model.catalogue import interface, rdma
from collectors.model.entities import Interface, Switch, Wire
from collectors.model.metric import Metric
from tuner.diagnosis.finding import Evidence
from tuner.diagnosis.once import once
from tuner.diagnosis.view import FabricView, Telemetry
from tuner.diagnosis.wires import Bools, Floats, Wires, at, numbered_wires

CLOSE: Final = 0.3  # two counts of one thing, read at different moments, agree within this share
_MIN_BYTES: Final = 100_000  # below it two counts agree or differ by chance


@dataclass(frozen=True)
class Loads:
    """What every wire carries. swapped: see below.

    by_number: speeds in bit/s as `Wires` counts the wires, NaN where unknown.
    """

    swapped: frozenset[Switch]
    by_number: Floats
    _shares_tx: Floats
    _shares_rx: Floats
    _wires: Wires
    _since_ns: int
    _until_ns: int

    @cached_property
    def speeds(self) -> Mapping[Wire, float]:
        """Speeds in bit/s."""
        return self._wires.mapping(self.by_number)

    @cached_property
    def tx(self) -> Mapping[Wire, float]:
        """Share of speed that is sent."""
        return self._wires.mapping(self._shares_tx)

    @cached_property
    def rx(self) -> Mapping[Wire, float]:
        """Share of speed that is received."""
        return self._wires.mapping(self._shares_rx)

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


def unequal_speeds(
    telemetry: Telemetry, fabric: FabricView
) -> tuple[list[dict[Wire, float]], bool]:
    """Return (bit/s of the ends of each cable that read different speeds, whether any compare)."""
    wires = numbered_wires(telemetry, fabric)
    numbers, read = telemetry.value_table(interface.SPEED.name)
    speeds: Floats = np.full(len(wires), np.nan)
    known = (wires.of(numbers) >= 0) & (wires.slots(numbers) < 0) & (read != 0)
    near = wires.of(numbers[known])
    speeds[near] = read[known]
    there = wires.at_far(speeds)
    unequal: dict[frozenset[int], dict[Wire, float]] = {}
    for number in near[~np.isnan(there[near]) & (there[near] != speeds[near])].tolist():
        ends = number, int(wires.far[number])
        unequal.setdefault(frozenset(ends), {wires[end]: float(speeds[end]) for end in ends})
    return list(unequal.values()), not bool(np.isnan(there[near]).all())


def _loads(telemetry: Telemetry, fabric: FabricView) -> Loads:
    wires = numbered_wires(telemetry, fabric)
    speeds = _speeds(telemetry, wires)
    tx, tx_rate = _counted(telemetry, wires, interface.TX_BYTES, rdma.TX_BYTES)
    rx, rx_rate = _counted(telemetry, wires, interface.RX_BYTES, rdma.RX_BYTES)
    swapped = swapped_switches(wires, rx, tx, _MIN_BYTES)
    if swapped:
        there = wires.on(swapped)
        tx_rate, rx_rate = np.where(there, rx_rate, tx_rate), np.where(there, tx_rate, rx_rate)
    shares_tx = np.minimum(tx_rate * 8 / speeds, 1.0)
    shares_rx = np.minimum(rx_rate * 8 / speeds, 1.0)
    known = ~np.isnan(speeds)
    shares_tx = np.where(known & np.isnan(shares_tx), wires.at_far(shares_rx), shares_tx)
    shares_rx = np.where(known & np.isnan(shares_rx), wires.at_far(shares_tx), shares_rx)
    span = telemetry.since_ns, telemetry.until_ns
    return Loads(swapped, speeds, shares_tx, shares_rx, wires, *span)


def _speeds(telemetry: Telemetry, wires: Wires) -> Floats:
    """Return speeds as read, else as set, else as the other end has it."""
    speeds: Floats = np.full(len(wires), np.nan)
    numbers, read = telemetry.value_table(interface.SPEED.name)
    ports, rates = telemetry.value_table(rdma.RATE.name)
    # The last that is written holds.
    for places, values in (
        (wires.plugged(ports)[::-1], rates[::-1] * 8),
        (wires.of(numbers), read),
    ):
        known = (places >= 0) & (values > 0)
        speeds[places[known]] = values[known]
    for number in np.flatnonzero(np.isnan(speeds)).tolist():
        chosen = telemetry.settings(wires[number]).get("speed_bps")
        if chosen is not None and isinstance(chosen.value, (int, float)) and chosen.value > 0:
            speeds[number] = chosen.value
    return np.where(np.isnan(speeds), wires.at_far(speeds), speeds)


def _counted(
    telemetry: Telemetry, wires: Wires, of_wire: Metric, of_port: Metric
) -> tuple[Floats, Floats]:
    """Return (bytes, bytes/s) by wire; of a RoCE port's counts, RDMA's and all, the larger.

    Some drivers count RDMA in the interface's bytes and some do not.
    """
    tables = [telemetry.growth_table(metric.name) for metric in (of_wire, of_port)]
    places = np.concatenate([wires.plugged(table.number) for table in tables])
    total, place = wires.highest(places, np.concatenate([table.total for table in tables]))
    return total, at(place, np.concatenate([table.rate for table in tables]))


def swapped_switches(wires: Wires, rx: Floats, tx: Floats, least: float) -> frozenset[Switch]:
    """Return the switches whose counts match their peers' only if rx and tx are exchanged.

    rx, tx: one count by wire. least: counts below it say nothing. A cable speaks against both
    its ends, so a switch is believed unless most of its cables speak against it.
    """
    far_rx, far_tx = wires.at_far(rx), wires.at_far(tx)
    straight = _agree(rx, far_tx, least) & _agree(tx, far_rx, least)
    crossed = _agree(rx, far_rx, least) & _agree(tx, far_tx, least)
    both = ~np.isnan(rx + tx + far_rx + far_tx)
    votes: dict[Switch, dict[int, int]] = {}
    for number in np.flatnonzero(both & (straight != crossed)).tolist():
        near = wires[number]
        if isinstance(near, Interface):
            votes.setdefault(near.switch, {})[number] = 1 if crossed[number] else -1
    suspects: set[Switch] = set()
    while votes:
        worst = max(votes, key=lambda switch: (sum(votes[switch].values()), str(switch)))
        cast = votes.pop(worst)
        if sum(cast.values()) <= 0:
            break
        suspects.add(worst)
        for number in cast:  # the other ends were accused for its sake
            far = int(wires.far[number])
            there = wires[far]
            if isinstance(there, Interface) and there.switch in votes:
                votes[there.switch].pop(far, None)
    return frozenset(suspects)


def _agree(one: Floats, two: Floats, least: float) -> Bools:
    """Tell whether two counts can be of the same thing: both small, or within CLOSE."""
    return np.abs(one - two) <= np.maximum(CLOSE * np.maximum(one, two), least)

"""The state of a simulation at one moment, and how its numbers become values of readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collectors.model.catalogue.registry import columns
from collectors.model.metric import Column, Via
from collectors.model.reading import Instant
from simlab.packet import layout as at
from simlab.packet.picoseconds import PS_PER_S
from simlab.packet.results import PortRows, arrivals, paused_ps, port_rows, qp_rows
from simlab.packet.simulation import Simulation

PRIORITIES: Final = range(8)
Ints = NDArray[np.int64]
Values = dict[Column, int | float]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that counters are read from. rows, arrived, paused: by directed port.

    sums: QP counters by the host port that keeps them. naks, refused: sequence NAKs that came
    to a host port as requester, requests that it was not ready for as responder. failed: its
    QPs that gave up.
    """

    sim: Simulation
    when: Instant
    rows: PortRows
    arrived: Ints
    paused: Ints
    sums: Ints
    naks: Ints
    refused: Ints
    failed: Ints

    def queue(self, port: int, index: int, word: int) -> int:
        """Return a word of an egress queue."""
        return int(self.rows[port, at.PORT_QUEUES + index * at.QUEUE_WORDS + word])

    def group(self, port: int, index: int, word: int) -> int:
        """Return a word of an ingress priority group."""
        return int(self.rows[port, at.PORT_GROUPS + index * at.GROUP_WORDS + word])

    def damaged(self, port: int) -> int:
        """Return the frames that came to a port damaged: what a lossy cable lost."""
        far = self.rows[port ^ 1]
        return int(far[at.PORT_LOST]) if far[at.PORT_TROUBLE] & at.LINK_LOSSY else 0

    def oversized(self, port: int) -> int:
        """Return the frames that came to a port longer than its MTU."""
        far = self.rows[port ^ 1]
        return int(far[at.PORT_LOST]) if far[at.PORT_TROUBLE] & at.LINK_SHORT else 0

    def is_up(self, port: int) -> bool:
        """Tell whether the cable of a port carries anything."""
        return not self.rows[port, at.PORT_TROUBLE] & at.LINK_DOWN

    def rate_bps(self, port: int) -> float:
        """Return the rate at which a port runs now."""
        row = self.rows[port]
        return 8 * PS_PER_S * int(row[at.PORT_PS_DEN]) / int(row[at.PORT_PS_NUM])


def snapshot(sim: Simulation, when: Instant) -> Snapshot:
    """Look at a simulation once."""
    rows = port_rows(sim)
    live = qp_rows(sim)
    live = live[live[:, at.QP_PORT] > 0]
    sender = sim.s[live[:, at.QP_PORT] + at.PORT_NUMBER]
    receiver = sim.s[live[:, at.QP_RX_PORT] + at.PORT_NUMBER]
    sums: Ints = rows[:, at.PORT_SUMS : at.PORT_SUMS + len(at.QP_STATS)]
    for index, word in enumerate(at.QP_STATS):
        ports = sender if index < at.QP_STATS_REQUESTER else receiver
        np.add.at(sums[:, index], ports, live[:, word])

    def by(ports: Ints, word: int) -> Ints:
        total: Ints = np.bincount(ports, weights=live[:, word], minlength=len(rows)).astype(
            np.int64
        )
        return total

    return Snapshot(
        sim, when, rows, arrivals(sim), paused_ps(sim), sums, by(sender, at.QP_NAKS),
        by(receiver, at.QP_RNR), by(sender, at.QP_ERROR),
    )  # fmt: skip


@cache
def _known(via: Via, driver: str) -> Mapping[str, Column]:
    return columns(via, driver)


def put(held: Values, via: Via, driver: str, values: Mapping[str, float]) -> None:
    """Add values given in the metrics' units, in the native form of the source.

    Keys that the driver does not have are left out.
    """
    known = _known(via, driver)
    for key, value in values.items():
        column = known.get(key)
        if column is None:
            continue
        if column.number == "float":
            held[column] = float(value / column.scale)
            continue
        native = int(value / column.scale) if column.scale != 1 else int(value)
        if column.kind == "counter":
            if column.overflow == "saturates":
                native = min(native, column.modulus - 1)
            else:
                native %= column.modulus
        held[column] = native

"""The words that a replay needs beside the engine's state, and ns-3's random numbers and clock.

Every number that the reference draws is the first of a stream of its own (MRG32k3a: L'Ecuyer,
Operations Research 47(1), 1999).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from simlab.packet import events
from simlab.packet import jit as compiler
from simlab.packet.jit import Ints, jit
from simlab.packet.layout import (
    LEAVES,
    RANDOM_RANGE,
    START_ENTITY,
    START_NEXT,
)
from simlab.packet.simulation import Simulation

PER_NODE, FIRST_STREAM = 6, 2  # streams that ns-3's nodes take before the first packet
MOST_DRAWS = 900_000
ROW = 1024  # words of a host
# of a host: how many QPs it has, whose turn was last, whose gap it waits for, and the QPs
COUNT, LAST, WAITING, LISTED = 0, 1, 2, 3
MOST_PORTS = 4096
RATES = (100_000_000, 100_000_000_000, 400_000_000_000)
LARGEST = 2048
DRAW, SEQUENCE, TIME_SHIFT, SEQUENCE_SHIFT, LATE_CUTS, SHORT = 0, 1, 2, 3, 4, 16
HOSTS = SHORT + LARGEST * len(RATES)
DRAWS = HOSTS + ROW * MOST_PORTS
KEY_BITS = 62
OUTSIDE = np.zeros(DRAWS + MOST_DRAWS, dtype=np.int64)
_ADDRESS = OUTSIDE.ctypes.data
# Kinds of planning, by how long before: events planned earlier come first.
LONG_GAP, INCREASE, GAP, MONITOR, BEFORE = range(5)


@jit
def outside() -> Ints:
    """Return the words that the engine's state has no place for."""
    return compiler._int_pointer(_ADDRESS)


def late_cuts() -> int:
    """Return the cuts of flows that had ended, which the reference counts."""
    return int(OUTSIDE[LATE_CUTS])


def drawn() -> int:
    """Return how many random numbers were drawn since `begin`."""
    return int(OUTSIDE[DRAW])


def streams(first: int, count: int) -> list[float]:
    """Return the first number of each of `count` streams of ns-3's generator, seed and run 1."""
    moduli = (4294967087, 4294944443)
    steps = (((0, 1, 0), (0, 0, 1), (-810728, 1403580, 0)),
             ((0, 1, 0), (0, 0, 1), (-1370589, 0, 527612)))  # fmt: skip
    found: list[list[int]] = []
    for modulus, step in zip(moduli, steps, strict=True):
        state = (1, 1, 1)
        state = _times(_power(step, 76, modulus), state, modulus)  # run 1
        jump = _power(step, 127, modulus)
        for _ in range(first):
            state = _times(jump, state, modulus)
        values = []
        for _ in range(count):
            values.append(_times(step, state, modulus)[2])
            state = _times(jump, state, modulus)
        found.append(values)
    low = moduli[0]
    return [((a - b) % low or low) / (low + 1) for a, b in zip(*found, strict=True)]


Matrix = tuple[tuple[int, ...], ...]


def _times(matrix: Matrix, vector: tuple[int, ...], modulus: int) -> tuple[int, ...]:
    return tuple(sum(a * b for a, b in zip(row, vector, strict=True)) % modulus for row in matrix)


def _power(matrix: Matrix, doublings: int, modulus: int) -> Matrix:
    for _ in range(doublings):
        columns = tuple(zip(*matrix, strict=True))
        matrix = tuple(_times(columns, row, modulus) for row in matrix)
    return matrix


def clock_ns(seconds: float) -> int:
    """Return the nanoseconds that ns-3 makes of a time: in 64.64 bits, cut twice."""
    return int(Fraction(seconds) * 2**64) * 10**9 >> 64


def begin(sim: Simulation, numbers: np.ndarray[Any, np.dtype[np.float64]], until_s: float) -> None:
    """Make a fresh simulation ready to be run up to `until_s` with these random numbers."""
    OUTSIDE[:DRAWS] = 0
    for kind, rate in enumerate(RATES):
        for size in range(LARGEST):
            OUTSIDE[SHORT + LARGEST * kind + size] = 1000 * (
                size * 8 * 10**9 // rate - clock_ns(size * 8 / rate)
            )
    OUTSIDE[TIME_SHIFT] = KEY_BITS - round(until_s * 1e9).bit_length()  # later ones never come
    OUTSIDE[SEQUENCE_SHIFT] = (sim.word(LEAVES) - 1).bit_length()
    OUTSIDE[SEQUENCE] = BEFORE
    sim.call(events.plan, sim.word(START_ENTITY), sim.word(sim.word(START_NEXT)))
    OUTSIDE[DRAWS : DRAWS + len(numbers)] = np.floor(numbers * RANDOM_RANGE) + 1

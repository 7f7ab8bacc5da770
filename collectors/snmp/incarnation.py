"""When a switch's counters began anew, from sysUpTime, discontinuity times and the values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectors.model.metric import Column
from collectors.model.reading import Instant

_TICKS: Final = 1 << 32  # sysUpTime counts hundredths of a second in 32 bits: 497 days
_NEAR_WRAP: Final = 6000 * 60  # one hour of ticks
_COARSE_S: Final = 600


class Incarnation:
    """Tells a restarted SNMP agent from a restarted switch.

    An agent process may restart (sysUpTime falls) while the hardware counts on. Only where a
    64-bit counter fell as well did the counters begin anew.
    """

    def __init__(self) -> None:
        self._up_time: int | None = None
        self._boot = ""
        self._suspect: Instant | None = None
        self._before: dict[tuple[int, str], int | float] = {}

    def see_up_time(self, ticks: int, now: Instant) -> bool:
        """Note sysUpTime; return whether the agent has restarted since the last poll."""
        before, self._up_time = self._up_time, ticks
        booted_s = now.at_ns / 1e9 - ticks / 100
        if before is None:
            self._boot = self._name(booted_s)
            return False
        if ticks >= before or (before > _TICKS - _NEAR_WRAP and ticks < _NEAR_WRAP):
            return False
        self._suspect = Instant(int(booted_s * 1e9), now.mono_ns)
        return True

    def see_values(self, values: Sequence[dict[Column, int | float]]) -> None:
        """Compare with the poll before, where the agent has restarted since."""
        now = {
            (at, column.metric): value
            for at, row in enumerate(values)
            for column, value in row.items()
            if column.kind == "counter" and column.width == 64
        }
        if self._suspect is not None:
            if any(value < self._before.get(key, 0) for key, value in now.items()):
                self._boot = self._name(self._suspect.at_ns / 1e9)
            self._suspect = None
        self._before = now

    def of(self, discontinuity: int) -> str:
        """Return the incarnation of an interface with this ifCounterDiscontinuityTime."""
        return f"{self._boot}/{discontinuity}" if discontinuity else self._boot

    @staticmethod
    def _name(booted_s: float) -> str:
        return f"up since {int(booted_s // _COARSE_S) * _COARSE_S}"

"""A simulation: build once, run in steps, look at everything in between."""

from __future__ import annotations

import copy
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collectors.model.errors import ConfigInvalid
from simlab.packet import layout as at
from simlab.packet.build import SLACK_PACKETS, State, build, memory, seed_random
from simlab.packet.engine import run
from simlab.packet.events import plan
from simlab.packet.jit import INTERPRETED, numba
from simlab.packet.limits import LONGEST_S
from simlab.packet.parameters import Model
from simlab.packet.picoseconds import PS_PER_S, ps
from simlab.packet.slots import open_all
from simlab.packet.topology import Topology
from simlab.packet.traffic import Traffic

Ints = NDArray[np.int64]
MOST_SAMPLED = 1 << 27  # 1 GiB
BUDGET = 2_000_000  # events between looks at the clock


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands: simulated time, its goal, events and wall seconds so far."""

    now_s: float
    goal_s: float
    events: int
    wall_s: float


class Simulation:
    """One fabric with its traffic; deterministic by seed.

    `s` and `f` are the engine's vectors (see simlab.packet.layout), `state` says where what is.
    """

    def __init__(
        self, topology: Topology, model: Model, traffic: Traffic, *, seed: int = 1
    ) -> None:
        self.topology = topology
        self.model = model
        self.traffic = traffic
        self.state: State = build(topology, model, traffic, seed)
        self._start = (self.state.s.copy(), self.state.f.copy())
        self.trace: Any = None
        self.watched: tuple[tuple[int, int], ...] = ()
        self.dead: set[int] = set()  # cables that routing avoids
        self.sample_s = 0.0
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self._s: Any = None
        self._f: Any = None
        heads: dict[int, int] = {}
        for index, message in enumerate(traffic.messages):
            heads.setdefault(message.connection, self.state.messages + index * at.MSG_WORDS)
        self._heads: Any = np.array(list(heads.values()), dtype=np.int64)
        self._begin()

    def reseeded(self, seed: int) -> Simulation:
        """Return a fresh simulation of the same fabric, model and traffic with another seed."""
        other = copy.copy(self)
        other.state = copy.copy(self.state)
        other.state.paths = list(self.state.paths)
        other.state.s, other.state.f = memory(len(self._start[0])), self._start[1].copy()
        other.state.s[:] = self._start[0]
        seed_random(other.state.s, seed)
        other._begin()  # noqa: SLF001  its own class
        return other

    def _begin(self) -> None:
        """Point the engine at this simulation's own vectors and open its lasting QPs."""
        self.trace = np.zeros(0, dtype=np.int64)
        self.watched = ()
        self.dead = set()
        self.wall_s = self.cpu_s = 0.0
        self._s = self.state.s
        self._f = self.state.f
        if INTERPRETED:
            self._s, self._f = self.state.s.tolist(), self.state.f.tolist()
        if not self.traffic.flows:
            open_all(self._s, self._f, self._heads)

    @property
    def s(self) -> Ints:
        """The integer state; a copy when the engine is interpreted."""
        return np.asarray(self._s, dtype=np.int64)

    @property
    def f(self) -> NDArray[np.float64]:
        """The float state; a copy when the engine is interpreted."""
        return np.asarray(self._f, dtype=np.float64)

    @property
    def now_s(self) -> float:
        """Simulated seconds so far."""
        return int(self._s[at.NOW]) / PS_PER_S

    @property
    def events(self) -> int:
        """Events processed so far."""
        return int(self._s[at.EVENTS])

    @property
    def link_packets(self) -> int:
        """Packet transmissions summed over all links: data, ACKs and control."""
        return int(self._s[at.LINK_PACKETS])

    def word(self, index: int) -> int:
        """Read one word of the state."""
        return int(self._s[index])

    def poke(self, index: int, value: int) -> None:
        """Write one word of the state (interventions)."""
        self._s[index] = value

    def call(self, function: Callable[..., object], *arguments: int) -> object:
        """Call an engine function on the state (interventions)."""
        return function(self._s, *arguments)

    def watch(self, queues: Sequence[tuple[int, int]], period_s: float, until_s: float) -> None:
        """Sample the bytes of (directed port, priority) queues every `period_s` from now on.

        ConfigInvalid for a period below 1 ps or a queue that the fabric does not have.
        """
        period = ps(period_s) if 0 < period_s <= LONGEST_S else 0
        if period < 1:
            raise ConfigInvalid(
                "watch", "period", f"{period_s:g} s is not above zero and at most {LONGEST_S:g} s"
            )
        ports = int(self._s[at.PORT_COUNT])
        for port, priority in queues:
            if not (0 <= port < ports and 0 <= priority <= 7):
                why = f"there are directed ports 0..{ports - 1} and priorities 0..7"
                raise ConfigInvalid("watch", f"queue [{port}, {priority}]", why)
        count = len(queues)
        samples = ps(until_s) // period + 2
        if samples * count > MOST_SAMPLED:
            least = until_s * count / MOST_SAMPLED
            why = f"{period_s:g} s makes {samples * count} samples; at least {least:.2g} s"
            raise ConfigInvalid("watch", "period", why)
        first = int(self._s[at.SAMPLE_LIST])
        if count > ports:
            raise ConfigInvalid("watch", "queues", "more queues than the fabric has ports")
        for i, (port, priority) in enumerate(queues):
            queue = self.port_row(port) + at.PORT_QUEUES + priority * at.QUEUE_WORDS
            self._s[first + i] = queue + at.QUEUE_BYTES
        trace = np.zeros(samples * count, dtype=np.int64)
        self.trace = trace
        self.watched = tuple(queues)
        self.sample_s = period_s
        for word, value in (
            (at.SAMPLE_PERIOD, period), (at.SAMPLE_COUNT, count), (at.SAMPLE_AT, 0),
            (at.SAMPLE_END, len(trace)),
        ):  # fmt: skip
            self._s[word] = value
        plan(self._s, int(self._s[at.START_ENTITY]) + 1, int(self._s[at.NOW]))

    def samples(self) -> Ints:
        """Return the samples so far, one row a time, one column a watched queue, in bytes."""
        count = max(1, len(self.watched))
        taken: Ints = self.trace[: int(self._s[at.SAMPLE_AT])].reshape(-1, count)
        return taken

    def port_row(self, port: int) -> int:
        """Return the handle of a directed port."""
        return self.state.ports + at.port_offset(port)

    def run(
        self,
        until_s: float,
        *,
        stop_when_done: bool = False,
        progress: Callable[[Progress], None] | None = None,
    ) -> bool:
        """Advance to `until_s`, or to the last acknowledgement with `stop_when_done`.

        Returns True if all messages are done. KeyboardInterrupt leaves a consistent state.
        """
        if not 0 <= until_s <= LONGEST_S:
            why = f"{until_s:g} s is not within 0..{LONGEST_S:g} s, which can be simulated"
            raise ConfigInvalid("run", "duration", why)
        until = ps(until_s)
        self._s[at.STOP_WHEN_DONE] = int(stop_when_done)
        arguments = (self._s, self._f, self.trace, until, BUDGET)
        compiled: Any = run
        if not INTERPRETED:  # the clocks below are of the simulation alone
            compiled.compile(tuple(map(numba.typeof, arguments)))
        began, cpu = clock.perf_counter(), clock.process_time()
        wall_before = self.wall_s
        try:
            while True:
                status = run(self._s, self._f, self.trace, until, BUDGET)
                self.wall_s = wall_before + clock.perf_counter() - began
                if status == at.GROW_PACKETS:  # perhaps in the middle of a window
                    self._grow_packets()
                    continue
                if status in (at.REACHED, at.ALL_DONE, at.TRACE_FULL):
                    break
                if progress is not None:
                    progress(Progress(self.now_s, until_s, self.events, self.wall_s))
        finally:
            self.cpu_s += clock.process_time() - cpu
        return self.done

    @property
    def done(self) -> bool:
        """Whether every message has been acknowledged."""
        return int(self._s[at.DONE_MESSAGES]) >= int(self._s[at.MESSAGE_COUNT])

    def _grow_packets(self) -> None:
        """Double the packet pool, which is the last part of the vector."""
        extra = max(1024 * at.PKT_WORDS, len(self._s) // 4)
        if isinstance(self._s, list):
            self._s.extend([0] * extra)
        else:
            grown = memory(len(self._s) + extra)
            grown[: len(self._s)] = self._s
            self._s = self.state.s = grown
        self._s[at.PACKET_LIMIT] = len(self._s) - SLACK_PACKETS * at.PKT_WORDS

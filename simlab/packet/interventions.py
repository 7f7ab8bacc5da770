"""Things that happen to a running fabric: links fail, degrade, lose packets; hosts pause or lag."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from collectors.model.errors import ConfigInvalid
from simlab.packet import layout as at
from simlab.packet.build import connection_paths
from simlab.packet.build_ports import drain_ps, rate_words
from simlab.packet.events import plan
from simlab.packet.layout import NEVER
from simlab.packet.limits import DRAIN, LONGEST_S, RATE
from simlab.packet.pause import resume
from simlab.packet.routing import build_routes
from simlab.packet.simulation import Progress, Simulation


class What(Enum):
    """What can happen. The value is the number's unit or meaning in `Intervention.value`."""

    LINK_DOWN = "link_down"  # value: seconds until routing avoids the cable; below 0: never
    LINK_UP = "link_up"
    RATE = "rate"  # value: bit/s of the cable from now on
    ERROR_RATE = "error_rate"  # value: loss probability per packet
    DRAIN = "drain"  # value: bit/s that the host takes in; 0 as fast as the wire
    PAUSE_STORM = "pause_storm"  # value: 1 the host pauses its switch for good, 0 it stops


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """One event at `at_s` on a cable (by number) or a host (by node)."""

    at_s: float
    what: What
    cable: int | None = None
    host: int | None = None
    value: float = 0.0
    priority: int = 3


def apply(sim: Simulation, event: Intervention) -> float | None:
    """Change the running fabric; return when routing notices (s), if that is still to come.

    ConfigInvalid for a cable or host that is not there, or a value that it cannot have.
    """
    check(event)
    if event.what in (What.DRAIN, What.PAUSE_STORM):
        _host(sim, event)
        return None
    cable = event.cable
    if cable is None or not 0 <= cable < len(sim.topology.cables):
        raise ConfigInvalid("events", event.what.value, f"no cable {cable}")
    rows = [sim.port_row(2 * cable), sim.port_row(2 * cable + 1)]
    if event.what is What.LINK_DOWN:
        for row in rows:
            sim.poke(row + at.PORT_TROUBLE, sim.word(row + at.PORT_TROUBLE) | at.LINK_DOWN)
        sim.dead.add(cable)
        return event.at_s + event.value if event.value >= 0 else None
    if event.what is What.LINK_UP:
        for row in rows:
            sim.poke(row + at.PORT_TROUBLE, sim.word(row + at.PORT_TROUBLE) & ~at.LINK_DOWN)
        sim.dead.discard(cable)
        reroute(sim)
    elif event.what is What.RATE:
        for row in rows:
            for word, value in rate_words(event.value).items():
                sim.poke(row + word, value)
    else:
        for row in rows:
            trouble = sim.word(row + at.PORT_TROUBLE)
            sim.poke(row + at.PORT_TROUBLE, trouble | at.LINK_LOSSY)
            sim.poke(row + at.PORT_ERROR, round(event.value * at.RANDOM_RANGE))
    return None


def check(event: Intervention) -> None:
    """Raise ConfigInvalid for a time or a value that the event cannot have."""
    wrong = ""
    if not 0 <= event.at_s < math.inf:
        wrong = f"at_s {event.at_s:g} is not a time"
    elif event.what is What.RATE and not RATE[0] <= event.value <= RATE[1]:
        wrong = f"{event.value:g} bit/s is not {RATE[0]:g} to {RATE[1]:g}; link_down takes it away"
    elif event.what is What.ERROR_RATE and not 0 <= event.value <= 1:
        wrong = f"{event.value:g} is not a probability"
    elif event.what is What.DRAIN and event.value and not DRAIN[0] <= event.value <= DRAIN[1]:
        wrong = f"{event.value:g} bit/s is not {DRAIN[0]:g} to {DRAIN[1]:g}; 0: as fast as the wire"
    elif event.what is What.LINK_DOWN and not -math.inf < event.value <= LONGEST_S:
        wrong = f"{event.value:g} is not at most {LONGEST_S:g} s until routing avoids it; -1: never"
    elif event.what is What.PAUSE_STORM and event.value not in (0, 1):
        wrong = f"{event.value:g} is neither 1, the host pauses, nor 0, it stops"
    elif not 0 <= event.priority <= 7:
        wrong = f"priority {event.priority} is not in 0..7"
    if wrong:
        raise ConfigInvalid("events", event.what.value, wrong)


def _host(sim: Simulation, event: Intervention) -> None:
    if event.host not in sim.state.nics:
        raise ConfigInvalid("events", event.what.value, f"no host {event.host}")
    row = sim.port_row(sim.state.nics[event.host])
    if event.what is What.DRAIN:
        sim.poke(row + at.PORT_DRAIN_NUM, drain_ps(event.value))
        return
    bit = 1 << event.priority
    storm = sim.word(row + at.PORT_STORM)
    sim.poke(row + at.PORT_STORM, storm | bit if event.value else storm & ~bit)
    group = row + at.PORT_GROUPS + event.priority * at.GROUP_WORDS
    if not event.value:  # the next refresh does not come, and what was sent is taken back
        sim.poke(group + at.GROUP_REFRESH, NEVER)
        sim.call(resume, group)
    else:
        entity = sim.word(row + at.PORT_ENTITIES) >> 2 * at.ENTITY_BITS
        sim.call(plan, entity, sim.word(at.NOW))


def reroute(sim: Simulation) -> int:
    """Give connections whose path crosses a dead cable the path that is left; return how many.

    Packets under way keep their old path and are lost at the dead link.
    """
    routes = build_routes(sim.topology, sim.model.balancing, dead=sim.dead)
    paths = connection_paths(sim.topology, sim.model, sim.traffic, routes)
    messages = _messages_of(sim)
    moved = 0
    for index, (old, new) in enumerate(zip(sim.state.paths, paths, strict=True)):
        if old == new:
            continue
        moved += 1
        begin, end = sim.state.path_space
        need = len(new[0]) + len(new[1])
        if begin + need > end:
            raise ConfigInvalid("events", "reroute", "too many changes of routes in one run")
        for offset, port in enumerate((*new[0], *new[1])):
            sim.poke(begin + offset, sim.port_row(port))
        sim.state.path_space = (begin + need, end)
        sim.state.paths[index] = new
        _point(sim, messages.get(index, ()), begin, begin + len(new[0]))
    return moved


def _messages_of(sim: Simulation) -> Mapping[int, Sequence[int]]:
    """Return the messages of every connection that has some."""
    found: dict[int, list[int]] = {}
    for number, message in enumerate(sim.traffic.messages):
        found.setdefault(message.connection, []).append(number)
    return found


def _point(sim: Simulation, messages: Iterable[int], forward: int, back: int) -> None:
    """Let messages of one connection take other paths."""
    for number in messages:
        row = sim.state.messages + number * at.MSG_WORDS
        if sim.word(row + at.MSG_PATH) < 0:
            return  # routed packet by packet
        sim.poke(row + at.MSG_PATH, forward)
        sim.poke(row + at.MSG_ACK_PATH, back)
        qp = sim.word(row + at.MSG_QP)
        if qp and not sim.word(row + at.MSG_ACKED_TIME):
            sim.poke(qp + at.QP_PATH, forward)
            sim.poke(qp + at.QP_ACK_PATH, back)


class Schedule:
    """Events that wait for their time, however a run is cut into steps.

    The moment at which routing notices a dead cable waits here like an event, as None.
    """

    def __init__(self, events: Iterable[Intervention]) -> None:
        self._waiting: list[tuple[float, Intervention | None]] = []
        self._add((event.at_s, event) for event in events)

    def _add(self, more: Iterable[tuple[float, Intervention | None]]) -> None:
        self._waiting = sorted([*self._waiting, *more], key=lambda one: one[0])

    def run(
        self,
        sim: Simulation,
        until_s: float,
        *,
        stop_when_done: bool = False,
        progress: Callable[[Progress], None] | None = None,
    ) -> bool:
        """Run to `until_s`, applying events at their exact times; True if all messages are done.

        What is left is applied in the next run. Raises as `apply` and `Simulation.run` do.
        """
        while self._waiting and self._waiting[0][0] <= until_s:
            due_s, event = self._waiting[0]
            done = sim.run(due_s, stop_when_done=stop_when_done, progress=progress)
            if done and stop_when_done:
                return True
            del self._waiting[0]
            if event is None:
                reroute(sim)
                continue
            noticed_s = apply(sim, event)
            if noticed_s is not None:
                self._add([(noticed_s, None)])
        return sim.run(until_s, stop_when_done=stop_when_done, progress=progress)


def run_with_events(
    sim: Simulation,
    until_s: float,
    events: Iterable[Intervention],
    *,
    stop_when_done: bool = False,
) -> bool:
    """Run to `until_s` at one go, applying the events at their exact times; True if all is done."""
    return Schedule(events).run(sim, until_s, stop_when_done=stop_when_done)

"""The subnet as a collector: discover now and then, sweep the counters every time.

The sweep's own limits are in `Limits`; how long a pass takes is the agent's to measure. A port
that went up or down since the last discovery, or a cable that is new, brings the next one
forward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from collectors.codec import mad_smp
from collectors.infiniband import audit
from collectors.infiniband.counters import DEFAULT_GROUPS, CounterSweep
from collectors.infiniband.discovery import Miss, discover, parse_port
from collectors.infiniband.readings import (
    attributes,
    counter_readings,
    neighbours,
    port_readings,
    route_load_readings,
    subject_of,
)
from collectors.infiniband.sa_discovery import discover_from_sa
from collectors.infiniband.topology import Change, End, IbPort, Node, Topology, diff
from collectors.infiniband.transactor import Answer, Failure, Limits, Transactor
from collectors.infiniband.transport import Transport
from collectors.model.errors import FabricError
from collectors.model.facts import Facts, Setting
from collectors.model.reading import Clock, GapLog, Instant, Pass, Reading


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """What to sweep. rediscover_s: longest time between discoveries. budget_s: for one pass.

    from_sa: discover from the subnet manager's tables instead of by directed route.
    """

    limits: Limits = field(default_factory=Limits)
    groups: tuple[str, ...] = DEFAULT_GROUPS
    rediscover_s: float = 300.0
    budget_s: float | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    congestion: bool = True
    qos: bool = True
    routes: bool = True
    m_key: int = 0
    cc_key: int = 0
    from_sa: bool = False


class InfinibandCollector:
    """A Collector of one subnet, seen from one local port."""

    name = "infiniband"

    def __init__(
        self, open_transport: Callable[[], Transport], options: SweepOptions | None = None
    ) -> None:
        """Take what opens the local port; it is opened by the first pass that needs it."""
        self._open = open_transport
        self.options = options or SweepOptions()
        self.topology = Topology()
        self.changes: list[Change] = []
        self._ask: Transactor | None = None
        self._sweep: CounterSweep | None = None
        self._discovered: Instant | None = None
        self._load: list[Reading] = []

    def read(self, clock: Clock) -> Pass:
        """Sweep once; raises FabricError only when the local port cannot be used.

        The port is then given back and opened anew by the next pass.
        """
        try:
            return self._read(clock)
        except FabricError:
            self.close()
            raise

    def _read(self, clock: Clock) -> Pass:
        if self._ask is None or self._sweep is None:
            options = self.options
            self._ask = Transactor(
                self._open(), options.limits, m_key=options.m_key, cc_key=options.cc_key
            )
            self._sweep = CounterSweep(self._ask, options.groups)
        gaps = GapLog(self.name)
        began = clock()
        facts = None
        if self._is_due(began) or self._refresh(self._ask, gaps):
            facts = self._discover(self._ask, clock, gaps)
        states = clock()
        origin_s = self._ask.transport.now()
        swept = self._sweep.sweep(self.topology, self.options.budget_s)
        self._note(gaps, swept.misses)

        def when(end: End) -> Instant:
            ns = round((swept.at_s.get(end, origin_s) - origin_s) * 1e9)
            return Instant(states.at_ns + ns, states.mono_ns + ns)

        readings = [
            *port_readings(self.topology, self._sweep.capabilities, states),
            *counter_readings(self.topology, swept, when),
            *(Reading(load.entity, load.values, states) for load in self._load),
        ]
        if facts is not None:
            facts = Facts(
                settings=facts.settings,
                attributes=facts.attributes,
                neighbours=facts.neighbours,
                gaps=gaps.gaps(),
            )
        return Pass(tuple(readings), gaps.gaps(), facts)

    def close(self) -> None:
        """Give the local port back."""
        if self._ask is not None:
            self._ask.transport.close()
            self._ask = self._discovered = None

    # --- inside ------------------------------------------------------------------------------
    def _is_due(self, now: Instant) -> bool:
        if self._discovered is None:
            return True
        return now.mono_ns - self._discovered.mono_ns >= self.options.rediscover_s * 1e9

    def _discover(self, ask: Transactor, clock: Clock, gaps: GapLog) -> Facts:
        options = self.options
        find = discover_from_sa if options.from_sa else discover
        found = find(ask, names=options.names, forwarding=options.routes)
        before, self.topology = self.topology, found.topology
        self.changes = diff(before, self.topology) if before.nodes else []
        self._discovered = clock()
        self._note(gaps, found.misses)
        fetched, misses = audit.fetch_settings(
            ask, self.topology, congestion=options.congestion, qos=options.qos
        )
        self._note(gaps, misses)
        self._load = (
            list(route_load_readings(self.topology, self._discovered)) if options.routes else []
        )
        settings: list[Setting] = [*audit.port_settings(self.topology), *fetched]
        return Facts(
            settings=tuple(settings),
            attributes=attributes(self.topology),
            neighbours=neighbours(self.topology),
        )

    def _refresh(self, ask: Transactor, gaps: GapLog) -> bool:
        """Read the state of every known port; tell whether the cabling changed."""
        changed = [False]

        def state(node: Node, number: int) -> Callable[[Answer], None]:
            def done(answer: Answer) -> None:
                if isinstance(answer, Failure):
                    if node.is_switch or not answer.permanent:
                        self._note(
                            gaps,
                            [
                                Miss(
                                    f"{node.name}/{number}",
                                    "PortInfo",
                                    answer,
                                    End(node.guid, number),
                                )
                            ],
                        )
                    return
                fresh, known = parse_port(answer, number), node.ports[number]
                if _identity(fresh) != _identity(known):
                    changed[0] = True
                known.state, known.physical, known.info = fresh.state, fresh.physical, fresh.info

            return done

        for node in self.topology.nodes.values():
            for number in node.ports:
                ask.smp(
                    node.path,
                    node.lid,
                    mad_smp.PORT_INFO.attribute,
                    number,
                    state(node, number),
                    device=node.guid,
                )
        ask.run(self.options.budget_s)
        return changed[0]

    def _note(self, gaps: GapLog, misses: list[Miss]) -> None:
        for miss in misses:
            gaps.add(
                subject_of(self.topology, miss),
                miss.what,
                miss.failure.reason,
                miss.failure.detail,
            )


def _identity(port: IbPort) -> tuple[bool, int, int, int, int]:
    """Return what, when it changes, means that cables or the subnet manager's work changed."""
    info = port.info
    active = info["LinkSpeedActive"] << 8 | info["LinkSpeedExtActive"] << 4
    return port.is_up, port.lid, port.width, active, info["LinkSpeedExtActive2"]

"""Counters of every live port, each device asked only for what it has.

A device says in its ClassPortInfo which of the mandatory counters it widens; the optional
attributes are tried once and remembered, because a device without one answers "not supported"
or not at all. Nothing is ever cleared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from collectors.codec import mad_perf
from collectors.codec.mad_layout import Layout
from collectors.infiniband.discovery import Miss
from collectors.infiniband.topology import End, Node, Topology, name_of
from collectors.infiniband.transactor import Answer, Failure, Transactor

Values = dict[str, dict[str, Any]]
"""Attribute name -> field name -> value, of one port."""

# Optional attributes by what they are for
GROUPS: Final[Mapping[str, tuple[Layout, ...]]] = {
    "details": (mad_perf.PORT_XMIT_DISCARD_DETAILS, mad_perf.PORT_RCV_ERROR_DETAILS),
    "vl": (mad_perf.PORT_VL_XMIT_WAIT_COUNTERS, mad_perf.SW_PORT_VL_CONGESTION),
    "congestion": (
        mad_perf.PORT_RCV_CON_CTRL,
        mad_perf.PORT_XMIT_CON_CTRL,
        mad_perf.PORT_VL_XMIT_TIME_CONG,
    ),
    "sl": (
        mad_perf.PORT_XMIT_DATA_SL,
        mad_perf.PORT_RCV_DATA_SL,
        mad_perf.PORT_SL_RCV_FECN,
        mad_perf.PORT_SL_RCV_BECN,
    ),
    "fec": (mad_perf.PORT_EXTENDED_SPEEDS_COUNTERS,),
    "flow": (mad_perf.PORT_FLOW_CTL_COUNTERS, mad_perf.PORT_OP_RCV_COUNTERS),
}
DEFAULT_GROUPS: Final = ("details", "vl", "congestion", "fec")


@dataclass(slots=True)
class Capability:
    """What the performance agent behind one LID can do. tick: None where it is not told."""

    mask: int = 0
    mask2: int = 0
    tick: int | None = None
    lacks: set[int] = field(default_factory=set)

    @property
    def extended(self) -> bool:
        """Has 64-bit data and packet counters."""
        wide = mad_perf.CAP_EXTENDED_WIDTH | mad_perf.CAP_EXTENDED_WIDTH_NOIETF
        return bool(self.mask & wide) and self.has(mad_perf.PORT_COUNTERS_EXTENDED)

    @property
    def all_extended(self) -> bool:
        """Has 64-bit errors and XmitWait too: one datagram tells everything."""
        return self.extended and bool(self.mask2 & mad_perf.CAP2_ADDITIONAL_EXTENDED)

    def has(self, layout: Layout) -> bool:
        """Tell whether the attribute may be asked for."""
        return layout.attribute not in self.lacks


@dataclass(slots=True)
class Swept:
    """One sweep. at_s: the transport's clock when each port's main counters came."""

    ports: dict[End, Values] = field(default_factory=dict)
    at_s: dict[End, float] = field(default_factory=dict)
    misses: list[Miss] = field(default_factory=list)
    seconds: float = 0.0


class CounterSweep:
    """Sweeps the counters of a topology again and again, and remembers what devices can do."""

    def __init__(self, transactor: Transactor, groups: Iterable[str] = DEFAULT_GROUPS) -> None:
        """Take the groups of optional attributes to ask for besides the main counters."""
        self.ask = transactor
        self.optional = tuple(layout for group in groups for layout in GROUPS[group])
        self.capabilities: dict[int, Capability] = {}

    def sweep(self, topology: Topology, budget_s: float | None = None) -> Swept:
        """Read the counters of every live port once; what does not answer is a miss."""
        swept = Swept()
        now = self.ask.transport.now
        began = now()
        self._learn(topology, swept)
        self.ask.run(budget_s)
        for node in topology.nodes.values():
            for number, port in node.ports.items():
                lid = node.lid_of(number)
                if port.is_up and lid and (number or node.enhanced_port0):
                    self._ask_port(topology, node, number, lid, swept)
        self.ask.run(None if budget_s is None else max(budget_s - (now() - began), 0.0))
        swept.seconds = now() - began
        return swept

    # --- what a device can do ----------------------------------------------------------------
    def _learn(self, topology: Topology, swept: Swept) -> None:
        for node in topology.nodes.values():
            numbers = [0] if node.is_switch else sorted(node.ports)
            for number in numbers:
                port = node.ports.get(number)
                if port is None or not port.is_up:
                    continue
                lid = node.lid_of(number)
                if lid and lid not in self.capabilities:
                    live = next((n for n, p in node.ports.items() if n and p.is_up), number)
                    self._learn_one(node, lid, live, swept)

    def _learn_one(self, node: Node, lid: int, live: int, swept: Swept) -> None:
        def capability(answer: Answer) -> None:
            if isinstance(answer, Failure):
                swept.misses.append(Miss(node.name, "ClassPortInfo", answer, End(node.guid, -1)))
                return
            info = mad_perf.CLASS_PORT_INFO.parse(answer)
            known = Capability(info["CapabilityMask"], info["CapabilityMask2"])
            self.capabilities[lid] = known
            self.ask.perf(lid, mad_perf.PORT_SAMPLES_CONTROL.attribute, live, tick)

        def tick(answer: Answer) -> None:
            if isinstance(answer, Failure):
                return
            control = mad_perf.PORT_SAMPLES_CONTROL.parse(answer)
            if control["PortSelect"] == live:  # an agent without it may answer with zeros
                self.capabilities[lid].tick = control["Tick"]

        self.ask.perf(lid, mad_perf.CLASS_PORT_INFO.attribute, 0, capability)

    # --- one port ----------------------------------------------------------------------------
    def _ask_port(
        self, topology: Topology, node: Node, number: int, lid: int, swept: Swept
    ) -> None:
        known = self.capabilities.get(lid)
        end = End(node.guid, number)
        if known is None:
            failure = Failure("timeout", "its performance agent did not say what it can do")
            swept.misses.append(Miss(name_of(topology, end), "PortCounters", failure, end))
            return
        ask, take = self.ask.perf, self._taker(topology, end, known, swept)
        if known.extended:
            layout = mad_perf.PORT_COUNTERS_EXTENDED
            ask(lid, layout.attribute, number, take(layout, optional=False))
        if not known.all_extended:
            layout = mad_perf.PORT_COUNTERS
            ask(lid, layout.attribute, number, take(layout, optional=False))
        for layout in self.optional:
            if known.has(layout) and (node.is_switch or layout not in _SWITCH_ONLY):
                ask(lid, layout.attribute, number, take(layout, optional=True))

    def _taker(
        self, topology: Topology, end: End, known: Capability, swept: Swept
    ) -> Callable[..., Callable[[Answer], None]]:
        def take(layout: Layout, *, optional: bool) -> Callable[[Answer], None]:
            def done(answer: Answer) -> None:
                if isinstance(answer, Failure):
                    if optional and answer.reason in ("unsupported", "timeout"):
                        known.lacks.add(layout.attribute)
                        return
                    swept.misses.append(Miss(name_of(topology, end), layout.name, answer, end))
                    return
                values = layout.parse(answer)
                if values["PortSelect"] != end.port:
                    wrong = f"answers for port {values['PortSelect']}"
                    failure = Failure("malformed", wrong)
                    swept.misses.append(Miss(name_of(topology, end), layout.name, failure, end))
                    return
                _drop_absent(layout, known, values)
                swept.ports.setdefault(end, {})[layout.name] = values
                if not optional:
                    swept.at_s[end] = self.ask.transport.now()

            return done

        return take


_SWITCH_ONLY = frozenset({mad_perf.SW_PORT_VL_CONGESTION})


_DATA: Final = ("PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts")
# (attribute, when its agent counts them, fields): elsewhere their zeros mean nothing
_COUNTED_IF: Final[tuple[tuple[Layout, Callable[[Capability], bool], tuple[str, ...]], ...]] = (
    (
        mad_perf.PORT_COUNTERS,
        lambda known: bool(known.mask & mad_perf.CAP_XMIT_WAIT),
        ("PortXmitWait",),
    ),
    (
        mad_perf.PORT_COUNTERS,
        lambda known: bool(known.mask & mad_perf.CAP_QP1_DROPPED),
        ("QP1Dropped",),
    ),
    # the same come 64 bits wide with the extended ones
    (mad_perf.PORT_COUNTERS, lambda known: not known.extended, _DATA),
    (
        mad_perf.PORT_COUNTERS_EXTENDED,
        lambda known: bool(known.mask & mad_perf.CAP_EXTENDED_WIDTH),
        mad_perf.EXTENDED_IETF,
    ),
    (
        mad_perf.PORT_COUNTERS_EXTENDED,
        lambda known: known.all_extended,
        mad_perf.EXTENDED_ADDITIONAL,
    ),
    (
        mad_perf.PORT_COUNTERS_EXTENDED,
        lambda known: bool(known.mask & mad_perf.CAP_XMIT_WAIT),
        ("PortXmitWait",),
    ),
    (
        mad_perf.PORT_COUNTERS_EXTENDED,
        lambda known: bool(known.mask & mad_perf.CAP_QP1_DROPPED),
        ("QP1Dropped",),
    ),
    (
        mad_perf.PORT_EXTENDED_SPEEDS_COUNTERS,
        lambda known: bool(known.mask & mad_perf.CAP_RS_FEC),
        mad_perf.RS_FEC_ONLY,
    ),
)


def _drop_absent(layout: Layout, known: Capability, values: dict[str, Any]) -> None:
    """Remove the fields that the agent does not count."""
    for where, counted, names in _COUNTED_IF:
        if where is layout and not counted(known):
            for name in names:
                values.pop(name, None)

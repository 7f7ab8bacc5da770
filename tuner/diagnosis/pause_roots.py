"""The roots of all pause trees, one for each place, with what rules judge them by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from collectors.model.catalogue import interface
from collectors.model.entities import Entity, Interface, Netdev, Wire, priority
from tuner.diagnosis.finding import Evidence, Severity
from tuner.diagnosis.flow import PriorityFlow, marked_share, pfc_flows
from tuner.diagnosis.load import Loads, loads
from tuner.diagnosis.once import once
from tuner.diagnosis.stall_graph import BUSY, Root, RootKind
from tuner.diagnosis.view import FabricView, Telemetry

MIN_SHARE: Final = 0.01  # of time that the worst victim waits: less is what PFC is there for
WARNING_SHARE: Final = 0.05  # a link that DCQCN keeps busy is paused for less
CRITICAL_SHARE: Final = 0.20
STORM_SHARE: Final = 0.90
TRICKLE: Final = 0.01  # of line rate: what still passes a port that is paused for good
MIN_BLAME: Final = 0.15  # of all blame of the priority: smaller roots only contribute
FEW_MARKS: Final = 0.01  # marked packets for each packet sent: less is as good as none


@dataclass(frozen=True)
class PauseRoot:
    """One place that pauses go back to.

    wire: the full egress, or the host's end of its cable. egress: the egress that is full or
    that the host stops. share: of time, of the worst victim. blame: share of the priority's.
    """

    wire: Wire
    egress: Wire
    kind: RootKind
    priority: int
    share: float
    blame: float
    victims: tuple[Wire, ...]
    evidence: tuple[Evidence, ...]
    exact: bool
    load: float | None

    @property
    def severity(self) -> Severity:
        """By how long the worst victim waits."""
        if self.share >= CRITICAL_SHARE:
            return "critical"
        return "warning" if self.share >= WARNING_SHARE else "info"

    @property
    def faces_host(self) -> bool:
        """The root is at the last hop."""
        return self.kind == "slow_receiver" or not isinstance(self.wire, Interface)

    def confidence(self, ceiling: float) -> float:
        """Return how sure the place is, at most `ceiling`: by blame and by what was counted."""
        sure = ceiling * (0.6 + 0.4 * min(self.blame / 0.6, 1.0))
        if not self.exact:
            sure -= 0.15
        if self.kind == "congested_egress" and (self.load is None or self.load < BUSY):
            sure -= 0.1
        return max(sure, 0.1)


def pause_roots(telemetry: Telemetry, fabric: FabricView) -> tuple[PauseRoot, ...]:
    """Return the roots that count, worst first; a place at which two priorities end is one root."""
    return once(telemetry, "pause_roots", lambda: _roots(telemetry, fabric))


def _roots(telemetry: Telemetry, fabric: FabricView) -> tuple[PauseRoot, ...]:
    known = loads(telemetry, fabric)
    found: dict[Wire, PauseRoot] = {}
    for flow in pfc_flows(telemetry, fabric):
        total = sum(root.score for root in flow.graph.roots)
        for root in flow.graph.roots:
            made = _root(flow, root, total, known, fabric)
            if made.share < MIN_SHARE or made.blame < MIN_BLAME:
                continue
            if made.wire not in found or found[made.wire].share < made.share:
                found[made.wire] = made
    return tuple(
        sorted(found.values(), key=lambda root: (-root.share * root.blame, str(root.wire)))
    )


def _root(
    flow: PriorityFlow, root: Root, total: float, known: Loads, fabric: FabricView
) -> PauseRoot:
    victims = sorted(root.victims, key=lambda wire: (-flow.stalls[wire].share, str(wire)))
    egress = fabric.peer(root.wire) if root.kind == "slow_receiver" else root.wire
    egress = root.wire if egress is None else egress
    evidence = [flow.stalls[victim].evidence for victim in victims[:6]]
    if egress in known.tx:
        evidence.append(known.evidence(egress))
    return PauseRoot(
        root.wire,
        egress,
        root.kind,
        flow.priority,
        flow.stalls[victims[0]].share,
        root.score / total,
        tuple(victims),
        tuple(evidence),
        flow.stalls[victims[0]].exact,
        known.tx.get(egress),
    )


def is_storm(telemetry: Telemetry, root: PauseRoot) -> bool:
    """Tell whether a host stops its switch for good: all of the time, or to the end of the span.

    A slow receiver pauses and goes on; under a storm nothing passes any more.
    """
    if root.kind != "slow_receiver":
        return False
    if root.share >= STORM_SHARE and (root.load is None or root.load <= TRICKLE):
        return True
    slot = priority(root.egress, root.priority)
    paused = telemetry.rates(interface.PFC_RX_PAUSE.name, slot)
    sent = telemetry.rates(interface.TX_BYTES.name, root.egress)
    if paused is None or sent is None:
        return False
    shares, rates = list(paused[1]), list(sent[1])
    last, best = shares[-2:], max(rates, default=0.0)
    stuck = len(last) == 2 and min(last) >= STORM_SHARE
    return stuck and max(rates[-2:]) <= TRICKLE * best


def marks_enough(
    telemetry: Telemetry, wire: Wire, fabric: FabricView, *, received: bool = False
) -> bool | None:
    """Tell whether an egress marks in earnest, None where marks are not counted."""
    share = marked_share(telemetry, wire, fabric, received=received)
    return None if share is None else share >= FEW_MARKS


def late(fabric: FabricView, victims: Iterable[Wire]) -> list[tuple[str, Entity]]:
    """Return the timeouts that a pause explains at those who wait."""
    return [("ack-timeouts", as_port(fabric, victim)) for victim in victims]


def as_port(fabric: FabricView, wire: Wire) -> Entity:
    """Return the RDMA port of a host's interface, any other wire as it is."""
    port = fabric.port_of(wire) if isinstance(wire, Netdev) else None
    return wire if port is None else port

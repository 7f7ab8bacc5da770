"""Packets arrive out of order and none is lost: spraying, flowlets or a changed route (R11)."""

from __future__ import annotations

from itertools import islice
from typing import Final

from collectors.model.catalogue import interface, rdma
from collectors.model.entities import Entity, Port, Switch, display
from collectors.model.facts import Setting
from tuner.diagnosis.finding import Evidence, Verdict
from tuner.diagnosis.place import names
from tuner.diagnosis.rule import Rule, found, grew, verdict
from tuner.diagnosis.view import FabricView, Growing, Telemetry

MIN_EVENTS: Final = 20
MIN_SHARE: Final = 2e-4  # of packets received, as for loss
FEW_DROPS: Final = 0.05  # dropped for each packet out of order: with more it is loss
_SPREADING: Final = frozenset({"per_packet", "spray", "flowlet", "adaptive", "least_queue"})
_BALANCING: Final = "load_balancing"


def judge(rule: Rule, telemetry: Telemetry, fabric: FabricView) -> Verdict:
    """Find receivers out of order on a fabric that drops nothing and may spread packets."""
    del fabric
    hurt: dict[Port, Growing] = {}
    for port, growth in telemetry.growing(rdma.OUT_OF_SEQUENCE_RX.name, MIN_EVENTS).items():
        packets = telemetry.growth(rdma.RX_PACKETS.name, port)
        least = MIN_SHARE * packets.total if packets is not None else 0.0
        if isinstance(port, Port) and growth.total > least:
            hurt[port] = growth
    balancing = telemetry.setting_all(_BALANCING)
    spreading = {e: s for e, s in balancing.items() if str(s.value) in _SPREADING}
    missing = []
    if not telemetry.counted(rdma.OUT_OF_SEQUENCE_RX.name):
        missing.append("packets out of order of a port")
    if not telemetry.counted(interface.QUEUE_DROPS.name):
        missing.append("drops of switch queues")
    if not balancing:
        missing.append("load balancing of switches")
    lost = sum(growth.total for growth in telemetry.growing(interface.QUEUE_DROPS.name).values())
    disorder = sum(growth.total for growth in hurt.values())
    if missing or not hurt or not spreading or lost > FEW_DROPS * disorder:
        return verdict(rule, (), judged=not missing, missing=missing)
    place = _place(spreading)
    words = sorted({str(setting.value) for setting in spreading.values()})
    finding = found(
        rule,
        place,
        "critical",
        0.85,
        f"{names(hurt)} receive out of order, and nothing is dropped: {names(spreading, 2)} spread "
        f"packets of one flow over paths ({', '.join(words)}), which these NICs take for loss",
        [
            *(
                Evidence(_BALANCING, entity, str(setting.value), note=setting.where)
                for entity, setting in islice(spreading.items(), 4)
            ),
            *(
                grew(rdma.OUT_OF_SEQUENCE_RX, port, growth, f"< {MIN_EVENTS}")
                for port, growth in islice(hurt.items(), 6)
            ),
        ],
        affected=hurt,
        explains=[
            (name, port)
            for port in (*hurt, *_requesters(telemetry))
            for name in ("loss-on-path", "retransmission-collapse", "ack-loss")
        ],
    )
    return verdict(rule, [finding], judged=True)


def _place(spreading: dict[Entity, Setting]) -> Entity:
    """Return the switch that spreads; of several the first by name, they are set alike."""
    return min(spreading, key=lambda entity: (not isinstance(entity, Switch), display(entity)))


def _requesters(telemetry: Telemetry) -> list[Entity]:
    naks = telemetry.growth_all(rdma.SEQUENCE_NAK_RX.name)
    return [port for port, growth in naks.items() if growth.total > 0]


RULE: Final = Rule(
    id="reordering",
    section="config",
    title="Reordering without loss",
    finds="receivers out of order behind switches that spread packets of one flow, and no drops",
    quiet_when="packets arrive in order, switches keep flows together, or drops explain it",
    cannot_tell_when="packets out of order, drops or the switches' load balancing are not known",
    refutes="the NICs accept packets out of order (adaptive routing is on at both ends)",
    judge=judge,
    answers=("R11",),
)

"""Cures of InfiniBand fabrics: cables, slow hosts, routing, virtual lanes, congestion control.

What the subnet manager sets is recommended at its host, once for the whole subnet; the renderer
of opensm.conf turns those into lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from collectors.model.catalogue import infiniband as rows
from collectors.model.entities import Host, Interface, Slot, Wire, display
from tuner.advice.cure import GOODPUT, recommend_change
from tuner.advice.knobs.infiniband import CC_THRESHOLD
from tuner.advice.recommendation import Effect, Recommendation
from tuner.diagnosis.credits import credit_waits, faces_host, link_loads
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.view import FabricView, Telemetry

SUBNET_MANAGER: Final = Host("subnet manager")
ROUTING: Final = "ftree,updn,minhop"
LONGEST_HOQ: Final = 20  # 4.3 s; above it OpenSM never discards
_WAIT: Final = "share of time without credits at the victims"
_CONF: Final = "opensm.conf of the subnet manager: its options cannot be read from here"


def repair(finding: Finding, telemetry: Telemetry, fabric: FabricView) -> Iterable[Recommendation]:
    """Repair the cable; full width and rate come back with it."""
    effects = [_errors_end(finding)]
    lanes = [item for item in finding.evidence if item.name == rows.LANES.name]
    if lanes and isinstance(lanes[0].value, (int, float)) and lanes[0].value:
        usual = float(lanes[0].threshold.split()[0])
        ratio = usual / float(lanes[0].value)
        effects.append(
            Effect(
                GOODPUT,
                "ratio",
                1.0,
                1.0,
                ratio,
                "capacity ratio of the bottleneck",
                "all lanes come up again; the gain is what of it the traffic asks for",
            )
        )
    effects += _relief(finding, telemetry, fabric)
    yield recommend_change(
        finding,
        "link_repair",
        finding.subject,
        "faulty",
        "repaired",
        f"clean, reseat or replace the cable {display(finding.subject)}",
        effects,
        confidence=finding.confidence,
        risk="low",
    )


def _errors_end(finding: Finding) -> Effect:
    counted = [item for item in finding.evidence if isinstance(item.value, (int, float))]
    before = sum(float(item.value) for item in counted if item.name.endswith("_total"))
    return Effect(
        "errors on the cable",
        "errors",
        before,
        0.0,
        0.0,
        "counter bookkeeping",
        "both ends are healthy and only the cable or its connectors are not",
    )


def _relief(finding: Finding, telemetry: Telemetry, fabric: FabricView) -> list[Effect]:
    """Predict the end of the victims' waits, where this is what they wait for."""
    seen = credit_waits(telemetry, fabric)
    places = {finding.subject, *finding.affected}
    worst = max((seen.worst(root) for root in seen.blamed() if root.wire in places), default=None)
    if worst is None:
        return []
    return [
        Effect(
            _WAIT,
            "ratio",
            worst,
            0.0,
            0.05,
            "credit accounting",
            "nothing else that they wait for hides behind this root",
        )
    ]


def look_at_host(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Look at the host that does not drain, and keep jobs off it meanwhile."""
    yield recommend_change(
        finding,
        "ib_host_receive_path",
        finding.subject,
        "drains slowly",
        "drains at line rate",
        f"find out why {display(finding.subject)} drains slowly; keep jobs off it meanwhile",
        _relief(finding, telemetry, fabric),
        confidence=finding.confidence,
        risk="low",
        missing=["PCIe state and NUMA place of the adapter, unless an agent runs on that host"],
    )


def spread(finding: Finding, telemetry: Telemetry, fabric: FabricView) -> Iterable[Recommendation]:
    """Spread what one link cannot carry over its like, by routing or by placement."""
    wire = finding.subject
    if not isinstance(wire, Interface):
        return
    if faces_host(fabric, wire):
        yield _control(finding, telemetry, fabric, "many senders aim at one host")
        return
    effects = _even_spread(telemetry, fabric, wire) or [
        Effect(GOODPUT, "ratio", 1.0, 1.0, 2.0, "a guess", "the loads of its like are not known")
    ]
    effects += _relief(finding, telemetry, fabric)
    yield recommend_change(
        finding,
        "opensm_routing_engine",
        SUBNET_MANAGER,
        None,
        ROUTING,
        f"spread the flows of {display(wire)} over its like: another routing engine, adaptive "
        "routing, or other places for the jobs' ranks",
        effects,
        confidence=min(finding.confidence, 0.7),
        risk="medium",
        missing=[_CONF, "which of the flows belong to one job"],
    )


def _even_spread(telemetry: Telemetry, fabric: FabricView, wire: Interface) -> list[Effect]:
    """Predict the load of a link when its switch spreads evenly over ports of the same kind."""
    loads = link_loads(telemetry)
    siblings = [
        other
        for other in loads
        if isinstance(other, Interface)
        and other.switch == wire.switch
        and isinstance(fabric.peer(other), Interface)
        and _tier(telemetry, fabric.peer(other)) == _tier(telemetry, fabric.peer(wire))
    ]
    if wire not in loads or len(siblings) < 2:
        return []
    even = sum(loads[other] for other in siblings) / len(siblings)
    if even <= 0 or loads[wire] <= even:
        return []
    room = min(loads[wire] / even, float(len(siblings)))
    model = "even spread over the switch's ports of this kind"
    return [
        Effect(
            f"load of {display(wire)}", "ratio", loads[wire], even, loads[wire], model,
            f"{len(siblings)} such ports; from a perfect spread to none",
        ),
        Effect(
            GOODPUT, "ratio", 1.0, 1.0, room, model,
            "the flows are held by this link alone and can use what the others have left",
        ),
    ]  # fmt: skip


def _tier(telemetry: Telemetry, wire: Wire | None) -> object:
    if not isinstance(wire, Interface):
        return None
    known = telemetry.attributes(wire.switch).get("ib_tier")
    return known.value if known is not None else None


def outlast(
    finding: Finding, telemetry: Telemetry, _fabric: FabricView
) -> Iterable[Recommendation]:
    """Let packets wait longer for a credit where the cause of the wait is not found."""
    life = telemetry.settings(finding.subject).get("ib_hoq_life")
    if life is None or not isinstance(life.value, int) or life.value >= LONGEST_HOQ:
        return
    dropped = finding.evidence[0].value
    yield recommend_change(
        finding,
        "opensm_hoq_lifetime",
        SUBNET_MANAGER,
        life.value,
        min(life.value + 2, LONGEST_HOQ),
        f"let packets wait longer at the head of the queue, until what holds "
        f"{display(finding.subject)} is found",
        [
            Effect(
                "packets discarded",
                "packets",
                float(dropped) if isinstance(dropped, (int, float)) else None,
                0.0,
                float(dropped) if isinstance(dropped, (int, float)) else 0.0,
                "HOQ life four times as long",
                "waits shorter than that no longer end in a discard; congestion spreads further",
            )
        ],
        confidence=0.5,
        risk="medium",
        missing=["what the port waits for: no root was found behind it"],
    )


def feed(finding: Finding, telemetry: Telemetry, _fabric: FabricView) -> Iterable[Recommendation]:
    """Give the starved lane a weight, and bound the high-priority ones."""
    lane = finding.subject
    if not isinstance(lane, Slot):
        return
    settings = telemetry.settings(lane.parent)
    weights = [
        f"{name.rpartition('_')[2]} {settings[name].value}"
        for name in ("ib_vl_arbitration_high", "ib_vl_arbitration_low")
        if name in settings
    ]
    waits = finding.evidence[0]
    yield recommend_change(
        finding,
        "opensm_vl_arbitration",
        SUBNET_MANAGER,
        "; ".join(weights) or None,
        f"qos_high_limit 4, weight 64 for lane {lane.index} in qos_vlarb_low",
        f"give virtual lane {lane.index} a share of {display(lane.parent)}",
        [
            Effect(
                "ticks that the lane waits",
                "ticks",
                float(waits.value) if isinstance(waits.value, (int, float)) else None,
                0.0,
                float(waits.value) / 2 if isinstance(waits.value, (int, float)) else 0.0,
                "weighted round robin",
                "the lane waits for arbitration, not for credits",
            )
        ],
        confidence=finding.confidence,
        risk="medium",
    )


def control(finding: Finding, telemetry: Telemetry, fabric: FabricView) -> Iterable[Recommendation]:
    """Turn congestion control on where it is off, or make it less eager."""
    off = [item for item in finding.evidence if item.name == "ib_cc_threshold" and item.value == 0]
    if off:
        yield _control(finding, telemetry, fabric, "congestion spreads and no switch marks")
        return
    fewer = Effect(
        "congestion notifications", "packets", _number(finding.evidence[0].value), 0.0,
        (_number(finding.evidence[0].value) or 0.0) / 2, "marks of queues beyond the threshold",
        "the traffic stays the same",
    )  # fmt: skip
    for knob, setting, milder, summary in _MILDER:
        now = _known(finding, setting)
        if now is None or milder(now) == now:
            continue
        yield recommend_change(
            finding,
            knob,
            SUBNET_MANAGER,
            now,
            milder(now),
            summary,
            [fewer],
            confidence=min(finding.confidence, 0.6),
            risk="medium",
            missing=["an A/B of marking rate and CCTI timer, as LLNL's optimiser does"],
        )


_MILDER: Final[tuple[tuple[str, str, Callable[[int], int], str], ...]] = (
    (
        "opensm_cc_threshold", "ib_cc_threshold", lambda now: min(now, CC_THRESHOLD),
        "mark later: bursts that the buffers hold are no congestion",
    ),
    (
        "opensm_cc_marking_rate", "ib_cc_marking_rate", lambda now: max(2 * now, 15),
        "mark fewer packets: senders are slowed down although links have room",
    ),
)  # fmt: skip
"""Knob, setting that tells its value now, a milder value, and what that does."""


def _known(finding: Finding, setting: str) -> int | None:
    values = [_number(item.value) for item in finding.evidence if item.name == setting]
    return None if not values or values[0] is None else round(values[0])


def replug(
    finding: Finding, _telemetry: Telemetry, _fabric: FabricView
) -> Iterable[Recommendation]:
    """Compare with the plan and plug in what is missing."""
    yield recommend_change(
        finding,
        "ib_cabling",
        finding.subject,
        str(finding.evidence[0].value),
        "as its like",
        f"check the cables of {display(finding.subject)} against the plan",
        [],
        confidence=finding.confidence,
        risk="low",
    )


def _control(
    finding: Finding, telemetry: Telemetry, fabric: FabricView, why: str
) -> Recommendation:
    return recommend_change(
        finding,
        "opensm_congestion_control",
        SUBNET_MANAGER,
        None,
        "TRUE",
        f"turn congestion control on for the service levels concerned: {why}",
        _relief_by_control(finding, telemetry, fabric),
        confidence=min(finding.confidence, 0.6),
        risk="high",
        missing=[_CONF, "whether adapters and switches of all generations here can do it"],
    )


def _relief_by_control(finding: Finding, telemetry: Telemetry, fabric: FabricView) -> list[Effect]:
    return [
        Effect(
            effect.metric, effect.unit, effect.before, 0.05, effect.before or 1.0, "a guess",
            "marked senders slow down before credits run out; from well tuned to without effect",
        )
        for effect in _relief(finding, telemetry, fabric)
    ]  # fmt: skip


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None

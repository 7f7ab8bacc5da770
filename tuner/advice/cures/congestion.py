"""Cures of ECN, DCQCN and PFC thresholds by closed forms; the search refines them on a twin.

No advice on DCQCN unless the NIC says that DCQCN is what it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Final

from collectors.model.dcqcn import NVIDIA_FIRMWARE, DcqcnParameters
from collectors.model.ecn import EcnThresholds
from collectors.model.entities import Entity, Interface, Port, Slot, display, wire_of
from collectors.model.facts import Value
from tuner.advice.cure import Cure, end_of_pauses, recommend_change
from tuner.advice.cures.configuration import EXPONENT, aligned, drifted, exponent_of
from tuner.advice.cures.published import unpublished
from tuner.advice.norm import held, rate_bps, runs_dcqcn, usual
from tuner.advice.recommendation import Effect, Recommendation
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.view import FabricView, Telemetry

ECN: Final = ("kmin_bytes", "kmax_bytes", "pmax_ratio")
LOOP: Final = (
    "ecn_enabled", *ECN, "roce_ecn_codepoint", "dcqcn_rp_enabled", "dcqcn_np_enabled",
    *(f"dcqcn_{field.name}" for field in fields(DcqcnParameters)),
    "buffer_alpha_exponent", "buffer_alpha", "pause_threshold_bytes", "pool_size_bytes",
)  # fmt: skip
"""Everything that the loop of marks, CNPs, rates and pauses is set by."""
_PER_GBPS: Final = EcnThresholds(1e3, 4e3, 0.2)
"""Bytes for each Gb/s: 100/400 KB at 100G (conweave, SimAI), between the published extremes."""
AI_PER_BPS: Final = 5e6 / 25e9  # HPCC's run.py: the rates that firmware has fixed, by speed
HAI_PER_BPS: Final = 50e6 / 25e9
CNP_S: Final = 50e-6
TIMER_S: Final = NVIDIA_FIRMWARE.increase_timer_s
STEP: Final = 2.0


def mark_first(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Let the egress mark before its ingress groups pause: turn ECN on, or lower its thresholds."""
    own = _silent(telemetry, finding.subject)
    if not own:
        made = list(aligned(finding, telemetry, fabric, ECN))
        yield from made or _moved(finding, telemetry, fabric, 1 / STEP)
        return
    switch = own[0].parent.switch if isinstance(own[0].parent, Interface) else None
    off = own if switch is None else list(dict.fromkeys([*own, *_silent(telemetry, switch)]))
    effects = end_of_pauses(finding)
    many = f" and {len(off) - 1} more of its switch" if len(off) > 1 else ""
    yield recommend_change(
        finding,
        "ecn_enabled",
        off[0],
        False,
        True,
        f"mark in {display(off[0])}{many}, so that DCQCN slows the senders before PFC stops them",
        effects,
        confidence=finding.confidence,
        risk="low",
        also=off[1:],
    )
    yield from _thresholds(finding, telemetry, fabric, off, effects)


def _thresholds(
    finding: Finding,
    telemetry: Telemetry,
    fabric: FabricView,
    off: Iterable[Entity],
    effects: Iterable[Effect],
) -> Iterable[Recommendation]:
    """Yield the thresholds of queues that are to mark: where none is visible, or another usual."""
    effects = tuple(effects)
    for name in ECN:
        groups: dict[tuple[Value | None, Value, str], list[Entity]] = {}
        for slot in off:
            known = usual(telemetry, fabric, name, slot)
            now = telemetry.settings(slot).get(name)
            value, why = known or (_sensible(telemetry, slot)[name], "by its speed")
            if now is None or (now.value != value and known is not None):
                groups.setdefault((None if now is None else now.value, value, why), []).append(slot)
        for (before, value, why), slots in groups.items():
            yield recommend_change(
                finding,
                name,
                slots[0],
                before,
                value,
                f"thresholds of {display(slots[0])}: {why}",
                effects,
                confidence=finding.confidence,
                risk="low",
                missing=() if before is not None else ("a threshold while ECN is off",),
                also=slots[1:],
            )


def _silent(telemetry: Telemetry, place: Entity) -> list[Slot]:
    """Return the queues of a place that carry a lossless priority and do not mark."""
    return [
        slot
        for slot, setting in held(telemetry, "ecn_enabled", [place]).items()
        if not setting.value and isinstance(slot, Slot) and _carries(telemetry, slot)
    ]


def _carries(telemetry: Telemetry, slot: Slot) -> bool:
    """Tell whether a queue is of a lossless priority, or nothing says which are."""
    wire = wire_of(slot)
    lossless = telemetry.settings(wire).get("pfc_priorities") if wire is not None else None
    if lossless is None or not isinstance(lossless.value, tuple):
        return True
    return slot.index < len(lossless.value) and bool(lossless.value[slot.index])


def _sensible(telemetry: Telemetry, place: Entity) -> dict[str, float]:
    gbps = (rate_bps(telemetry, place) or 100e9) / 1e9
    values = _PER_GBPS.kmin_bytes * gbps, _PER_GBPS.kmax_bytes * gbps, _PER_GBPS.pmax_ratio
    return dict(zip(ECN, values, strict=True))


def _moved(
    finding: Finding, telemetry: Telemetry, fabric: FabricView, factor: float
) -> Iterable[Recommendation]:
    """Yield Kmin and Kmax of the subject's queues times a factor, first to what is usual."""
    made = list(aligned(finding, telemetry, fabric, ECN))
    if made:
        yield from made
        return
    for name in ("kmin_bytes", "kmax_bytes"):
        for slot, setting in held(telemetry, name, [finding.subject]).items():
            if isinstance(setting.value, (int, float)) and setting.value:
                yield recommend_change(
                    finding,
                    name,
                    slot,
                    setting.value,
                    round(setting.value * factor),
                    f"mark {'later' if factor > 1 else 'earlier'} in {display(slot)}",
                    end_of_pauses(finding),
                    confidence=min(finding.confidence, 0.6),
                    risk="low",
                    missing=["how N, RTT and burst move; `tuner suggest --budget` searches"],
                )


def flatten(finding: Finding, telemetry: Telemetry, fabric: FabricView) -> Iterable[Recommendation]:
    """Make an unstable loop stable: a flatter marking curve (CoNEXT'16: gain is N times slope)."""
    made = list(aligned(finding, telemetry, fabric, ECN))
    if made:
        yield from made
        return
    yield from _scaled(finding, telemetry, "kmax_bytes", STEP, "a flatter marking curve")


def raise_pmax(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Give the marking curve room for the p* of so many flows (Pmax > p*)."""
    made = list(aligned(finding, telemetry, fabric, ECN))
    if made:
        yield from made
        return
    for slot, setting in held(telemetry, "pmax_ratio", [finding.subject]).items():
        if not isinstance(setting.value, (int, float)) or setting.value >= 1:
            continue
        wanted = min(1.0, max(float(setting.value) * STEP, 0.2))
        yield recommend_change(
            finding,
            "pmax_ratio",
            slot,
            setting.value,
            round(wanted, 3),
            f"let {display(slot)} mark enough for the flows that it has",
            end_of_pauses(finding),
            confidence=finding.confidence,
            risk="low",
        )


def _scaled(
    finding: Finding, telemetry: Telemetry, name: str, factor: float, why: str
) -> Iterable[Recommendation]:
    for slot, setting in held(telemetry, name, [finding.subject]).items():
        if isinstance(setting.value, (int, float)) and setting.value:
            yield recommend_change(
                finding,
                name,
                slot,
                setting.value,
                round(setting.value * factor),
                f"{why} in {display(slot)}",
                end_of_pauses(finding),
                confidence=min(finding.confidence, 0.7),
                risk="low",
            )


def _of_nics(
    finding: Finding,
    telemetry: Telemetry,
    fabric: FabricView,
    wanted: Mapping[str, float],
    why: str,
) -> Iterable[Recommendation]:
    """Yield DCQCN parameters for every NIC that runs DCQCN and has others now."""
    for name, value in wanted.items():
        groups: dict[Value, list[Port]] = {}
        for port in fabric.ports():
            setting = telemetry.settings(port).get(name)
            if runs_dcqcn(telemetry, port) and setting is not None and setting.value != value:
                groups.setdefault(setting.value, []).append(port)
        for now, ports in groups.items():
            yield recommend_change(
                finding,
                name,
                ports[0],
                now,
                value,
                f"{why} ({len(ports)} NICs)",
                end_of_pauses(finding),
                confidence=min(finding.confidence, 0.7),
                risk="low",
                also=ports[1:],
            )


def recover_faster(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Scale additive and hyper increase with the speed of the ports; no timer above firmware's."""
    rates = [
        rate for port in fabric.ports() if (rate := rate_bps(telemetry, fabric.attached(port)))
    ]
    line = max(rates, default=0.0)
    if not line:
        return
    wanted = {
        "dcqcn_ai_bps": round(AI_PER_BPS * line, -6), "dcqcn_hai_bps": round(HAI_PER_BPS * line, -6)
    }  # fmt: skip
    timers = [s.value for s in telemetry.setting_all("dcqcn_increase_timer_s").values()]
    if any(isinstance(timer, (int, float)) and timer > TIMER_S for timer in timers):
        wanted["dcqcn_increase_timer_s"] = TIMER_S
    yield from _of_nics(
        finding, telemetry, fabric, wanted, "increase rates in proportion to the port's speed"
    )


def throttle_less(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Cut less often (NSDI'23: coalesce at the notification point), and mark later."""
    wanted = {"dcqcn_cnp_interval_s": CNP_S, "dcqcn_cut_window_s": CNP_S}
    made = list(
        _of_nics(finding, telemetry, fabric, wanted, "at most one cut in 50 us, as in the paper")
    )
    yield from made or _moved(finding, telemetry, fabric, STEP)


def fewer_cuts_each(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Fit AI to the number of flows: N flows raise the queue by N times AI (DCQCN+)."""
    for port in finding.affected:
        if isinstance(port, Port) and runs_dcqcn(telemetry, port):
            setting = telemetry.settings(port).get("dcqcn_ai_bps")
            if setting is not None and isinstance(setting.value, (int, float)) and setting.value:
                wanted = {"dcqcn_ai_bps": max(1e6, round(float(setting.value) / STEP, -6))}
                yield from _of_nics(
                    finding, telemetry, fabric, wanted, "less increase for so many flows"
                )
                return


def more_headroom(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Give a priority group the headroom of its like, or half as much again."""
    made = list(aligned(finding, telemetry, fabric, ("xoff_bytes",)))
    if made:
        yield from made
        return
    for slot, setting in held(telemetry, "xoff_bytes", [finding.subject]).items():
        if isinstance(setting.value, (int, float)) and setting.value and _is_group(slot):
            yield recommend_change(
                finding,
                "xoff_bytes",
                slot,
                setting.value,
                round(setting.value * STEP),
                f"more headroom for {display(slot)}: it drops what arrives after its pause",
                end_of_pauses(finding),
                confidence=finding.confidence,
                risk="medium",
                missing=["length of the cable"],
            )


def _is_group(entity: Entity) -> bool:
    return isinstance(entity, Slot) and isinstance(entity.parent, Interface)


def share_buffer(
    finding: Finding, telemetry: Telemetry, fabric: FabricView
) -> Iterable[Recommendation]:
    """Let priority groups have what their like have of the buffer, or the pool its whole size."""
    names = ("pool_size_bytes", "buffer_alpha_exponent", "buffer_alpha", "pause_threshold_bytes")
    made = list(aligned(finding, telemetry, fabric, names))
    if made:
        yield from made
        return
    for slot, setting in held(telemetry, "buffer_alpha", [finding.subject]).items():
        if isinstance(setting.value, (int, float)) and setting.value:
            now = exponent_of(float(setting.value))
            yield recommend_change(
                finding,
                EXPONENT,
                slot,
                now,
                now + 1,
                f"a larger share of the buffer for {display(slot)}",
                end_of_pauses(finding),
                confidence=min(finding.confidence, 0.6),
                risk="medium",
            )


def first_alike(cure: Cure) -> Cure:
    """Return the cure that first brings the fabric's loop settings to what most places have.

    Then what lies outside everything published; only where nothing does is it a matter of other
    values.
    """

    def alike(
        finding: Finding, telemetry: Telemetry, fabric: FabricView
    ) -> Iterable[Recommendation]:
        made = list(drifted(finding, telemetry, fabric, LOOP))
        given = {(rec.knob, place) for rec in made for place in rec.places}
        marks = [place for knob, place in given if knob == "ecn_enabled"]
        if marks:  # a queue that did not mark may have no thresholds to mark by
            effects = end_of_pauses(finding)
            more = _thresholds(finding, telemetry, fabric, sorted(marks, key=str), effects)
            made += [rec for rec in more if not given & {(rec.knob, p) for p in rec.places}]
        made = made or list(unpublished(finding, telemetry, fabric))
        yield from made or cure(finding, telemetry, fabric)

    return alike


def leave(
    _finding: Finding, _telemetry: Telemetry, _fabric: FabricView
) -> Iterable[Recommendation]:
    """Leave it to the search: no closed form says more than it."""
    return ()


CURES: Final[Mapping[str, Cure]] = MappingProxyType(
    {
        "pfc-before-ecn": first_alike(mark_first),
        "incast": first_alike(leave),
        "unstable-loop": first_alike(flatten),
        "marking-saturated": first_alike(raise_pmax),
        "slow-recovery": first_alike(recover_faster),
        "over-throttling": first_alike(throttle_less),
        "incast-beyond-cnp": first_alike(fewer_cuts_each),
        "unequal-alpha": first_alike(share_buffer),
        "headroom-too-small": more_headroom,
        "pool-exhausted": first_alike(share_buffer),
    }
)
TUNED: Final = frozenset(
    {
        "pfc-before-ecn", "incast", "unstable-loop", "marking-saturated", "slow-recovery",
        "over-throttling", "incast-beyond-cnp",
    }
)  # fmt: skip
"""Rules whose findings the search on a twin has an answer to."""

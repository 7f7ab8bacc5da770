"""A candidate: ECN thresholds, DCQCN parameters (or none) and PFC's share, put into a plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from collectors.model.dcqcn import (
    DcqcnParameters,
    DcqcnRangeError,
    firmware_of_parameters,
    parameters_of_firmware,
)
from collectors.model.ecn import EcnThresholds
from collectors.model.facts import Value
from simlab.packet.config import Plan
from simlab.packet.parameters import CongestionControl, EcnAt, Form, SwitchModel

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Axis:
    """A searched number: its range spans what is published (presets, Paraleon's search space)."""

    name: str
    low: float
    high: float


ECN_AXES: Final = (
    Axis("kmin_bytes", 5e3, 3.2e6),
    Axis("span_bytes", 10e3, 6.4e6),  # Kmax - Kmin
    Axis("pmax_ratio", 0.01, 1.0),
)
DCQCN_AXES: Final = (
    Axis("ai_bps", 5e6, 2e9),
    Axis("hai_bps", 30e6, 4e9),
    Axis("increase_timer_s", 50e-6, 900e-6),
    Axis("g", 1 / 1024, 1 / 16),
    Axis("cut_window_s", 1e-6, 128e-6),
    Axis("min_rate_bps", 1e6, 5e9),
    Axis("initial_alpha", 1 / 16, 1.0),
)
ALPHA_AXIS: Final = Axis("alpha", 1 / 64, 8.0)
AXES: Final = (*ECN_AXES, *DCQCN_AXES, ALPHA_AXIS)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One configuration. `dcqcn` None: NICs do not react. `ecn` None: switches do not mark."""

    name: str
    ecn: EcnThresholds | None
    dcqcn: DcqcnParameters | None
    alpha: float
    source: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """What it sets, for telling candidates apart."""
        return self.ecn, self.dcqcn, self.alpha


def point_of(candidate: Candidate) -> Floats | None:
    """Return the candidate as log values along AXES, None where something is off."""
    if candidate.ecn is None or candidate.dcqcn is None:
        return None
    ecn = candidate.ecn
    values = [ecn.kmin_bytes, ecn.kmax_bytes - ecn.kmin_bytes, ecn.pmax_ratio]
    values += [getattr(candidate.dcqcn, axis.name) for axis in DCQCN_AXES]
    values.append(candidate.alpha)
    return np.array(
        [math.log(min(max(v, a.low), a.high)) for v, a in zip(values, AXES, strict=True)]
    )


def candidate_at(point: Floats, like: DcqcnParameters, name: str) -> Candidate | None:
    """Return the candidate at log values; what is not an axis is as in `like`.

    Values are those that registers can hold (mlx5's units). None where they cannot.
    """
    value = {
        axis.name: math.exp(min(max(float(x), math.log(axis.low)), math.log(axis.high)))
        for axis, x in zip(AXES, point, strict=True)
    }
    kmin = round(value["kmin_bytes"], -3)
    ecn = EcnThresholds(
        kmin, kmin + max(round(value["span_bytes"], -3), 1e3), round(value["pmax_ratio"], 2)
    )
    changes: dict[str, Any] = {axis.name: value[axis.name] for axis in DCQCN_AXES}
    changes["cnp_interval_s"] = value["cut_window_s"]
    changes["hai_bps"] = max(value["hai_bps"], value["ai_bps"])
    dcqcn = held(replace(like, **changes))
    if dcqcn is None:
        return None
    alpha = 2.0 ** round(math.log2(value["alpha"]))
    return Candidate(name, ecn, dcqcn, alpha, "optimisation")


def held(parameters: DcqcnParameters) -> DcqcnParameters | None:
    """Return the nearest parameters that registers hold, None where a value is out of range."""
    try:
        return parameters_of_firmware(firmware_of_parameters(parameters, wide_fields=True))
    except DcqcnRangeError:
        return None


def stepped(candidate: Candidate, current: Candidate, factor: float) -> Candidate:
    """Return the candidate with no value further than `factor` from the current one.

    From a value that is outside everything published, any published one is a step back to known
    ground, however far. What is off now has no step to bound.
    """

    def near(axis: Axis, wanted: float, now: float) -> float:
        if not axis.low <= now <= axis.high:
            return min(max(wanted, axis.low), axis.high)
        return min(max(wanted, now / factor), now * factor)

    ecn = candidate.ecn
    if ecn is not None and current.ecn is not None:
        was = current.ecn
        kmin, span, pmax = (
            near(axis, wanted, now)
            for axis, wanted, now in zip(
                ECN_AXES,
                (ecn.kmin_bytes, ecn.kmax_bytes - ecn.kmin_bytes, ecn.pmax_ratio),
                (was.kmin_bytes, was.kmax_bytes - was.kmin_bytes, was.pmax_ratio),
                strict=True,
            )
        )
        ecn = EcnThresholds(kmin, kmin + span, min(pmax, 1.0))
    dcqcn = candidate.dcqcn
    if dcqcn is not None and current.dcqcn is not None:
        steps: dict[str, Any] = {
            axis.name: near(axis, getattr(dcqcn, axis.name), getattr(current.dcqcn, axis.name))
            for axis in DCQCN_AXES
        }
        steps["hai_bps"] = max(steps["hai_bps"], steps["ai_bps"])
        dcqcn = replace(dcqcn, **steps)
    alpha = near(ALPHA_AXIS, candidate.alpha, current.alpha)
    return replace(candidate, ecn=ecn, dcqcn=dcqcn, alpha=alpha)


def current_of(plan: Plan, port: int) -> Candidate:
    """Return what is in force at a directed port and with most NICs of a plan."""
    node = plan.topology.end(port)
    switch = plan.model.switch_at(node, port)
    ecn = next((one.thresholds for one in switch.ecn), None)
    control = plan.model.congestion
    dcqcn = None if control.form is Form.OFF else control.dcqcn
    return Candidate("leave it", ecn, dcqcn, switch.alpha, "the running settings")


def applied(plan: Plan, candidate: Candidate, line_bps: float) -> Plan:
    """Return the plan with the candidate on every NIC and every marking queue.

    Thresholds are for ports of `line_bps` and scale with speed. Exceptions of single places keep
    all else that is particular to them.
    """
    ecn: tuple[EcnAt, ...] = ()
    if candidate.ecn is not None:
        ecn = (EcnAt(rate_bps=line_bps, thresholds=candidate.ecn),)

    def marking(switch: SwitchModel) -> SwitchModel:
        return replace(switch, ecn=ecn, alpha=candidate.alpha)

    model = plan.model
    control = CongestionControl(form=Form.OFF)
    if candidate.dcqcn is not None:
        control = replace(model.congestion, form=Form.FIRMWARE, dcqcn=candidate.dcqcn)
    model = replace(
        model,
        congestion=control,
        switch=marking(model.switch),
        switches={node: marking(one) for node, one in model.switches.items()},
        ports={port: marking(one) for port, one in model.ports.items()},
        nics={node: replace(one, congestion=None) for node, one in model.nics.items()},
    )
    return replace(plan, model=model)


_ECN_FIELDS: Final = tuple(field.name for field in fields(EcnThresholds))
_NIC_FIELDS: Final = tuple(field.name for field in fields(DcqcnParameters))


def unlike(candidate: Candidate, current: Candidate) -> list[tuple[str, ...]]:
    """Return what a candidate has otherwise: parts as a whole, then fields, small changes first."""
    sizes: dict[str, float] = {}
    parts: list[tuple[str, ...]] = []
    for here, now, names in (
        (candidate.ecn, current.ecn, _ECN_FIELDS),
        (candidate.dcqcn, current.dcqcn, _NIC_FIELDS),
        (candidate, current, ("alpha",)),
    ):
        changed = []
        for name in names if here is not None and now is not None else ():
            new, old = getattr(here, name) or 0.0, getattr(now, name) or 0.0
            if new != old:
                changed.append(name)
                sizes[name] = abs(math.log(new / old)) if new > 0 and old > 0 else math.inf
        if len(changed) > 1:
            parts.append(tuple(changed))
    return [*parts, *((name,) for name in sorted(sizes, key=lambda name: (sizes[name], name)))]


def reverted(candidate: Candidate, current: Candidate, names: Sequence[str]) -> Candidate:
    """Return the candidate with some fields as they are now; as it was where that is no sense."""
    ecn = {name: getattr(current.ecn, name) for name in names if name in _ECN_FIELDS}
    nic = {name: getattr(current.dcqcn, name) for name in names if name in _NIC_FIELDS}
    made = replace(candidate, alpha=current.alpha) if "alpha" in names else candidate
    try:
        if ecn and candidate.ecn is not None:
            made = replace(made, ecn=replace(candidate.ecn, **ecn))
    except ValueError:  # Kmin above Kmax
        return candidate
    if nic and candidate.dcqcn is not None:
        dcqcn = replace(candidate.dcqcn, **nic)
        made = replace(made, dcqcn=dcqcn)
        if dcqcn.ai_bps > dcqcn.hai_bps:
            return candidate
    return made


def changed_settings(current: Candidate, chosen: Candidate) -> dict[str, Value]:
    """Return the settings that the chosen candidate changes, by name of the vocabulary."""
    found: dict[str, Value] = {}
    if chosen.ecn is not None:
        for field in fields(EcnThresholds):
            new = getattr(chosen.ecn, field.name)
            if current.ecn is None or getattr(current.ecn, field.name) != new:
                found[field.name] = new
        if current.ecn is None:
            found["ecn_enabled"] = True
    if chosen.dcqcn is None:
        if current.dcqcn is not None:
            found["dcqcn_rp_enabled"] = (False,) * 8
    else:
        if current.dcqcn is None:
            found["dcqcn_rp_enabled"] = (True,) * 8
        for one in fields(DcqcnParameters):
            new = getattr(chosen.dcqcn, one.name)
            if current.dcqcn is None or getattr(current.dcqcn, one.name) != new:
                found[f"dcqcn_{one.name}"] = 0 if new is None else new
    if chosen.alpha != current.alpha:
        found["buffer_alpha_exponent"] = round(math.log2(chosen.alpha))
    return found

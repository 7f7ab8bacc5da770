"""Checks that a profile's own values fit together, end to end. Pure: looks at the plan alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from collectors.model.ecn import EcnThresholds
from collectors.model.entities import Entity, Slot, display
from collectors.model.facts import Value
from tuner.advice.plan import Plan
from tuner.advice.profile import LOSSLESS_MTU, Site, headroom_for
from tuner.models.ecn_before_pfc import SharedBuffer, ordering
from tuner.models.queue_pairs import retry_budget

Outcome: TypeAlias = Literal["holds", "broken", "unknown"]
Values: TypeAlias = dict[str, dict[Entity, Value]]
"""Knob -> place -> value."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found. why: the values that it compared, or what it would need."""

    check: str
    outcome: Outcome
    why: str


def audit(plan: Plan, site: Site) -> tuple[Verdict, ...]:
    """Return the verdicts of all checks."""
    values: Values = {}
    for device in plan.devices:
        for step in device.steps:
            values.setdefault(step.knob, {})[step.scope] = step.proposed
    return tuple(
        Verdict(name, *_worst(list(check(values, site)))) for name, check in _CHECKS.items()
    )


_Said: TypeAlias = tuple[Outcome, str]


def _worst(said: list[_Said]) -> _Said:
    for outcome in ("broken", "unknown"):
        for one in said:
            if one[0] == outcome:
                return one
    return said[0] if said else ("unknown", "the profile says nothing of it")


def _number(value: Value | None) -> float:
    return float(value) if isinstance(value, (int, float)) else float("nan")


def _row(value: Value) -> tuple[Value, ...]:
    return value if isinstance(value, tuple) else ()


def _dscps(values: Values) -> Iterator[tuple[Entity, int]]:
    """Yield the DSCP that data is sent with, by who says so."""
    for knob in ("rdma_cm_tclass", "job_tclass"):
        for place, tclass in values.get(knob, {}).items():
            yield place, int(_number(tclass)) >> 2


def _data_is_lossless(values: Values, _site: Site) -> Iterator[_Said]:
    """The DSCP of data leads to a priority with PFC, on every host and switch."""
    lossless = {tuple(_row(v)) for v in values.get("pfc_priorities", {}).values()}
    for knob in ("dscp_to_priority", "dscp_to_traffic_class"):
        for place, row in values.get(knob, {}).items():
            for sender, dscp in _dscps(values):
                priority = _row(row)[dscp]
                held = isinstance(priority, int) and priority >= 0
                fine = held and all(pfc[int(_number(priority))] is True for pfc in lossless)
                yield (
                    "holds" if fine else "broken",
                    f"DSCP {dscp} of {display(sender)} is class {priority} on {display(place)}",
                )


def _one_lossless_set(values: Values, _site: Site) -> Iterator[_Said]:
    """Hosts and switches have PFC on the same priorities."""
    rows = values.get("pfc_priorities", {})
    first = next(iter(rows.values()), None)
    for place, row in rows.items():
        alike = row == first
        on = [p for p, up in enumerate(_row(row)) if up]
        yield "holds" if alike else "broken", f"PFC of {display(place)} on {on}"


def _ect(values: Values, _site: Site) -> Iterator[_Said]:
    """Data is sent ECN-capable, and the queues mark."""
    for knob in ("rdma_cm_tclass", "job_tclass"):
        for place, tclass in values.get(knob, {}).items():
            point = int(_number(tclass)) & 3
            fine = point in (1, 2)
            yield "holds" if fine else "broken", f"{knob} of {display(place)}: ECN bits {point}"
    for place, marks in values.get("ecn_enabled", {}).items():
        if not marks:
            yield "broken", f"{display(place)} does not mark"


def _cnps(values: Values, _site: Site) -> Iterator[_Said]:
    """CNPs travel in a strict class without PFC."""
    for nic, dscp in values.get("cnp_dscp", {}).items():
        for place, row in values.get("dscp_to_traffic_class", {}).items():
            traffic_class = _row(row)[int(_number(dscp))]
            pfc = any(
                _row(r)[int(_number(traffic_class))] is True
                for r in values.get("pfc_priorities", {}).values()
            )
            strict = any(
                isinstance(queue, Slot) and queue.index == traffic_class and how == "strict"
                for queue, how in values.get("scheduler", {}).items()
            )
            fine = traffic_class != -1 and not pfc and strict
            text = f"CNPs of {display(nic)} are class {traffic_class} on {display(place)}"
            yield "holds" if fine else "broken", f"{text}: strict {strict}, PFC {pfc}"


def _marks_before_pauses(values: Values, site: Site) -> Iterator[_Said]:
    """Kmin and Kmax are reached before the PFC threshold of what feeds the queue."""
    for queue, low in values.get("kmin_bytes", {}).items():
        high = _number(values["kmax_bytes"].get(queue))
        if not _number(low) <= high:
            yield "broken", f"{display(queue)}: Kmin {low} above Kmax {high:g}"
            continue
        if site.buffer_bytes is None:
            yield "unknown", "needs the size of the switch's shared buffer (--buffer)"
            continue
        room = headroom_for(site, site.between_bps, site.uplink_cable_m).xoff_bytes
        ports = site.downlinks + site.uplinks
        alpha = 2.0 ** max(map(_number, values["buffer_alpha_exponent"].values()))
        try:
            buffer = SharedBuffer(site.buffer_bytes, ports, 1, room)
            seen = ordering(buffer, alpha, EcnThresholds(_number(low), high, 1.0), senders=1)
        except ValueError as error:
            yield "broken", str(error)
            continue
        fine = seen.safe_for_incast and seen.kmax_reachable
        text = f"Kmin {_number(low) / 1e3:.0f} KB, Kmax {high / 1e3:.0f} KB, bound"
        yield "holds" if fine else "broken", f"{text} {seen.incast_bytes / 1e3:.0f} KB"


def _headroom(values: Values, site: Site) -> Iterator[_Said]:
    """Each lossless group holds what its longest cable still delivers."""
    lengths = values.get("pfc_cable_length_metres", {})
    for group, xoff in values.get("xoff_bytes", {}).items():
        if not isinstance(group, Slot):
            continue
        metres = _number(lengths.get(group.parent))
        speed = site.speed_bps if metres == site.cable_m else site.between_bps
        need = headroom_for(site, speed, metres).xoff_bytes
        fine = _number(xoff) >= need
        text = f"{display(group)}: {_number(xoff):.0f} B for {metres:g} m, needs {need} B"
        yield "holds" if fine else "broken", text


def _watchdog(values: Values, _site: Site) -> Iterator[_Said]:
    """The watchdog looks at least as often as it detects, and acks outlast it."""
    polls = values.get("pfc_watchdog_poll_seconds", {})
    detections = values.get("pfc_watchdog_detection_seconds", {})
    for port, detect in detections.items():
        poll = _number(polls.get(port))
        fine = poll <= _number(detect)
        yield (
            "holds" if fine else "broken",
            f"{display(port)}: polls {poll:g} s, detects {detect} s",
        )
    longest = max(map(_number, detections.values()), default=0.0)
    for host, code in values.get("qp_timeout_code", {}).items():
        budget = retry_budget(int(_number(code)), 7)
        fine = budget.timeout_s > longest
        text = f"{display(host)}: ACK timeout {budget.timeout_s:.2g} s, watchdog {longest:g} s"
        yield "holds" if fine else "broken", text


def _packets_fit(values: Values, _site: Site) -> Iterator[_Said]:
    """Switches carry what hosts send, and hosts send whole 4096-byte RoCE packets."""
    sizes = {place: _number(mtu) for place, mtu in values.get("mtu_bytes", {}).items()}
    hosts = [mtu for place, mtu in sizes.items() if str(place).startswith("netdev/")]
    switches = [mtu for place, mtu in sizes.items() if str(place).startswith("interface/")]
    if hosts and switches:
        fine = min(switches) >= max(hosts) >= LOSSLESS_MTU
        text = f"hosts {max(hosts):.0f} B, switches {min(switches):.0f} B, RoCE {LOSSLESS_MTU} B"
        yield "holds" if fine else "broken", text


def _shares(values: Values, _site: Site) -> Iterator[_Said]:
    """The shares of a NIC's classes add up, and strict classes have none."""
    for place, row in values.get("ets_bandwidth_ratio", {}).items():
        total = sum(map(_number, _row(row)))
        kinds = _row(values.get("ets_algorithm", {}).get(place, ()))
        strict = [n for n, kind in enumerate(kinds) if kind == "strict" and _number(_row(row)[n])]
        fine = abs(total - 1) < 1e-9 and not strict
        text = f"{display(place)}: {total:.0%}, strict classes with a share: {strict}"
        yield "holds" if fine else "broken", text


def _seeds(values: Values, _site: Site) -> Iterator[_Said]:
    """Hash seeds differ from tier to tier."""
    seeds = values.get("ecmp_hash_seed", {})
    leaves = {v for place, v in seeds.items() if str(place).endswith("-leaf")}
    spines = {v for place, v in seeds.items() if str(place).endswith("-spine")}
    if seeds:
        fine = not leaves & spines
        yield "holds" if fine else "broken", f"leaves {sorted(leaves, key=str)}, spines {spines}"


_CHECKS: Final[dict[str, Callable[[Values, Site], Iterator[_Said]]]] = {
    "data is lossless end to end": _data_is_lossless,
    "PFC is alike on hosts and switches": _one_lossless_set,
    "data is ECN-capable and queues mark": _ect,
    "CNPs are strict and never paused": _cnps,
    "marks come before pauses": _marks_before_pauses,
    "headroom holds the cable": _headroom,
    "watchdog and timeouts fit": _watchdog,
    "packets fit": _packets_fit,
    "shares of the NIC add up": _shares,
    "hash seeds differ between tiers": _seeds,
}

"""A congested egress as the DCQCN models see it: its flows, their parameters, its thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from collectors.model.catalogue import interface
from collectors.model.dcqcn import DcqcnParameters
from collectors.model.ecn import EcnThresholds
from collectors.model.entities import Interface, Netdev, Port, Slot, display
from collectors.model.facts import Setting
from tuner.diagnosis.connections import senders_by_receiver
from tuner.diagnosis.finding import Evidence
from tuner.diagnosis.flow import ecn_marks, marked_share
from tuner.diagnosis.load import loads
from tuner.diagnosis.once import once
from tuner.diagnosis.place import egress_settings
from tuner.diagnosis.view import FabricView, Telemetry

MIN_MARKS: Final = 50  # packets: fewer are no loop at work
_OFF_IS_NONE: Final = ("byte_counter_bytes", "max_rate_bps", "first_cnp_rate_bps")
_NEEDED: Final = ("ai_bps", "increase_timer_s")


@dataclass(frozen=True)
class Loop:
    """An egress to a host that marks. flows: queue pairs towards it. watermark: bytes or None.

    parameters, ecn: as set, None where they are not known. load, marked: shares of line rate and
    of packets.
    """

    wire: Interface
    receiver: Port
    senders: Mapping[Port, int]
    speed_bps: float
    load: float
    marked: float
    watermark: float | None
    parameters: DcqcnParameters | None
    ecn: EcnThresholds | None
    settings: tuple[Setting, ...]

    @property
    def flows(self) -> int:
        """Queue pairs that send to the receiver."""
        return sum(self.senders.values())

    def evidence(self, *names: str) -> list[Evidence]:
        """Return settings of the loop as evidence."""
        return [
            Evidence(s.name, s.entity, str(s.value), note=s.where)
            for s in self.settings
            if s.name in names
        ]

    def __str__(self) -> str:
        return display(self.wire)


def loops(telemetry: Telemetry, fabric: FabricView) -> tuple[Loop, ...]:
    """Return the egresses to hosts that mark in earnest, with what is known of their loops."""
    return once(telemetry, "loops", lambda: tuple(_loops(telemetry, fabric)))


def _loops(telemetry: Telemetry, fabric: FabricView) -> list[Loop]:
    known = loads(telemetry, fabric)
    senders = senders_by_receiver(telemetry)
    # The newest: flows start at line rate, so that every loop overshoots once.
    watermarks = telemetry.latest_all(interface.QUEUE_WATERMARK.name)
    made = []
    for wire, marks in ecn_marks(telemetry, fabric, received=True).items():
        if marks < MIN_MARKS:
            continue
        far = fabric.peer(wire) if isinstance(wire, Interface) else None
        port = fabric.port_of(far) if isinstance(far, Netdev) else None
        if not isinstance(wire, Interface) or port is None:
            continue
        if wire not in known.tx:
            continue
        sending = senders.get(port, {})
        index = _marking_queue(telemetry, wire)
        queue = egress_settings(telemetry, wire, index)
        sender = next(iter(sending), port)
        own = telemetry.settings(sender)
        seen = watermarks.get(Slot(wire, "queue", index))
        made.append(
            Loop(
                wire,
                port,
                sending,
                known.speeds[wire],
                known.tx[wire],
                marked_share(telemetry, wire, fabric, received=True) or 0.0,
                None if seen is None else seen.value,
                _parameters(own),
                _thresholds(queue),
                (*queue.values(), *own.values()),
            )
        )
    return made


def _marking_queue(telemetry: Telemetry, wire: Interface) -> int:
    """Return the queue that marks most, where marks are not counted the one that carries most."""
    for metric in (interface.QUEUE_ECN_MARKED, interface.QUEUE_TX_PACKETS):
        grown = {
            index: growth.total
            for index in range(8)
            if (growth := telemetry.growth(metric.name, Slot(wire, "queue", index)))
        }
        if grown:
            return max(grown, key=lambda index: grown[index])
    return 0


def _number(settings: Mapping[str, Setting], name: str) -> float | None:
    setting = settings.get(name)
    if setting is None or not isinstance(setting.value, (int, float)):
        return None
    return float(setting.value)


def _parameters(settings: Mapping[str, Setting]) -> DcqcnParameters | None:
    """Return DCQCN as set on a port; what is not told stays at the paper's value."""
    if any(_number(settings, f"dcqcn_{name}") is None for name in _NEEDED):
        return None
    held: dict[str, float | int | bool | None] = {}
    for field in fields(DcqcnParameters):
        value = _number(settings, f"dcqcn_{field.name}")
        if value is None:
            continue
        if field.name in _OFF_IS_NONE:
            held[field.name] = value or None
        elif field.name == "recovery_stages":
            held[field.name] = int(value)
        elif field.name.startswith("clamp"):
            held[field.name] = bool(value)
        else:
            held[field.name] = value
    return DcqcnParameters(**held)  # type: ignore[arg-type]  # one type for each field, see above


def _thresholds(settings: Mapping[str, Setting]) -> EcnThresholds | None:
    kmin, kmax, pmax = (
        _number(settings, name) for name in ("kmin_bytes", "kmax_bytes", "pmax_ratio")
    )
    if kmin is None or kmax is None or pmax is None:
        return None
    if not 0 <= kmin < kmax or not 0 < pmax <= 1:
        return None
    return EcnThresholds(kmin, kmax, pmax)

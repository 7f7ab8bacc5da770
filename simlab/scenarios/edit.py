"""The parts of a draw while changes are made to them, and what changes have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from collectors.model.ecn import EcnThresholds
from collectors.model.entities import Entity, Interface, Slot, Switch
from collectors.model.errors import ConfigInvalid
from collectors.model.facts import Value
from simlab.packet.build_ports import thresholds_at
from simlab.packet.interventions import Intervention
from simlab.packet.parameters import CongestionControl, EcnAt, Model, NicModel, SwitchModel
from simlab.packet.topology import Topology
from simlab.scenarios.draw import Change, Draw, Ticking
from simlab.scenarios.job import Job
from simlab.scenarios.places import Places


@dataclass(slots=True)
class Edit:
    """A draw taken apart. marking: (port, setting) -> value, for a queue's thresholds belong
    together and are set at the end.
    """

    draw: Draw
    places: Places
    topology: Topology
    model: Model
    events: list[Intervention]
    jobs: list[Job]
    priorities: dict[int, int]
    shown: dict[tuple[Entity, str], Value]
    ticking: list[Ticking]
    marking: dict[tuple[int, str], Any] = field(default_factory=dict)

    @classmethod
    def of(cls, draw: Draw) -> Edit:
        """Take a draw apart."""
        plan = draw.plan
        shown = {(change.entity, change.setting): change.value for change in draw.shown}
        return cls(
            draw, Places(plan.topology), plan.topology, plan.model, list(plan.events),
            list(draw.jobs), dict(draw.priorities), shown, list(draw.ticking),
        )  # fmt: skip

    def made(self) -> Draw:
        """Put the draw together again."""
        self._mark()
        self._gather()
        plan = replace(
            self.draw.plan, topology=self.topology, model=self.model, events=tuple(self.events)
        )
        shown = tuple(Change(entity, name, value) for (entity, name), value in self.shown.items())
        draw = replace(self.draw, plan=plan, shown=shown, ticking=tuple(self.ticking))
        if tuple(self.jobs) != draw.jobs or self.priorities != draw.priorities:
            draw = draw.with_jobs(tuple(self.jobs), self.priorities)
        return draw

    def show(self, entity: Entity, name: str, value: Value) -> None:
        """Have configurations say so, whatever the plan says."""
        self.shown[entity, name] = value

    def at_switch(self, entity: Entity, change: Callable[[SwitchModel], SwitchModel]) -> None:
        """Change what is in force at a switch, or at one of its interfaces."""
        if isinstance(entity, Switch):
            node = self.places.switch(entity)
            ports = self.topology.ports_of()[node]
            self.model = replace(
                self.model,
                switches=self.model.switches | {node: change(self.model.switch_at(node))},
                ports={
                    port: change(own) if port in ports else own
                    for port, own in self.model.ports.items()
                },
            )
            return
        for port in self.ports(entity):
            node = self.topology.end(port)
            own = change(self.model.switch_at(node, port))
            self.model = replace(self.model, ports=self.model.ports | {port: own})

    def ports(self, entity: Entity) -> list[int]:
        """Return the directed ports of a switch, or that of an interface or a part of it."""
        if isinstance(entity, Switch):
            return self.topology.ports_of()[self.places.switch(entity)]
        return [self.places.interface(entity)]

    def at_nic(self, entity: Entity, change: Callable[[NicModel], NicModel]) -> None:
        """Change what is particular about the NICs of a host, port or interface."""
        for node in self.places.nics(entity):
            own = change(self.model.nic_at(node))
            self.model = replace(self.model, nics=self.model.nics | {node: own})

    def at_congestion(
        self, entity: Entity, change: Callable[[CongestionControl], CongestionControl]
    ) -> None:
        """Change the congestion control of the NICs of a host, port or interface."""
        for node in self.places.nics(entity):
            own = change(self.model.congestion_at(node))
            self.at_nic(self.places.names.port(node), lambda nic, o=own: replace(nic, congestion=o))  # type: ignore[misc]

    def _mark(self) -> None:
        """Set the thresholds of each queue that was spoken of."""
        for port in {port for port, _ in self.marking}:
            wanted = {name: value for (at, name), value in self.marking.items() if at == port}
            node = self.topology.end(port)
            switch = self.model.switch_at(node, port)
            rate = self.topology.cables[port // 2].rate_bps
            # Where marking was off, turning it on without thresholds means the fabric's usual.
            usual = thresholds_at(switch.ecn, rate) or thresholds_at(self.model.switch.ecn, rate)
            on = wanted.pop("ecn_enabled", bool(switch.ecn) or bool(wanted))
            if usual is None and on and len(wanted) < len(EcnThresholds.__dataclass_fields__):
                raise ConfigInvalid(
                    str(self.places.names.interface(port)), "ecn_enabled",
                    "needs kmin_bytes, kmax_bytes and pmax_ratio: no queue of this fabric has any",
                )  # fmt: skip
            known = {} if usual is None else asdict(usual)
            ecn: tuple[EcnAt, ...] = ()
            if on:
                try:
                    ecn = (EcnAt(rate_bps=rate, thresholds=EcnThresholds(**(known | wanted))),)
                except ValueError as error:
                    place = str(self.places.names.interface(port))
                    raise ConfigInvalid(place, "kmin_bytes", str(error)) from None
            own = replace(switch, ecn=ecn)
            self.model = replace(self.model, ports=self.model.ports | {port: own})
        self.marking.clear()

    def _gather(self) -> None:
        """Where all NICs have one congestion control of their own, make it everybody's."""
        hosts = self.topology.hosts
        own = [self.model.nic_at(node).congestion for node in hosts]
        if own[0] is None or any(one != own[0] for one in own):
            return
        nics = {node: replace(nic, congestion=None) for node, nic in self.model.nics.items()}
        self.model = replace(self.model, congestion=own[0], nics=nics)


def number(entity: Entity, setting: str, value: Value) -> float:
    """Return a setting's number; ConfigInvalid where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigInvalid(str(entity), setting, f"must be a number, not {value!r}")
    return float(value)


def enabled(value: Value, index: int) -> bool:
    """Return a switch that is one for all, or one for each priority."""
    return bool(value[index]) if isinstance(value, tuple) else bool(value)


def is_switch_place(entity: Entity) -> bool:
    """Tell whether an entity is a switch or part of one."""
    whole = entity.parent if isinstance(entity, Slot) else entity
    return isinstance(whole, Switch | Interface)

"""How settings of an InfiniBand subnet act in the simulator: congestion control and routes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import permutations
from types import MappingProxyType
from typing import Final

from collectors.model.entities import Entity
from collectors.model.errors import ConfigInvalid
from collectors.model.facts import Value
from simlab.packet.parameters import Form, InfinibandLink
from simlab.packet.topology import Topology
from simlab.scenarios.edit import Edit, number

_CCT: Final = tuple(step / 16 for step in range(128))
_CCT_TIMER_S: Final = 20e-6
_TIMER_UNIT_S: Final = 1.024e-6
_TURNS: Final = 16


def _link(edit: Edit, entity: Entity, setting: str) -> InfinibandLink:
    edit.places.switch(entity)
    if edit.model.infiniband is None:
        raise ConfigInvalid(str(entity), setting, "this is no InfiniBand fabric")
    return edit.model.infiniband


def threshold(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """Marking threshold of the switches; the simulator has one for all.

    IBTA A10.2: 15 marks from the smallest share of the buffer on, 1 from the largest; 0 is off.
    """
    link = _link(edit, entity, setting)
    code = round(number(entity, setting, value))
    limit = round(link.credits_bytes * (_TURNS - code) / _TURNS) if code else 0
    control = replace(edit.model.congestion, form=Form.INFINIBAND if code else Form.OFF)
    if code and not control.cct:
        control = replace(control, cct=_CCT, ccti_timer_s=_CCT_TIMER_S)
    edit.model = replace(
        edit.model, infiniband=replace(link, threshold_bytes=limit), congestion=control
    )


def marking_rate(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """Packets between two that a switch marks; one number for all switches."""
    link = _link(edit, entity, setting)
    rate = round(number(entity, setting, value))
    edit.model = replace(edit.model, infiniband=replace(link, marking_rate=rate))


def adapters(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """What all adapters do on a BECN: timer (1.024 us), increase, table (delay in packet times)."""
    _link(edit, entity, setting)
    control = edit.model.congestion
    if setting == "ib_cc_table":
        steps = value if isinstance(value, tuple) else (value,)
        control = replace(control, cct=tuple(number(entity, setting, step) for step in steps))
    elif setting == "ib_cc_ccti_timer":
        seconds = number(entity, setting, value) * _TIMER_UNIT_S
        control = replace(control, ccti_timer_s=seconds)
    else:
        control = replace(control, ccti_increase=round(number(entity, setting, value)))
    edit.model = replace(edit.model, congestion=control)


def routes(edit: Edit, entity: Entity, setting: str, value: Value) -> None:  # noqa: ARG001
    """Route all jobs as a subnet manager does: by destination, spread over the shortest ways.

    On a fat tree OpenSM's ftree, updn and minhop come to the same: a switch sends a destination
    out of that of its ports on a shortest way which has fewest destinations so far.
    """
    _link(edit, entity, setting)
    egress = destination_routes(edit.topology)

    def way(src: int, dst: int) -> tuple[int, ...]:
        hops = []
        node = edit.topology.peer(edit.places.nic_port[src])
        while node != dst:
            hops.append(egress[node, dst])
            node = edit.topology.peer(hops[-1])
        return tuple(hops)

    edit.jobs = [
        replace(
            job, paths=tuple((src, dst, way(src, dst)) for src, dst in permutations(job.ranks, 2))
        )
        for job in edit.jobs
    ]


def destination_routes(topology: Topology) -> dict[tuple[int, int], int]:
    """Return (switch, destination host) -> egress port, each switch's ports evenly used."""
    ports = topology.ports_of()
    used: dict[int, int] = {}
    egress: dict[tuple[int, int], int] = {}
    for dst in topology.hosts:
        away = _distances(topology, dst)
        for node in topology.switches:
            shortest = [p for p in ports[node] if away.get(topology.peer(p)) == away[node] - 1]
            chosen = min(shortest, key=lambda port: (used.get(port, 0), port))
            used[chosen] = used.get(chosen, 0) + 1
            egress[node, dst] = chosen
    return egress


def _distances(topology: Topology, dst: int) -> dict[int, int]:
    """Return the cables between each node and a host; other hosts forward nothing."""
    ports = topology.ports_of()
    hosts = set(topology.hosts)
    away = {dst: 0}
    waiting = deque([dst])
    while waiting:
        node = waiting.popleft()
        if node in hosts and node != dst:
            continue
        for port in ports[node]:
            far = topology.peer(port)
            if far not in away:
                away[far] = away[node] + 1
                waiting.append(far)
    return away


SETTINGS: Final[Mapping[str, Callable[[Edit, Entity, str, Value], None]]] = MappingProxyType(
    {
        "ib_cc_threshold": threshold,
        "ib_cc_marking_rate": marking_rate,
        "ib_cc_ccti_timer": adapters,
        "ib_cc_ccti_increase": adapters,
        "ib_cc_table": adapters,
        "subnet_routes": routes,
    }
)

"""Changes of settings put into the simulator's model, and the same draw under another load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Final

from collectors.model.dcqcn import DcqcnParameters
from collectors.model.entities import Entity
from collectors.model.errors import NotSupported
from collectors.model.facts import Value
from simlab.packet.topology import Cable
from simlab.scenarios import change_host, change_network, change_subnet
from simlab.scenarios.draw import Change, Draw
from simlab.scenarios.edit import Edit

Apply = Callable[[Edit, Entity, str, Value], None]

_ORDER: Final = (
    "dcqcn_rp_enabled",
    "congestion_control",
    "ecn_enabled",
    "ib_cc_threshold",
)  # others build on these


def _table() -> Mapping[str, Apply]:
    dcqcn = {
        f"dcqcn_{field.name}": change_host.dcqcn_parameter for field in fields(DcqcnParameters)
    }
    return MappingProxyType(
        {**dcqcn, **change_host.SETTINGS, **change_network.SETTINGS, **change_subnet.SETTINGS}
    )


SETTINGS: Final[Mapping[str, Apply]] = _table()
"""Every setting and knob that the simulator can follow."""


def applied(draw: Draw, changes: Iterable[Change]) -> Draw:
    """Return the draw with settings changed.

    NotSupported names a setting, or a place, that the simulator has none of; ConfigInvalid a
    value that makes no sense.
    """
    edit = Edit.of(draw)
    wanted = list(changes)
    wanted.sort(key=lambda change: change.setting not in _ORDER)
    for change in wanted:
        apply = SETTINGS.get(change.setting)
        if apply is None:
            raise NotSupported(
                str(change.entity), "change", f"the simulator has no setting {change.setting}"
            )
        edit.shown.pop((change.entity, change.setting), None)
        apply(edit, change.entity, change.setting, change.value)
    return edit.made()


def varied(draw: Draw, *, flows: float = 1.0, rtt: float = 1.0, burst: float = 1.0) -> Draw:
    """Return the draw with so many times the senders, cable delay and bytes per message.

    Senders are queue pairs: more of them share the same bytes. A factor that leaves a whole
    number unchanged leaves the draw so.
    """
    jobs = tuple(
        replace(
            job,
            qps=max(1, round(job.qps * flows)),
            size_bytes=max(1, round(job.size_bytes * burst)),
        )
        for job in draw.jobs
    )
    cables: dict[int, Cable] = {
        index: replace(cable, delay_s=cable.delay_s * rtt)
        for index, cable in enumerate(draw.plan.topology.cables)
    }
    plan = replace(draw.plan, topology=draw.plan.topology.with_cables(cables))
    return replace(draw, plan=plan).with_jobs(jobs)

"""The names of the common InfiniBand exporters, for dashboards that exist.

`infiniband_switch_*` and `infiniband_hca_*` as treydock/infiniband_exporter 0.x serves them: labels
`guid` (0x and 16 digits; of an adapter its port's) and `port`, bytes instead of words. A switch's
`rate_bytes_per_second` is its fastest port's; ports differ, so each port has its own beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from prometheus_client import Metric as Family

from agent.snapshot import Outcome
from collectors.model.catalogue import infiniband as ib
from collectors.model.catalogue import rdma
from collectors.model.entities import Entity, Interface, Port, Wire
from collectors.model.facts import Facts, Value
from collectors.model.metric import Metric

_ROWS: Final[tuple[tuple[Metric, str], ...]] = (
    (rdma.TX_BYTES, "port_transmit_data_bytes_total"),
    (rdma.RX_BYTES, "port_receive_data_bytes_total"),
    (rdma.TX_PACKETS, "port_transmit_packets_total"),
    (rdma.RX_PACKETS, "port_receive_packets_total"),
    (rdma.UNICAST_TX, "port_unicast_transmit_packets_total"),
    (rdma.UNICAST_RX, "port_unicast_receive_packets_total"),
    (rdma.MULTICAST_TX, "port_multicast_transmit_packets_total"),
    (rdma.MULTICAST_RX, "port_multicast_receive_packets_total"),
    (rdma.SYMBOL_ERRORS, "port_symbol_error_total"),
    (rdma.LINK_RECOVERY, "port_link_error_recovery_total"),
    (rdma.LINK_DOWNED, "port_link_downed_total"),
    (rdma.RX_ERRORS, "port_receive_errors_total"),
    (rdma.RX_REMOTE_PHYSICAL, "port_receive_remote_physical_errors_total"),
    (rdma.RX_SWITCH_RELAY, "port_receive_switch_relay_errors_total"),
    (rdma.TX_DISCARDS, "port_transmit_discards_total"),
    (rdma.TX_CONSTRAINT, "port_transmit_constraint_errors_total"),
    (rdma.RX_CONSTRAINT, "port_receive_constraint_errors_total"),
    (rdma.LOCAL_INTEGRITY, "port_local_link_integrity_errors_total"),
    (rdma.BUFFER_OVERRUN, "port_excessive_buffer_overrun_errors_total"),
    (rdma.VL15_DROPPED, "port_vl15_dropped_total"),
    (rdma.TX_WAIT, "port_transmit_wait_total"),
    (ib.QP1_DROPPED, "port_qp1_dropped_total"),
    (ib.RX_LOCAL_PHYSICAL, "port_local_physical_errors_total"),
    (ib.RX_MALFORMED, "port_malformed_packet_errors_total"),
    (ib.RX_BUFFER_OVERRUN, "port_buffer_overrun_errors_total"),
    (ib.RX_DLID_MAPPING, "port_dli_mapping_errors_total"),
    (ib.RX_VL_MAPPING, "port_vl_mapping_errors_total"),
    (ib.RX_LOOPING, "port_looping_errors_total"),
    (rdma.RATE, "port_rate_bytes_per_second"),
)
NAMES: Final[Mapping[str, str]] = MappingProxyType({row.name: name for row, name in _ROWS})
"""Catalogue name -> name behind `infiniband_switch_` or `infiniband_hca_`."""


def families(outcomes: Iterable[Outcome]) -> Iterator[Family]:
    """Yield the families of what InfiniBand sweeps read; nothing for other sources."""
    made: dict[str, Family] = {}
    fastest: dict[tuple[str, str], float] = {}
    facts = [outcome.facts for outcome in outcomes if outcome.facts is not None]
    known = _attributes(facts)
    for reading in (reading for outcome in outcomes for reading in outcome.readings):
        entity = reading.entity
        if not isinstance(entity, (Port, Interface)):
            continue
        kind, labels = _kind(entity), _labels(entity, known)
        for column, value in reading.values.items():
            suffix = NAMES.get(column.metric)
            if suffix is None or column.via != "mad":
                continue
            number = float(column.to_unit(value))
            _add(made, f"infiniband_{kind}_{suffix}", column.kind, labels, number)
            if column.metric == rdma.RATE.name:
                key = (kind, labels["guid"])
                fastest[key] = max(fastest.get(key, 0.0), number)
    for (kind, guid), number in fastest.items():
        _add(made, f"infiniband_{kind}_rate_bytes_per_second", "gauge", {"guid": guid}, number)
    for one in facts:
        _cables(made, one, known)
    yield from made.values()


def _add(
    made: dict[str, Family], name: str, kind: str, labels: dict[str, str], value: float
) -> None:
    family = made.get(name)
    if family is None:
        base = name.removesuffix("_total") if kind == "counter" else name
        text = "As other InfiniBand exporters name it; see fabric_ib_* and node_infiniband_*."
        family = made[name] = Family(base, text, "counter" if kind == "counter" else "gauge")
    family.add_sample(name, labels, value)


def _cables(
    made: dict[str, Family], facts: Facts, known: Mapping[tuple[Entity, str], Value]
) -> None:
    described: set[tuple[str, str]] = set()
    for cable in facts.neighbours:
        if cable.how != "ib":
            continue
        for here, there in ((cable.local, cable.remote), (cable.remote, cable.local)):
            if not isinstance(here, (Port, Interface)) or not isinstance(there, (Port, Interface)):
                continue
            kind, far = _kind(here), _labels(there, known)
            labels = _labels(here, known)
            uplink = {
                kind: _name(here),
                "uplink": _name(there),
                "uplink_guid": far["guid"],
                "uplink_type": "SW" if isinstance(there, Interface) else "CA",
                "uplink_port": far["port"],
                "uplink_lid": _lid(there, known),
            }
            _add(made, f"infiniband_{kind}_uplink_info", "gauge", {**labels, **uplink}, 1.0)
            if (kind, labels["guid"]) not in described:
                described.add((kind, labels["guid"]))
                info = {"guid": labels["guid"], kind: _name(here), "lid": _lid(here, known)}
                _add(made, f"infiniband_{kind}_info", "gauge", info, 1.0)


def _attributes(facts: Iterable[Facts]) -> dict[tuple[Entity, str], Value]:
    return {(a.entity, a.name): a.value for one in facts for a in one.attributes}


def _kind(entity: Wire) -> str:
    return "switch" if isinstance(entity, Interface) else "hca"


def _name(entity: Port | Interface) -> str:
    if isinstance(entity, Interface):
        return entity.switch.name
    return " ".join(part for part in (entity.device.host, entity.device.name) if part)


def _labels(entity: Port | Interface, known: Mapping[tuple[Entity, str], Value]) -> dict[str, str]:
    if isinstance(entity, Interface):
        return {"guid": f"0x{entity.switch.key}", "port": entity.name}
    guid = known.get((entity, "ib_port_guid"), entity.device.key)
    return {"guid": f"0x{guid}", "port": str(entity.number)}


def _lid(entity: Port | Interface, known: Mapping[tuple[Entity, str], Value]) -> str:
    where: Entity = entity.switch if isinstance(entity, Interface) else entity
    return str(known.get((where, "lid"), ""))

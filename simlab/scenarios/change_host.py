"""How settings of hosts and jobs act in the simulator's model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from collectors.model.entities import Device, Entity, Netdev
from collectors.model.errors import ConfigInvalid
from collectors.model.facts import Value
from simlab.packet.interventions import What
from simlab.packet.parameters import Form
from simlab.packet.telemetry_facts import PCIE_GTPS, PCIE_LANES
from simlab.packet.telemetry_switch_facts import DATA_DSCP, DSCP_TO_CLASS
from simlab.packet.traffic import DATA_PRIORITY
from simlab.scenarios.edit import Edit, enabled, number

_OPTIONAL: Final = ("byte_counter_bytes", "max_rate_bps", "first_cnp_rate_bps")  # 0: off
_WHOLE: Final = ("recovery_stages",)
_OLD_GTPS: Final = 5.0  # up to here PCIe codes 8b/10b, then 128b/130b
_PCIE_PAYLOAD: Final = 0.9  # payload share of packets of 256 bytes


def dcqcn_parameter(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """One parameter of DCQCN; the CNP interval is one for all hosts here."""
    name = setting.removeprefix("dcqcn_")
    wanted: float | bool | int | None
    if isinstance(value, bool):
        wanted = value
    else:
        wanted = number(entity, setting, value)
        if name in _WHOLE:
            wanted = round(wanted)
        if name in _OPTIONAL and not wanted:
            wanted = None
    if name == "cnp_interval_s":
        control = edit.model.congestion
        changed = replace(control, dcqcn=replace(control.dcqcn, cnp_interval_s=wanted))  # type: ignore[arg-type]
        edit.model = replace(edit.model, congestion=changed)
    edit.at_congestion(
        entity,
        lambda control: replace(control, dcqcn=replace(control.dcqcn, **{name: wanted})),  # type: ignore[arg-type]
    )


def algorithm(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """Which algorithm runs: dcqcn or off."""
    if value not in ("dcqcn", "off"):
        raise ConfigInvalid(str(entity), setting, "the simulator has dcqcn and off")
    _react(edit, entity, on=value == "dcqcn")


def reaction_point(edit: Edit, entity: Entity, setting: str, value: Value) -> None:  # noqa: ARG001
    """Whether the host slows down on CNPs of the data's priority."""
    _react(edit, entity, on=enabled(value, DATA_PRIORITY))


def _react(edit: Edit, entity: Entity, *, on: bool) -> None:
    usual = edit.model.congestion.form
    form = (usual if usual is not Form.OFF else Form.FIRMWARE) if on else Form.OFF
    edit.at_congestion(entity, lambda control: replace(control, form=form))


def notification_point(edit: Edit, entity: Entity, setting: str, value: Value) -> None:  # noqa: ARG001
    """Whether the host sends CNPs."""
    on = enabled(value, DATA_PRIORITY)
    edit.at_nic(entity, lambda nic: replace(nic, sends_cnps=on))


def codepoint(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """ECN codepoint of the data; 0: not capable."""
    capable = number(entity, setting, value) > 0
    edit.at_nic(entity, lambda nic: replace(nic, ecn_capable=capable))


def pfc(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """PFC of a host's interface."""
    edit.show(entity, setting, value)
    classify(edit, entity)


def classify(edit: Edit, entity: Entity) -> None:
    """Decide whether pauses reach the data: PFC on, and on for the priority it is sent in."""
    for node in edit.places.nics(entity):
        netdev = edit.places.names.netdev(node)
        lossless = edit.shown.get((netdev, "pfc_priorities"), _usual_pfc(edit))
        table = edit.shown.get((netdev, "dscp_to_priority"), DSCP_TO_CLASS)
        trusted = edit.shown.get((netdev, "trust"), "dscp") == "dscp"
        priority = 0
        if trusted and isinstance(table, tuple):
            priority = max(0, int(table[DATA_DSCP]))
        heeds = enabled(lossless, priority) and priority == DATA_PRIORITY
        edit.at_nic(netdev, lambda nic, on=heeds: replace(nic, pfc=on))  # type: ignore[misc]


def _usual_pfc(edit: Edit) -> tuple[bool, ...]:
    switch = edit.model.switch
    return tuple(switch.pfc and p in switch.lossless for p in range(8))


def host_map(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """Priority of each DSCP at a host's interface."""
    if not isinstance(value, tuple) or len(value) <= DATA_DSCP:
        raise ConfigInvalid(str(entity), setting, "must have a place for each DSCP")
    edit.show(entity, setting, value)
    classify(edit, entity)


def data_dscp(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """DSCP, or traffic class, of the data that a host sends."""
    code = round(number(entity, setting, value))
    dscp = code if setting == "roce_dscp" else code >> 2
    for node in edit.places.nics(entity):
        edit.priorities[node] = DSCP_TO_CLASS[dscp & 63]


def cnp_class(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """Priority or DSCP of CNPs; the simulator has one for all hosts."""
    edit.places.nics(entity)
    code = round(number(entity, setting, value))
    priority = code if setting == "cnp_priority" else DSCP_TO_CLASS[code & 63]
    edit.model = replace(edit.model, transport=replace(edit.model.transport, cnp_priority=priority))


def pcie(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """Speed or width of a device's PCIe link: too little slows down the receive side."""
    edit.show(entity, setting, value)
    for node in edit.places.nics(entity):
        device = edit.places.names.device(node)
        gtps = number(entity, setting, edit.shown.get((device, "pcie_speed_gtps"), PCIE_GTPS))
        lanes = number(entity, setting, edit.shown.get((device, "pcie_width_lanes"), PCIE_LANES))
        drain = pcie_payload_bps(gtps, lanes)
        port = edit.places.nic_port[node]
        rate = edit.topology.cables[port // 2].rate_bps
        slow = {n: bps for n, bps in edit.model.host.slow.items() if n != node}
        if drain < rate:
            slow[node] = drain
        edit.model = replace(edit.model, host=replace(edit.model.host, slow=slow))


def pcie_payload_bps(gtps: float, lanes: float) -> float:
    """Return what a PCIe link carries one way, without coding and the headers of its packets."""
    coding = 0.8 if gtps <= _OLD_GTPS else 128 / 130
    return gtps * 1e9 * lanes * coding * _PCIE_PAYLOAD


def receive_depth(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """Receive requests posted ahead; the application posts a further one at its own pace."""
    depth = round(number(entity, setting, value))
    edit.at_nic(entity, lambda nic: replace(nic, receive_requests=depth))


def receive_pace(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """Seconds that the application takes for each further receive request; 0: none."""
    pace = number(entity, setting, value)
    edit.at_nic(entity, lambda nic: replace(nic, receive_interval_s=pace))


def repair_host(edit: Edit, entity: Entity, setting: str, value: Value) -> None:  # noqa: ARG001
    """Make a host good: it takes in what comes, and sends no pauses without need."""
    for node in edit.places.nics(entity):
        slow = {n: bps for n, bps in edit.model.host.slow.items() if n != node}
        edit.model = replace(edit.model, host=replace(edit.model.host, slow=slow))
        port = edit.places.names.port(node)
        edit.at_nic(port, lambda nic: replace(nic, credits_bytes=None))
        edit.events = [
            e for e in edit.events if e.host != node or e.what not in (What.DRAIN, What.PAUSE_STORM)
        ]
        mine = set(edit.places.around_nic(node))
        edit.ticking = [one for one in edit.ticking if one.entity not in mine]


def ack_timeout(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """ACK timer of the queue pairs; the simulator has one for all."""
    edit.places.nics(entity)
    seconds = number(entity, setting, value)
    edit.model = replace(edit.model, transport=replace(edit.model.transport, rto_s=seconds))


def out_of_order(edit: Edit, entity: Entity, setting: str, value: Value) -> None:  # noqa: ARG001
    """Whether NICs place packets that come out of order instead of asking for them again."""
    edit.places.nics(entity)
    on = bool(value)
    window = edit.model.transport.window_packets or 256
    edit.model = replace(
        edit.model,
        transport=replace(
            edit.model.transport,
            selective_repeat=on,
            reorder_tolerant=on,
            window_packets=window if on else 0,
        ),
    )


def qps(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """Queue pairs that jobs of a host open per peer; jobs have one number for all hosts."""
    nodes = set(edit.places.nics(entity))
    count = round(number(entity, setting, value))
    edit.jobs = [replace(job, qps=count) if nodes & set(job.ranks) else job for job in edit.jobs]


def rank_order(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """Order of the hosts of the job that runs on the named one: names of hosts."""
    nodes = set(edit.places.nics(entity))
    by_name = {edit.places.names.host(node): node for node in edit.topology.hosts}
    names = value if isinstance(value, tuple) else (value,)
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise ConfigInvalid(str(entity), setting, f"no host {unknown[0]}")
    order = tuple(by_name[str(name)] for name in names)
    edit.jobs = [replace(job, ranks=order) if nodes & set(job.ranks) else job for job in edit.jobs]


def only_shown(edit: Edit, entity: Entity, setting: str, value: Value) -> None:
    """Keep a setting for the configuration alone: the simulator does not follow it."""
    if isinstance(entity, Netdev | Device):
        edit.places.nics(entity)
    edit.show(entity, setting, value)


SETTINGS: Final[Mapping[str, Callable[[Edit, Entity, str, Value], None]]] = MappingProxyType(
    {
        "congestion_control": algorithm,
        "dcqcn_rp_enabled": reaction_point,
        "dcqcn_np_enabled": notification_point,
        "roce_ecn_codepoint": codepoint,
        "dscp_to_priority": host_map,
        "roce_dscp": data_dscp,
        "forced_tclass": data_dscp,
        "rdma_cm_tclass": data_dscp,
        "cnp_priority": cnp_class,
        "cnp_dscp": cnp_class,
        "pcie_speed_gtps": pcie,
        "pcie_width_lanes": pcie,
        "receive_queue_depth": receive_depth,
        "receive_interval_s": receive_pace,
        "host_repair": repair_host,
        "ack_timeout_s": ack_timeout,
        "out_of_order_placement": out_of_order,
        "qps_per_connection": qps,
        "rank_order": rank_order,
        "rdma_mtu_bytes": only_shown,
        "pause_rx_enabled": only_shown,
        "pause_tx_enabled": only_shown,
        "fec": only_shown,
        "job_environment": only_shown,
    }
)

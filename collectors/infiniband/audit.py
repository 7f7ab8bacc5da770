"""What is configured: congestion control, virtual lanes, head-of-queue life, link enables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from collectors.codec import mad_cc, mad_smp
from collectors.infiniband.discovery import Miss
from collectors.infiniband.readings import data_lanes, thing_of
from collectors.infiniband.topology import End, Node, Topology
from collectors.infiniband.transactor import Answer, Failure, Transactor
from collectors.model.facts import Setting

_LOW, _HIGH = 1, 3  # blocks of the VL arbitration table (IBTA vol. 1, 14.2.5.9)
_SPEEDS = {1: "SDR", 2: "DDR", 4: "QDR"}
_EXTENDED = {1: "FDR", 2: "EDR", 4: "HDR", 8: "NDR"}


def port_settings(topology: Topology) -> list[Setting]:
    """Return what the PortInfos of a discovery say is configured on every live port."""
    made = []
    for node in topology.nodes.values():
        for number, port in node.ports.items():
            if number == 0 or not port.is_up or not port.info:
                continue
            entity, info = node.entity(number), port.info
            values: dict[str, str | int] = {
                "ib_lanes_enabled": _words(
                    info["LinkWidthEnabled"], {c: f"{n}x" for c, n in mad_smp.LINK_WIDTH.items()}
                ),
                "ib_speeds_enabled": " ".join(
                    part
                    for part in (
                        _words(info["LinkSpeedEnabled"], _SPEEDS),
                        _words(info["LinkSpeedExtEnabled"], _EXTENDED),
                    )
                    if part
                ),
                "rdma_mtu_bytes": port.mtu,
                "ib_operational_vls": data_lanes(info["OperationalVLs"]),
                "ib_vl_high_limit": info["VLHighLimit"],
            }
            if node.is_switch:
                values["ib_hoq_life"] = info["HOQLife"]
                values["ib_vl_stall_count"] = info["VLStallCount"]
            made += [Setting(entity, name, value, "PortInfo") for name, value in values.items()]
    return made


def _words(mask: int, names: dict[int, str]) -> str:
    return " ".join(name for bit, name in names.items() if mask & bit)


def fetch_settings(
    transactor: Transactor,
    topology: Topology,
    *,
    congestion: bool = True,
    qos: bool = True,
    budget_s: float | None = None,
) -> tuple[list[Setting], list[Miss]]:
    """Ask for congestion control of every device, and virtual lane tables where lanes differ."""
    made: list[Setting] = []
    misses: list[Miss] = []
    for node in topology.nodes.values():
        if congestion and node.lid:
            _ask_congestion(transactor, node, made)
        if qos:
            _ask_lanes(transactor, node, made, misses)
    transactor.run(budget_s)
    return made, misses


def _ask_congestion(transactor: Transactor, node: Node, made: list[Setting]) -> None:
    thing, lid = thing_of(node), node.lid
    where = "congestion control class"

    def support(answer: Answer) -> None:
        supported = not isinstance(answer, Failure)
        made.append(Setting(thing, "ib_cc_supported", supported, where))
        if supported:
            layout = (
                mad_cc.SWITCH_CONGESTION_SETTING if node.is_switch else mad_cc.CA_CONGESTION_SETTING
            )
            transactor.congestion(lid, layout.attribute, 0, setting)

    def setting(answer: Answer) -> None:
        if isinstance(answer, Failure):
            return
        values: dict[str, Any] = (
            _switch_congestion(answer) if node.is_switch else _adapter_congestion(answer)
        )
        made.extend(Setting(thing, name, value, where) for name, value in values.items())

    transactor.congestion(lid, mad_cc.CONGESTION_INFO.attribute, 0, support)


def _switch_congestion(payload: bytes) -> dict[str, int]:
    values = mad_cc.SWITCH_CONGESTION_SETTING.parse(payload)
    return {
        "ib_cc_threshold": values["Threshold"],
        "ib_cc_marking_rate": values["Marking_Rate"],
        "ib_cc_packet_size": values["Packet_Size"],
    }


def _adapter_congestion(payload: bytes) -> dict[str, int | tuple[int, ...]]:
    entries = mad_cc.ca_entries(payload)
    return {
        "ib_cc_control_map": mad_cc.CA_CONGESTION_SETTING.parse(payload)["Control_Map"],
        "ib_cc_ccti_timer": tuple(entry.ccti_timer for entry in entries),
        "ib_cc_ccti_increase": tuple(entry.ccti_increase for entry in entries),
        "ib_cc_ccti_min": tuple(entry.ccti_min for entry in entries),
        "ib_cc_trigger_threshold": tuple(entry.trigger_threshold for entry in entries),
    }


def _ask_lanes(transactor: Transactor, node: Node, made: list[Setting], misses: list[Miss]) -> None:
    """Ask for the tables of ports with more than one data lane; with one they mean nothing."""
    live = [n for n, port in node.ports.items() if n and port.is_up]
    for number in live:
        port = node.ports[number]
        if data_lanes(port.info.get("OperationalVLs", 0)) < 2:
            continue
        entity = node.entity(number)

        def take(
            name: str, read: Callable[[bytes], tuple[int, ...]], entity: Any = entity
        ) -> Callable[[Answer], None]:
            def done(answer: Answer) -> None:
                if isinstance(answer, Failure):
                    if not answer.permanent:
                        misses.append(Miss(node.name, name, answer, End(node.guid, -1)))
                else:
                    made.append(Setting(entity, name, read(answer), "SMP"))

            return done

        def ask(
            attribute: int, modifier: int, done: Callable[[Answer], None], node: Node = node
        ) -> None:
            transactor.smp(node.path, node.lid, attribute, modifier, done, device=node.guid)

        # a switch has a table per pair of ports; subnet managers write the same for all inputs
        source = next((n for n in live if n != number), number)
        pair = source << 8 | number if node.is_switch else 0
        target = number if node.is_switch else 0
        ask(mad_smp.SL_TO_VL.attribute, pair, take("ib_sl_to_vl", _sl_to_vl))
        ask(
            mad_smp.VL_ARBITRATION.attribute,
            _LOW << 16 | target,
            take("ib_vl_arbitration_low", _arbitration),
        )
        ask(
            mad_smp.VL_ARBITRATION.attribute,
            _HIGH << 16 | target,
            take("ib_vl_arbitration_high", _arbitration),
        )


def _sl_to_vl(payload: bytes) -> tuple[int, ...]:
    lanes: tuple[int, ...] = mad_smp.SL_TO_VL.parse(payload)["SLtoVL"]
    return lanes


def _arbitration(payload: bytes) -> tuple[int, ...]:
    return arbitration_weights(mad_smp.VL_ARBITRATION.parse(payload)["VLWeight"])


def arbitration_weights(entries: Iterable[int]) -> tuple[int, ...]:
    """Sum the weights of each of the 15 data lanes over the entries of a table."""
    weights = [0] * 15
    for entry in entries:
        lane, weight = entry >> 8 & 0xF, entry & 0xFF
        if lane < 15:
            weights[lane] += weight
    return tuple(weights)

"""DCQCN of hosts. Ranges and defaults come from the register table, in the paper's units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from collectors.model.catalogue.host_settings import HOST_SETTINGS
from collectors.model.dcqcn import (
    FIRMWARE_KNOBS,
    PAPER,
    FirmwareDcqcn,
    FirmwareKnob,
    parameters_of_firmware,
)
from collectors.model.facts import Value
from tuner.advice.knobs.knob import Knob, at

_FLEET: Final = "every host of the fabric: one unlike the others takes more or less than its share"
_ROWS: Final = {row.name: row for row in HOST_SETTINGS}
_OFED: Final = "/sys/class/net/IF/ecn"
_DEBUGFS: Final = "/sys/kernel/debug/mlx5/PCI/cc_params"


def _in_base_units(knob: FirmwareKnob, register: int) -> float:
    firmware = replace(FirmwareDcqcn(), **{knob.name: register})
    value = getattr(parameters_of_firmware(firmware), knob.paper_field)
    return 0.0 if value is None else float(value)


def _parameters() -> Iterator[Knob]:
    for knob in FIRMWARE_KNOBS:
        name = f"dcqcn_{knob.paper_field}"
        row = _ROWS[name]
        ends = sorted(_in_base_units(knob, register) for register in (knob.minimum, knob.maximum))
        paper = getattr(PAPER, knob.paper_field)
        defaults: list[tuple[str, Value]] = [("SIGCOMM'15", 0.0 if paper is None else paper)]
        if knob.default is not None:
            defaults.append(("NVIDIA firmware", _in_base_units(knob, knob.default)))
        else:
            defaults += [("NVIDIA firmware, by version", n * 1e-6) for n in (0, 2, 4)]
        side = "roce_np" if knob.debugfs.startswith("np_") else "roce_rp"
        switch = row.unit == "bool"
        yield Knob(
            name=name,
            meaning=row.meaning,
            unit=row.unit,
            on=("port",),
            low=None if switch else ends[0],
            high=None if switch else ends[1],
            choices=(False, True) if switch else (),
            defaults=tuple(defaults),
            homes=at(
                linux=f"{_OFED}/{side}/{knob.name}, {_DEBUGFS}/{knob.debugfs}",
                mlxconfig=f"{knob.mlxconfig}_P1",
            ),
            disruption="none; running flows take it over at once; lost when the driver reloads",
            agrees=_FLEET,
            setting=name,
        )


def _enabled(side: str, meaning: str) -> Knob:
    return Knob(
        name=f"dcqcn_{side}_enabled",
        meaning=meaning,
        unit="bool",
        on=("port",),
        choices=(False, True),
        places=8,
        defaults=(("NVIDIA firmware", (True,) * 8), ("irdma of the kernel", (False,) * 8)),
        homes=at(linux=f"{_OFED}/roce_{side}/enable/PRIORITY", mlxconfig="ROCE_CC_PRIO_MASK_P1"),
        disruption="none; takes hold of running flows at once",
        agrees="rp of the senders with np of their receivers, on the priority of RoCE",
        setting=f"dcqcn_{side}_enabled",
    )


KNOBS: Final = (
    *_parameters(),
    _enabled("rp", "The host slows down on CNPs, by priority."),
    _enabled("np", "The host sends CNPs for marked packets, by priority."),
    Knob(
        name="cnp_dscp",
        meaning="DSCP of the CNPs that the host sends.",
        on=("port",),
        low=0,
        high=63,
        defaults=(("NVIDIA firmware", 48), ("Broadcom Thor2", 48), ("AMD Pollara", 46)),
        homes=at(
            linux=f"{_OFED}/roce_np/cnp_dscp, {_DEBUGFS}/np_cnp_dscp", mlxconfig="CNP_DSCP_P1"
        ),
        disruption="none; CNPs change class at once",
        agrees="the DSCP map of every switch: CNPs belong in a strict queue without PFC",
        setting="cnp_dscp",
    ),
    Knob(
        name="cnp_priority",
        meaning="Priority (802.1p) of the CNPs that the host sends.",
        on=("port",),
        low=0,
        high=7,
        defaults=(("NVIDIA firmware", 6), ("Broadcom Thor2", 7)),
        homes=at(
            linux=f"{_OFED}/roce_np/cnp_802p_prio, {_DEBUGFS}/np_cnp_prio",
            mlxconfig="CNP_802P_PRIO_P1",
        ),
        disruption="none; CNPs change class at once",
        agrees="the PCP map of every switch; never a priority with PFC",
        setting="cnp_priority",
    ),
    Knob(
        name="congestion_control",
        meaning="Algorithm that the NIC runs; programmable ones have no DCQCN parameters.",
        on=("port",),
        choices=("dcqcn", "dctcp-like", "timely", "programmable", "off", "unknown"),
        homes=at(mlxconfig="ROCE_CC_LEGACY_DCQCN, USER_PROGRAMMABLE_CC"),
        disruption="needs a reset of the firmware",
        agrees=_FLEET,
        setting="congestion_control",
        owner="firmware",
    ),
    Knob(
        name="rtt_response_dscp",
        meaning="DSCP of the answers to round-trip probes of programmable congestion control.",
        on=("port",),
        low=0,
        high=63,
        homes=at(mlxconfig="ROCE_RTT_RESP_DSCP_P1"),
        disruption="needs a reset of the firmware",
        agrees="the DSCP map of every switch",
        owner="firmware",
    ),
    Knob(
        name="shaper_burst_bytes",
        meaning="Burst that the rate limiter of a queue pair lets through (cc_burst_size).",
        unit="bytes",
        on=("port",),
        low=0,
        homes=at(mlxconfig="ROCE_CC_SHAPER_COALESCE_P1"),
        disruption="none",
        agrees=_FLEET,
        owner="firmware",
    ),
)

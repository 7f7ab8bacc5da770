"""`tuner profile`: quality of service for a new fabric, consistent from hosts to switches."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tuner.cli.options import fail, new_folder, reporting
from tuner.cli.quantity import rate_bps, size_bytes
from tuner.cli.rendering import Out, PlanFormat, printed, rendered, write_out

if TYPE_CHECKING:
    from tuner.advice.plan import Plan
    from tuner.advice.profile_audit import Verdict

BROKEN = 3
"""Exit code: the profile does not fit together."""
VALUE_WIDTH: Final = 18  # columns of a value
FARTHEST_M = 100_000.0
MOST_GPUS = 10_000_000
_RATES = (1e9, 1e13)  # bit/s: what Ethernet has, with room
_BUFFERS = (1e5, 1e12)  # bytes: the smallest holds not even one queue's headroom


class SwitchPlatform(StrEnum):
    """Languages of switches."""

    eos = "eos"
    nxos = "nxos"
    junos = "junos"
    sonic = "sonic"
    nvue = "nvue"
    onyx = "onyx"


class Nic(StrEnum):
    """Drivers of NICs; only mlx5 has DCQCN parameters that can be written."""

    mlx5 = "mlx5"
    bnxt_re = "bnxt_re"
    irdma = "irdma"
    ionic = "ionic"


def profile(
    speed: Annotated[str, typer.Option(metavar="RATE", help="of NICs: 400G")],
    cable: Annotated[
        float, typer.Option(min=0.5, max=FARTHEST_M, metavar="METRES", help="longest, host to leaf")
    ],
    platform: Annotated[
        list[SwitchPlatform], typer.Option("--platform", help="of switches; repeat for more")
    ],
    uplink_speed: Annotated[
        str, typer.Option(metavar="RATE", help="between switches [as --speed]", show_default=False)
    ] = "",
    uplink_cable: Annotated[
        float,
        typer.Option(min=0.5, max=FARTHEST_M, metavar="METRES", help="longest, between switches"),
    ] = 100.0,
    gpus: Annotated[int, typer.Option(min=1, max=MOST_GPUS, help="of the largest job")] = 256,
    downlinks: Annotated[int, typer.Option(min=1, max=512, help="host ports of a leaf")] = 32,
    uplinks: Annotated[int, typer.Option(min=1, max=512, help="other ports of a leaf")] = 32,
    nic: Annotated[Nic, typer.Option(help="driver of the NICs")] = Nic.mlx5,
    netdev: Annotated[str, typer.Option(help="interface of the NIC on the hosts")] = "eth0",
    rdma: Annotated[str, typer.Option(help="RDMA device of the NIC")] = "mlx5_0",
    asic: Annotated[
        str, typer.Option(help="chip that headroom is computed for: spectrum1 to spectrum6")
    ] = "spectrum4",
    buffer: Annotated[
        str,
        typer.Option(metavar="SIZE", help="shared buffer of a switch: 64MB", show_default=False),
    ] = "",
    out: Out = None,
    answer: Annotated[
        PlanFormat, typer.Option("--format", help="how to write the answer")
    ] = PlanFormat.table,
) -> None:
    """Write a QoS profile for a new fabric: RoCE lossless, CNPs strict, marks before pauses.

    DSCP 26 is priority 3, lossless; CNPs are DSCP 48, strict; ECN thresholds by speed, headroom by
    cable, a watchdog, ECMP fields, the jobs' environment. With --out, one folder for each device.
    Exit codes: 0 the profile fits together, 3 a check of it fails, 1 error, 2 usage.
    """
    from tuner.advice.profile import Site, make_profile
    from tuner.advice.profile_audit import audit
    from tuner.models.headroom import SPECTRUM
    from tuner.render.names import HOST_NAME

    with reporting():
        new_folder(out, "--out")
    if asic not in SPECTRUM:
        raise typer.BadParameter(f"no chip {asic!r}; there are {', '.join(SPECTRUM)}")
    for option, metres in (("--cable", cable), ("--uplink-cable", uplink_cable)):
        if math.isnan(metres):  # which is in no range, and outside of none
            raise typer.BadParameter("nan is no length", param_hint=option)
    for option, name in (("--netdev", netdev), ("--rdma", rdma)):
        if not HOST_NAME.fullmatch(name):
            raise typer.BadParameter(f"{name!r} is no name of a device", param_hint=option)
    site = Site(
        speed_bps=_within("--speed", speed, rate_bps, _RATES),
        cable_m=cable,
        uplink_cable_m=uplink_cable,
        switches=tuple(dict.fromkeys(str(name) for name in platform)),
        uplink_speed_bps=(
            _within("--uplink-speed", uplink_speed, rate_bps, _RATES) if uplink_speed else None
        ),
        downlinks=downlinks,
        uplinks=uplinks,
        gpus=gpus,
        nic=str(nic),
        netdev=netdev,
        rdma_device=rdma,
        asic=asic,
        buffer_bytes=_within("--buffer", buffer, size_bytes, _BUFFERS) if buffer else None,
    )
    try:
        plan = make_profile(site)
        verdicts = audit(plan, site)
    except ValueError as error:
        fail(str(error))
    _answer(plan, verdicts, answer, out)
    raise typer.Exit(BROKEN if any(v.outcome == "broken" for v in verdicts) else 0)


def _within(
    option: str, text: str, read: Callable[[str], float], limits: tuple[float, float]
) -> float:
    """Return a value of an option. Raises typer.BadParameter naming it."""
    try:
        value = read(text)
    except typer.BadParameter as error:
        raise typer.BadParameter(error.message, param_hint=option) from error
    low, high = limits
    if not low <= value <= high:
        raise typer.BadParameter(f"{text!r} is outside {low:g}..{high:g}", param_hint=option)
    return value


def _answer(plan: Plan, verdicts: tuple[Verdict, ...], answer: PlanFormat, out: Out) -> None:
    from tuner.render.registry import AUTO

    written = 0
    if out is not None:  # first: what cannot be written is said before all else
        with reporting():
            written = len(write_out(plan, rendered(plan, AUTO), out))
    if answer in (PlanFormat.json, PlanFormat.yaml):
        from tuner.advice.plan_document import plan_document
        from tuner.cli.suggest import as_text

        checks = [{"check": v.check, "outcome": v.outcome, "why": v.why} for v in verdicts]
        document = {
            "schema": "fabric-tuner/profile/1", "checks": checks, "plan": plan_document(plan)
        }  # fmt: skip
        print(as_text(document, answer))
    elif answer is PlanFormat.md:
        from tuner.render.markdown import plan_markdown

        print(plan_markdown(_first_ports(plan), ()), end="")
    else:
        _table(plan, verdicts)
    if out is not None:
        print(f"wrote {written} files below {out}")
    elif answer is PlanFormat.table:
        print("\n".join(printed(rendered(_first_ports(plan), AUTO))))


def _first_ports(plan: Plan) -> Plan:
    """Return the plan with one port of each switch, which all others are like."""
    from collectors.model.entities import Interface, Slot

    def port(scope: object) -> object:
        parent = scope.parent if isinstance(scope, Slot) else scope
        return parent if isinstance(parent, Interface) else None

    devices = []
    for device in plan.devices:
        first = next((p for step in device.steps if (p := port(step.scope)) is not None), None)
        kept = tuple(step for step in device.steps if port(step.scope) in (None, first))
        devices.append(replace(device, steps=kept))
    return replace(plan, devices=tuple(devices))


def _table(plan: Plan, verdicts: tuple[Verdict, ...]) -> None:
    from rich.table import Table

    from collectors.model.entities import display
    from tuner.advice.knobs.knob import shown
    from tuner.cli.show import console, folded

    for device in _first_ports(plan).devices:
        table = Table(title=f"{device.name}, with its first port", title_justify="left")
        table.add_column("knob", no_wrap=True)
        for name in ("place", "value", "why"):
            table.add_column(name)
        for step in device.steps:
            value = folded(shown(step.proposed, step.unit), VALUE_WIDTH)
            table.add_row(step.knob, display(step.scope), value, step.summary)
        console().print(table)
    table = Table(title="Does it fit together?", title_justify="left")
    for name in ("check", "outcome", "why"):
        table.add_column(name)
    for verdict in verdicts:
        table.add_row(verdict.check, verdict.outcome, verdict.why)
    console().print(table)


COMMANDS: tuple[Callable[..., None], ...] = (profile,)

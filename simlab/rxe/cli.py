"""`simlab rxe`: the Soft-RoCE lab from the command line."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

app = typer.Typer(help="Real Soft-RoCE hosts around a Linux switch.", no_args_is_help=True)


@app.callback()
def main() -> None:
    """Real Soft-RoCE hosts around a Linux switch, in a VM or on this host."""


@app.command()
def scenarios() -> None:
    """List the shipped scenarios with what is wrong in each."""
    from rich.console import Console
    from rich.table import Table

    from simlab.rxe.scenario import read_scenario, scenario_names

    table = Table("scenario", "cause", "summary", box=None)
    for name in scenario_names():
        scenario = read_scenario(name)
        table.add_row(name, scenario.truth.cause, scenario.summary)
    Console().print(table)


@app.command()
def run(
    scenario: Annotated[str, typer.Option(help="name of a shipped scenario, or a YAML file")],
    hosts: Annotated[int | None, typer.Option(min=2, max=8, help="number of hosts")] = None,
    duration: Annotated[float | None, typer.Option(min=1, help="seconds of traffic")] = None,
    out: Annotated[Path | None, typer.Option(help="folder for run.json and the scenario")] = None,
    tuner: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="run an agent on each host, streaming there")
    ] = "",
    where: Annotated[str, typer.Option(help="auto, vm or host")] = "auto",
    output: Annotated[str, typer.Option("--format", help="table or json")] = "table",
) -> None:
    """Boot the lab, run one scenario's traffic, print goodput and what the kernel counted."""
    from simlab.rxe.lab import Lab
    from simlab.rxe.machine import LabError
    from simlab.rxe.scenario import ScenarioError, read_scenario, with_hosts

    if output not in {"table", "json"} or where not in {"auto", "vm", "host"}:
        _fail("--format is table or json, --where is auto, vm or host", code=2)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the lab ends with us
    place: Literal["auto", "vm", "host"] = where  # type: ignore[assignment]
    try:
        chosen = read_scenario(scenario)
        if hosts is not None:
            chosen = with_hosts(chosen, hosts)
    except ScenarioError as error:
        _fail(str(error), code=2)
    try:
        with Lab(chosen.fabric.hosts, where=place, say=_say) as lab:
            lab.apply(chosen)
            if tuner:
                from simlab.rxe.agents import start_agents

                start_agents(lab, tuner)
            _say(f"scenario {chosen.name}: {chosen.summary}")
            lab.start_traffic(duration)
            _watch(lab)
            report = lab.finish_traffic()
            _save(out, chosen, report)
            _print(output, chosen, report)
    except (LabError, ScenarioError) as error:
        _fail(str(error))
    except KeyboardInterrupt:
        _fail("interrupted; the lab is gone", code=130)


def _watch(lab: Any) -> None:
    """Say every few seconds how the flows do."""
    last = time.monotonic()
    while lab.traffic_running():
        time.sleep(0.3)
        if time.monotonic() - last < 3:
            continue
        last = time.monotonic()
        rates = [
            f"{flow.name} {flow.seconds_bps[-1] / 1e6:.1f}"
            for flow in lab.progress()
            if flow.seconds_bps
        ]
        _say(f"Mbit/s: {', '.join(rates) or 'flows are connecting'}")


def _save(out: Path | None, scenario: Any, report: Any) -> None:
    if out is None:
        return
    import msgspec
    import yaml

    out.mkdir(parents=True, exist_ok=True)
    (out / "run.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    (out / "scenario.yaml").write_text(yaml.safe_dump(msgspec.to_builtins(scenario)))
    _say(f"saved {out / 'run.json'} and {out / 'scenario.yaml'}")


def _print(output: str, scenario: Any, report: Any) -> None:
    if output == "json":
        import msgspec

        print(msgspec.json.encode(report).decode())
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    flows = Table("flow", "Mbit/s", "messages", "errors", "reconnects", "per second", box=None)
    flows.title = f"{scenario.name}: goodput over {report.elapsed_s:.0f} s"
    for flow in report.flows:
        seconds = " ".join(f"{bps / 1e6:.1f}" for bps in flow.seconds_bps[:10])
        flows.add_row(
            flow.name,
            f"{flow.goodput_bps / 1e6:.2f}",
            *(str(number) for number in (flow.messages, flow.errors, flow.reconnects)),
            seconds,
        )
    console.print(flows)
    names = sorted({name for row in report.counted.rdma.values() for name in row})
    rows = {
        **{
            f"rdma {name}": [row.get(name, 0) for row in report.counted.rdma.values()]
            for name in names
        },
        "ip6 InCEPkts": [row.get("Ip6InCEPkts", 0) for row in report.counted.ip6.values()],
        "ip6 InNoECTPkts": [row.get("Ip6InNoECTPkts", 0) for row in report.counted.ip6.values()],
    }
    _counted(console, "hosts: counted during the run", list(report.counted.rdma), rows)
    ports = report.counted.ports
    fields = ("rate_bps", "mtu_bytes", "packets", "drops", "marked", "rx_drops", "tx_drops")
    rows = {field: [getattr(port, field) for port in ports.values()] for field in fields}
    _counted(console, "switch ports: queue settings and counts", list(ports), rows, keep=2)


def _counted(
    console: Any, title: str, columns: list[str], rows: dict[str, list[Any]], keep: int = 0
) -> None:
    from rich.table import Table

    table = Table("", *columns, box=None, title=title)
    for index, (name, values) in enumerate(rows.items()):
        if index < keep or any(values):
            table.add_row(name, *(str(value) for value in values))
    console.print(table)


def _say(text: str) -> None:
    print(f"[lab] {text}", file=sys.stderr, flush=True)


def _fail(text: str, code: int = 1) -> NoReturn:
    print(f"simlab rxe: {text}", file=sys.stderr)
    raise typer.Exit(code)

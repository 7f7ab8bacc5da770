"""The command `simlab`: one sub-command a lab; each lab's own cli.py is added here."""

import typer

from collectors.user_input.command_line import OneLineErrors, version_option
from simlab.hosts.cli import app as hosts
from simlab.ib.cli import app as ib
from simlab.packet.cli import fabric_app, packet_app
from simlab.rxe.cli import app as rxe
from simlab.scenarios.cli import app as scenarios
from simlab.switches.cli import app as switches

app = typer.Typer(
    name="simlab",
    help="Labs without special hardware.",
    no_args_is_help=True,
    cls=OneLineErrors,
    pretty_exceptions_enable=False,
)


@app.callback()
def main(version: bool = version_option("simlab")) -> None:
    """Labs without special hardware: Soft-RoCE, InfiniBand, switches, packet simulator, faults."""


app.add_typer(hosts, name="hosts")
app.add_typer(ib, name="ib")
app.add_typer(rxe, name="rxe")
app.add_typer(packet_app, name="packet")
app.add_typer(fabric_app, name="fabric")
app.add_typer(scenarios, name="scenarios")
app.add_typer(switches, name="switches")

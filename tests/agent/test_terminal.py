"""Names of devices, ports and peers reach people as they are, whatever they look like."""

from types import SimpleNamespace

import pytest

from agent import capture, doctor, ib_show, once, targets
from agent.ask_targets import Answer
from agent.snapshot import Outcome
from agent.terminal import plain
from collectors.capture.flows import FlowTable
from collectors.model.catalogue.registry import columns
from collectors.model.entities import Netdev
from collectors.model.reading import Instant, Reading

ODD = "[red]:smile:[/]"


def show_once():
    column = columns("netdev")["statistics/rx_bytes"]
    reading = Reading(Netdev("h", ODD), {column: 5}, Instant(1, 1))
    once.print_table((Outcome("netdev", 1, (reading,)),))


def show_capture(monkeypatch):
    table = FlowTable()
    monkeypatch.setattr(capture, "_row", lambda _flow: (ODD,))
    monkeypatch.setattr(table, "flows", lambda: [None])
    capture._print(table, 0, 0, 0, 1)


@pytest.mark.parametrize(
    "where", ["once", "targets", "ib table", "ib title", "ib route", "capture"]
)
def test_a_name_that_looks_like_markup_is_printed_as_it_is(where, capsys, monkeypatch):
    match where:
        case "once":
            show_once()
        case "targets":
            targets._print((Answer(ODD, "snmp", answers=False, seconds=1.0),))
        case "ib table":
            ib_show.table("title", ("port", "peer", "link"), [(ODD, "b", 1)])
        case "ib title":
            ib_show.table(ODD, ("port", "peer"), [("a", "b" * 40)])
        case "ib route":
            node = SimpleNamespace(name="a", lid=1)
            ib_show.show_route(None, node, node, SimpleNamespace(hops=(), error=ODD))
        case "capture":
            show_capture(monkeypatch)
    assert ODD in capsys.readouterr().out


def test_an_escape_of_the_terminal_does_nothing():
    assert plain("a\x1b[31mb\x07\nc").plain == "a\ufffd[31mb\ufffd\nc"


def test_doctor_shows_what_a_host_is_called_and_does_nothing_of_it(capsys):
    sight = doctor.Sight("sysfs", "blind", f"{ODD}\x1b[31m", "modprobe")
    doctor.show(doctor.Report("h", (), (sight,), (), ()))
    assert f"{ODD}\ufffd[31m" in capsys.readouterr().out

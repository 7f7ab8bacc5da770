"""`tuner diagnose`, `pause-tree` and `topology` on recordings and on made-up flows."""

import json
from dataclasses import replace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from collectors.model.entities import Host
from tests.tuner.diagnosis.test_pause_rules import lossless, pause
from tests.tuner.recorded import LOSSY, record
from tuner.cli import show
from tuner.cli.diagnose import rich_tree
from tuner.cli.main import app
from tuner.diagnosis.finding import Finding
from tuner.diagnosis.flow import pfc_flows
from tuner.diagnosis.pause_tree import pause_trees


def run(*args):
    return CliRunner().invoke(app, list(args))


@pytest.fixture(scope="module")
def lossy(tmp_path_factory):
    return record(tmp_path_factory.mktemp("recordings") / "lossy", LOSSY)


def test_diagnose_explains_and_says_what_it_could_not_judge(lossy):
    shown = run("diagnose", "--source", f"dir={lossy}")
    assert shown.exit_code == 3
    assert "loss-on-path" in shown.output
    blind = shown.output.partition("cannot tell by ")[2]
    assert "receiver-not-ready" not in blind
    assert "(counters-disagree)" in blind
    assert "Recommendation" not in shown.output


def test_a_thousand_findings_do_not_flood_the_terminal():
    one = Finding("r", "link", Host("h"), "warning", 0.5, "what", 0, (), "never")
    table = show.findings_table([replace(one, subject=Host(f"h{n}")) for n in range(1000)])
    assert table.row_count == show.MOST_ROWS
    assert table.caption == "and 800 more: --format json has all"
    assert show.findings_table([one]).caption is None


def test_diagnose_keeps_to_a_host_or_a_link(lossy):
    for args, code in (
        (("--host", "h2"), 3),
        (("--host", "h4"), 0),
        (("--link", "sw p2"), 3),
        (("--link", "h2 h2"), 3),
        (("--link", "sw p4"), 0),
    ):
        shown = run("diagnose", "--source", f"dir={lossy}", "--format", "json", *args)
        assert shown.exit_code == code, args
        assert bool(json.loads(shown.output)["findings"]) == (code == 3)


def test_topology_lists_cables_and_who_saw_them(lossy):
    shown = run("topology", "--source", f"dir={lossy}", "--format", "json")
    document = json.loads(shown.output)
    assert {"a": "sw p2", "b": "h2 h2", "seen_by": "lldp, one end"} in document["links"]
    assert len(document["links"]) == 4
    assert document["conflicts"] == []
    assert "4 cables" in run("topology", "--source", f"dir={lossy}").output


def test_pause_tree_grows_from_the_root_to_its_victims():
    made = lossless()
    pause(made, made.interfaces[1], 0.4)
    pause(made, made.netdevs[0], 0.2)
    console = Console(width=100, record=True)
    for tree in pause_trees(pfc_flows(made.telemetry, made.fabric)):
        console.print(rich_tree(tree))
    lines = [line.strip(" │├└─") for line in console.export_text().splitlines()]
    assert lines == [
        "priority 3",
        "h2 h2  slow receiver  score 0.60",
        "sw p2  paused 40.0%",
        "h1 h1  paused 20.0%",
    ]


def test_pause_tree_without_pfc_says_so(lossy):
    assert "no PFC counters" in run("pause-tree", "--source", f"dir={lossy}").output
    shown = run("pause-tree", "--source", f"dir={lossy}", "--format", "json")
    assert json.loads(shown.output)["flows"] == []


def test_a_host_or_link_that_is_not_there_is_no_health(lossy):
    for args in (("--host", "h22"), ("--link", "sw p22")):
        shown = run("diagnose", "--source", f"dir={lossy}", *args)
        assert shown.exit_code == 2
        assert args[0] in shown.stderr
        assert "there are" in shown.stderr

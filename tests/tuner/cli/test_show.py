"""What people see: folded rows, units in Markdown, progress."""

import time

from rich.console import Console

from collectors.model.entities import Host
from tests.tuner.advice.test_plan import rec
from tuner.advice.document import suggest_document
from tuner.advice.plan import Conflict, Plan, Refusal
from tuner.advice.recommendation import Effect
from tuner.advice.search.objective import Score
from tuner.advice.search.search import Tried
from tuner.cli import progress, show
from tuner.cli.markdown import markdown
from tuner.cli.rendering import left_out
from tuner.diagnosis.finding import Diagnosis, Finding


def test_the_same_change_for_one_cause_is_one_row():
    recs = [rec("qps_per_connection", Host(f"h{n}"), 4, 1) for n in range(1, 6)]
    console = Console(width=100, record=True)
    console.print(show.recommendations_table(recs))
    text = " ".join(console.export_text().replace("│", " ").split())
    assert "+4 more" in text
    assert text.count("(at 5 places)") == 1
    assert text.count("qps_per_connection: 1") == 1


def test_what_follows_from_one_cause_is_one_row():
    def late(number, cause):
        return Finding(
            "ack-timeouts", "link", Host(f"h{number}"), "info", 0.8, f"h{number} is late", 0, (),
            "x", explained_by=cause,
        )  # fmt: skip

    console = Console(width=100, record=True)
    console.print(show.findings_table([*(late(n, "a") for n in range(6)), late(7, "b")]))
    text = " ".join(console.export_text().replace("│", " ").split())
    assert "h0 is late; the same at 5 more: h1, h2, h3, ... (follows from a)" in text
    assert "+5 more" in text
    assert "h7 is late (follows from b)" in text


def test_what_was_predicted_for_all_together_is_told_once():
    effects = (Effect("job time", "seconds", 2.0, 1.0, 1.5, "m", "a"),)
    recs = [
        rec("qps_per_connection", Host("h1"), 4, 1, effects=effects),
        rec("channels_min", Host("h1"), 8, 4, effects=effects),
    ]
    console = Console(width=100, record=True)
    console.print(show.recommendations_table(recs))
    text = " ".join(console.export_text().replace("│", " ").split())
    assert text.count("job time") == 1
    assert "all of these changes together" in text


def test_many_conflicts_alike_are_one_line():
    conflicts = tuple(Conflict((f"r{n}",), f"h{n}: a would be above b") for n in range(12))
    refused = tuple(Refusal(f"r{n}", "fec", Host(f"h{n}"), "firmware") for n in range(2))
    assert list(left_out(Plan((), (), conflicts, refused))) == [
        "Conflict: h0: a would be above b (r0), and 11 more like it.",
        "Not planned: fec of h0: firmware (r0), and 1 more like it.",
    ]


def test_markdown_writes_measured_numbers_with_their_unit():
    rows = [
        {"metric": "job time", "unit": "seconds", "before": 0.0118, "after": 4e-6},
        {"metric": "queue", "unit": "bytes", "before": 298000, "after": None},
    ]
    text = markdown({"schema": "x/whatif/1", "measures": rows})
    assert "| metric | before | after |" in text
    assert "| job time | 11.8 ms | 4 µs |" in text
    assert "| queue | 298 KB |  |" in text
    assert "- value: 20%" in markdown({"value": 0.2, "unit": "ratio"})


def test_progress_tells_how_much_is_done_where_that_is_known(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress.counting("simulating", "runs", lambda: 0.4) as count:
        count(1)
        assert capsys.readouterr().err == ""
        now[0] = 3.0
        count(1200)
        assert "simulating: 1,200 runs, 40%" in capsys.readouterr().err
    with progress.counting("reading") as count:
        now[0] = 7.0
        count(5)
    assert "reading: 5 items, 4 s so far" in capsys.readouterr().err


def test_settings_that_were_tried_are_shown_part_by_part():
    tried = [
        Tried("hpcc", Score(0.8, 0.9, 0.85, 0.4, 1.0), undominated=True),
        Tried("leave it", Score(0.5, 0.6, 0.55, 0.3, 0.9), undominated=False),
    ]
    diagnosis = Diagnosis(0, 10**9, (), ())
    console = Console(width=100, record=True)
    console.print(show.suggestion(diagnosis, (), (), tried))
    rows = [" ".join(line.replace("│", " ").split()) for line in console.export_text().split("\n")]
    assert "hpcc 0.800 0.900 0.850 0.400 1.000 *" in rows
    assert "leave it 0.500 0.600 0.550 0.300 0.900" in rows
    document = suggest_document(diagnosis, (), source="s", agents=(), made_by="t", tried=tried)
    assert [(row.name, row.score, row.undominated) for row in document.tried] == [
        ("hpcc", 0.8, True), ("leave it", 0.5, False)
    ]  # fmt: skip

"""Sparklines, the figure of `explain --svg`, exit codes of `suggest`, Markdown of any document."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from collectors.model.entities import Host
from tests.tuner.recorded import LOSSY, record
from tuner.cli import suggest
from tuner.cli.curves import Curve, sparkline
from tuner.cli.main import app
from tuner.cli.markdown import markdown


def run(*args):
    return CliRunner().invoke(app, list(args))


def curve(values, step_ns=10**9):
    at = np.arange(len(values)) * step_ns
    return Curve("m", Host("h"), "packets/s", at, np.array(values, float))


def test_bars_follow_the_values():
    assert sparkline(curve([0, 1, 2, 4]), 0, 4 * 10**9, 4) == "▁▃▅█"


def test_a_burst_is_never_averaged_away():
    values = [0.0] * 1000
    values[333] = 5.0
    assert sparkline(curve(values), 0, 1000 * 10**9, 20).count("█") == 1


def test_a_reading_stands_for_the_time_before_it_but_not_for_a_gap():
    assert sparkline(curve([1, 1, 4], 2 * 10**9), 0, 4 * 10**9, 8) == "▃▃▃▃▃███"
    times = np.array([0, 1, 2, 3, 4, 20]) * 10**9
    gap = Curve("m", Host("h"), "", times, np.ones(6))
    assert 10 <= sparkline(gap, 0, 20 * 10**9, 20).count(" ") <= 13


def test_time_without_readings_stays_empty():
    assert sparkline(curve([1, 1]), 0, 8 * 10**9, 8) == "██      "
    assert sparkline(curve([0, 0]), 0, 2 * 10**9, 2) == "▁▁"


@given(st.lists(st.floats(0, 1e18), min_size=1, max_size=50), st.integers(1, 60))
def test_a_sparkline_is_as_wide_as_asked(values, width):
    drawn = sparkline(curve(values), 0, len(values) * 10**9, width)
    assert len(drawn) == width
    assert ("█" in drawn) == (max(values) > 0)


@pytest.fixture(scope="module")
def lossy(tmp_path_factory):
    return record(tmp_path_factory.mktemp("curves") / "lossy", LOSSY)


def finding_id(folder):
    import json

    document = json.loads(run("diagnose", "--source", f"dir={folder}", "--format", "json").output)
    return document["findings"][0]["id"]


def test_explain_draws_the_evidence(lossy, tmp_path):
    figure = tmp_path / "loss.svg"
    shown = run("explain", finding_id(lossy), "--source", f"dir={lossy}", "--svg", str(figure))
    assert shown.exit_code == 0, shown.output
    assert "Over time" in shown.output
    assert "█" in shown.output
    assert max(map(len, shown.output.splitlines())) <= 100
    assert ET.parse(figure).getroot().tag.endswith("svg")  # noqa: S314  we wrote it
    refused = run(
        "explain",
        finding_id(lossy),
        "--source",
        f"dir={lossy}",
        "--svg",
        str(tmp_path / "no" / "x"),
    )
    assert refused.exit_code == 2
    assert "no/x" in refused.stderr


def test_explain_as_markdown(lossy):
    shown = run("explain", finding_id(lossy), "--source", f"dir={lossy}", "--format", "md")
    assert shown.output.startswith("# explain\n")
    assert "### evidence" in shown.output
    assert "| --- |" in shown.output


def test_suggest_tells_findings_without_a_cure_from_health(lossy, tmp_path, monkeypatch):
    healthy = record(tmp_path / "healthy", {})
    assert run("suggest", "--source", f"dir={healthy}").exit_code == 0
    assert run("suggest", "--source", f"dir={lossy}").exit_code == suggest.RECOMMENDED
    monkeypatch.setattr("tuner.advice.recommend.recommend", lambda *_, **__: ())
    assert run("suggest", "--source", f"dir={lossy}").exit_code == suggest.UNCURED


def test_what_a_device_says_is_no_markup():
    text = markdown({"schema": "fabric-tuner/x/1", "rows": [{"a": "1|2\n# x"}, {"a": "<b>"}]})
    assert text.startswith("# x\n")
    assert "| 1\\|2\ufffd\\# x |" in text
    assert "\\<b\\>" in text


def test_times_are_dates_and_empty_lists_are_no_columns():
    rows = [{"at_ns": 1_800_000_000 * 10**9, "missing": []}, {"at_ns": 0, "missing": ["x", "y"]}]
    text = markdown({"schema": "a/b/1", "rows": rows, "none_here": []})
    assert "| at | missing |" in text
    assert "2027-01-15 08:00:00 UTC" in text
    assert "| x, y |" in text
    assert "## none here\n\nnone" in text


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=6), PLAIN, max_size=4))
def test_any_document_can_be_written(document):
    assert isinstance(markdown(document), str)

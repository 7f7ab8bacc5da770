"""The HTML report: whole, escaped, self-contained, and read by a real browser."""

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from collectors.model.entities import Interface, Switch, link
from tests.tuner.recorded import LOSSY, record
from tuner.cli.main import app
from tuner.cli.suggest import advise
from tuner.report import content
from tuner.report.page import Report, page
from tuner.report.svg import HeatMap, Line, heat_map, plot
from tuner.store.sources import open_window

HOSTILE = '<script>alert("x")</script>&\'"'


@pytest.fixture(scope="module")
def lossy(tmp_path_factory):
    return record(tmp_path_factory.mktemp("recordings") / "lossy", LOSSY)


def report_of(folder, **changes):
    window, named = open_window(f"dir={folder}")
    advice = advise(window, named)
    made = Report(
        window, advice.fabric, advice.diagnosis, advice.recommendations, named, "tuner test"
    )
    return replace(made, **changes)


class Balance(HTMLParser):
    """Collects tags that are left open, or closed without having been opened."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.sources = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in {"meta", "link", "br"}:
            self.open.append(tag)
        self.sources += [value for name, value in attrs if name in {"src", "href"}]

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def checked(text):
    balance = Balance()
    balance.feed(text)
    assert balance.open == []
    assert balance.wrong == []
    assert [source for source in balance.sources if not source.startswith("data:")] == []
    assert "<script" not in text
    for drawn in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ET.fromstring(drawn)  # noqa: S314  our own output
    return text


def test_a_page_tells_cause_evidence_cure_and_undo(lossy):
    text = checked(page(report_of(lossy)))
    for word in ("packets are lost on the way to h2 rxe2/1", "refuted if", "link_repair", "undo",
                 "node_infiniband_out_of_sequence_packets_received_total", "Topology"):  # fmt: skip
        assert word in text
    assert text.count("<svg") >= 2  # topology and at least one plot
    assert 'class="cable fault"' in text


def test_names_from_devices_are_text(lossy):
    made = report_of(lossy)
    switch = Switch(HOSTILE, HOSTILE)
    a, b = Interface(switch, HOSTILE), Interface(Switch("other"), "p1")
    fabric = made.fabric
    wires, peers = (*fabric.wires, a, b), {**fabric.peers, a: b, b: a}
    fabric = replace(fabric, wires=wires, peers=peers)
    finding = replace(made.diagnosis.findings[0], summary=HOSTILE, subject=link(a, b))
    diagnosis = replace(made.diagnosis, findings=(finding,))
    text = checked(page(replace(made, fabric=fabric, diagnosis=diagnosis, source=HOSTILE)))
    assert HOSTILE not in text
    assert "&lt;script&gt;" in text


def test_a_large_fabric_shows_what_findings_concern(lossy, monkeypatch):
    monkeypatch.setattr(content, "MOST_NODES", 4)
    text = checked(page(report_of(lossy)))
    assert "only those that findings concern" in text
    assert text.count('<circle cx="') < 4


def test_nothing_wrong_is_said(tmp_path):
    text = checked(page(report_of(record(tmp_path / "healthy", {}))))
    assert "Nothing found." in text
    assert 'class="cable fault"' not in text


def test_command_writes_a_file_or_says_why_not(lossy, tmp_path):
    done = CliRunner().invoke(
        app, ["report", "--html", str(tmp_path / "r.html"), "--source", f"dir={lossy}"]
    )
    assert done.exit_code == 0
    checked((tmp_path / "r.html").read_text())
    wrong = CliRunner().invoke(
        app, ["report", "--html", str(tmp_path / "no/r.html"), "--source", f"dir={lossy}"]
    )
    assert wrong.exit_code == 2
    assert "--html" in wrong.stderr


@given(
    st.dictionaries(st.text(max_size=40), st.lists(st.none() | st.floats(0, 1e12), max_size=60)),
    st.floats(0, 1e12),
)
def test_any_heat_map_is_well_formed(rows, full):
    ET.fromstring(heat_map(HeatMap("t", "u", _xml(rows), 1.0, full)))  # noqa: S314


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e18)), min_size=1), st.text())
def test_any_plot_is_well_formed(points, name):
    drawn = plot("t", "u", [Line(*_xml({name: points}).popitem())])
    ET.fromstring(drawn)  # noqa: S314


def _xml(rows):
    """Drop what XML cannot hold at all; HTML takes it."""
    return {re.sub(r"[^\t\n -\ud7ff]", "", name): values for name, values in rows.items()}


CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None
)


@pytest.mark.lab_browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium (package chromium-headless-shell)")
def test_a_browser_shows_it_without_a_word_on_its_console(lossy, tmp_path):
    made = tmp_path / "r.html"
    made.write_text(page(report_of(lossy)))
    shown = browse(made, "--dump-dom")
    assert console(shown) == []
    assert "packets are lost on the way to h2" in shown.stdout
    browse(made, f"--screenshot={tmp_path / 'r.png'}")
    assert (tmp_path / "r.png").stat().st_size > 20_000  # an empty page of this size has 5 kB
    made.write_text(made.read_text().replace("</body>", "<script>console.log(1)</script></body>"))
    assert "Content Security Policy" in console(browse(made, "--dump-dom"))[0]  # the check can fail


def browse(path, *options):
    return subprocess.run(
        [CHROMIUM, "--no-sandbox", "--headless", "--disable-gpu", "--enable-logging=stderr",
         "--window-size=1100,2000", *options, path.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip


def console(done):
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_no_name_steers_the_terminal_that_the_page_is_read_in(lossy):
    text = page(report_of(lossy, source="x\x1b]0;y\x07\u202e\x9b", made_by="t\x00"))
    assert "x\ufffd]0;y\ufffd\ufffd\ufffd" in text
    assert all(char.isprintable() for char in text.replace("\n", ""))

"""What the plots of a run show, and over which time they are taken."""

import matplotlib as mpl
import numpy as np
import pytest

from simlab.packet import plots
from simlab.packet.config import plan_of
from simlab.packet.running import STEPS, finish, likely_s, start
from simlab.packet.workloads import incast

mpl.use("Agg")
DATA = {
    "duration_s": 17,
    "topology": {"kind": "star", "hosts": 5},
    "workload": {"kind": "incast", "receiver": 4, "size_bytes": 1_000_000},
    "model": {"switch": {"buffer_bytes": 300_000}},
}


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Draw everything of a short run in a long time, and return the axes by name."""
    found = {}

    def keep(figure, folder, name, kind):
        found[name] = figure.axes[0]
        return folder / f"{name}.{kind}"

    monkeypatch.setattr(plots, "_save", keep)
    plan = plan_of(DATA, "here", tmp_path)
    run = start(plan, plot=True)
    finish(plan, run)
    plots.plot_run(run.sim, tmp_path, rates=run.rates)
    return found, run


def test_every_plot_has_its_title_its_axes_with_units_and_its_data(drawn):
    found, run = drawn
    assert set(found) == {"queues", "rates", "pauses", "slowdown", "utilisation"}
    for axes in found.values():
        assert axes.get_title()
        assert axes.get_xlabel()
        assert axes.get_ylabel()
    for name in ("queues", "rates", "pauses"):
        assert found[name].get_xlabel() == "time (ms)"
        assert len(found[name].lines[0].get_xdata()) > 30
        assert found[name].lines[0].get_xdata()[-1] <= run.sim.now_s * 1e3
    assert "(KB)" in found["queues"].get_ylabel()
    assert "(Gb/s)" in found["rates"].get_ylabel()


def test_the_legends_name_queues_and_queue_pairs(drawn):
    found, _ = drawn
    queues = [text.get_text() for text in found["queues"].get_legend().get_texts()]
    assert queues[0] == "node 5 interface 5 to node 4, priority 3"  # the one that fills most
    pairs = [text.get_text() for text in found["rates"].get_legend().get_texts()]
    assert pairs == [f"host {src} to 4, QP {src}" for src in range(4)]


def test_pauses_are_counted_as_ports_paused_at_once(drawn):
    found, run = drawn
    times, at_once = (np.asarray(one) for one in found["pauses"].lines[0].get_data())
    held = np.sum(at_once * np.diff(times, prepend=0.0)) * 1e-3
    assert held == pytest.approx(run.rates.paused[-1])
    assert 3.9 < at_once.max() < 4.001  # hosts that the switch can pause


def test_a_run_without_pauses_says_so(tmp_path, monkeypatch):
    found = {}
    monkeypatch.setattr(
        plots, "_save", lambda figure, _folder, name, _kind: found.update({name: figure})
    )
    plan = plan_of({**DATA, "workload": {**DATA["workload"], "senders": [0]}}, "here", tmp_path)
    run = start(plan)
    finish(plan, run)
    plots.plot_rates(run.rates, tmp_path, "svg")
    assert [text.get_text() for text in found["pauses"].axes[0].texts] == ["none was paused by PFC"]


def test_the_likely_end_is_twice_the_time_of_the_busiest_link(tmp_path):
    plan = plan_of(DATA, "here", tmp_path)
    assert likely_s(plan.topology, plan.traffic) == pytest.approx(2 * 4 * 8e6 / 100e9)
    later = incast([0, 1], 4, 1_000_000, gap_s=0.5)
    assert likely_s(plan.topology, later) == pytest.approx(0.5 + 2 * 2 * 8e6 / 100e9)


def test_notes_are_dense_up_to_the_likely_end_and_go_on_after_it(tmp_path):
    plan = plan_of({**DATA, "stop_when_done": False, "duration_s": 0.1}, "here", tmp_path)
    run = start(plan)
    finish(plan, run)
    likely = likely_s(plan.topology, plan.traffic)
    assert len(run.rates.times) == 2 * STEPS
    assert run.rates.times[STEPS - 1] == pytest.approx(likely)
    assert run.rates.times[-1] == pytest.approx(0.1)

"""What is read of a draw, whole and broken, and what a fault costs."""

from itertools import pairwise
from random import Random

import pytest
from typer.testing import CliRunner

from collectors.model.catalogue import interface
from collectors.model.entities import Interface, Slot, queue
from simlab.cli import app
from simlab.packet.telemetry import POLLER
from simlab.packet.traffic import DATA_PRIORITY
from simlab.scenarios.change import applied
from simlab.scenarios.damage import Damage, damage_of, damaged
from simlab.scenarios.draw import Change
from simlab.scenarios.observe import passes, record
from simlab.scenarios.outcome import outcome
from simlab.scenarios.registry import draw
from tuner.store.sources import open_window


@pytest.fixture(scope="module")
def slow():
    return draw("flow-slow-receiver", 3)


@pytest.fixture(scope="module")
def seen(slow):
    return list(passes(slow))


def values(rounds, metric):
    """Return entity -> values in time of a metric."""
    found = {}
    readings = (reading for one in rounds for reading in one.seen.readings)
    for reading in readings:
        counted = [value for column, value in reading.values.items() if column.metric == metric]
        if counted:
            found.setdefault(reading.entity, []).extend(counted)
    return found


def test_polls_come_at_simulated_intervals(slow, seen):
    times = sorted({r.when.at_ns for one in seen for r in one.seen.readings})
    gaps = [late - early for early, late in pairwise(times)]
    step = slow.plan.config.telemetry.interval_s * 1e9
    assert gaps == pytest.approx([step] * len(gaps), abs=2)


def test_shown_settings_stand_once_and_replace_the_plans_own():
    one = draw("config-global-pause", 1)
    told = [
        (s.name, s.value)
        for each in passes(one)
        if each.seen.facts
        for s in each.seen.facts.settings
        if s.entity == one.shown[0].entity and s.name == "pause_rx_enabled"
    ]
    assert told == [("pause_rx_enabled", True)]


def test_a_recording_holds_the_ticking_counters(tmp_path):
    one = draw("link-symbol-errors", 2)
    assert record(one, tmp_path / "r") > 0
    window, _ = open_window(f"dir={tmp_path / 'r'}")
    grown = window.growth("fabric_interface_rx_symbol_errors_total", one.ticking[0].entity)
    seconds = one.plan.config.duration_s
    assert grown.total == pytest.approx(one.ticking[0].per_second * seconds, rel=0.2)


def test_damage_takes_hosts_marks_and_half_of_the_cables_away(slow, seen):
    damage = damage_of(slow, Random(1))
    left = list(damaged(seen, damage, Random(1)))
    hosts = {one.agent for one in seen} - {POLLER}
    assert len(damage.silent) == round(0.2 * len(hosts))
    assert {one.agent for one in left} == {one.agent for one in seen} - damage.silent
    assert values(seen, interface.QUEUE_ECN_MARKED.name)
    assert not values(left, interface.QUEUE_ECN_MARKED.name)
    cables = [
        frozenset((n.local, n.remote)) for one in left if one.seen.facts
        for n in one.seen.facts.neighbours
    ]  # fmt: skip
    assert cables
    assert len(cables) == len(set(cables))


def test_a_swapped_switch_counts_what_it_sent_as_received(slow, seen):
    switch = slow.names.switch(slow.plan.topology.switches[0])
    only = Damage(frozenset(), switch, "nobody", marks_uncounted=False, one_eyed=False)
    rx, tx = interface.RX_BYTES.name, interface.TX_BYTES.name
    whole, left = seen, list(damaged(seen, only, Random(1)))
    for entity, counted in values(left, rx).items():
        if isinstance(entity, Interface) and entity.switch == switch:
            assert counted == values(whole, tx)[entity]
        elif isinstance(entity, Interface):
            assert counted == values(whole, rx)[entity]


def test_a_reset_starts_again_under_a_new_incarnation(slow, seen):
    switch = slow.names.switch(slow.plan.topology.switches[0])
    only = Damage(frozenset(), None, switch, marks_uncounted=False, one_eyed=False)
    left = list(damaged(seen, only, Random(1)))
    incarnations = {
        reading.incarnation
        for one in left
        for reading in one.seen.readings
        if isinstance(reading.entity, Interface) and reading.entity.switch == switch
    }
    assert len(incarnations) == 2
    for entity, counted in values(left, interface.TX_BYTES.name).items():
        if isinstance(entity, Interface) and entity.switch == switch:
            assert counted[len(counted) // 2] == 0


def test_settings_of_a_queue_are_changed_together():
    one = draw("healthy-ring-rack", 1)
    switch = one.names.switch(one.plan.topology.switches[0])
    egress = one.names.interface(one.plan.topology.ports_of()[one.plan.topology.switches[0]][0])
    slot = queue(egress, DATA_PRIORITY)
    changes = [Change(slot, "kmin_bytes", 9e6), Change(slot, "kmax_bytes", 10e6)]
    [own] = applied(one, changes).plan.model.ports.values()
    assert (own.ecn[0].thresholds.kmin_bytes, own.ecn[0].thresholds.kmax_bytes) == (9e6, 10e6)
    off = applied(one, [Change(slot, "ecn_enabled", False)])
    assert [s.ecn for s in off.plan.model.ports.values()] == [()]
    again = applied(off, [Change(slot, "ecn_enabled", True)])
    [own] = again.plan.model.ports.values()
    assert own.ecn[0].thresholds == one.plan.model.switch.ecn[0].thresholds
    exponent = applied(one, [Change(switch, "buffer_alpha_exponent", -5)])
    [whole] = exponent.plan.model.switches.values()
    assert whole.alpha == 1 / 32
    group = Slot(egress, "priority_group", DATA_PRIORITY)
    [own] = applied(one, [Change(group, "xoff_bytes", 5000)]).plan.model.ports.values()
    assert own.headroom_bytes == 5000


@pytest.mark.parametrize(
    ("family", "least"),
    [("config-ecn-off-egress", 1.1), ("host-not-ready", 1.5), ("balance-polarised", 1.3),
     ("control-notification-off", 1.1), ("config-headroom", 1.5)],
)  # fmt: skip
def test_a_fault_hurts_and_its_cure_helps(family, least):
    one = draw(family, 5)
    cured = applied(one, [change for truth in one.truths for change in truth.cure])
    assert outcome(one).job_time_s > least * outcome(cured).job_time_s


def test_commands(tmp_path):
    run = CliRunner().invoke
    assert "flow-pause-storm" in run(app, ["scenarios", "list"]).stdout
    shown = run(app, ["scenarios", "show", "flow-slow-receiver", "--seed", "3"]).stdout
    assert "cured by host_repair" in shown
    done = run(app, ["scenarios", "run", "healthy-idle", "--record", str(tmp_path / "r")])
    assert done.exit_code == 0, done.output
    assert "values of" in done.stdout
    again = run(app, ["scenarios", "run", "healthy-idle", "--record", str(tmp_path / "r")])
    assert again.exit_code == 2
    assert run(app, ["scenarios", "show", "no-such"]).exit_code == 2
    assert "cured" in run(app, ["scenarios", "run", "host-not-ready"]).stdout

"""Every family: draws are made again from their seed, truths are whole, cures can be applied."""

import pytest

from collectors.model.catalogue.settings import SETTINGS as VOCABULARY
from collectors.model.errors import ConfigInvalid, NotSupported
from simlab.packet.telemetry_switch_facts import DSCP_TO_CLASS
from simlab.packet.traffic import DATA_PRIORITY
from simlab.scenarios.change import SETTINGS, applied, varied
from simlab.scenarios.draw import Change
from simlab.scenarios.outcome import outcome
from simlab.scenarios.registry import FAMILIES, draw

KNOBS = {
    "link_repair", "host_repair", "route_repair", "qps_per_connection", "rank_order",
    "ack_timeout_s", "receive_queue_depth", "receive_interval_s", "out_of_order_placement",
    "ecmp_weight", "ib_cc_table", "subnet_routes",
}  # fmt: skip
FAULTY = [name for name, family in FAMILIES.items() if family.faulty]


def test_settings_are_those_of_the_vocabulary_or_known_knobs():
    assert set(SETTINGS) <= set(VOCABULARY) | KNOBS


@pytest.mark.parametrize("name", FAMILIES)
def test_a_draw_is_its_seed_and_knows_its_truth(name):
    one = draw(name, 7)
    again = draw(name, 7)
    assert (one.plan.topology, one.plan.traffic) == (again.plan.topology, again.plan.traffic)
    assert (one.plan.model, one.truths, one.plan.events) == (
        again.plan.model, again.truths, again.plan.events,
    )  # fmt: skip
    assert (one.shown, one.ticking) == (again.shown, again.ticking)
    assert (one.family, one.seed, one.plan.config.seed) == (name, 7, 7)
    assert one.plan.traffic.messages
    assert bool(one.truths) == FAMILIES[name].faulty
    for truth in one.truths:
        assert truth.causes
        assert truth.places
        assert truth.cure


@pytest.mark.parametrize("name", FAULTY)
def test_the_cure_changes_the_draw(name):
    one = draw(name, 3)
    cured = applied(one, [change for truth in one.truths for change in truth.cure])
    assert (cured.plan, cured.shown, cured.ticking) != (one.plan, one.shown, one.ticking)


def test_families_differ_by_seed():
    """Some vary in the fabric alone; none is the same in everything."""

    def of(name: str, seed: int) -> object:
        plan = draw(name, seed).plan
        return plan.topology, plan.traffic, plan.model, plan.events

    assert [name for name in FAMILIES if of(name, 1) == of(name, 2)] == []


def test_what_cannot_be_changed_is_told():
    one = draw("healthy-ring", 1)
    switch = one.names.switch(one.plan.topology.switches[0])
    with pytest.raises(NotSupported, match="no setting colour"):
        applied(one, [Change(switch, "colour", 3)])
    with pytest.raises(NotSupported, match="no such place"):
        applied(one, [Change(switch, "mtu_bytes", 1500), Change(switch, "host_repair", True)])
    with pytest.raises(ConfigInvalid, match="must be a number"):
        applied(one, [Change(switch, "buffer_alpha", "much")])
    with pytest.raises(ConfigInvalid, match="no-such"):
        draw("no-such", 1)


def test_a_slow_receiver_costs_what_its_cure_gives_back():
    one = draw("flow-slow-receiver", 2)
    cured = applied(one, one.truths[0].cure)
    assert outcome(one).job_time_s > 1.2 * outcome(cured).job_time_s
    assert outcome(cured).paused_s == 0


def test_a_dscp_map_stays_configured_while_dscps_are_not_trusted():
    one = draw("healthy-ring", 2)
    node = one.plan.topology.switches[0]
    leaf = one.names.switch(node)
    to_zero = Change(leaf, "dscp_to_traffic_class", (0,) * 64)
    untrusted = applied(one, [Change(leaf, "trust", "pcp")])
    assert untrusted.plan.model.switch_at(node).classes == dict.fromkeys(range(8), 0)
    [table] = {c.value for c in untrusted.shown if c.setting == to_zero.setting}
    assert table == DSCP_TO_CLASS
    trusted = Change(leaf, "trust", "dscp")
    assert applied(untrusted, [trusted]).plan.model.switch_at(node).classes == {}
    changed = applied(untrusted, [to_zero])
    assert changed.plan.model == untrusted.plan.model
    data = applied(changed, [trusted]).plan.model.switch_at(node).classes[DATA_PRIORITY]
    assert data == 0
    assert {c.setting for c in applied(changed, [trusted]).shown} == {"trust"}


def test_a_varied_draw_has_another_load():
    one = draw("healthy-ring", 2)
    more = varied(one, flows=2.0, rtt=1.3, burst=0.7)
    assert len(more.plan.traffic.connections) == 2 * len(one.plan.traffic.connections)
    assert more.jobs[0].size_bytes == round(one.jobs[0].size_bytes * 0.7)
    assert more.plan.topology.cables[0].delay_s == pytest.approx(
        1.3 * one.plan.topology.cables[0].delay_s
    )
    assert varied(one).plan.traffic == one.plan.traffic

import pytest

from simlab.rxe import fabric
from simlab.rxe.scenario import (
    Change,
    Place,
    Scenario,
    ScenarioError,
    flows,
    parse_scenario,
    read_scenario,
    scenario_names,
    with_change,
    with_hosts,
)

SMALL = """
name: small
summary: two hosts
fabric: {hosts: 3}
ports: {h2: {loss_ratio: 0.5}}
traffic:
  - {pattern: incast, senders: [h1, h3], receivers: [h2], verb: send}
truth: {cause: none}
"""
EXPECTED = {
    "busy",
    "healthy",
    "incast-ecn",
    "lossy-link",
    "mtu-mismatch",
    "no-ect",
    "rnr",
    "slow-link",
}


def small() -> Scenario:
    return parse_scenario(SMALL, "small.yaml")


def test_shipped_scenarios():
    assert set(scenario_names()) == EXPECTED


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_truth_of_shipped_scenarios_fits_their_fabric(name):
    scenario = read_scenario(name)
    assert scenario.name == name
    names = {flow.name for flow in flows(scenario)}
    assert set(scenario.truth.harmed) <= names
    healthy = scenario.truth.cause == "none"
    assert (scenario.truth.place is None) == healthy
    assert bool(scenario.truth.cure) == (not healthy)
    cured = scenario
    for change in scenario.truth.cure:
        cured = with_change(cured, change)
    assert (cured != scenario) == (not healthy)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("summary: two hosts", "sumary: x", "sumary"),
        ("{hosts: 3}", "{hosts: 3, ratebps: 1}", "ratebps"),
        ("{hosts: 3}", "{hosts: 3, rate_bps: fast}", "$.fabric.rate_bps"),
        ("{hosts: 3}", "{hosts: 9}", "$.fabric.hosts"),
        ("loss_ratio: 0.5", "loss_ratio: 1.5", "$.ports[...].loss_ratio"),
        ("loss_ratio: 0.5", "loss: 0.5", "`loss`"),
        ("[h1, h3]", "[h1, h4]", "traffic[0]: h4 is not one of 3"),
        ("receivers: [h2]", "receivers: [h2, h1]", "one receiver"),
        ("receivers: [h2]", "receivers: [h1]", "sends to itself"),
        ("verb: send", "verb: shout", "$.traffic[0].verb"),
        ("pattern: incast", "pattern: pairwise", "as many as senders"),
        ("ports: {h2:", "ports: {h7:", "ports.h7"),
        ("loss_ratio: 0.5", "queue: {kmin_bytes: 9, kmax_bytes: 8}", "kmin < kmax < limit"),
        ("name: small", "name: [", "not YAML"),
    ],
)
def test_a_wrong_scenario_is_one_line_with_file_and_path(old, new, says):
    assert old in SMALL
    with pytest.raises(ScenarioError) as error:
        parse_scenario(SMALL.replace(old, new), "small.yaml")
    text = str(error.value)
    assert text.startswith("small.yaml:")
    assert says in text
    assert "\n" not in text


def test_unknown_scenario_lists_the_known(tmp_path):
    with pytest.raises(ScenarioError, match="healthy"):
        read_scenario("nope")
    with pytest.raises(ScenarioError, match="cannot be read"):
        read_scenario(str(tmp_path / "gone.yaml"))


def test_flow_names_are_unique():
    twice = SMALL.replace("[h1, h3]", "[h1, h1]")
    assert [flow.name for flow in flows(parse_scenario(twice, "x"))] == ["h1-h2", "h1-h2.2"]


def test_more_hosts_keep_the_flows_and_fewer_are_refused():
    assert with_hosts(small(), 8).hosts[-1] == "h8"
    with pytest.raises(ScenarioError, match="h3 is not one of 2"):
        with_hosts(small(), 2)


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        (Change("port.loss_ratio", "p2", 0.0), "loss_ratio", 0.0),
        (Change("port.rate_bps", "sw:p2", 5_000_000), "rate_bps", 5_000_000),
        (Change("port.mtu", "p2", 4096), "switch_mtu", 4096),
        (Change("host.mtu", "h2", 4096), "host_mtu", 4096),
    ],
)
def test_change_of_a_port_or_host(change, field, value):
    changed = with_change(small(), change)
    assert getattr(changed.link("h2"), field) == value
    assert changed.link("h1") == small().link("h1")


def test_change_of_a_queue_keeps_its_other_values():
    changed = with_change(small(), Change("port.ecn", "p2", value=False))
    before, after = small().link("h2").queue, changed.link("h2").queue
    assert (after.ecn, after.kmax_bytes) == (False, before.kmax_bytes)


@pytest.mark.parametrize("target", ["h1-h2", "h1-*"])
def test_change_of_one_flow_leaves_the_others(target):
    by_name = {
        flow.name: flow.traffic.recv_buffers
        for flow in flows(with_change(small(), Change("flow.recv_buffers", target, 7)))
    }
    assert by_name["h1-h2"] == 7
    assert by_name["h3-h2"] != 7


def test_change_of_all_flows_to_a_host():
    changed = with_change(small(), Change("flow.tclass", "h2", 0))
    assert {flow.traffic.tclass for flow in flows(changed)} == {0}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (Change("port.colour", "p2", 1), "unknown knob"),
        (Change("flow.colour", "h1-h2", 1), "unknown knob"),
        (Change("port.rate_bps", "p9", 1_000_000), "no such port"),
        (Change("port.rate_bps", "h2", 1_000_000), "no such port"),
        (Change("port.rate_bps", "", 1_000_000), "no such port"),
        (Change("host.mtu", "p2", 1500), "no such host"),
        (Change("flow.tclass", "h2-h1", 2), "no such flow"),
        (Change("port.loss_ratio", "p2", 2.0), "<= 1.0"),
        (Change("port.rate_bps", "p2", value=True), "Expected `int`"),
        (Change("port.queue_bytes", "p2", 100), "kmin < kmax < limit"),
    ],
)
def test_a_wrong_change_says_what_and_where(change, says):
    with pytest.raises(ScenarioError) as error:
        with_change(small(), change)
    assert says in str(error.value)
    assert change.knob in str(error.value)


def test_the_cable_is_only_there_when_it_is_bad():
    scenario = small()
    assert "netem" in fabric.link_settings({"h2": scenario.link("h2")})
    assert "netem" not in fabric.link_settings({"h1": scenario.link("h1")})


def test_place_needs_a_known_kind():
    with pytest.raises(ScenarioError, match="kind"):
        parse_scenario(
            SMALL.replace("cause: none", "cause: x, place: {kind: rack, host: h1}"), "small.yaml"
        )
    assert Place("link", "h2", "p2").interface == "p2"

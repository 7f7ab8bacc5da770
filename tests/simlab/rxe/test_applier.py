"""The applier knows the lab and the recommendation, and nothing between them."""

import json

import pytest

from simlab.rxe.applier import changes
from simlab.rxe.scenario import Change, ScenarioError, flows, read_scenario

FLOWS = flows(read_scenario("no-ect"))


def document(knob, scope, proposed):
    rec = {"knob": knob, "scope": {"entity": scope, "name": ""}, "proposed": proposed}
    return json.dumps({"schema": "fabric-tuner/suggest/1", "recommendations": [rec]})


@pytest.mark.parametrize(
    ("knob", "scope", "proposed", "wanted"),
    [
        (
            "link_repair",
            "link/interface%2Fsw%2Fp2/netdev%2Fh2%2Fh2",
            "repaired",
            Change("port.loss_ratio", "p2", 0.0),
        ),
        ("link_repair", "netdev/h2/h2", "repaired", Change("port.loss_ratio", "p2", 0.0)),
        ("queue_rate_bps", "queue/0/interface/sw/p3", 10**7, Change("port.rate_bps", "p3", 10**7)),
        ("queue_limit_bytes", "queue/0/interface/sw/p3", 9, Change("port.queue_bytes", "p3", 9)),
        ("mtu_bytes", "interface/sw/p1", 4300, Change("port.mtu", "p1", 4300)),
        ("mtu_bytes", "netdev/h1/h1", 4300, Change("host.mtu", "h1", 4300)),
        ("roce_ecn_codepoint", "port/h3/00/1", 2, Change("flow.tclass", "h3-h4", 2)),
    ],
)
def test_one_recommendation_one_change(knob, scope, proposed, wanted):
    assert changes(document(knob, scope, proposed), FLOWS) == [wanted]


def test_receives_go_to_every_flow_of_the_receiver():
    made = changes(document("receive_queue_depth", "port/h4/00/1", 256), FLOWS)
    assert {change.target for change in made} == {"h1-h4", "h2-h4", "h3-h4"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"schema": "other/1", "recommendations": []}',
        document("dcqcn_g", "port/h3/00/1", 2),
        document("mtu_bytes", "nonsense", 2),
        document("queue_rate_bps", "switch/sw", 2),
    ],
)
def test_what_the_lab_cannot_do_is_one_clear_error(text):
    with pytest.raises(ScenarioError, match=r"suggest\.json"):
        changes(text, FLOWS)

"""Settings of an InfiniBand subnet: routes by destination, marking, adapters."""

import pytest

from collectors.model.errors import ConfigInvalid
from simlab.packet.parameters import Form
from simlab.scenarios.change import applied
from simlab.scenarios.change_subnet import destination_routes
from simlab.scenarios.draw import Change
from simlab.scenarios.outcome import outcome
from simlab.scenarios.registry import draw


def changed(one, *settings):
    switch = one.names.switch(one.plan.topology.switches[0])
    return applied(one, [Change(switch, name, value) for name, value in settings])


def test_each_leaf_spreads_the_destinations_of_another_evenly_over_its_uplinks():
    one = draw("balance-ib-hot-link", 3)
    topology = one.plan.topology
    egress = destination_routes(topology)
    switches = set(topology.switches)
    near, far, *spines = topology.switches
    remote = [h for h in topology.hosts if topology.peer(egress[far, h]) == h]
    used = [egress[near, host] for host in remote]
    assert all(topology.peer(port) in switches for port in used)
    counts = [used.count(port) for port in dict.fromkeys(used)]
    assert len(counts) == min(len(spines), len(remote))
    assert max(counts) - min(counts) <= 1
    for spine in spines:
        assert {topology.peer(egress[spine, host]) for host in remote} == {far}


def test_routes_by_destination_relieve_the_hot_link():
    one = draw("balance-ib-hot-link", 3)
    spread = changed(one, ("subnet_routes", "ftree,updn,minhop"))
    ways = {(src, dst): path for src, dst, path in spread.jobs[0].paths}
    for src, dst, _ in one.jobs[0].paths:
        hops = ways[src, dst]
        assert one.plan.topology.peer(hops[-1]) == dst
        assert len(hops) == 3
    assert outcome(spread).job_time_s < 0.7 * outcome(one).job_time_s


def test_adapters_and_switches_do_as_they_are_told():
    one = draw("control-ib-without-control", 3)
    table = tuple(range(128))
    model = changed(
        one, ("ib_cc_table", table), ("ib_cc_ccti_timer", 64), ("ib_cc_ccti_increase", 2),
        ("ib_cc_marking_rate", 3), ("ib_cc_threshold", 8),
    ).plan.model  # fmt: skip
    control, link = model.congestion, model.infiniband
    assert control.form is Form.INFINIBAND
    assert (control.cct, control.ccti_increase) == (tuple(map(float, table)), 2)
    assert control.ccti_timer_s == pytest.approx(65.536e-6)
    assert (link.threshold_bytes, link.marking_rate) == (link.credits_bytes // 2, 3)
    off = changed(one, ("ib_cc_threshold", 0)).plan.model
    assert (off.congestion.form, off.infiniband.threshold_bytes) == (Form.OFF, 0)


def test_an_ethernet_fabric_has_no_subnet():
    with pytest.raises(ConfigInvalid, match="no InfiniBand"):
        changed(draw("healthy-ring", 3), ("subnet_routes", "minhop"))

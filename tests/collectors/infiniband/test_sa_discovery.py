"""The subnet manager's tables give the same subnet as the cables do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.codec import mad
from collectors.infiniband.collector import InfinibandCollector, SweepOptions
from collectors.infiniband.discovery import discover
from collectors.infiniband.sa_discovery import (
    discover_from_sa,
    fetch_path,
    find_subnet_manager,
)
from collectors.infiniband.transactor import Limits
from collectors.model.errors import FabricError, Unavailable
from collectors.model.reading import Instant
from simlab.ib.fabrics import fat_tree, two_tier
from simlab.ib.fake import Agent
from tests.collectors.infiniband.ib_fabric import fabric, named


@pytest.mark.parametrize("topology", [two_tier(4, 2, 2), fat_tree(4)])
def test_both_ways_find_the_same(topology):
    _, subnet, transactor = fabric(topology)
    walked = discover(transactor).topology
    before = subnet.wire.requests.copy()
    told = discover_from_sa(transactor)
    assert told.misses == []
    spent = subnet.wire.requests - before
    assert spent[mad.CLASS_SA] == 4
    assert spent[mad.CLASS_SMP_DIRECT] == 2
    assert sorted(told.topology.links()) == sorted(walked.links())
    for guid, node in walked.nodes.items():
        other = told.topology.nodes[guid]
        assert (other.name, other.kind, other.port_count) == (node.name, node.kind, node.port_count)
        assert other.lft[: len(node.lft)] == node.lft
        assert {n: (p.lid, p.state, p.label) for n, p in other.ports.items()} == {
            n: (p.lid, p.state, p.label) for n, p in node.ports.items()
        }


def test_collector_goes_on_by_lid():
    _, subnet, _ = fabric()
    collector = InfinibandCollector(lambda: subnet, SweepOptions(from_sa=True))
    clock = lambda: Instant(0, 0)
    first = collector.read(clock)
    assert first.gaps == ()
    assert len(first.facts.neighbours) == 16
    before = subnet.wire.requests.copy()
    again = collector.read(clock)
    assert again.facts is None
    spent = subnet.wire.requests - before
    assert spent[mad.CLASS_SMP_DIRECT] == 0
    assert spent[mad.CLASS_SMP_LID] == 38


def test_path_record():
    topology, _, transactor = fabric()
    own, sm_lid = find_subnet_manager(transactor)
    assert own == named(topology, "H0").lid
    path = fetch_path(transactor, sm_lid, own, named(topology, "H7").lid)
    assert (path["SLID"], path["DLID"]) == (own, named(topology, "H7").lid)


def test_no_subnet_manager_is_said():
    topology, subnet, transactor = fabric()
    named(topology, "H0").ports[1].lid = 0
    subnet.changed()
    with pytest.raises(Unavailable, match="the port has no LID yet"):
        discover_from_sa(transactor)


@pytest.mark.parametrize("odd", ["truncated", "late"])
def test_a_confused_subnet_manager_is_one_clear_error(odd):
    topology, subnet, transactor = fabric(limits=Limits(timeout_s=0.1, retries=0))
    own, sm_lid = find_subnet_manager(transactor)
    assert own
    manager = next(n for n in topology.nodes.values() if n.lid == sm_lid)
    subnet.enter_at = type(subnet.enter_at)(named(topology, "H3").guid, 1)  # another way in
    subnet.agent_of(manager.guid).odd = odd
    with pytest.raises(Unavailable, match="NodeRecord: no answer after 1 tries"):
        discover_from_sa(transactor)


@given(noise=st.binary(min_size=200, max_size=2000))
@settings(max_examples=50, deadline=None)
def test_random_tables_raise_only_typed_errors(noise):
    _, subnet, transactor = fabric(agent=Agent(), limits=Limits(timeout_s=0.1, retries=0))
    deliver = subnet._deliver

    def garble(node, agent, reply, lid, due):
        if reply[1] == mad.CLASS_SA:
            reply = reply[:44] + b"\x00\x0e" + reply[46:56] + noise
            reply += bytes(max(256 - len(reply), 0))
        deliver(node, agent, reply, lid, due)

    subnet._deliver = garble
    try:
        discover_from_sa(transactor)
    except FabricError:
        return

"""Roots, victims and cycles of the wait-for graph on small fabrics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.model.entities import Interface, Netdev, Switch
from tuner.diagnosis.stall_graph import stall_graph


class Cables:
    def __init__(self, *pairs):
        self.ends = dict(pairs) | {b: a for a, b in pairs}

    def peer(self, wire):
        return self.ends.get(wire)


def port(switch, name):
    return Interface(Switch(switch), str(name))


def nic(host):
    return Netdev(host, "e")


# h1 - L1 - S - L2 - h3, h2 on L1, h4 on L2
H1, H2, H3, H4 = (nic(f"h{n}") for n in range(1, 5))
FABRIC = Cables(
    (H1, port("L1", "h1")), (H2, port("L1", "h2")), (port("L1", "up"), port("S", "L1")),
    (port("S", "L2"), port("L2", "up")), (port("L2", "h3"), H3), (port("L2", "h4"), H4),
)  # fmt: skip


def test_a_slow_receiver_is_the_root_of_the_whole_chain():
    stalled = {
        port("L2", "h3"): 0.6, port("S", "L2"): 0.5, port("L1", "up"): 0.4, H1: 0.3, H2: 0.3,
    }  # fmt: skip
    graph = stall_graph(stalled, {}, FABRIC)
    [root] = graph.roots
    assert (root.wire, root.kind) == (H3, "slow_receiver")
    assert root.score == pytest.approx(sum(stalled.values()))
    assert set(root.victims) == set(stalled)
    assert [edge.behind for edge in graph.behind(H1)] == [port("L1", "up")]
    assert graph.cycles == ()


def test_a_full_egress_that_is_not_stalled_is_the_root():
    stalled = {port("S", "L2"): 0.5, port("L1", "up"): 0.4, H1: 0.3, port("L2", "h4"): 0.0}
    graph = stall_graph(stalled, {port("L2", "h3"): 0.99, port("L2", "h4"): 0.2}, FABRIC)
    [root] = graph.roots
    assert (root.wire, root.kind) == (port("L2", "h3"), "congested_egress")
    assert H1 in root.victims
    assert port("L2", "h4") not in root.victims


def test_blame_is_split_between_two_roots_by_how_much_they_stall():
    stalled = {port("L2", "h3"): 0.6, port("L2", "h4"): 0.2, port("S", "L2"): 0.4}
    graph = stall_graph(stalled, {}, FABRIC)
    scores = {root.wire: root.score for root in graph.roots}
    assert scores[H3] == pytest.approx(0.6 + 0.4 * 0.75)
    assert scores[H4] == pytest.approx(0.2 + 0.4 * 0.25)
    assert graph.roots[0].wire == H3


def test_what_lies_behind_a_silent_switch_is_unknown():
    graph = stall_graph({H1: 0.3}, {}, FABRIC)
    [root] = graph.roots
    assert (root.wire, root.kind) == (port("L1", "h1"), "unknown")


def test_a_ring_that_waits_for_itself_is_a_deadlock():
    cables = Cables(*((port(f"S{n}", "out"), port(f"S{(n + 1) % 3}", "in")) for n in range(3)))
    stalled = {port(f"S{n}", "out"): 0.97 for n in range(3)}
    graph = stall_graph(stalled, {}, cables)
    [cycle] = graph.cycles
    assert set(cycle) == set(stalled)
    assert stall_graph(dict.fromkeys(stalled, 0.5), {}, cables).cycles == ()


def test_nothing_stalled_nothing_found():
    graph = stall_graph({H1: 0.001}, {port("L2", "h3"): 1.0}, FABRIC)
    assert graph.roots == ()
    assert graph.edges == ()


@given(
    st.dictionaries(st.sampled_from(list(FABRIC.ends)), st.floats(0, 1)),
    st.dictionaries(st.sampled_from(list(FABRIC.ends)), st.floats(0, 1)),
)
def test_blame_is_conserved_on_a_tree(stalled, busy):
    graph = stall_graph(stalled, busy, FABRIC)
    total = sum(share for share in stalled.values() if share >= 0.005)
    cyclic = {edge.waiting for edge in graph.edges} & {
        edge.behind for edge in graph.edges if edge.behind in stalled
    }
    blamed = sum(root.score for root in graph.roots)
    assert blamed <= total * (1 + 1e-9)
    if not cyclic:
        assert blamed == pytest.approx(total)

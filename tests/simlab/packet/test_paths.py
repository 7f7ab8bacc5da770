"""Hashes, next hops and paths against their definitions and against the reference's exports."""

import csv
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.model.ecmp_hash import (
    E_ECMP,
    HASH_BITS,
    FlowKey,
    HashAlgorithm,
    HashField,
    HashSpec,
    Reduction,
    choose_member,
    hash_value,
    pack_hash_key,
)
from collectors.model.errors import ConfigInvalid, Malformed
from simlab.packet import hashing, hpcc_files
from simlab.packet.parameters import Balancing
from simlab.packet.routing import build_routes, hashed_paths
from simlab.packet.topology import Cable, Topology, fat_tree, leaf_spine, next_hops, rail_optimised
from simlab.packet.workloads import permutation

REFSIM = Path(__file__).resolve().parents[3].parent / "shared/refsim"


@settings(deadline=None)
@given(
    algorithm=st.sampled_from(list(HashAlgorithm)),
    fields=st.permutations(list(HashField)).flatmap(
        lambda order: st.integers(1, len(order)).map(lambda n: tuple(order[:n]))
    ),
    numbers=st.tuples(*[st.integers(0, 2**32 - 1)] * 3, *[st.integers(0, 65535)] * 3),
    qp=st.integers(0, 2**24 - 1),
    label=st.integers(0, 2**20 - 1),
    rotate=st.integers(0, 40),
    reduction=st.sampled_from(list(Reduction)),
    count=st.integers(1, 33),
)
def test_the_compiled_hashes_are_the_defined_ones(
    algorithm, fields, numbers, qp, label, rotate, reduction, count
):
    src, dst, seed, sport, dport, in_port = numbers
    flow = FlowKey(src, dst, sport, dport, dst_qp=qp, flow_label=label, in_port=in_port)
    spec = HashSpec(algorithm, fields, seed, rotate, reduction)
    row = hashing.pack_spec(spec, seed)
    values = np.array([getattr(flow, name.value) for name in hashing.FIELDS], dtype=np.int64)
    ours = hashing.hash_of(row, values, np.zeros(32, dtype=np.int64))
    assert ours == hash_value(pack_hash_key(flow, spec), algorithm, seed)
    assert 0 <= ours < 1 << HASH_BITS[algorithm]
    assert hashing.member(row, ours, count) == choose_member(flow, count, spec)


def test_next_hops_of_a_fat_tree_go_up_anywhere_and_down_one_way():
    tree = fat_tree(4)
    assert len(tree.hosts) == 16
    hops = next_hops(tree)
    leaf, core = tree.hosts[-1] + 1, tree.node_count - 1
    assert len(hops[leaf, 15]) == 2
    assert [tree.peer(p) for p in hops[leaf, 0]] == [0]
    assert len(hops[core, 0]) == 1
    assert hops[leaf, 15] == next_hops(tree, descending=True)[leaf, 15][::-1]


def test_a_dead_cable_is_routed_around():
    fabric = leaf_spine(2, 2, 2)
    hops = next_hops(fabric)
    uplinks = hops[4, 2]
    assert len(uplinks) == 2
    assert next_hops(fabric, dead=[uplinks[0] // 2])[4, 2] == uplinks[1:]


def test_rails_keep_equal_nics_of_all_hosts_on_one_leaf():
    fabric = rail_optimised(4, 8, 2)
    assert fabric.nics_per_host == 8
    leaf_of = {c.a: c.b for c in fabric.cables if c.a < 32}
    assert leaf_of[0 * 8 + 3] == leaf_of[2 * 8 + 3] != leaf_of[0 * 8 + 4]


def test_weights_and_fields_decide_where_flows_go():
    fabric = leaf_spine(2, 2, 32)
    traffic = permutation(range(64), 1000, shift=32, qps=4)

    def share(balancing: Balancing) -> float:
        routes = build_routes(fabric, balancing)
        paths = hashed_paths(fabric, balancing, routes, traffic.connections)
        spine = [fabric.peer(path[0]) for path in paths]
        return spine.count(66) / len(spine)

    assert share(Balancing()) == pytest.approx(0.5, abs=0.1)
    first_uplink = next_hops(fabric)[64, 32][0]
    other_uplink = next_hops(fabric)[65, 0][0]
    weighted = Balancing(weights={first_uplink: 3, other_uplink: 3})
    assert share(weighted) == pytest.approx(0.75, abs=0.1)
    same = HashSpec(HashAlgorithm.CRC_CCITT, (HashField.DST_PORT,))
    assert share(Balancing(hash=same, seed_by_node=False)) in (0.0, 1.0)
    by_qp = HashSpec(HashAlgorithm.CRC, E_ECMP)
    assert share(Balancing(hash=by_qp)) == pytest.approx(0.5, abs=0.12)


def test_an_unreachable_host_is_named():
    split = Topology(4, (2, 3), (Cable(0, 2, 1e9, 1e-6), Cable(1, 3, 1e9, 1e-6)))
    traffic = permutation((0, 1), 1000, shift=1)
    routes = build_routes(split, Balancing())
    with pytest.raises(ConfigInvalid, match="no path from host 0 to 1"):
        hashed_paths(split, Balancing(), routes, traffic.connections)


def reference_cases() -> list[tuple[str, str]]:
    names = ("ls2x4_100G_perm_1qp", "ls2x4_100G_ring_cross")
    return [(sim, name) for sim in ("hpcc", "conweave") for name in names]


@pytest.mark.parametrize(("sim", "name"), reference_cases())
def test_paths_are_those_of_the_reference(sim, name):
    folder = REFSIM / sim / name
    if not folder.exists():
        pytest.skip("needs ../shared/refsim")
    kind = "perm_1qp" if "perm" in name else "ring_cross"
    short = "hpcc" if sim == "hpcc" else "cw"
    topology = hpcc_files.parse_topology(
        (REFSIM / "inputs/topo/ls_2x4_16h_100_100.txt").read_text()
    )
    flows = (REFSIM / f"inputs/flow/{kind}.{short}.txt").read_text()
    traffic = hpcc_files.parse_flows(flows, conweave=sim != "hpcc")
    balancing = Balancing(descending=sim == "hpcc")
    routes = build_routes(topology, balancing)
    ours = hashed_paths(topology, balancing, routes, traffic.connections)
    back = hashed_paths(topology, balancing, routes, traffic.connections, reverse=True)
    numbers = topology.interface_numbers()

    def export(path: tuple[int, ...]) -> list[str]:
        return [f"{topology.end(port)}:{numbers[port]}" for port in path]

    with (folder / "paths.csv").open() as stream:
        for i, row in enumerate(csv.DictReader(stream)):
            for column, path in (("fwd_path(node:outport:hash32)", ours), ("ack_path", back)):
                hops = [":".join(hop.split(":")[:2]) for hop in row[column].split()[1:-1]]
                assert export(path[i]) == hops


def test_hpcc_files_survive_a_round_trip():
    fabric = leaf_spine(2, 2, 2, fabric_bps=400e9)
    again = hpcc_files.parse_topology(hpcc_files.format_topology(fabric))
    assert again.cables == fabric.cables
    assert again.tier == fabric.tier
    assert again.switches == fabric.switches
    traffic = permutation(range(4), 5000, shift=1)
    for conweave in (False, True):
        text = hpcc_files.format_flows(traffic, conweave=conweave)
        back = hpcc_files.parse_flows(text, conweave=conweave)
        assert [(c.src, c.dst) for c in back.connections] == [
            (c.src, c.dst) for c in traffic.connections
        ]
        assert [m.size_bytes for m in back.messages] == [5000] * 4


@given(st.text(max_size=80))
def test_broken_files_raise_only_malformed(text):
    for parse in (hpcc_files.parse_topology, hpcc_files.parse_flows, hpcc_files.parse_config):
        with suppress(Malformed):
            parse(text)


def test_a_fat_tree_of_odd_switches_is_refused():
    with pytest.raises(ConfigInvalid, match="even number of ports"):
        fat_tree(5)

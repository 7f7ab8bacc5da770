"""Every compiled hash against its definition, with the fields and seeds that fabrics use."""

import numpy as np
import pytest

from collectors.model.ecmp_hash import (
    E_ECMP,
    FIVE_TUPLE,
    NS3_FIELDS,
    FlowKey,
    HashAlgorithm,
    HashField,
    HashSpec,
    choose_member,
    hash_value,
    pack_hash_key,
)
from simlab.packet import hashing
from simlab.packet.parameters import Balancing
from simlab.packet.routing import build_routes, hashed_paths, host_address
from simlab.packet.topology import leaf_spine
from simlab.packet.workloads import permutation

SIZES = ((HashField.PROTOCOL,), (HashField.DST_PORT,), (HashField.DST_QP,), NS3_FIELDS, E_ECMP)


@pytest.mark.parametrize("algorithm", HashAlgorithm)
@pytest.mark.parametrize("fields", [*SIZES, FIVE_TUPLE, (HashField.IN_PORT, *E_ECMP)])
@pytest.mark.parametrize("seed", [0, 16, 0x12345, 0xFFFFFFFF])
def test_hashes_of_keys_of_every_length_are_the_defined_ones(algorithm, fields, seed):
    spec = HashSpec(algorithm, fields, seed)
    row = hashing.pack_spec(spec, seed)
    for number in range(20):
        flow = FlowKey(
            0x0B000001 + (number << 8), 0x0BFF0001, 49152 + 800 * number, 4791,
            dst_qp=0xABC00 + number, in_port=number,
        )  # fmt: skip
        values = np.array([getattr(flow, name.value) for name in hashing.FIELDS], dtype=np.int64)
        ours = hashing.hash_of(row, values, np.zeros(32, dtype=np.int64))
        assert ours == hash_value(pack_hash_key(flow, spec), algorithm, seed)


def test_a_hash_of_the_ingress_port_takes_the_interface_that_the_flow_came_in_by():
    fabric = leaf_spine(2, 3, 5)
    spec = HashSpec(HashAlgorithm.CRC, (HashField.IN_PORT,))
    balancing = Balancing(hash=spec, seed_by_node=False)
    traffic = permutation(fabric.hosts, 1000, shift=5)
    paths = hashed_paths(fabric, balancing, build_routes(fabric, balancing), traffic.connections)
    for one, path in zip(traffic.connections, paths, strict=True):
        ups = [p for p in fabric.ports_of()[fabric.end(path[0])] if fabric.peer(p) > 11]
        ends = (host_address(one.src), host_address(one.dst), one.sport, one.dport)
        flow = FlowKey(*ends, in_port=one.src % 5 + 1)
        assert path[0] == ups[choose_member(flow, 3, spec)]

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from collectors.model.ecmp_hash import FlowKey, HashAlgorithm, HashField, HashSpec, choose_member
from tuner.models.hashing import hash_keys, key_bytes
from tuner.models.queue_pairs import (
    ai_for_flows,
    cnp_limits,
    evenness,
    plan_source_ports,
    qp_budget,
    qps_for_evenness,
    retry_budget,
    rnr_budget_s,
    timeout_code_for,
)

FLOW = FlowKey(0x0A000001, 0x0A000101, 0)


def test_fewest_qps_for_an_evenness() -> None:
    choice = qps_for_evenness(16, 16, 1.5)
    assert choice is not None
    assert choice.max_over_mean <= 1.5
    assert evenness(16, 16, choice.qps_per_connection - 1).max_over_mean > 1.5
    assert choice.flows == 16 * choice.qps_per_connection
    safer = qps_for_evenness(16, 16, 1.5, quantile=0.95)
    assert safer is not None
    assert safer.qps_per_connection > choice.qps_per_connection
    assert qps_for_evenness(16, 16, 1.05) is None
    one = qps_for_evenness(16, 1, 1.0)
    assert one is not None
    assert one.qps_per_connection == 1


@pytest.mark.parametrize("algorithm", [HashAlgorithm.CRC_32LO, HashAlgorithm.MURMUR3])
def test_planned_ports_use_every_path_alike(algorithm: HashAlgorithm) -> None:
    tiers = [(HashSpec(algorithm), 8), (HashSpec(HashAlgorithm.CRC_CCITT), 4)]
    ports = plan_source_ports(FLOW, 16, tiers)
    assert len(set(ports)) == 16
    assert min(ports) >= 49152
    paths = [
        tuple(choose_member(replace(FLOW, src_port=port), n, spec) for spec, n in tiers)
        for port in ports
    ]
    assert set(Counter(path[0] for path in paths).values()) == {2}
    assert len(set(paths)) == 16
    with pytest.raises(ValueError, match="fewer candidates"):
        plan_source_ports(FLOW, 3, tiers, candidates=range(49152, 49154))


@pytest.mark.parametrize(("members", "ratio"), [(8, 1.43), (16, 1.92), (32, 2.82)])
def test_consecutive_ports_spread_better_than_random_ones(members: int, ratio: float) -> None:
    draw = np.random.default_rng(1)
    trials = 2000
    # The gain depends on the order of the fields, which differs by device: here the protocol last.
    order = (HashField.SRC_IP, HashField.DST_IP, HashField.SRC_PORT, HashField.DST_PORT)
    spec = HashSpec(fields=(*order, HashField.PROTOCOL))
    addresses = draw.integers(0, 2**32, (2, trials)).repeat(16, axis=1)
    first = draw.integers(49152, 65535 - 16, trials).repeat(16)
    fields = {
        HashField.SRC_IP: addresses[0],
        HashField.DST_IP: addresses[1],
        HashField.SRC_PORT: first + np.tile(np.arange(16), trials),
    }
    member = hash_keys(key_bytes(fields, spec, 16 * trials), spec) % np.uint64(members)
    loads = [np.bincount(row).max() for row in member.astype(np.int64).reshape(trials, 16)]
    assert np.mean(loads) / (16 / members) == pytest.approx(ratio, rel=0.02)


def test_qp_budget() -> None:
    budget = qp_budget(peers=64, channels=2, qps_per_connection=4, context_cache_entries=1024)
    assert budget.qps == 1024
    assert budget.fits
    assert budget.most_qps_per_connection == 4
    assert not qp_budget(64, 2, 5, 1024).fits


def test_timers() -> None:
    nccl = retry_budget(20, 7)
    assert nccl.timeout_s == pytest.approx(4.295, rel=1e-3)
    assert nccl.shortest_s == pytest.approx(8 * 4.295, rel=1e-3)
    assert nccl.longest_s == pytest.approx(4 * nccl.shortest_s)
    assert retry_budget(0, 7).shortest_s == math.inf
    assert timeout_code_for(10e-6, 1e-3, 335e-6, 4) == 13
    assert timeout_code_for(0, 0, 0, 0) == 1
    assert rnr_budget_s(12, 7) == math.inf
    assert rnr_budget_s(12, 6) == pytest.approx(6 * 0.64e-3)


def test_cnp_limits() -> None:
    case = {"packet_bytes": 1500, "ai_bps": 40e6, "increase_timer_s": 55e-6}
    few = cnp_limits(40e9, 10, cnp_interval_s=50e-6, **case)
    assert few.starved_flows == pytest.approx(166, abs=1)
    assert few.packets_per_interval == pytest.approx(16.7, rel=0.01)
    assert few.cnp_per_s == pytest.approx(10 / 50e-6)
    many = cnp_limits(40e9, 1000, cnp_interval_s=50e-6, **case)
    assert many.packets_per_interval < 1
    assert many.cnp_per_s == pytest.approx(40e9 / 12000)
    assert many.growth_bps_per_s == pytest.approx(100 * few.growth_bps_per_s)
    every = cnp_limits(40e9, 10, cnp_interval_s=0, **case)
    assert every.cnp_per_s == pytest.approx(40e9 / 12000)
    assert ai_for_flows(40e6, 10, 100) == pytest.approx(4e6)

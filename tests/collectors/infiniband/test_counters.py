"""Which attributes a device is asked for, and what becomes of zeros that mean nothing."""

import pytest

from collectors.codec import mad, mad_perf
from collectors.infiniband.counters import GROUPS, CounterSweep
from collectors.infiniband.transactor import Limits
from simlab.ib.fabrics import two_tier
from simlab.ib.fake import FULL_CAPABILITY, Agent
from tests.collectors.infiniband.ib_fabric import end, fabric, named


def swept(groups=(), **agent):
    topology, subnet, transactor = fabric(agent=Agent(**agent))
    sweep = CounterSweep(transactor, groups)
    return topology, subnet, transactor, sweep, sweep.sweep(topology)


def test_one_datagram_a_port_where_the_device_widens_everything():
    topology, _subnet, transactor, sweep, result = swept()
    before = transactor.statistics.sent
    result = sweep.sweep(topology)
    assert transactor.statistics.sent - before == len(result.ports) == 32
    assert all(list(v) == ["PortCountersExtended"] for v in result.ports.values())


def test_narrow_errors_beside_wide_data():
    topology, subnet, _transactor, sweep, _ = swept(capability2=0)
    port = end(topology, "H1", 1)
    subnet.count(port, PortXmitData=1 << 40, PortRcvErrors=70_000, PortXmitWait=1 << 33)
    values = sweep.sweep(topology).ports[port]
    assert values["PortCountersExtended"]["PortXmitData"] == 1 << 40
    assert "PortXmitWait" not in values["PortCountersExtended"]
    assert values["PortCounters"]["PortRcvErrors"] == 65535  # stopped at its width
    assert values["PortCounters"]["PortXmitWait"] == (1 << 32) - 1
    assert "PortXmitData" not in values["PortCounters"]  # the wide one is the one


def test_old_device_has_narrow_counters_only():
    _, _, _, _, result = swept(capability=0, capability2=0)
    for values in result.ports.values():
        assert set(values) == {"PortCounters"}
        assert "PortXmitData" in values["PortCounters"]


@pytest.mark.parametrize("wide", [0, mad_perf.CAP2_ADDITIONAL_EXTENDED])
def test_absent_is_not_zero(wide):
    no_wait = FULL_CAPABILITY & ~mad_perf.CAP_XMIT_WAIT & ~mad_perf.CAP_QP1_DROPPED
    _, _, _, _, result = swept(capability=no_wait, capability2=wide)
    for values in result.ports.values():
        for fields in values.values():
            assert "PortXmitWait" not in fields
            assert "QP1Dropped" not in fields


def test_extended_without_the_ietf_counters():
    noietf = mad_perf.CAP_EXTENDED_WIDTH_NOIETF | mad_perf.CAP_XMIT_WAIT
    _, _, _, _, result = swept(capability=noietf, capability2=0)
    fields = next(iter(result.ports.values()))["PortCountersExtended"]
    assert "PortXmitData" in fields
    assert "PortUnicastXmitPkts" not in fields


def test_what_a_device_lacks_is_tried_once():
    lacking = frozenset(layout.attribute for layout in GROUPS["vl"] + GROUPS["congestion"])
    topology, _subnet, transactor, sweep, first = swept(
        groups=("details", "vl", "congestion"), unsupported=lacking
    )
    assert first.misses == []
    before = transactor.statistics.refused
    second = sweep.sweep(topology)
    assert transactor.statistics.refused == before
    assert set(next(iter(second.ports.values()))) == {
        "PortCountersExtended",
        "PortXmitDiscardDetails",
        "PortRcvErrorDetails",
    }


def test_switch_attributes_are_for_switches():
    topology, _subnet, _transactor, _sweep, result = swept(groups=("vl",))
    assert "SwPortVLCongestion" in result.ports[end(topology, "Leaf0", 1)]
    assert "SwPortVLCongestion" not in result.ports[end(topology, "H0", 1)]


def test_tick_is_learned():
    _topology, _, _, sweep, _ = swept(tick=31)
    assert {known.tick for known in sweep.capabilities.values()} == {31}
    _, _, _, sweep, _ = swept(unsupported=frozenset({mad_perf.PORT_SAMPLES_CONTROL.attribute}))
    assert {known.tick for known in sweep.capabilities.values()} == {None}


@pytest.mark.parametrize("odd", ["garbage", "wrong port"])
def test_an_answer_for_another_port_is_no_reading(odd):
    topology, subnet, _transactor, sweep, _ = swept()
    guid = named(topology, "H4").guid
    subnet.agent_of(guid).odd = odd
    result = sweep.sweep(topology)
    assert set(topology.nodes) - {e.guid for e in result.ports} == {guid}
    [miss] = result.misses
    assert miss.failure.reason == "malformed"
    assert miss.end == end(topology, "H4", 1)


def test_i1_silent_devices_cost_only_their_own_ports():
    """I1: partial result, an error for each device that is off."""
    topology, subnet, transactor = fabric(
        two_tier(4, 2, 4), limits=Limits(timeout_s=0.2, retries=1)
    )
    sweep = CounterSweep(transactor, ())
    sweep.sweep(topology)
    for name in ("H3", "H9", "Leaf2"):
        subnet.agent_of(named(topology, name).guid).silent = True
    result = sweep.sweep(topology)
    off = {end(topology, "H3", 1), end(topology, "H9", 1)} | {
        end(topology, "Leaf2", n) for n in named(topology, "Leaf2").ports if n
    }
    assert {m.end for m in result.misses} == off
    assert {m.failure.reason for m in result.misses} == {"timeout"}
    assert len(result.ports) == 48 - len(off)


def test_nothing_is_ever_set():
    _, subnet, *_ = swept(groups=tuple(GROUPS))
    assert set(subnet.wire.methods) == {mad.METHOD_GET}

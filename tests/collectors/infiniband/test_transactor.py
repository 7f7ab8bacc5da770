"""Windows, timeouts, retries, and answers that are not what they seem."""

import errno

import pytest

from collectors.codec import mad, mad_perf, mad_smp
from collectors.infiniband.transactor import Failure, Limits, Transactor
from collectors.infiniband.transport import Received
from collectors.model.errors import Unavailable
from simlab.ib.fake import Agent
from tests.collectors.infiniband.ib_fabric import end, fabric, named


def ask(transactor, lid, port=1, attribute=0x1D):
    got = []
    transactor.perf(lid, attribute, port, got.append)
    return got


def read_all(topology, transactor):
    """Ask every adapter for its extended counters; name -> answer."""
    answers = {}
    for node in topology.adapters():
        transactor.perf(
            node.lid, 0x1D, 1, lambda a, n=node.name: answers.setdefault(n, []).append(a)
        )
    transactor.run()
    assert all(len(a) == 1 for a in answers.values()), "each is done exactly once"
    return {name: a[0] for name, a in answers.items()}


def test_counters_arrive():
    topology, subnet, transactor = fabric()
    subnet.count(end(topology, "H3", 1), PortXmitData=1 << 40, PortXmitWait=7)
    answers = read_all(topology, transactor)
    assert mad_perf.PORT_COUNTERS_EXTENDED.parse(answers["H3"])["PortXmitData"] == 1 << 40
    assert set(answers) == {f"H{i}" for i in range(8)}
    assert subnet.wire.methods.keys() == {mad.METHOD_GET}


@pytest.mark.parametrize("odd", ["garbage", "truncated", "late", "other's id", "busy"])
def test_one_odd_node_costs_its_own_reading_only(odd):
    topology, subnet, transactor = fabric()
    for node in topology.adapters():
        subnet.count(end(topology, node.name, 1), PortXmitData=node.lid)
    subnet.agent_of(named(topology, "H5").guid).odd = odd
    answers = read_all(topology, transactor)
    for name, answer in answers.items():
        if name == "H5" and odd != "garbage":
            assert isinstance(answer, Failure)
            continue
        if name == "H5":
            continue  # random payload under a right header: for the caller to judge
        values = mad_perf.PORT_COUNTERS_EXTENDED.parse(answer)
        assert values["PortXmitData"] == named(topology, name).lid


def test_an_answer_that_comes_twice_is_taken_once():
    topology, _subnet, transactor = fabric(agent=Agent(odd="twice"))
    answers = read_all(topology, transactor)
    assert not any(isinstance(a, Failure) for a in answers.values())
    assert transactor.statistics.answered == 8
    got = ask(transactor, 1)
    transactor.run()
    assert len(got) == 1
    assert transactor.statistics.stray >= 7  # the second copies, met while others were open


def test_a_late_answer_is_stray_and_not_the_next_request_s():
    topology, subnet, transactor = fabric(limits=Limits(timeout_s=0.5, retries=0))
    agent = subnet.agent_of(named(topology, "H1").guid)
    agent.odd = "late"
    lid = named(topology, "H1").lid
    first = ask(transactor, lid)
    transactor.run()
    assert first[0].reason == "timeout"
    agent.odd = ""
    subnet.receive(59.0)  # the clock goes on; the late answer is about to come
    second = ask(transactor, lid)
    transactor.run()
    assert not isinstance(second[0], Failure)


def test_i1_silent_nodes_are_bounded_in_time_and_cost_only_themselves():
    """I1: ten nodes off took a serial sweep from 3 s to 25 s."""
    from simlab.ib.fabrics import two_tier

    topology, subnet, transactor = fabric(
        two_tier(8, 4, 8), limits=Limits(timeout_s=0.5, retries=2)
    )
    off = {f"H{i}" for i in range(10)}
    for name in off:
        subnet.agent_of(named(topology, name).guid).silent = True
    began = subnet.now()
    answers = read_all(topology, transactor)
    assert {n for n, a in answers.items() if isinstance(a, Failure)} == off
    assert all(answers[name].reason == "timeout" for name in off)
    assert subnet.now() - began <= 3 * 0.5 + 0.1  # all at once, not one after the other


def test_i2_never_more_in_flight_than_allowed():
    """I2: a sweep that was killed left children behind that hammered the SMAs."""
    topology, subnet, transactor = fabric(
        agent=Agent(latency_s=0.01), limits=Limits(window=6, per_device=2)
    )
    for node in topology.nodes.values():
        for _ in range(5):
            transactor.perf(node.lid, 0x12, 1, lambda _: None)
    transactor.run()
    assert transactor.statistics.most_outstanding == 6
    assert subnet.wire.most_at_one_device == 2


def test_smps_have_their_own_smaller_window():
    topology, _subnet, transactor = fabric(
        agent=Agent(latency_s=0.01), limits=Limits(window=50, vl15_window=3, per_device=1)
    )
    for node in topology.nodes.values():
        transactor.smp_lid(node.lid, mad_smp.NODE_INFO.attribute, 0, lambda _: None)
    transactor.run()
    assert transactor.statistics.most_outstanding == 3


def test_i10_a_lost_datagram_is_asked_again_but_not_for_ever():
    """I10: one `recv failed` lost a port; retries are bounded."""
    topology, subnet, transactor = fabric(agent=Agent(loss=0.3), limits=Limits(retries=8))
    answers = read_all(topology, transactor)
    assert not any(isinstance(a, Failure) for a in answers.values())
    assert transactor.statistics.retried > 0
    subnet.default_agent.loss = 1.0
    sent = transactor.statistics.sent
    got = ask(transactor, 1)
    transactor.run()
    assert got[0] == Failure("timeout", "no answer after 9 tries of 0.5 s")
    assert transactor.statistics.sent - sent == 9


def test_i10_no_retry_on_our_own_deadline():
    topology, subnet, transactor = fabric(agent=Agent(silent=True))
    got = [ask(transactor, node.lid) for node in topology.nodes.values()]
    sent_before = transactor.statistics.sent
    transactor.run(budget_s=0.2)
    assert {g[0].reason for g in got} == {"deadline"}
    assert transactor.statistics.retried == 0
    assert subnet.now() == pytest.approx(0.2, abs=0.01)
    # and it is as good as new afterwards
    subnet.default_agent.silent = False
    assert not any(isinstance(a, Failure) for a in read_all(topology, transactor).values())
    assert transactor.statistics.sent > sent_before


def test_cancel():
    _topology, _subnet, transactor = fabric(agent=Agent(silent=True))
    got = ask(transactor, 1)
    transactor.cancel()
    transactor.run()
    assert got[0].reason == "cancelled"


def test_unsupported_is_not_asked_again():
    _topology, _subnet, transactor = fabric(agent=Agent(unsupported=frozenset({0x1D})))
    got = ask(transactor, 1)
    transactor.run()
    assert got[0].permanent
    assert transactor.statistics.sent == 1


class Scripted:
    """A transport that gives back exactly what it was told to."""

    def __init__(self):
        self.sent, self.queue, self.time, self.refuse = [], [], 0.0, 0

    def send(self, packed, _lid, _timeout_s):
        if self.refuse:
            self.refuse -= 1
            raise Unavailable("port", "send", "no buffers")
        self.sent.append(packed)

    def receive(self, wait_s):
        if self.queue:
            return self.queue.pop(0)(self.sent[-1])
        self.time += wait_s
        return None

    def now(self):
        return self.time

    def close(self):
        pass


def answered(request, lid=9, status=0, **patch):
    head = bytearray(request)
    head[3] = 0x81
    for at, value in patch.get("bytes", {}).items():
        head[at] = value
    return Received(status, lid, bytes(head))


@pytest.mark.parametrize(
    "reply",
    [
        lambda r: answered(r, lid=10),  # another node
        lambda r: answered(r, bytes={17: 0x55}),  # another attribute
        lambda r: answered(r, bytes={1: 0x21}),  # another class
        lambda r: answered(r, bytes={23: 1}),  # another modifier
        lambda r: Received(0, 9, r),  # our own request, given back by an emulator
        lambda r: answered(r, bytes={15: 0xEE}),  # another transaction
    ],
)
def test_what_is_not_the_answer_leaves_the_request_open(reply):
    wire = Scripted()
    transactor = Transactor(wire, Limits(retries=0))
    got = ask(transactor, 9)
    wire.queue = [reply, answered]
    transactor.run()
    assert not isinstance(got[0], Failure)
    assert transactor.statistics.stray == 1


def test_kernel_s_transaction_half_is_ignored():
    wire = Scripted()
    transactor = Transactor(wire)
    got = ask(transactor, 9)
    wire.queue = [lambda r: answered(r, bytes={8: 0, 9: 0, 10: 0x12, 11: 0x34})]
    transactor.run()
    assert not isinstance(got[0], Failure)


def test_errno_of_the_kernel():
    wire = Scripted()
    transactor = Transactor(wire, Limits(retries=1))
    got = ask(transactor, 9)
    wire.queue = [lambda r: Received(errno.ETIMEDOUT, 9, r)] * 2
    transactor.run()
    assert got[0].reason == "timeout"
    assert len(wire.sent) == 2
    got = ask(transactor, 9)
    wire.queue = [lambda r: Received(errno.ENOMEM, 9, r)]
    transactor.run()
    assert got[0].reason == "send"


def test_a_port_that_takes_nothing_fails_the_request_only():
    wire = Scripted()
    transactor = Transactor(wire)
    wire.refuse = 1
    got = ask(transactor, 9)
    transactor.run()
    assert got[0] == Failure("send", "port: send: no buffers")
    again = ask(transactor, 9)
    wire.queue = [answered]
    transactor.run()
    assert not isinstance(again[0], Failure)


def test_directed_answer_must_come_along_the_same_route():
    wire = Scripted()
    transactor = Transactor(wire, Limits(retries=0))
    got = []
    transactor.smp_direct(b"\x01\x05", 0x11, 0, got.append)
    wire.queue = [lambda r: answered(r, lid=0, bytes={130: 6}), lambda r: answered(r, lid=0)]
    transactor.run()
    assert not isinstance(got[0], Failure)
    assert transactor.statistics.stray == 1

"""What the kernel counts in each scenario: symptoms, and that the counts agree with each other."""

import time
from dataclasses import dataclass, field

import pytest

from simlab.rxe.counters import Counters
from simlab.rxe.lab import Lab, RunReport
from simlab.rxe.machine import LabError
from simlab.rxe.scenario import Change, read_scenario, scenario_names

pytestmark = pytest.mark.lab_rxe

SECONDS = 6.0
FAULTY = [name for name in scenario_names() if read_scenario(name).truth.cure]


@dataclass
class Runs:
    """Each scenario is run once, broken and then cured, whichever test asks first."""

    lab: Lab
    done: dict[str, list[RunReport]] = field(default_factory=dict)

    def broken(self, name: str) -> RunReport:
        return self._both(name)[0]

    def cured(self, name: str) -> RunReport:
        return self._both(name)[1]

    def _both(self, name: str) -> list[RunReport]:
        if name not in self.done:
            scenario = read_scenario(name)
            self.lab.apply(scenario)
            reports = [self.lab.run_traffic(SECONDS)]
            for change in scenario.truth.cure:
                self.lab.change(change)
            if scenario.truth.cure:
                reports.append(self.lab.run_traffic(SECONDS))
            self.done[name] = reports
        return self.done[name]


@pytest.fixture(scope="session")
def runs(lab):
    return Runs(lab)


def share_marked(counted: Counters, host: str) -> float:
    row = counted.ip6[host]
    return row["Ip6InCEPkts"] / max(1, row["Ip6InReceives"])


@pytest.mark.parametrize("name", ["healthy", "busy"])
def test_nothing_is_wrong(runs, name):
    report = runs.broken(name)
    for flow in report.flows:
        assert flow.messages > 0
        assert (flow.errors, flow.reconnects) == (0, 0)
        # One spurious time-out of rxe's own is no fault of the fabric.
        assert report.retransmissions(flow.name) <= 2
    for host in report.counted.ip6:
        assert share_marked(report.counted, host) < 0.01
    assert sum(port.drops for port in report.counted.ports.values()) == 0


def test_busy_carries_more_than_healthy(runs):
    """Paced far below the line rate, against as much as goes."""
    healthy, busy = runs.broken("healthy"), runs.broken("busy")
    paced = read_scenario("healthy").traffic[0].rate_bps
    for flow in healthy.flows:
        assert flow.goodput_bps == pytest.approx(paced, rel=0.2)
    slowest = min(flow.goodput_bps for flow in busy.flows)
    assert slowest > 1.2 * max(flow.goodput_bps for flow in healthy.flows)


@pytest.mark.parametrize("name", scenario_names())
def test_marks_arrive_where_the_switch_made_them_and_nowhere_else(runs, name):
    counted = runs.broken(name).counted
    for host, row in counted.ip6.items():
        port = counted.ports[f"p{host[1:]}"]
        lossy = name == "lossy-link" and host == "h2"
        if not lossy:  # a marked packet may get lost in the cable
            assert row["Ip6InCEPkts"] == port.marked


@pytest.mark.parametrize("name", scenario_names())
def test_packets_agree_along_the_way(runs, name):
    """Counts of rdma, of the host's interface, and of the switch's port and queue."""
    counted = runs.broken(name).counted
    for host, netdev in counted.netdev.items():
        port, row = counted.ports[f"p{host[1:]}"], counted.rdma[host]
        row_ip = counted.ip6[host]
        lossy = name == "lossy-link" and host == "h2"
        blocked = name == "mtu-mismatch" and host == "h3"
        assert port.packets == port.tx_packets
        if not blocked:
            assert netdev["rx_packets"] == port.tx_packets
            assert netdev["tx_packets"] == port.rx_packets
            assert (row_ip["Ip6InReceives"] == port.tx_packets) != lossy
        # rxe leaves out what arrives for a QP that is gone or in error.
        assert row["rcvd_pkts"] <= netdev["rx_packets"]
        assert row["sent_pkts"] <= netdev["tx_packets"] + port.drops + netdev["tx_drops"] + 64


def test_incast_marks_and_loses_nothing(runs):
    report = runs.broken("incast-ecn")
    p4 = report.counted.ports["p4"]
    assert share_marked(report.counted, "h4") > 0.3
    assert p4.drops == 0
    assert max(port.marked for name, port in report.counted.ports.items() if name != "p4") < 50


def test_lossy_link_shows_at_both_ends_and_in_no_queue(runs):
    report = runs.broken("lossy-link")
    counted = report.counted
    assert counted.rdma["h2"]["out_of_seq_request"] >= 3
    assert counted.rdma["h1"]["rcvd_seq_err"] + counted.rdma["h1"]["completer_retry_err"] >= 3
    assert counted.rdma["h4"]["out_of_seq_request"] == 0
    assert sum(port.drops + port.rx_drops for port in counted.ports.values()) == 0
    # The cable eats 2 % of what the switch sent; the host's IP layer never sees it.
    lost = 1 - counted.ip6["h2"]["Ip6InReceives"] / counted.ports["p2"].tx_packets
    assert 0.002 < lost < 0.06


def test_no_ect_is_dropped_where_the_others_are_marked(runs):
    report = runs.broken("no-ect")
    p4 = report.counted.ports["p4"]
    assert p4.drops > 10
    assert p4.marked > 10
    assert report.counted.ip6["h4"]["Ip6InNoECTPkts"] > 0
    ect = report.flow("h1-h4").goodput_bps
    assert report.flow("h3-h4").goodput_bps < ect / 2


def test_rnr_is_told_and_heard(runs):
    rdma = runs.broken("rnr").counted.rdma
    told, heard = rdma["h2"]["send_rnr_err"], rdma["h1"]["rcvd_rnr_err"]
    assert min(told, heard) > 5
    assert abs(told - heard) <= 2  # the last one may still be on its way when the QPs go
    assert rdma["h4"]["send_rnr_err"] == rdma["h3"]["rcvd_rnr_err"] == 0


def test_mtu_mismatch_lets_nothing_through(runs):
    report = runs.broken("mtu-mismatch")
    assert report.flow("h1-h3").messages == 0
    assert report.flow("h2-h4").messages > 0
    assert report.counted.rdma["h1"]["completer_retry_err"] > 0
    assert report.counted.ports["p3"].mtu_bytes < report.counted.ports["p4"].mtu_bytes


def test_slow_link_is_as_slow_as_it_is_set(runs):
    report = runs.broken("slow-link")
    rate = read_scenario("slow-link").link("h3").rate_bps
    assert report.counted.ports["p3"].rate_bps == rate
    assert 0.5 * rate < report.flow("h1-h3").goodput_bps < rate


@pytest.mark.parametrize("name", FAULTY)
def test_the_cure_helps_the_harmed_flows(runs, name):
    broken, cured = runs.broken(name), runs.cured(name)
    for flow in read_scenario(name).truth.harmed:
        assert cured.flow(flow).goodput_bps >= 1.5 * broken.flow(flow).goodput_bps
        assert cured.flow(flow).messages > 0
        assert cured.retransmissions(flow) <= broken.retransmissions(flow)


def test_a_wrong_cure_does_not_help(runs, lab):
    """The lab must not reward just any change: more rate does nothing for a lossy cable."""
    broken = runs.broken("lossy-link")
    lab.apply(read_scenario("lossy-link"))
    lab.change(Change("port.kmin_bytes", "p2", 60_000))
    still = lab.run_traffic(SECONDS)
    assert still.flow("h1-h2").goodput_bps < 1.5 * max(broken.flow("h1-h2").goodput_bps, 1e5)
    assert still.counted.rdma["h2"]["out_of_seq_request"] >= 3


def test_commands_run_beside_the_traffic_and_can_be_killed(lab):
    log = lab.start_command("sleeper", ["/bin/sh", "-c", "echo up; exec sleep 600"])
    until = time.monotonic() + 20
    while "up" not in log.read_text() and time.monotonic() < until:
        time.sleep(0.2)
    assert lab.commands()["sleeper"] is None
    with pytest.raises(LabError, match="already runs"):
        lab.start_command("sleeper", ["/bin/true"])
    assert lab.stop_command("sleeper", 9) == -9
    on_switch = lab.start_command("where", ["ip", "-br", "link"], on_switch=True)
    until = time.monotonic() + 20
    while lab.commands()["where"] is None and time.monotonic() < until:
        time.sleep(0.2)
    assert "p1@" in on_switch.read_text()
    assert "h1@" not in on_switch.read_text()


def test_a_failing_script_names_itself(lab):
    with pytest.raises(LabError, match="cannot-be-there"):
        lab.machine.sh("cannot-be-there")

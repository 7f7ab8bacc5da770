"""High-rate mode: the arithmetic on written samples, refusals, and files that come and go."""

import os
from array import array

import pytest

from collectors.host.burst import BurstCollector, parse_options, summarise
from collectors.model.errors import ConfigInvalid
from simlab.hosts.tree import FakeDevice, FakeNetdev, FakePort, write_device, write_netdev

MS = 1_000_000


def samples(*values, step_ms=10):
    return array("Q", (n * step_ms * MS for n in range(len(values)))), array("Q", values)


def test_a_microburst_that_an_average_hides():
    quiet, burst = [0] * 99, 12_500_000  # 10 Gb/s for 10 ms in a second
    values = [0]
    for growth in [*quiet[:50], burst, *quiet[50:]]:
        values.append(values[-1] + growth)
    found = summarise(*samples(*values), line_bps=10e9, busy_ratio=0.9)
    assert found.max_bps == 10e9
    assert found.busy_ratio == 0.01
    assert found.pause_max_s == 0  # silence before and after the only burst is no pause


def test_the_longest_pause_lies_between_traffic():
    found = summarise(*samples(0, 0, 10, 10, 10, 10, 20, 20), line_bps=0, busy_ratio=0.9)
    assert found.pause_max_s == pytest.approx(0.03)


def test_a_reset_is_left_out():
    found = summarise(*samples(1000, 2000, 5, 15), line_bps=0, busy_ratio=0.9)
    assert found.max_bps == pytest.approx(1000 * 8 / 0.01)
    assert summarise(*samples(5), line_bps=0, busy_ratio=0.9) is None


def build(host, tmp_path, driver="mlx5_core", **options):
    port = FakePort(gids={0: ("fe80::1", "RoCE v2", "eth0")}, hw_counters={"sent_pkts": 5})
    device = FakeDevice("dev0", driver, ports=(port,), files={} if driver else {"parent": "eth0"})
    write_device(tmp_path, device)
    write_netdev(tmp_path, FakeNetdev("eth0", statistics={"rx_bytes": 0, "tx_bytes": 0}))
    collector = BurstCollector(host(options=options), lambda: collector.now)
    collector.now = 0
    collector._run = lambda: None  # the test samples by hand
    return collector, tmp_path / "sys/class/net/eth0/statistics"


def test_samples_become_a_summary(host, tmp_path, clock):
    collector, home = build(host, tmp_path)
    collector.read(clock)
    for n in range(1, 6):
        (home / "rx_bytes").write_text(f"{1000 * n}\n")
        collector.now = n * 10 * MS
        collector.sample()
    (reading,) = collector.read(clock).readings
    got = {column.metric: value for column, value in reading.values.items()}
    assert got["fabric_burst_rx_max_bps"] == pytest.approx(800_000)
    assert got["fabric_burst_tx_max_bps"] == 0
    assert got["fabric_burst_rx_busy_ratio"] == 0
    collector.close()


def test_a_file_that_goes_and_comes_is_opened_anew(host, tmp_path, clock):
    collector, home = build(host, tmp_path, netdev=["statistics/rx_bytes"])
    collector.read(clock)
    (home / "rx_bytes").unlink()
    collector.sample()
    track = next(iter(collector._tracks.values()))
    track.close()
    collector.sample()
    assert track.handle is None
    assert "No such file" in track.last_error
    (home / "rx_bytes").write_text("7\n")
    collector.sample()
    assert track.values[-1] == 7
    collector.close()
    assert track.handle is None


def test_a_pipe_among_the_counters_costs_only_itself(host, tmp_path, clock):
    collector, home = build(host, tmp_path)
    (home / "rx_bytes").unlink()
    os.mkfifo(home / "rx_bytes")
    collector.read(clock)
    for n in range(1, 4):
        (home / "tx_bytes").write_text(f"{1000 * n}\n")
        collector.now = n * 10 * MS
        collector.sample()
    result = collector.read(clock)
    metrics = {column.metric for reading in result.readings for column in reading.values}
    assert "fabric_burst_tx_max_bps" in metrics
    assert "fabric_burst_rx_max_bps" not in metrics
    assert [gap.what for gap in result.gaps] == ["statistics/rx_bytes"]


def test_what_costs_the_device_is_refused(host, tmp_path, clock):
    collector, _ = build(host, tmp_path, hw_counters=["np_cnp_sent"], netdev=[])
    (gap,) = collector.read(clock).gaps
    assert (gap.reason, "command" in gap.detail) == ("refused", True)


def test_what_counts_in_memory_is_not(host, tmp_path, clock):
    collector, _ = build(host, tmp_path, "", hw_counters=["sent_pkts"], netdev=[])
    assert not collector.read(clock).gaps
    for _ in range(3):
        collector.now += 10 * MS
        collector.sample()
    (reading,) = collector.read(clock).readings
    assert [c.metric for c in reading.values] == ["fabric_burst_events_max"]


@pytest.mark.parametrize(
    "options",
    [{"interval_ms": 1}, {"interval_ms": 500}, {"interval_ms": "x"}, {"busy_ratio": 2},
     {"netdev": ["speed"]}, {"netdev": "statistics/rx_bytes"}, {"colour": 1}],
)  # fmt: skip
def test_options_that_are_wrong(options):
    with pytest.raises(ConfigInvalid, match="burst: option"):
        parse_options(options)

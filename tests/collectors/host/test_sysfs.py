"""RDMA sysfs: rows S1-S16 and U1-U9 of what users met on real machines, by their ids."""

import errno
import os
import time

import pytest

from collectors.host.hw_counters import HwCounterCollector
from collectors.host.kernel_file import Unreadable, parse_count
from collectors.host.netdev import NetdevCollector
from collectors.host.registry import HOST_COLLECTORS
from collectors.host.sysfs import SYSFS, SYSFS_ERRORS, SYSFS_REST, parse_enum, parse_rate
from collectors.model.catalogue.registry import CATALOGUE
from collectors.model.counters import delta
from simlab.hosts.tree import FakeDevice, FakeNetdev, FakePort, write_device, write_netdev
from tests.collectors.host.sysfs_hosts import (
    PMA,
    equipped,
    mlx5,
    read,
    reasons,
    values,
)


def test_s1_one_file_with_einval_costs_only_itself(host, tmp_path, clock, faulty):
    write_device(tmp_path, mlx5())
    faulty.errors["VL15_dropped"] = errno.EINVAL
    result = read(SYSFS_REST, host(), clock)
    assert reasons(result) == {"counters/VL15_dropped": "EINVAL"}
    assert values(read(SYSFS, host(), clock))["node_infiniband_port_packets_received_total"] == 8


def test_s2_each_bad_file_is_a_gap_with_its_reason(host, tmp_path, clock, faulty):
    bad = {"link_error_recovery": "N/A", "port_rcv_errors": "-4", "port_xmit_discards": "12 apples",
           "local_link_integrity_errors": "", "symbol_error": 5}  # fmt: skip
    home = write_device(tmp_path, mlx5(counters=bad))
    (home / "ports/1/counters/excessive_buffer_overrun_errors").mkdir()
    faulty.errors["port_rcv_remote_physical_errors"] = errno.EACCES
    (home / "ports/1/counters/port_rcv_remote_physical_errors").write_text("1")
    (home / "ports/1/counters/link_downed").write_text("1")
    faulty.errors["link_downed"] = errno.EIO  # one that nobody foresaw
    result = read(SYSFS_ERRORS, host(), clock)
    assert reasons(result) == {
        "counters/link_error_recovery": "not available",
        "counters/port_rcv_errors": "negative",
        "counters/port_xmit_discards": "not numeric",
        "counters/local_link_integrity_errors": "empty",
        "counters/excessive_buffer_overrun_errors": "EISDIR",
        "counters/port_rcv_remote_physical_errors": "EACCES",
        "counters/link_downed": "EIO",
    }
    assert values(result)["node_infiniband_symbol_error_total"] == 5


def test_s2_files_that_would_wait_cost_only_themselves(host, tmp_path, clock):
    """A pipe, with a writer that says nothing and without one, in the middle of the counters."""
    home = write_device(tmp_path, mlx5()) / "ports/1"
    pipes = [home / "counters/port_rcv_data", home / "counters/port_xmit_data", home / "state"]
    for path in pipes:
        path.unlink()
        os.mkfifo(path)
    writer = os.open(pipes[0], os.O_RDWR)
    began = time.monotonic()
    try:
        result = read(SYSFS, host(), clock)
    finally:
        os.close(writer)
    assert time.monotonic() - began < 5
    assert reasons(result) == {
        "counters/port_rcv_data": "EAGAIN",
        "counters/port_xmit_data": "empty",
        "state": "empty",
    }
    got = values(result)
    assert got["node_infiniband_port_packets_received_total"] == 8
    assert got["node_infiniband_physical_state_id"] == 5


def test_s3_no_pma_is_absent_not_zero(host, tmp_path, clock):
    write_device(tmp_path, mlx5(counters=dict.fromkeys(PMA, "N/A (no PMA)")))
    result = read(SYSFS, host(), clock)
    assert set(values(result)) == {
        "node_infiniband_state_id",
        "node_infiniband_physical_state_id",
    }
    assert set(reasons(result).values()) == {"not available"}


def test_s4_what_keeps_failing_is_left_alone_for_a_while(host, tmp_path, clock, faulty):
    write_device(tmp_path, mlx5())
    faulty.errors["port_xmit_wait"] = errno.EINVAL
    collector = SYSFS.build(host())

    def reads_of_it() -> int:
        faulty.touched.clear()
        result = collector.read(clock)
        assert reasons(result)["counters/port_xmit_wait"] == "EINVAL"  # and says so each time
        clock.turn(5)
        return sum(path.endswith("port_xmit_wait") for path in faulty.touched)

    assert [reads_of_it() for _ in range(5)] == [1, 1, 1, 0, 0]
    clock.turn(600)
    assert reads_of_it() == 1


def test_s5_an_excluded_device_is_not_touched(host, tmp_path, clock, faulty):
    for name in ("mlx5_1", "mlx5_12", "mlx5_13"):
        write_device(tmp_path, mlx5(name))
    write_netdev(tmp_path, FakeNetdev("eth0"))
    context = equipped(host, exclude=("mlx5_(12|13)",))
    for row in HOST_COLLECTORS:
        if row.on:
            row.build(context).read(clock)
    assert any("mlx5_1/" in path for path in faulty.touched)
    assert not [path for path in faulty.touched if "mlx5_12" in path or "mlx5_13" in path]


def test_s6_omni_path_lacks_hca_type_and_names_hundreds_of_counters(host, tmp_path, clock):
    odd = {f"RcvHdrOvr{n}": n for n in range(300)} | {"SwLinkUp,32": 1}
    write_device(tmp_path, FakeDevice("hfi1_0", "hfi1", ports=(FakePort(hw_counters=odd),)))
    result = HwCounterCollector(host()).read(clock)
    assert not result.readings
    (gap,) = result.gaps
    assert (gap.reason, len(gap.detail) <= 200) == ("not in the catalogue", True)
    facts = read(SYSFS, host(), clock).facts
    names = {attribute.name: attribute.value for attribute in facts.attributes}
    assert names["driver"] == "hfi1"
    assert "hca_type" not in names


def test_s7_s8_a_device_without_counters_and_renamed_devices(host, tmp_path, clock):
    write_device(tmp_path, mlx5("rocep23s0f0"))
    bare = FakeDevice("bnxt_re0", "bnxt_en", "0000:18:00.0", "0000:0000:0000:0000")
    write_device(tmp_path, bare)
    result = read(SYSFS, host(), clock)
    assert not result.gaps
    drivers = {
        a.entity.key: a.value
        for a in result.facts.attributes
        if a.name == "driver" and str(a.entity).startswith("device")
    }
    # No GUID: the PCI address is the key.
    assert drivers == {"b83fd20300123400": "mlx5", "0000:18:00.0": "bnxt_re"}
    assert values(result)["node_infiniband_port_packets_received_total"] == 8


def test_s9_efa_bytes_are_bytes_and_link_layer_is_unknown(host, tmp_path, clock):
    port = FakePort(link_layer="Unknown", hw_counters={"tx_bytes": 100, "rx_bytes": 50})
    write_device(tmp_path, FakeDevice("rdmap0s0", "efa", ports=(port,)))
    got = values(HwCounterCollector(host()).read(clock))
    assert got["node_infiniband_port_data_transmitted_bytes_total"] == 100
    attributes = read(SYSFS, host(), clock).facts.attributes
    assert [a.value for a in attributes if a.name == "link_layer"] == ["Unknown"]


@pytest.mark.parametrize(
    ("text", "bytes_per_second"),
    [
        ("0 GB/sec", 0),
        ("100 Gb/sec (4X EDR)", 12_500_000_000),
        ("2.5 Gb/sec (1X SDR)", 312_500_000),
        ("400 Gb/sec (4X NDR)", 50_000_000_000),
    ],
)
def test_s10_rates(text, bytes_per_second):
    assert parse_rate(text) == bytes_per_second


@pytest.mark.parametrize("text", ["", "Gb/sec", "x.5 Gb/sec", "-1 Gb/sec", "1.x Gb/sec"])
def test_s10_rates_that_are_none(text):
    with pytest.raises(Unreadable):
        parse_rate(text)


def test_s11_no_rdma_is_empty_and_silent(host, clock):
    for row in (row for row in HOST_COLLECTORS if row.on):
        result = row.build(host()).read(clock)
        assert (result.readings, result.gaps) == ((), ())


def test_s12_a_dangling_link_says_what_to_mount(host, tmp_path, clock):
    folder = tmp_path / "sys/class/infiniband"
    folder.mkdir(parents=True)
    (folder / "mlx5_0").symlink_to("../../devices/pci0000:00/0000:17:00.0/infiniband/mlx5_0")
    (gap,) = read(SYSFS, host(), clock).gaps
    assert "mount the whole /sys" in gap.detail


def test_s13_lifespan_is_ten_milliseconds(host, tmp_path, clock):
    write_device(tmp_path, mlx5(hw_counters={"lifespan": 10, "np_cnp_sent": 4}))
    got = values(HwCounterCollector(host()).read(clock))
    assert got["node_infiniband_lifespan_seconds"] == 0.01
    assert CATALOGUE["node_infiniband_lifespan_seconds"].kind == "gauge"


def test_s15_a_netdev_that_vanishes_and_a_speed_that_is_unknown(host, tmp_path, clock, faulty):
    write_device(tmp_path, mlx5())
    write_netdev(tmp_path, FakeNetdev("eth0", statistics={"rx_bytes": 5}, files={"speed": "-1"}))
    result = NetdevCollector(host()).read(clock)
    got = values(result, "netdev")
    assert got["fabric_interface_rx_bytes_total"] == 5
    assert "fabric_interface_speed_bps" not in got
    faulty.errors.update({"net/eth0/speed": errno.EINVAL, "eth0/statistics/rx_bytes": errno.ENODEV})
    again = NetdevCollector(host()).read(clock)
    assert reasons(again)["statistics/rx_bytes"] == "ENODEV"
    assert "speed" not in reasons(again)
    faulty.errors["net/eth0/ifindex"] = errno.ENOENT
    gone = NetdevCollector(host()).read(clock)
    assert (gone.readings, reasons(gone)) == ((), {"interface": "gone"})


def test_s16_one_transient_error_is_not_a_new_device(host, tmp_path, clock, faulty):
    write_device(tmp_path, mlx5())
    collector = SYSFS.build(host())
    before = collector.read(clock).readings[0]
    faulty.errors["port_rcv_data"] = errno.EIO
    clock.turn(5)
    during = collector.read(clock).readings[0]
    faulty.errors.clear()
    clock.turn(5)
    after = collector.read(clock).readings[0]
    assert before.incarnation == during.incarnation == after.incarnation
    assert len(during.values) == len(before.values) - 1 == len(after.values) - 1


def test_u1_a_word_is_four_bytes_whatever_the_lanes(host, tmp_path, clock):
    for rate in ("25 Gb/sec (1X EDR)", "100 Gb/sec (2X HDR)", "400 Gb/sec (4X NDR)"):
        write_device(tmp_path, mlx5(rate=rate))
        got = values(read(SYSFS, host(), clock))
        assert got["node_infiniband_port_data_transmitted_bytes_total"] == 400


def test_u2_pma_counters_saturate_at_their_width(host, tmp_path, clock):
    write_device(tmp_path, mlx5(counters={"link_downed": 255, "symbol_error": 65535,
                                          "local_link_integrity_errors": 15}))  # fmt: skip
    (reading,) = read(SYSFS_ERRORS, host(), clock).readings
    pegged = {c.metric for c, v in reading.values.items() if delta(c, v, v).event == "saturated"}
    assert pegged == {
        "node_infiniband_link_downed_total",
        "node_infiniband_symbol_error_total",
        "node_infiniband_local_link_integrity_errors_total",
    }


def test_u3_nothing_is_ever_opened_for_writing(host, tmp_path, clock, monkeypatch, faulty):
    write_device(tmp_path, mlx5(hw_counters={"np_cnp_sent": 1}))
    write_netdev(tmp_path, FakeNetdev("eth0"))
    flags_seen = []
    real = os.open
    monkeypatch.setattr(
        os, "open", lambda path, flags, *a: flags_seen.append(flags) or real(path, flags, *a)
    )
    for row in HOST_COLLECTORS:
        if row.on:
            row.build(equipped(host)).read(clock)
    assert len(flags_seen) > 20
    assert not [flags for flags in flags_seen if flags & (os.O_WRONLY | os.O_RDWR)]


def test_u4_u5_u8_reset_wrap_and_real_time(host, tmp_path, clock):
    write_device(tmp_path, mlx5(hw_counters={"out_of_sequence": 100, "np_cnp_sent": 100}))
    (reading,) = HwCounterCollector(host()).read(clock).readings
    by_metric = {column.metric: column for column in reading.values}
    q_counter = by_metric["node_infiniband_out_of_sequence_packets_received_total"]
    congestion = by_metric["node_infiniband_np_cnp_packets_sent_total"]
    assert (q_counter.width, congestion.width) == (32, 64)
    assert delta(congestion, 100, 5) == delta(congestion, 0, 5, same_incarnation=False)
    assert delta(congestion, 100, 5).event == "reset"
    assert (delta(q_counter, 2**32 - 10, 5).value, delta(q_counter, 2**32 - 10, 5).event) == (
        15,
        "wrap",
    )


@pytest.mark.parametrize(("text", "number"), [("3: Disabled", 3), ("9: SomethingNew", 9), ("5", 5)])
def test_u6_an_unknown_state_keeps_its_number(text, number):
    assert parse_enum(text) == number


def test_u7_a_driver_reload_is_a_new_incarnation(host, tmp_path, clock, faulty):
    home = write_device(tmp_path, mlx5())
    collector = SYSFS.build(host())
    before = collector.read(clock).readings[0]
    faulty.errors["port_rcv_data"] = errno.ENODEV
    faulty.errors["ports/1/counters"] = errno.ENODEV
    clock.turn(5)
    assert reasons(collector.read(clock)) == {"counters/port_rcv_data": "ENODEV"}
    clock.turn(30)
    assert reasons(collector.read(clock)) == {"counters": "ENODEV"}
    faulty.errors.clear()
    import shutil

    keep = home.parent / "reloaded"
    shutil.copytree(home, keep, symlinks=True)
    shutil.rmtree(home)
    keep.rename(home)
    clock.turn(5)
    after = collector.read(clock).readings[0]
    assert after.entity == before.entity
    assert after.incarnation != before.incarnation


def test_u11_negative_text_is_a_gap():
    with pytest.raises(Unreadable, match="negative"):
        parse_count(b"-4272\n")


def test_u13_integers_stay_exact():
    assert parse_count(b"9007199254740993\n") == 2**53 + 1
    assert parse_count(b"18446744073709551615\n") == 2**64 - 1
    with pytest.raises(Unreadable, match="out of range"):
        parse_count(b"18446744073709551616\n")
    for odd in (b"1_000", b"+5", b"0x10", b"\xc2\xb2", b"1e3", b"nan"):
        with pytest.raises(Unreadable):
            parse_count(odd)

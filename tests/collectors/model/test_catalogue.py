"""The catalogue obeys its own rules."""

import re
from collections import Counter

import pytest

from collectors.model.catalogue.own import OWN
from collectors.model.catalogue.registry import CATALOGUE, columns

ENDINGS = {
    "bytes": "_bytes", "seconds": "_seconds", "bytes_per_second": "_bytes_per_second",
    "bps": "_bps", "ratio": "_ratio", "celsius": "_celsius", "watts": "_watts",
}  # fmt: skip


@pytest.mark.parametrize("metric", CATALOGUE.values(), ids=lambda metric: metric.name)
def test_row(metric):
    assert re.fullmatch(r"(node_infiniband|fabric)_[a-z0-9_]+", metric.name)
    assert metric.meaning.endswith(".")
    assert metric.on
    counted = metric.name.endswith("_total")
    assert counted == (metric.kind == "counter")
    ending = ENDINGS.get(metric.unit)
    if ending:
        assert metric.name.removesuffix("_total").endswith(ending)


@pytest.mark.parametrize("metric", OWN.values(), ids=lambda metric: metric.name)
def test_own_row(metric):
    assert re.fullmatch(r"(fabric|node_infiniband)_[a-z0-9_]+", metric.name)
    assert metric.meaning.endswith(".")
    assert metric.kind != "histogram" or metric.name.endswith("_seconds")
    assert metric.name not in CATALOGUE


def test_one_source_name_means_one_thing():
    seen = Counter(
        (source.via, source.driver, source.key, kind)
        for metric in CATALOGUE.values()
        for source in metric.sources
        for kind in metric.on
    )
    assert [key for key, times in seen.items() if times > 1] == []


def test_a_driver_sees_its_own_names_only():
    rxe, mlx5 = columns("hw_counters", "rxe"), columns("hw_counters", "mlx5")
    assert "rcvd_seq_err" in rxe
    assert "rcvd_seq_err" not in mlx5
    assert mlx5["out_of_sequence"].width == 32
    assert columns("sysfs_counters")["port_rcv_data"].scale == 4
    assert columns("sysfs_counters")["symbol_error"].overflow == "saturates"

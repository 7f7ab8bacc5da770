"""Verbs inventory: what it adds, and a clear reason for each way in which it cannot be had."""

import os
import sys

import pytest

from collectors.host.verbs import Pyverbs, VerbsCollector, VerbsDevice, VerbsPort
from collectors.model.errors import NotSupported, Unavailable
from simlab.hosts.tree import FakeDevice, write_device


class FakeVerbs:
    def __init__(self, *names: str) -> None:
        self._names = names

    def version(self) -> str:
        return "44.0"

    def names(self) -> tuple[str, ...]:
        return self._names

    def query(self, name: str) -> VerbsDevice:
        if name == "mlx5_2":
            raise Unavailable(name, "open device", "Failed to open device")
        return VerbsDevice(
            "28", 1000, 100, (VerbsPort(1, 4096, 4096, 0, ((3, "::1", "RoCE v2"),)),)
        )


def devices(tmp_path, count: int):
    for index in range(count):
        write_device(
            tmp_path, FakeDevice(f"mlx5_{index}", node_guid=f"0000:0000:0000:000{index + 1}")
        )
        node = tmp_path / f"sys/class/infiniband_verbs/uverbs{index}"
        node.mkdir(parents=True)
        (node / "ibdev").write_text(f"mlx5_{index}\n")


def test_s14_a_hidden_device_names_its_node(host, tmp_path, clock):
    devices(tmp_path, 4)
    result = VerbsCollector(host(), FakeVerbs("mlx5_0", "mlx5_2")).read(clock)
    assert {(gap.subject[-1], gap.reason) for gap in result.gaps} == {
        ("2", "hidden"),
        ("4", "hidden"),
        ("3", "not opened"),
    }
    assert any("/dev/infiniband/uverbs1" in gap.detail for gap in result.gaps)
    assert [(s.name, s.value) for s in result.facts.settings] == [("rdma_mtu_bytes", 4096)]
    assert [g.gid for g in result.facts.gids] == ["::1"]


def test_no_uverbs_module_says_so(host, tmp_path, clock):
    write_device(tmp_path, FakeDevice("mlx5_0"))
    (gap,) = VerbsCollector(host(), FakeVerbs()).read(clock).gaps
    assert "ib_uverbs" in gap.detail


def test_no_pyverbs_names_the_package(host, tmp_path, clock, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyverbs", None)
    monkeypatch.setitem(sys.modules, "pyverbs.device", None)
    write_device(tmp_path, FakeDevice("mlx5_0"))
    with pytest.raises(NotSupported, match="python3-pyverbs"):
        VerbsCollector(host()).read(clock)


def test_the_real_pyverbs_without_rdma_is_one_clear_error():
    pytest.importorskip("pyverbs.device", reason="python3-pyverbs is not installed")
    if os.path.isdir("/sys/class/infiniband"):
        assert isinstance(Pyverbs().names(), tuple)
    else:
        with pytest.raises(Unavailable, match="pyverbs: list devices:"):
            Pyverbs().names()

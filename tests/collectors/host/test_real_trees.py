"""Trees of real machines, where they are at hand: all is read, and every name is known."""

import json
import os
from pathlib import Path

import pytest

from collectors.host.registry import HOST_COLLECTORS
from collectors.model.catalogue.ignored import IGNORED
from collectors.model.catalogue.registry import columns

SHARED = Path(__file__).resolve().parents[4] / "shared/fixtures"
GPUD = SHARED / (
    "leptonai__gpud/components/accelerator/nvidia/infiniband/class/testdata/"
    "sys-class-infiniband-h100.0"
)
PROCFS = SHARED / "prometheus__procfs/testdata/fixtures.ttar"
ROCM = SHARED / "ROCm__device-metrics-exporter/docker/mockdata/nic"


def needs(path: Path):
    return pytest.mark.skipif(not path.exists(), reason=f"no {path.name} of real machines here")


def unpack(archive: Path, root: Path, only: str) -> None:
    """Unpack the members of a ttar archive whose path contains a word."""
    lines = iter(archive.read_text(encoding="utf-8", errors="replace").splitlines())
    path = None
    for line in lines:
        word, _, rest = line.partition(": ")
        if word == "Path":
            path = root / rest.removeprefix("fixtures/")
            wanted = only in rest
        elif word == "Directory" and only in rest:
            (root / rest.removeprefix("fixtures/")).mkdir(parents=True, exist_ok=True)
        elif word == "SymlinkTo" and path is not None and wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(rest, path)
        elif word == "Lines" and path is not None:
            text = [next(lines) for _ in range(int(rest))]
            if wanted:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("\n".join(text).replace("NULLBYTE", "") + "\n")


def read_all(context, clock):
    readings, gaps = [], []
    for row in HOST_COLLECTORS:
        if row.on:
            result = row.build(context).read(clock)
            readings += result.readings
            gaps += result.gaps
    unknown = [gap for gap in gaps if gap.reason == "not in the catalogue"]
    print("names not in the catalogue:", [gap.detail or gap.what for gap in unknown])
    return readings, gaps, unknown


@needs(GPUD)
def test_an_h100_host(host, tmp_path, clock):
    (tmp_path / "sys/class").mkdir(parents=True)
    (tmp_path / "sys/class/infiniband").symlink_to(GPUD)
    readings, _, unknown = read_all(host(), clock)
    assert unknown == []
    by_port = {}
    for reading in readings:
        by_port.setdefault(str(reading.entity), set()).update(c.metric for c in reading.values)
    assert len(by_port["port/n1/mlx5_0/1"]) > 45


@needs(PROCFS)
def test_the_devices_of_procfs(host, tmp_path, clock):
    unpack(PROCFS, tmp_path, "sys/class/infiniband")
    readings, gaps, unknown = read_all(host(), clock)
    assert {reading.entity.device.name for reading in readings} >= {"mlx4_0", "hfi1_0"}
    assert unknown == []
    assert gaps == []
    assert sum(len(reading.values) for reading in readings) > 90


@needs(ROCM)
def test_every_counter_of_ionic_is_known():
    known = set(columns("hw_counters", "ionic")) | IGNORED
    names = {
        name
        for entry in json.loads((ROCM / "rdma_statistic_j.txt").read_text())
        for name in entry
        if name not in ("ifname", "port")
    }
    assert len(names) > 40
    assert names - known == set()

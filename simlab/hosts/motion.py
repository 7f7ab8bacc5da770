"""Counters of fake hosts that move by a script: counter -> how much it grows in a second."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from simlab.hosts.profile import FakeHost
from simlab.hosts.tree import FakeDevice, FakeNetdev, FakePort

# A busy 400 Gb/s port of a training job with a little congestion.
BUSY: Final[Mapping[str, float]] = MappingProxyType(
    {
        "port_rcv_data": 10e9,
        "port_xmit_data": 10e9,
        "port_rcv_packets": 10e6,
        "port_xmit_packets": 10e6,
        "rx_write_requests": 2e4,
        "np_ecn_marked_roce_packets": 500,
        "np_cnp_sent": 400,
        "rp_cnp_handled": 380,
        "rx_bytes": 40e9,
        "tx_bytes": 40e9,
        "rx_packets": 10e6,
        "tx_packets": 10e6,
        "rx_prio3_bytes": 40e9,
        "tx_prio3_bytes": 40e9,
        "rx_prio3_pause": 20,
        "rx_prio3_pause_duration": 900,
        "sent_pkts": 1e5,
        "rcvd_pkts": 1e5,
    }
)


def _grown(
    counters: Mapping[str, int | str], rates: Mapping[str, float], seconds: float, jitter: float
) -> dict[str, int | str]:
    return {
        name: value + round(rates[name] * seconds * jitter)
        if name in rates and isinstance(value, int)
        else value
        for name, value in counters.items()
    }


def moved(
    host: FakeHost, seconds: float, rates: Mapping[str, float] = BUSY, seed: int = 0
) -> FakeHost:
    """Return the host some seconds later; the seed varies each counter by a few percent."""
    chance = random.Random(seed)

    def port(old: FakePort) -> FakePort:
        jitter = chance.uniform(0.95, 1.05)
        pma = None if old.counters is None else _grown(old.counters, rates, seconds, jitter)
        hw = old.hw_counters
        grown = None if hw is None else _grown(hw, rates, seconds, jitter)
        return replace(old, counters=pma, hw_counters=grown)

    devices = tuple(replace(d, ports=tuple(port(p) for p in d.ports)) for d in host.devices)
    netdevs = tuple(
        replace(n, statistics=_grown(n.statistics, rates, seconds, 1.0)) for n in host.netdevs
    )
    tables = {
        name: tuple(
            (key, value + round(rates[key] * seconds) if key in rates else value)
            for key, value in table
        )
        for name, table in host.tables.items()
    }
    return replace(host, devices=devices, netdevs=netdevs, tables=tables)


def _home(root: Path, device: FakeDevice) -> Path:
    return root / "sys/class/infiniband" / device.name


def rewrite(before: FakeHost, after: FakeHost, root: Path) -> int:
    """Write the counter files that differ; return how many. Each file is replaced in place."""
    written = 0
    for old, new in zip(before.devices, after.devices, strict=True):
        for port_before, port in zip(old.ports, new.ports, strict=True):
            home = _home(root, new) / "ports" / str(port.number)
            for group in ("counters", "hw_counters"):
                was, now = getattr(port_before, group), getattr(port, group)
                written += _files(was or {}, now or {}, home / group)
    for was_netdev, netdev in zip(before.netdevs, after.netdevs, strict=True):
        home = _netdev_home(root, netdev)
        written += _files(was_netdev.statistics, netdev.statistics, home / "statistics")
    return written


def _netdev_home(root: Path, netdev: FakeNetdev) -> Path:
    return root / "sys/class/net" / netdev.name


def _files(before: Mapping[str, int | str], after: Mapping[str, int | str], folder: Path) -> int:
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    for name, value in changed.items():
        # In place and without truncating first: a reader must never see an empty counter.
        with (folder / name).open("r+b") as file:
            file.write(f"{value}\n".encode())
    return len(changed)

"""Hosts with NICs of one driver: what each file and each netlink reply of them says.

Counters are those of the catalogue for the driver, so a host here has every counter that the
product knows. A fault changes exactly what it names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from collectors.model.catalogue.registry import columns
from collectors.model.dcqcn import FIRMWARE_KNOBS
from simlab.hosts.responder import FakeDcb
from simlab.hosts.tree import (
    FakeDevice,
    FakeNetdev,
    FakePort,
    write_device,
    write_netdev,
)

# RDMA driver -> (PCI driver, network driver as ethtool names it, its name in the catalogue).
DRIVERS: Final[Mapping[str, tuple[str, str, str]]] = MappingProxyType(
    {
        "mlx5": ("mlx5_core", "mlx5_core", "mlx5"),
        "bnxt_re": ("bnxt_en", "bnxt_en", "bnxt_en"),
        "irdma": ("ice", "ice", "ice"),
        "ionic": ("ionic", "ionic", "ionic"),
        "hns": ("hns3", "hns3", "hns3"),
        "erdma": ("erdma", "erdma", "erdma"),
        "efa": ("efa", "efa", "efa"),
        "rxe": ("", "veth", "veth"),
        "siw": ("", "veth", "veth"),
    }
)
_WITH_PMA: Final = frozenset({"mlx5"})
# Counters that have no file until somebody turns them on (`rdma statistic set optional-counters`).
_OPTIONAL: Final = frozenset(
    {
        "cc_rx_ce_pkts", "cc_rx_cnp_pkts", "cc_tx_cnp_pkts",
        "rdma_tx_packets", "rdma_tx_bytes", "rdma_rx_packets", "rdma_rx_bytes",
    }
)  # fmt: skip
LIFESPAN_MS: Final = 10  # hw_counters/lifespan: how long the kernel serves what it read before
UNREAD_QUEUES: Final = 64  # real drivers have hundreds of statistics more than anybody reads
LOSSLESS: Final = 3
DATA_DSCP: Final = 26
CNP_DSCP: Final = 48
CNP_PRIORITY: Final = 6


@dataclass(frozen=True)
class FakeHost:
    """A host. tables: interface -> ethtool statistics. pause: interface -> (rx, tx).

    files: path below the root -> text, for debugfs, configfs and the like.
    """

    name: str
    driver: str
    devices: tuple[FakeDevice, ...]
    netdevs: tuple[FakeNetdev, ...]
    tables: Mapping[str, tuple[tuple[str, int], ...]]
    dcb: Mapping[str, FakeDcb]
    pause: Mapping[str, tuple[bool, bool]]
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def ethernet_driver(self) -> str:
        """Name that `ethtool -i` shows."""
        return DRIVERS[self.driver][1]


def _expanded(keys: Mapping[str, object], lossless: tuple[int, ...]) -> tuple[str, ...]:
    names: list[str] = []
    for key in keys:
        if "{p}" in key:
            pfc = "pause" in key or "pfc" in key
            priorities = lossless if pfc else range(8)
            names += [key.replace("{p}", str(p)) for p in priorities]
        elif "{lane}" in key:
            names += [key.replace("{lane}", str(lane)) for lane in range(4)]
        else:
            names.append(key)
    return tuple(names)


def build_host(name: str, driver: str = "mlx5", nics: int = 8) -> FakeHost:
    """Return a host that is set right: one lossless priority, CNPs apart, jumbo frames."""
    module, _, ethernet = DRIVERS[driver]
    devices = tuple(_device(driver, index) for index in range(nics))
    netdevs = tuple(_netdev(driver, index) for index in range(nics))
    files: dict[str, str] = {}
    if driver == "mlx5":
        for netdev, device in zip(netdevs, devices, strict=True):
            files |= _mlx5_congestion_control(netdev.name, device.name)
    keys = _expanded(columns("ethtool", ethernet), (LOSSLESS,))
    unread = tuple(f"rx{queue}_packets" for queue in range(UNREAD_QUEUES))
    stats = tuple((key, 0) for key in (*keys, *unread))
    dcb = FakeDcb(
        pfc=(LOSSLESS,),
        dscp={DATA_DSCP: LOSSLESS, CNP_DSCP: CNP_PRIORITY},
        prio_to_buffer=(0, 0, 0, 1, 0, 0, 0, 0),
        buffer_bytes=(40_000, 200_000, 0, 0, 0, 0, 0, 0),
    )
    interfaces = [netdev.name for netdev in netdevs]
    return FakeHost(
        name,
        driver,
        devices,
        netdevs,
        dict.fromkeys(interfaces, stats) if ethernet not in ("veth", "erdma", "efa") else {},
        dict.fromkeys(interfaces, dcb) if module else {},
        dict.fromkeys(interfaces, (False, False)),
        files,
    )


def _pci_address(index: int) -> str:
    return f"0000:{0x10 + index:02x}:00.0"


def _device(driver: str, index: int) -> FakeDevice:
    """Return the RDMA device of a NIC, its counters at zero and a RoCE v2 GID in place 3."""
    module = DRIVERS[driver][0]
    netdev, octet = f"eth{index}", f"{index + 1:02x}"
    local = f"fe80:0000:0000:0000:ba3f:d2ff:fe12:34{octet}"
    mapped = f"0000:0000:0000:0000:0000:ffff:0a{octet}:0001"
    kinds = ("IB/RoCE v1", "RoCE v2")
    gids = dict(enumerate((gid, kind, netdev) for gid in (local, mapped) for kind in kinds))
    hw = {
        key: LIFESPAN_MS if key == "lifespan" else 0
        for key in columns("hw_counters", driver)
        if key not in _OPTIONAL
    }
    port = FakePort(
        counters=dict.fromkeys(columns("sysfs_counters", driver), 0)
        if driver in _WITH_PMA
        else None,
        hw_counters=hw if len(hw) > 1 else None,  # siw has no hardware counters at all
        gids=gids,
        cm=_connections(),
    )
    identity = {"board_id": "MT_0000000838", "hca_type": "MT4129"} if driver == "mlx5" else {}
    if not module:
        identity = {"parent": netdev} if driver == "rxe" else {"node_type": "4: RNIC"}
    return FakeDevice(
        f"{driver}_{index}" if driver != "bnxt_re" else f"bnxt_re{index}",
        module,
        _pci_address(index),
        f"b83f:d203:0012:34{octet}",
        (port,),
        identity,
        pci=_pcie(),
    )


def _netdev(driver: str, index: int) -> FakeNetdev:
    """Return the network interface of a NIC, its counters at zero."""
    counted = [key for key in columns("netdev") if key.startswith("statistics/")]
    return FakeNetdev(
        f"eth{index}",
        index + 2,  # 1 is lo
        _pci_address(index) if DRIVERS[driver][0] else "",
        {key.removeprefix("statistics/"): 0 for key in counted},
        snmp6=dict.fromkeys(columns("dev_snmp6"), 0),
    )


def _connections() -> Mapping[str, Mapping[str, int]]:
    kinds = "req mra rej rep rtu dreq drep sidr_req sidr_rep lap apr".split()  # noqa: SIM905
    groups = ("cm_tx_msgs", "cm_tx_retries", "cm_rx_msgs", "cm_rx_duplicates")
    return {group: dict.fromkeys(kinds, 0) for group in groups}


def _pcie() -> Mapping[str, str]:
    return {
        "current_link_speed": "32.0 GT/s PCIe",
        "max_link_speed": "32.0 GT/s PCIe",
        "current_link_width": "16",
        "max_link_width": "16",
        "numa_node": "0",
        "aer_dev_correctable": "TOTAL_ERR_COR 0",
        "aer_dev_nonfatal": "TOTAL_ERR_NONFATAL 0",
        "aer_dev_fatal": "TOTAL_ERR_FATAL 0",
    }


def _mlx5_congestion_control(netdev: str, device: str) -> dict[str, str]:
    home = f"sys/class/net/{netdev}/ecn"
    files = {
        f"{home}/roce_{'np' if knob.debugfs.startswith('np') else 'rp'}/{knob.name}": str(
            4 if knob.default is None else knob.default
        )
        for knob in FIRMWARE_KNOBS
    }
    files |= {
        f"{home}/roce_np/cnp_dscp": str(CNP_DSCP),
        f"{home}/roce_np/cnp_802p_prio": str(CNP_PRIORITY),
        f"sys/class/infiniband/{device}/tc/1/traffic_class": f"Global tclass={DATA_DSCP << 2 | 2}",
    }
    for side in ("np", "rp"):
        files |= {f"{home}/roce_{side}/enable/{p}": "1" for p in range(8)}
    return files


# --- faults: each on the first NIC of the host ---------------------------------------------------
def _on_first(host: FakeHost, change: Callable[[FakeDcb], FakeDcb]) -> FakeHost:
    first = host.netdevs[0].name
    return replace(host, dcb={**host.dcb, first: change(host.dcb[first])})


def _lossy_class(host: FakeHost) -> FakeHost:
    path = f"sys/class/infiniband/{host.devices[0].name}/tc/1/traffic_class"
    return replace(host, files={**host.files, path: "Global tclass=26"})  # the DSCP, not << 2


def _pfc_priority(host: FakeHost) -> FakeHost:
    return _on_first(host, lambda dcb: replace(dcb, pfc=(LOSSLESS, 4)))


def _pause(host: FakeHost) -> FakeHost:
    return replace(host, pause={**host.pause, host.netdevs[0].name: (True, True)})


def _cnp_class(host: FakeHost) -> FakeHost:
    dscp = {DATA_DSCP: LOSSLESS, CNP_DSCP: LOSSLESS}
    return _on_first(host, lambda dcb: replace(dcb, dscp=dscp))


def _gid(host: FakeHost) -> FakeHost:
    device = host.devices[0]
    port = device.ports[0]
    local = {index: gid for index, gid in port.gids.items() if index < 2}
    changed = replace(device, ports=(replace(port, gids=local),))
    return replace(host, devices=(changed, *host.devices[1:]))


def _mtu(host: FakeHost) -> FakeHost:
    changed = replace(host.netdevs[0], files={**host.netdevs[0].files, "mtu": "1500"})
    return replace(host, netdevs=(changed, *host.netdevs[1:]))


def _pcie_width(host: FakeHost) -> FakeHost:
    pci = {**host.devices[0].pci, "current_link_width": "4"}
    return replace(host, devices=(replace(host.devices[0], pci=pci), *host.devices[1:]))


def _reaction_off(host: FakeHost) -> FakeHost:
    path = f"sys/class/net/{host.netdevs[0].name}/ecn/roce_rp/enable/{LOSSLESS}"
    return replace(host, files={**host.files, path: "0"})


FAULTS: Final[Mapping[str, Callable[[FakeHost], FakeHost]]] = MappingProxyType(
    {
        "traffic-class": _lossy_class,
        "pfc-priority": _pfc_priority,
        "pause-with-roce": _pause,
        "cnp-class": _cnp_class,
        "gid-choice": _gid,
        "roce-mtu": _mtu,
        "pcie-link": _pcie_width,
        "reaction-off": _reaction_off,
    }
)
"""Fault -> how it changes a host; the names are those of the rules that find them."""


def write_host(host: FakeHost, root: Path) -> None:
    """Write the trees of a host below a folder."""
    for device in host.devices:
        write_device(root, device)
    for netdev in host.netdevs:
        write_netdev(root, netdev)
    for path, text in host.files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    (root / "proc/net").mkdir(parents=True, exist_ok=True)
    names = " ".join(key.removeprefix("IpExt ") for key in columns("netstat"))
    zeros = " ".join("0" for _ in columns("netstat"))
    (root / "proc/net/netstat").write_text(f"IpExt: {names}\nIpExt: {zeros}\n")

"""NICs and their hosts: loss recovery, PCIe, receives that are posted."""

from __future__ import annotations

from typing import Final

from tuner.advice.knobs.knob import Knob, at

_SWITCHED: Final = (False, True)
_PEERS: Final = "both ends of each connection: all hosts alike"


def _accelerator(name: str, field: str, meaning: str, *, agrees: str = _PEERS) -> Knob:
    """Return the knob of a bit of NVIDIA's ROCE_ACCL register (mstflint, roce_accl_reg_ext)."""
    return Knob(
        name=name,
        meaning=meaning,
        unit="bool",
        on=("port",),
        choices=_SWITCHED,
        homes=at(linux=f"mlxreg ROCE_ACCL {field}"),
        disruption="none; lost when the driver reloads",
        agrees=agrees,
    )


KNOBS: Final = (
    _accelerator(
        "adaptive_retransmission",
        "roce_adp_retrans_en",
        "The NIC resends earlier than the verbs timeout says.",
    ),
    _accelerator("slow_restart", "roce_slow_restart_en", "The NIC restarts slowly after a loss."),
    _accelerator(
        "slow_restart_idle",
        "roce_slow_restart_idle_en",
        "The NIC restarts slowly after idling.",
    ),
    _accelerator(
        "transmit_window", "roce_tx_window_en", "The NIC bounds what is in flight per connection."
    ),
    _accelerator(
        "forced_adaptive_routing",
        "adaptive_routing_forced_en",
        "The NIC accepts packets out of order on every connection.",
        agrees=f"{_PEERS}; load_balancing of the switches",
    ),
    _accelerator(
        "selective_repeat", "selective_repeat_forced_en", "The NIC resends lost packets only."
    ),
    Knob(
        name="pcie_relaxed_ordering",
        meaning="Relaxed ordering is allowed to the device.",
        unit="bool",
        on=("device",),
        choices=_SWITCHED,
        homes=at(mlxconfig="PCI_WR_ORDERING"),
        disruption="needs a reset of the device",
        agrees="the platform: some CPUs need it for full speed, some must not have it",
        setting="pcie_relaxed_ordering",
    ),
    Knob(
        name="pcie_max_read_request_bytes",
        meaning="Largest read that the device may ask for.",
        unit="bytes",
        on=("device",),
        choices=(128, 256, 512, 1024, 2048, 4096),
        defaults=(("mlx5", 512), ("advised", 4096)),
        homes=at(linux="setpci CAP_EXP+8.w"),
        disruption="none; lost at reboot",
        setting="pcie_max_read_request_bytes",
    ),
    Knob(
        name="pcie_acs_redirect",
        meaning="ACS sends peer-to-peer traffic up to the root.",
        unit="bool",
        on=("device",),
        choices=_SWITCHED,
        disruption="set in the BIOS or at boot; isolation of guests depends on it",
        agrees="virtualisation: guests with passed-through devices need ACS",
        setting="pcie_acs_redirect",
        how="set ACS redirection above {place} to {value} (BIOS, or setpci ECAP_ACS+6.w at boot)",
        undo="set it to {current} again",
    ),
    Knob(
        name="receive_queue_depth",
        meaning="Receives that the application keeps posted for each queue pair.",
        unit="count",
        on=("port", "host"),
        low=1,
        high=65_536,
        disruption="the application restarts its connections",
        how="let the application on {place} keep {value} receives posted for each queue pair",
        undo="go back to the former number",
    ),
    Knob(
        name="out_of_order_placement",
        meaning="The NIC places packets that come out of order instead of asking for them again.",
        unit="bool",
        on=("port", "host"),
        choices=(False, True),
        homes=at(mlxconfig="RDMA_SELECTIVE_REPEAT_EN"),
        disruption="needs a reset of the firmware",
        agrees="both ends of every connection; load_balancing of the switches",
    ),
    Knob(
        name="host_repair",
        meaning="What lets a host drain slowly or pause for good: PCIe, memory, NUMA, firmware.",
        on=("host", "device", "port", "netdev"),
        disruption="jobs leave the host while it is looked at",
        how="drain {place}; check PCIe speed and width (lspci -vv), ACS and ATS, relaxed ordering, "
        "huge pages, NUMA place of the receive buffers, firmware; power-cycle a NIC that pauses "
        "without receiving",
        undo="put {place} back to work as it was",
    ),
)

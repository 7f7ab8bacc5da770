"""Queue pairs and communication libraries: what a job's environment sets, from its next start.

Defaults: NCCL 2.30 (src/transport/net_ib, env.rst) and UCX (src/uct/ib).
"""

from __future__ import annotations

from typing import Final

from collectors.model.facts import Value
from tuner.advice.knobs.knob import Home, Knob

_ON: Final = ("host",)
_RANKS: Final = "all ranks of the job"
_START: Final = "none for running jobs; the next start takes it"


def _knob(
    name: str,
    meaning: str,
    nccl: str = "",
    ucx: str = "",
    *,
    defaults: tuple[tuple[str, Value], ...] = (),
    low: float | None = None,
    high: float | None = None,
    choices: tuple[Value, ...] = (),
    agrees: str = _RANKS,
) -> Knob:
    homes = [("nccl", nccl), ("ucx", ucx)]
    return Knob(
        name=name,
        meaning=meaning,
        unit="bool" if choices == (False, True) else "",
        on=_ON,
        low=low,
        high=high,
        choices=choices,
        defaults=defaults,
        homes=tuple(Home(platform, variable) for platform, variable in homes if variable),
        disruption=_START,
        agrees=agrees,
        how=f"set {' or '.join(filter(None, (nccl, ucx)))} of the jobs on {{place}} to {{value}}",
        undo="set it to {current} again",
    )


_SWITCHED: Final = (False, True)

KNOBS: Final = (
    _knob(
        "qps_per_connection",
        "Queue pairs of one connection: entropy for ECMP.",
        "NCCL_IB_QPS_PER_CONNECTION",
        "UCX_IB_NUM_PATHS",
        defaults=(("NCCL", 1), ("UCX", 1)),
        low=1,
        high=128,
        agrees=f"{_RANKS}; queue pair contexts that the NIC caches",
    ),
    _knob(
        "split_data_on_qps",
        "Each message is split over all queue pairs; else they take turns.",
        "NCCL_IB_SPLIT_DATA_ON_QPS",
        defaults=(("NCCL 2.20 and later", False), ("NCCL 2.18, 2.19", True)),
        choices=_SWITCHED,
    ),
    _knob(
        "channels_min",
        "Fewest channels of a collective.",
        "NCCL_MIN_CTAS",
        low=1,
        high=64,
    ),
    _knob("channels_max", "Most channels of a collective.", "NCCL_MAX_CTAS", low=1, high=64),
    _knob(
        "path_factor",
        "Step between the UDP source ports of a connection's paths.",
        ucx="UCX_IB_ROCE_PATH_FACTOR",
        defaults=(("UCX", 1),),
        low=1,
        high=16383,
    ),
    _knob(
        "job_tclass",
        "Traffic class (8 bits: DSCP and ECN) of the job's packets.",
        "NCCL_IB_TC",
        "UCX_IB_TRAFFIC_CLASS",
        defaults=(("NCCL", 0), ("UCX", 106)),
        low=0,
        high=255,
        agrees=f"{_RANKS}; dscp_to_priority of the NICs, the DSCP map of the switches",
    ),
    _knob(
        "job_control_tclass",
        "Traffic class of the small credit messages (CTS) of the job.",
        "NCCL_IB_FIFO_TC",
        defaults=(("NCCL", 0),),
        low=0,
        high=255,
        agrees=f"{_RANKS}; a class of its own in NICs and switches",
    ),
    _knob(
        "job_service_level",
        "Service level (InfiniBand) or 802.1p priority of the job's packets.",
        "NCCL_IB_SL",
        "UCX_IB_SL",
        defaults=(("NCCL", 0), ("UCX on RoCE", 0)),
        low=0,
        high=15,
    ),
    _knob(
        "job_gid_index",
        "Entry of the GID table that connections use: RoCE v2 with a routable address.",
        "NCCL_IB_GID_INDEX",
        "UCX_IB_GID_INDEX",
        low=0,
        high=255,
        agrees="the same kind of address at both ends; the index differs by host",
    ),
    _knob(
        "qp_timeout_code",
        "Acknowledgement timeout: 4.096 us x 2^code.",
        "NCCL_IB_TIMEOUT",
        "UCX_RC_TIMEOUT",
        defaults=(("NCCL 2.23 and later", 20), ("NCCL 2.14", 18), ("UCX", 18)),
        low=1,
        high=31,
        agrees=f"{_RANKS}; longer than the longest pause",
    ),
    _knob(
        "qp_retry_count",
        "Retransmissions before a queue pair fails.",
        "NCCL_IB_RETRY_CNT",
        "UCX_RC_RETRY_COUNT",
        defaults=(("NCCL", 7), ("UCX", 7)),
        low=0,
        high=7,
    ),
    _knob(
        "job_adaptive_routing",
        "The library copes with packets out of order (adaptive routing).",
        "NCCL_IB_ADAPTIVE_ROUTING",
        "UCX_IB_AR_ENABLE",
        defaults=(("NCCL on InfiniBand", True), ("NCCL on RoCE", False)),
        choices=_SWITCHED,
        agrees=f"{_RANKS}; load_balancing of the switches, adaptive routing of the subnet",
    ),
    _knob(
        "job_relaxed_ordering",
        "PCIe relaxed ordering for the job's memory.",
        "NCCL_IB_PCI_RELAXED_ORDERING",
        "UCX_IB_PCI_RELAXED_ORDERING",
        choices=_SWITCHED,
    ),
    _knob(
        "job_cross_nic",
        "Rings may use another rail at the other end: 0 never, 1 always, 2 where it helps.",
        "NCCL_CROSS_NIC",
        defaults=(("NCCL", 2),),
        choices=(0, 1, 2),
        agrees=f"{_RANKS}; 0 where rails are not connected",
    ),
    _knob(
        "job_devices",
        "RDMA devices that the job uses, in the library's own syntax.",
        "NCCL_IB_HCA",
        "UCX_NET_DEVICES",
        agrees="the rails of the fabric, in the same order on every host",
    ),
    _knob(
        "net_chunk_bytes",
        "Size of the pieces that NCCL sends at once.",
        "NCCL_P2P_NET_CHUNKSIZE",
        defaults=(("NCCL", 131_072),),
        low=4096,
        high=1 << 24,
    ),
    Knob(
        name="qp_source_ports",
        meaning="UDP source ports of a host's queue pairs, by peer and queue pair number.",
        on=_ON,
        low=0xC000,
        high=0xFFFF,
        disruption=_START,
        agrees="the hash of the switches that the ports were chosen for",
        how="let the library of the jobs on {place} set the UDP source ports of their queue pairs, "
        "in the order of peer and queue pair number, to {value} (mlx5dv_modify_qp_udp_sport)",
        undo="let them have the ports that queue pair numbers give again, which were {current}",
    ),
    Knob(
        name="rank_order",
        meaning="Order of a job's hosts: neighbours of a ring side by side under one switch.",
        on=_ON,
        disruption=_START,
        agrees=_RANKS,
        how="start the job that runs on {place} with its hosts in the order {value}",
        undo="start it with the order {current} again",
    ),
)

"""Who owns a queue pair: process, job, and the settings of its communication library.

Only for processes that hold RDMA queue pairs, only where the agent is told to, and only the
variables named here leave the process's environment: an environment may hold secrets.
"""

from __future__ import annotations

import re
from typing import Final

from collectors.host.kernel_file import read_bytes, read_optional

VARIABLES: Final = frozenset(
    """
    NCCL_IB_HCA NCCL_IB_QPS_PER_CONNECTION NCCL_IB_SPLIT_DATA_ON_QPS NCCL_IB_TC NCCL_IB_FIFO_TC
    NCCL_IB_SL NCCL_IB_GID_INDEX NCCL_IB_ADDR_FAMILY NCCL_IB_ROCE_VERSION_NUM NCCL_IB_TIMEOUT
    NCCL_IB_RETRY_CNT NCCL_IB_ADAPTIVE_ROUTING NCCL_IB_AR_THRESHOLD NCCL_IB_ECE_ENABLE
    NCCL_IB_PCI_RELAXED_ORDERING NCCL_IB_MERGE_NICS NCCL_IB_PKEY NCCL_IB_DISABLE NCCL_CROSS_NIC
    NCCL_ALGO NCCL_PROTO NCCL_BUFFSIZE NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_MIN_CTAS
    NCCL_MAX_CTAS NCCL_PXN_DISABLE NCCL_NET_GDR_LEVEL NCCL_NET_GDR_READ NCCL_DMABUF_ENABLE
    NCCL_SOCKET_IFNAME NCCL_NET NCCL_TOPO_FILE NCCL_NCHANNELS_PER_NET_PEER NCCL_P2P_NET_CHUNKSIZE
    RCCL_MSCCL_ENABLE
    UCX_NET_DEVICES UCX_TLS UCX_IB_TRAFFIC_CLASS UCX_IB_SL UCX_IB_GID_INDEX UCX_IB_NUM_PATHS
    UCX_IB_ROCE_PATH_FACTOR UCX_IB_PATH_MTU UCX_IB_AR_ENABLE UCX_IB_PCI_RELAXED_ORDERING
    UCX_RC_TIMEOUT UCX_RC_RETRY_COUNT UCX_RC_RNR_TIMEOUT UCX_RC_RNR_RETRY_COUNT
    UCX_RC_MAX_RD_ATOMIC
    OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK OMPI_MCA_pml OMPI_MCA_btl
    """.split()  # noqa: SIM905 - a table of words
)
_VALUE_CHARS: Final = 200

_SLURM: Final = re.compile(r"/(?:slurm[^/]*/)?(?:uid_[0-9]+/)?job_([0-9]+)(?:/step_([^/]+))?")
_POD: Final = re.compile(
    r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})"
)
_CONTAINER: Final = re.compile(r"(?:docker|cri-containerd|crio|libpod)-([0-9a-f]{12})[0-9a-f]*")


def parse_environment(data: bytes) -> tuple[str, ...]:
    """Return NAME=value of the variables that matter, sorted; nothing else leaves here."""
    found = []
    for entry in data.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name.decode("ascii", "replace") in VARIABLES:
            text = value.decode("utf-8", "replace")[:_VALUE_CHARS]
            found.append(f"{name.decode()}={text}")
    return tuple(sorted(found))


def parse_job(cgroup: str) -> str:
    """Return `slurm 123.0`, `pod UID` or `container ID` of a cgroup text, '' for neither."""
    slurm = _SLURM.search(cgroup)
    if slurm and "slurm" in cgroup:
        step = f".{slurm[2]}" if slurm[2] else ""
        return f"slurm {slurm[1]}{step}"
    pod = _POD.search(cgroup)
    if pod:
        return f"pod {pod[1].replace('_', '-')}"
    container = _CONTAINER.search(cgroup)
    return f"container {container[1]}" if container else ""


def read_process(procfs: str, pid: int) -> tuple[str, str]:
    """Return (command name, job) of a process; '' for what it does not tell."""
    home = f"{procfs}/{pid}"
    return read_optional(f"{home}/comm"), parse_job(read_optional(f"{home}/cgroup"))


def read_environment(procfs: str, pid: int) -> tuple[str, ...]:
    """Return the variables of a process. Raises Unreadable: EACCES without root."""
    return parse_environment(read_bytes(f"{procfs}/{pid}/environ"))

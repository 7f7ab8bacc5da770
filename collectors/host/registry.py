"""Every host collector, one row each; the agent builds what its config asks for."""

from typing import Final

from collectors.host.burst import BURST
from collectors.host.cm import CM
from collectors.host.congestion_control import CONGESTION_CONTROL
from collectors.host.context import HostCollector
from collectors.host.dcb import DCB
from collectors.host.ethtool import ETHTOOL
from collectors.host.ethtool_netlink import ETHTOOL_NETLINK
from collectors.host.hw_counters import HW_COUNTERS
from collectors.host.ip_ecn import IP_ECN
from collectors.host.lldp import LLDP
from collectors.host.netdev import NETDEV
from collectors.host.pcie import PCIE
from collectors.host.qdisc import QDISC
from collectors.host.queue_pairs import QUEUE_PAIRS
from collectors.host.sysfs import SYSFS, SYSFS_ERRORS, SYSFS_REST
from collectors.host.topology import TOPOLOGY
from collectors.host.verbs import VERBS

HOST_COLLECTORS: Final[tuple[HostCollector, ...]] = (
    SYSFS,
    SYSFS_ERRORS,
    SYSFS_REST,
    HW_COUNTERS,
    IP_ECN,
    NETDEV,
    ETHTOOL,
    ETHTOOL_NETLINK,
    DCB,
    CONGESTION_CONTROL,
    PCIE,
    CM,
    LLDP,
    QDISC,
    TOPOLOGY,
    VERBS,
    QUEUE_PAIRS,
    BURST,
)

"""Everything about the model that can be set, as frozen records with units in the names."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from collectors.model.dcqcn import PAPER, DcqcnParameters
from collectors.model.ecmp_hash import NS3_FIELDS, HashAlgorithm, HashSpec
from collectors.model.ecn import EcnThresholds

US = 1e-6
NS3_HASH = HashSpec(algorithm=HashAlgorithm.MURMUR3, fields=NS3_FIELDS)
KIB = 1024
MIB = 1024 * KIB


class Form(Enum):
    """How the reaction point works; see simlab.packet.reaction."""

    OFF = "off"
    PAPER = "paper"
    FIRMWARE = "firmware"
    INFINIBAND = "infiniband"


class CnpMode(Enum):
    """How congestion is told to the sender, and what the CNP interval applies to."""

    ON_ACK = "on_ack"
    PER_QP = "per_qp"
    PER_PORT = "per_port"


class Spread(Enum):
    """How a packet's path is chosen among equals."""

    ECMP = "ecmp"
    SPRAY = "spray"
    FLOWLET = "flowlet"
    LEAST_QUEUE = "least_queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class CongestionControl:
    """Reaction and notification point of all QPs."""

    form: Form = Form.FIRMWARE
    dcqcn: DcqcnParameters = PAPER
    cnp_mode: CnpMode = CnpMode.PER_QP
    monitor_offset_s: float = 0.0  # HPCC's monitor runs 1 ns after its alpha timer
    increase_hurries: bool = True  # a higher rate shortens the gap that is running
    hyper_scaled: bool = False  # i·R_HAI in the i-th hyper increase, as in QCN
    # InfiniBand congestion control (IBTA annex A10)
    cct: tuple[float, ...] = ()  # inter-packet delay by CCTI, in packet times
    ccti_increase: int = 1
    ccti_min: int = 0
    ccti_timer_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """RC transport and wire format; sizes are bytes on the wire unless named payload."""

    payload_bytes: int = 4096
    header_bytes: int = 82  # Ethernet 14, IP 20, UDP 8, BTH 12, ICRC 4, FCS 4, preamble and gap 20
    ack_bytes: int = 86  # with AETH; minimum frame, preamble and gap
    cnp_bytes: int = 98
    control_bytes: int = 84  # a pause frame
    ack_every: int = 1
    ack_priority: int | None = None  # None: as the data
    ack_jumps_host_queue: bool = False
    ack_ecn_capable: bool = False
    cnp_priority: int = 6
    selective_repeat: bool = False
    reorder_tolerant: bool = False
    window_packets: int = 0  # 0: no limit (4096 for selective repeat)
    rto_s: float = 4e-3
    retry_limit: int = 7  # 0: for ever
    nak_interval_s: float = 500 * US
    nak_cuts: bool = False  # an out-of-order NAK carries a CNP (conweave)
    rnr_delay_s: float = 640 * US


@dataclass(frozen=True, slots=True, kw_only=True)
class EcnAt:
    """ECN thresholds of ports of one speed."""

    rate_bps: float
    thresholds: EcnThresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchModel:
    """Buffers, PFC, ECN and scheduling of every switch."""

    buffer_bytes: int = 32 * MIB
    pfc: bool = True
    lossless: tuple[int, ...] = (3,)
    alpha: float = 1 / 8
    alpha_doubles_with_rate: bool = False  # HPCC: one step larger per doubling over the NIC rate
    xoff_bytes: int | None = None  # static threshold instead of alpha
    xon_offset_bytes: int = 3 * KIB
    reserved_bytes: int = 4 * KIB
    headroom_bytes: int | None = None  # None: from delay and rate as below
    headroom_delays: float = 3.0
    headroom_packets: float = 0.0
    lossy_alpha: float = 1.0
    pause_s: float = 0.0  # carried in pause frames and renewed at half time; 0: until resume
    pause_each_packet: bool = False
    watchdog_s: float = 0.0
    watchdog_restore_s: float = 0.0
    ecn: tuple[EcnAt, ...] = ()
    ecn_at_enqueue: bool = False
    ecn_skip_bytes: int = 0
    egress_alpha: float = 0.0
    queue_limit_bytes: int = 0
    unmanaged: tuple[int, ...] = ()  # priorities without admission control
    strict: tuple[int, ...] = (6, 7)
    weights: dict[int, int] = field(default_factory=dict)  # DWRR; 1 where not given
    classes: dict[int, int] = field(default_factory=dict)  # priority -> queue and group; its own
    mtu_bytes: int = 0  # largest IP packet that a port takes in; 0: any


@dataclass(frozen=True, slots=True, kw_only=True)
class HostModel:
    """Receive side of every host NIC; `slow` overrides the drain rate by host number."""

    drain_bps: float = 0.0  # 0: as fast as the wire
    slow: dict[int, float] = field(default_factory=dict)
    rx_buffer_bytes: int = 2 * MIB
    rx_xoff_bytes: int = 1 * MIB
    rx_xon_bytes: int = 512 * KIB
    pause_s: float = 0.0
    receive_requests: int = 0
    receive_interval_s: float = 0.0  # 0: always enough receive requests posted


@dataclass(frozen=True, slots=True, kw_only=True)
class NicModel:
    """What one host NIC does otherwise than the others; None: as they do."""

    congestion: CongestionControl | None = None  # its reaction points
    pfc: bool = True  # it obeys pauses and may send them
    sends_cnps: bool = True
    ecn_capable: bool = True  # its data packets carry ECT
    receive_requests: int | None = None
    receive_interval_s: float | None = None
    mtu_bytes: int = 0  # largest IP packet that it takes in; 0: any
    credits_bytes: int | None = None  # InfiniBand: its receive buffer of each VL


@dataclass(frozen=True, slots=True, kw_only=True)
class Balancing:
    """ECMP and its alternatives. `tiers` overrides the hash by switch tier (1 leaf, 2, 3),
    `switches` by node, seed included.
    """

    spread: Spread = Spread.ECMP
    hash: HashSpec = NS3_HASH
    tiers: dict[int, HashSpec] = field(default_factory=dict)
    seed_by_node: bool = True  # the reference simulators' seed is the switch's node number
    descending: bool = False  # order of equal next hops (interface number)
    weights: dict[int, int] = field(default_factory=dict)  # directed port -> weight
    flowlet_gap_s: float = 50 * US
    switches: dict[int, HashSpec] = field(default_factory=dict)

    def spec_at(self, node: int, tier: int) -> HashSpec:
        """Return the hash of a switch, its seed included."""
        if node in self.switches:
            return self.switches[node]
        spec = self.tiers.get(tier, self.hash)
        if self.seed_by_node and tier not in self.tiers:
            return replace(spec, seed=node)
        return spec


@dataclass(frozen=True, slots=True, kw_only=True)
class InfinibandLink:
    """Credit-based flow control instead of PFC."""

    credits_bytes: int = 64 * KIB  # receive buffer of every port and VL
    threshold_bytes: int = 0  # FECN marks above this queue length; 0 off
    marking_rate: int = 0  # one of marking_rate + 1 eligible packets


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The whole model. `switches`, `ports`, `nics` say where it differs: by switch node, by
    directed port of a switch (its egress queues and ingress groups), by host node.
    """

    congestion: CongestionControl = CongestionControl()
    transport: Transport = Transport()
    switch: SwitchModel = SwitchModel()
    host: HostModel = HostModel()
    balancing: Balancing = Balancing()
    infiniband: InfinibandLink | None = None
    truncate_ns: bool = False  # the reference simulators' 1 ns clock
    switches: dict[int, SwitchModel] = field(default_factory=dict)
    ports: dict[int, SwitchModel] = field(default_factory=dict)
    nics: dict[int, NicModel] = field(default_factory=dict)

    def switch_at(self, node: int, port: int | None = None) -> SwitchModel:
        """Return what is in force at a switch, or at one of its directed ports."""
        whole = self.switches.get(node, self.switch)
        return whole if port is None else self.ports.get(port, whole)

    def nic_at(self, node: int) -> NicModel:
        """Return what is particular about a host's NIC."""
        return self.nics.get(node, _LIKE_ALL)

    def congestion_at(self, node: int) -> CongestionControl:
        """Return the congestion control in force at a host's NIC."""
        return self.nic_at(node).congestion or self.congestion


_LIKE_ALL = NicModel()

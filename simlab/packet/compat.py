"""Model variants that reproduce the two public reference simulators (refsim)."""

from __future__ import annotations

from collectors.model.dcqcn import DcqcnParameters
from collectors.model.ecn import EcnThresholds
from simlab.packet.parameters import (
    MIB,
    Balancing,
    CnpMode,
    CongestionControl,
    EcnAt,
    Form,
    Model,
    SwitchModel,
    Transport,
)

KB = 1000
NS = 1e-9
PAUSE_BYTES = 43  # 14 of PPP, 20 of IP and 9 of the pause header, and no padding
FOREVER = 0.0


def thresholds(kmin_kb: float, kmax_kb: float, pmax: float) -> EcnThresholds:
    """Return thresholds in the reference's kilobytes of 1000 bytes."""
    return EcnThresholds(kmin_kb * KB, kmax_kb * KB, pmax)


def hpcc_model(
    dcqcn: DcqcnParameters, ecn: tuple[EcnAt, ...], *, buffer_mib: int, truncate_ns: bool = True
) -> Model:
    """The HPCC simulator: CNP on the ACK, ACKs in the data queue, no timeout, DT buffer."""
    return Model(
        congestion=CongestionControl(
            form=Form.FIRMWARE, dcqcn=dcqcn, cnp_mode=CnpMode.ON_ACK, monitor_offset_s=NS,
            increase_hurries=False,
        ),
        transport=_transport(ack_priority=None, ack_ecn_capable=True, rto_s=0.0, nak_cuts=False),
        switch=SwitchModel(
            buffer_bytes=buffer_mib * MIB, alpha=1 / 8, alpha_doubles_with_rate=True, ecn=ecn,
            pause_s=FOREVER, strict=(),
        ),
        balancing=Balancing(descending=True),
        truncate_ns=truncate_ns,
    )  # fmt: skip


def conweave_model(
    dcqcn: DcqcnParameters, ecn: tuple[EcnAt, ...], *, buffer_mib: int, truncate_ns: bool = True
) -> Model:
    """The conweave simulator: ACKs in a queue of their own, pause per packet, egress limit."""
    return Model(
        congestion=CongestionControl(
            form=Form.FIRMWARE, dcqcn=dcqcn, cnp_mode=CnpMode.ON_ACK, monitor_offset_s=NS,
            increase_hurries=False,
        ),
        transport=_transport(ack_priority=0, ack_ecn_capable=False, rto_s=4e-3, nak_cuts=True),
        switch=SwitchModel(
            buffer_bytes=buffer_mib * MIB, alpha=1 / 16, ecn=ecn, pause_s=5e-6,
            pause_each_packet=True, egress_alpha=1.0, ecn_skip_bytes=1048, headroom_delays=2.0,
            headroom_packets=2.0, unmanaged=(0,), strict=(0,),
        ),
        balancing=Balancing(descending=False),
        truncate_ns=truncate_ns,
    )  # fmt: skip


def _transport(
    *, ack_priority: int | None, ack_ecn_capable: bool, rto_s: float, nak_cuts: bool
) -> Transport:
    return Transport(
        payload_bytes=1000, header_bytes=48, ack_bytes=60, control_bytes=PAUSE_BYTES,
        ack_priority=ack_priority, ack_jumps_host_queue=True, ack_ecn_capable=ack_ecn_capable,
        rto_s=rto_s, retry_limit=0, nak_cuts=nak_cuts,
    )  # fmt: skip

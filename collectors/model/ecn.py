"""ECN (RED) thresholds of a switch queue: the marking curve, device forms, published sets."""

from __future__ import annotations

import math
from dataclasses import dataclass

KB = 1000
KIB = 1024


@dataclass(frozen=True, slots=True)
class EcnThresholds:
    """Kmin, Kmax in bytes and Pmax as a ratio; marking jumps to 1 above Kmax.

    Raises ValueError unless 0 <= Kmin <= Kmax and 0 < Pmax <= 1.
    """

    kmin_bytes: float
    kmax_bytes: float
    pmax_ratio: float

    def __post_init__(self) -> None:
        if not 0 <= self.kmin_bytes <= self.kmax_bytes:
            raise ValueError(f"needs 0 <= Kmin <= Kmax, got {self.kmin_bytes}, {self.kmax_bytes}")
        if not 0 < self.pmax_ratio <= 1:
            raise ValueError(f"needs 0 < Pmax <= 1, got {self.pmax_ratio}")

    @property
    def slope_per_byte(self) -> float:
        """Pmax/(Kmax−Kmin): the marking gain; infinite for a step (Kmin = Kmax)."""
        span = self.kmax_bytes - self.kmin_bytes
        return self.pmax_ratio / span if span else math.inf

    def marking_ratio(self, queue_bytes: float) -> float:
        """Return the marking probability at this queue length (SIGCOMM'15 figure 5)."""
        if queue_bytes <= self.kmin_bytes:
            return 0.0
        if queue_bytes > self.kmax_bytes:
            return 1.0
        return (queue_bytes - self.kmin_bytes) * self.slope_per_byte


@dataclass(frozen=True, slots=True)
class WredProfile:
    """What a device stores: thresholds in whole cells and Pmax in whole percent."""

    kmin_cells: int
    kmax_cells: int
    pmax_percent: int
    cell_bytes: int


def wred_of_thresholds(ecn: EcnThresholds, cell_bytes: int) -> WredProfile:
    """Return the nearest device form; Pmax never rounds to 0, which would switch ECN off.

    Cells: 254 B on Broadcom XGS, 96/144/192/256 B on Spectrum 1/2-3/4-5/6.
    """
    return WredProfile(
        kmin_cells=round(ecn.kmin_bytes / cell_bytes),
        kmax_cells=round(ecn.kmax_bytes / cell_bytes),
        pmax_percent=max(1, round(ecn.pmax_ratio * 100)),
        cell_bytes=cell_bytes,
    )


def thresholds_of_wred(profile: WredProfile) -> EcnThresholds:
    """Return the thresholds that a device form stands for."""
    return EcnThresholds(
        kmin_bytes=profile.kmin_cells * profile.cell_bytes,
        kmax_bytes=profile.kmax_cells * profile.cell_bytes,
        pmax_ratio=profile.pmax_percent / 100,
    )


def thresholds_of_fill(
    queue_limit_bytes: float, low_percent: float, high_percent: float, pmax_percent: float
) -> EcnThresholds:
    """Return the thresholds of a Junos drop profile: percent of the queue's current limit."""
    return EcnThresholds(
        kmin_bytes=queue_limit_bytes * low_percent / 100,
        kmax_bytes=queue_limit_bytes * high_percent / 100,
        pmax_ratio=pmax_percent / 100,
    )


@dataclass(frozen=True, slots=True)
class PublishedEcn:
    """A published set; `link_bps` None where the source gives one set for every speed."""

    source: str
    link_bps: float | None
    ecn: EcnThresholds


def _row(
    source: str, gbps: float | None, kmin: float, kmax: float, pmax: float, *, unit: int = KB
) -> PublishedEcn:
    thresholds = EcnThresholds(kmin * unit, kmax * unit, pmax)
    return PublishedEcn(source, None if gbps is None else gbps * 1e9, thresholds)


PUBLISHED: tuple[PublishedEcn, ...] = (
    _row("SIGCOMM'15 deployed", 40, 5, 200, 0.01),
    _row("ns3-rdma", 40, 40, 1000, 1.0),
    *(_row("HPCC", gbps, 4 * gbps, 16 * gbps, 0.2) for gbps in (25, 50, 100, 200, 400)),
    _row("conweave", 100, 100, 400, 0.2),
    *(_row("SimAI", gbps, 4 * gbps, 16 * gbps, 0.2) for gbps in (25, 50, 100)),
    _row("SimAI", 200, 300, 1200, 0.8),
    _row("SimAI", 400, 800, 3200, 0.2),
    _row("SimAI", 1600, 600, 2400, 0.2),
    *(_row("Hawkeye", gbps, 0.4 * gbps, 1.6 * gbps, 0.2) for gbps in (25, 50, 100, 200, 400)),
    _row("Paraleon default", 400, 400, 1600, 0.2),
    _row("Paraleon expert", 400, 1600, 6400, 0.2),
    _row("SONiC AZURE_LOSSLESS", None, 1024, 2048, 0.05, unit=KIB),
    _row("NVIDIA Onyx roce", None, 150, 1500, 1.0),
    _row("Cisco Nexus 9000 AI", None, 150, 3000, 0.07),
    _row("Cisco Nexus storage", None, 150, 1500, 1.0),
    _row("Cisco sample", None, 150, 500, 0.1),
)

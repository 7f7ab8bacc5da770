"""Marks must come before pauses: bounds on Kmin and Kmax from the buffer's PFC thresholds.

SIGCOMM'15 section 4 (static and dynamic thresholds, worst case over all ports) and the graded
bounds for k ingress ports that feed one egress queue. The printed derivation has two slips that
are corrected here: s <= L·n·t_ECN (not n·t_ECN), and the static result is 0.765 KB, not 0.85.
"""

from __future__ import annotations

from dataclasses import dataclass

from collectors.model.ecn import EcnThresholds


@dataclass(frozen=True, slots=True)
class SharedBuffer:
    """A switch buffer: total bytes, ports, lossless priorities, headroom per port and priority."""

    total_bytes: float
    ports: int
    lossless_priorities: int
    headroom_bytes: float

    @property
    def shared_bytes(self) -> float:
        """What is left for sharing after all headroom; raises ValueError if nothing is."""
        left = self.total_bytes - self.lossless_priorities * self.ports * self.headroom_bytes
        if left <= 0:
            raise ValueError(
                f"headroom for {self.ports} ports × {self.lossless_priorities} priorities "
                f"takes the whole buffer of {self.total_bytes:.0f} B"
            )
        return left


def static_pfc_bound(buffer: SharedBuffer) -> float:
    """Return the largest safe static PFC threshold per port and priority, in bytes."""
    return buffer.shared_bytes / (buffer.lossless_priorities * buffer.ports)


def static_ecn_bound(buffer: SharedBuffer) -> float:
    """Return the Kmin bound in bytes under that static threshold: t_PFC > n·t_ECN."""
    return static_pfc_bound(buffer) / buffer.ports


def worst_case_bound(buffer: SharedBuffer, alpha: float) -> float:
    """Return the Kmin bound in bytes when one ingress feeds all egress queues just below Kmin.

    Kmin < α·F / (n·(1 + α·L)) for a threshold of α·(free shared buffer) per priority group.
    """
    loaded = 1 + alpha * buffer.lossless_priorities
    return alpha * buffer.shared_bytes / (buffer.ports * loaded)


def incast_bound(buffer: SharedBuffer, alpha: float, senders: int) -> float:
    """Return the bound in bytes for one egress queue that `senders` ingress ports feed alike.

    k·α·F / (1 + k·α): each ingress holds 1/k of the queue. It bounds Kmin, and Kmax too where
    full marking must be reachable before the pause.
    """
    if senders < 1:
        raise ValueError(f"needs at least one sender, got {senders}")
    gain = senders * alpha
    return gain * buffer.shared_bytes / (1 + gain)


@dataclass(frozen=True, slots=True)
class Ordering:
    """Whether marks precede pauses: always, for this incast, and for the full curve."""

    safe_always: bool
    safe_for_incast: bool
    kmax_reachable: bool
    worst_case_bytes: float
    incast_bytes: float


def ordering(buffer: SharedBuffer, alpha: float, ecn: EcnThresholds, senders: int) -> Ordering:
    """Return how these thresholds stand against the bounds for a k-to-1 incast."""
    worst = worst_case_bound(buffer, alpha)
    incast = incast_bound(buffer, alpha, senders)
    return Ordering(
        safe_always=ecn.kmin_bytes < worst,
        safe_for_incast=ecn.kmin_bytes < incast,
        kmax_reachable=ecn.kmax_bytes < incast,
        worst_case_bytes=worst,
        incast_bytes=incast,
    )


def smallest_alpha(buffer: SharedBuffer, kmin_bytes: float, senders: int) -> float:
    """Return the α above which a k-to-1 incast marks before it pauses; ValueError if none."""
    free = buffer.shared_bytes - kmin_bytes
    if free <= 0:
        raise ValueError(f"Kmin {kmin_bytes:.0f} B is more than the shared buffer")
    return kmin_bytes / (senders * free)

"""Published settings of switches and NICs, as candidates: one row each, with its source.

Thresholds are those of a 100G port unless the source scales them with speed. Sources that give
only one side are completed with the other side's most common default: NVIDIA's firmware for NICs
(what most of these switches face), SONiC's for switches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from collectors.model.dcqcn import DcqcnParameters, profile
from collectors.model.ecn import KB, KIB, EcnThresholds

MIB: Final = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Preset:
    """A published configuration. `dcqcn` names a profile, '' is DCQCN off; ECN by line rate."""

    name: str
    source: str
    dcqcn: str
    ecn: Callable[[float], EcnThresholds]

    def parameters(self, line_bps: float) -> DcqcnParameters | None:
        """Return the NIC parameters at a line rate, None for DCQCN off."""
        return profile(self.dcqcn, line_bps) if self.dcqcn else None


def _fixed(kmin: float, kmax: float, pmax: float) -> Callable[[float], EcnThresholds]:
    return lambda _line_bps: EcnThresholds(kmin, kmax, pmax)


def _scaled(
    kmin: float, kmax: float, pmax: float, per_bps: float
) -> Callable[[float], EcnThresholds]:
    return lambda line_bps: EcnThresholds(
        kmin * line_bps / per_bps, kmax * line_bps / per_bps, pmax
    )


_NVIDIA: Final = "nvidia_firmware"
PRESETS: Final = (
    Preset(
        "dcqcn-off", "Meta, SIGCOMM'24 section 5.2.1: PFC only for over a year at 400G", "",
        _fixed(150 * KB, 1500 * KB, 1.0),
    ),
    Preset(
        "sonic-azure", "SONiC qos_config.j2 AZURE_LOSSLESS; NSDI'23", _NVIDIA,
        _fixed(MIB, 2 * MIB, 0.05),
    ),
    Preset(
        "hpcc", "Li et al., SIGCOMM'19, run.py (25G: 100/400 KB, 20 %)", "hpcc",
        _scaled(100 * KB, 400 * KB, 0.2, 25e9),
    ),
    Preset(
        "paraleon-expert", "ParaleonPlus tuning.py (1600/6400 KB, 20 %)", "paraleon_expert",
        _fixed(1600 * KB, 6400 * KB, 0.2),
    ),
    Preset(
        "nvidia", "NVIDIA Onyx and Cumulus RoCE defaults; DOCA DCQCN parameters", _NVIDIA,
        _fixed(150 * KB, 1500 * KB, 1.0),
    ),
    Preset(
        "cisco-ai", "Cisco Nexus 9000 AI blueprint (150/3000 KB, 7 %)", _NVIDIA,
        _fixed(150 * KB, 3000 * KB, 0.07),
    ),
    Preset(
        "paper", "Zhu et al., SIGCOMM'15; CoNEXT'16 (40G: 5/200 KB, 1 %)", "paper",
        _fixed(5 * KB, 200 * KB, 0.01),
    ),
    Preset(
        "ns3-rdma", "bobzhuyb/ns3-rdma sample configuration", "ns3_rdma",
        _fixed(40 * KB, 1000 * KB, 1.0),
    ),
    Preset(
        "conweave", "Song et al., SIGCOMM'23, run.py (100G: 100/400 KB, 20 %)", "conweave",
        _scaled(100 * KB, 400 * KB, 0.2, 100e9),
    ),
    Preset(
        "simai", "SimAI.conf (100G: 400/1600 KB, 20 %)", "simai",
        _scaled(400 * KB, 1600 * KB, 0.2, 100e9),
    ),
    Preset(
        "hawkeye", "Hawkeye, SIGCOMM'25 (100G: 40/160 KB, 20 %)", "hpcc",
        _scaled(40 * KB, 160 * KB, 0.2, 100e9),
    ),
    Preset(
        "paraleon-default", "ParaleonPlus tuning.py (400/1600 KB, 20 %)", _NVIDIA,
        _fixed(400 * KB, 1600 * KB, 0.2),
    ),
    Preset(
        "cisco-alternative", "Cisco Nexus sample (150/500 KB, 10 %)", _NVIDIA,
        _fixed(150 * KB, 500 * KB, 0.1),
    ),
)  # fmt: skip
"""Those that differ most come first, for searches that end early.

Arista's guides print NVIDIA's thresholds; Juniper's are shares of a moving buffer limit.
"""

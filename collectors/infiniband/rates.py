"""Two sweeps side by side: shares of the link used and waited, errors, for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from collectors.codec import mad_perf
from collectors.infiniband.counters import Capability, Swept, Values
from collectors.infiniband.readings import tick_of
from collectors.infiniband.topology import End, Topology, name_of

_WORD_BITS: Final = 32
_ERRORS: Final = (
    "SymbolErrorCounter",
    "LinkErrorRecoveryCounter",
    "LinkDownedCounter",
    "PortRcvErrors",
    "LocalLinkIntegrityErrors",
    "ExcessiveBufferOverrunErrors",
)
_NOTABLE_WAIT: Final = 0.01


@dataclass(frozen=True, slots=True)
class PortRate:
    """A port between two sweeps. Shares are of the link's data rate and of time, None unknown."""

    name: str
    peer: str
    link: str
    tx_share: float | None
    rx_share: float | None
    wait_share: float | None
    discards: int
    errors: int
    saturated: bool

    @property
    def is_notable(self) -> bool:
        """Tell whether a person should look at the port."""
        return bool(self.discards or self.errors or (self.wait_share or 0.0) >= _NOTABLE_WAIT)

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def _merged(values: Values) -> dict[str, int]:
    """Return the fields of the narrow counters, overlaid by the wide ones."""
    return {
        **values.get(mad_perf.PORT_COUNTERS.name, {}),
        **values.get(mad_perf.PORT_COUNTERS_EXTENDED.name, {}),
    }


def port_rates(
    topology: Topology, capabilities: Mapping[int, Capability], first: Swept, second: Swept
) -> list[PortRate]:
    """Return the ports that both sweeps have, worst first."""
    made = []
    for end, values in second.ports.items():
        if end not in first.ports or end not in first.at_s or end not in second.at_s:
            continue
        seconds = second.at_s[end] - first.at_s[end]
        if seconds > 0:
            made.append(
                _rate(
                    topology, capabilities, end, _merged(first.ports[end]), _merged(values), seconds
                )
            )
    return sorted(made, key=lambda r: (-(r.wait_share or 0.0), -r.errors, -r.discards, r.name))


def _rate(
    topology: Topology,
    capabilities: Mapping[int, Capability],
    end: End,
    before: Mapping[str, int],
    after: Mapping[str, int],
    seconds: float,
) -> PortRate:
    node = topology.nodes[end.guid]
    port = node.ports[end.port]

    def grown(field: str) -> int | None:
        if field not in before or field not in after:
            return None
        # somebody may have cleared it in between: what was counted since then
        return after[field] - before[field] if after[field] >= before[field] else after[field]

    def share(field: str, unit: float) -> float | None:
        delta = grown(field)
        if delta is None or not port.rate_bps:
            return None
        return delta * unit / seconds

    bits = _WORD_BITS / port.rate_bps if port.rate_bps else 0.0
    wait = share("PortXmitWait", tick_of(port, capabilities.get(node.lid_of(end.port))))
    return PortRate(
        name_of(topology, end),
        name_of(topology, port.peer) if port.peer else "",
        port.label,
        share("PortXmitData", bits),
        share("PortRcvData", bits),
        wait,
        grown("PortXmitDiscards") or 0,
        sum(grown(field) or 0 for field in _ERRORS),
        after.get("PortXmitWait") in (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF),
    )

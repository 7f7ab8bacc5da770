"""Short forms for the sources of switches, and the one grammar of their keys.

A key is a column OID, a schema path, a database field or an OTLP name. Where a part of the
index decides what the value means, or where the name itself carries the queue, it follows in
braces: `1.3.6.1.4.1.9.9.580.1.5.5.1.4{dir=2,stat=1}`, `SAI_PORT_STAT_PFC_3_RX_PKTS{priority=3}`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from collectors.model.metric import Source, Via

US: Final = Fraction(1, 10**6)
MS: Final = Fraction(1, 1000)
NS: Final = Fraction(1, 10**9)
MBPS: Final = Fraction(10**6)
PRIORITIES: Final = range(8)

_KEY = re.compile(r"([^{]+)(?:\{([^}]*)\})?")


def parse_key(key: str) -> tuple[str, dict[str, int]]:
    """Return the name in front of the braces and what stands in them."""
    match = _KEY.fullmatch(key)
    if match is None:
        raise ValueError(f"{key!r} is no key of a source")
    pairs = (part.partition("=") for part in (match[2] or "").split(",") if part)
    return match[1], {name: int(value) for name, _, value in pairs}


def snmp(
    oid: str, mib: str, width: int = 64, scale: Fraction = Fraction(1), note: str = ""
) -> Source:
    """Return a column of a MIB."""
    return Source("snmp", oid, mib, scale=scale, width=width, note=note)


def gnmi(path: str, vendor: str = "*", scale: Fraction = Fraction(1), note: str = "") -> Source:
    """Return a leaf; `*` is OpenConfig."""
    return Source("gnmi", path, vendor, scale=scale, note=note)


def sonic(field: str, scale: Fraction = Fraction(1), note: str = "") -> Source:
    """Return a field of SONiC's COUNTERS_DB."""
    return Source("sonic_db", field, "sonic", scale=scale, note=note)


def otlp(name: str, scale: Fraction = Fraction(1), note: str = "") -> Source:
    """Return a metric of Cumulus/NVOS OTLP: integers below 2^53, sent as doubles."""
    return Source("otlp", name, "nvue", scale=scale, width=53, number="float", note=note)


def by_priority(
    via: Via, template: str, driver: str, scale: Fraction = Fraction(1), note: str = ""
) -> tuple[Source, ...]:
    """Return eight sources whose names carry the priority as `{p}`."""
    return tuple(
        Source(via, f"{template.replace('{p}', str(p))}{{priority={p}}}", driver, scale, note=note)
        for p in PRIORITIES
    )


IF_HC: Final = "1.3.6.1.2.1.31.1.1.1"
IF: Final = "1.3.6.1.2.1.2.2.1"
DOT3: Final = "1.3.6.1.2.1.10.7"
IEEE_PFC: Final = "1.3.111.2.802.1.1.21.1.1.1"
CISCO_PFC: Final = "1.3.6.1.4.1.9.9.813.1"
CISCO_QOS: Final = "1.3.6.1.4.1.9.9.580.1.5"
CISCO_CBQOS: Final = "1.3.6.1.4.1.9.9.166.1"
ARISTA_PFC: Final = "1.3.6.1.4.1.30065.3.11.1"
ARISTA_QUEUE: Final = "1.3.6.1.4.1.30065.3.6.1"
ARISTA_QOS: Final = "1.3.6.1.4.1.30065.3.13.1"
ARISTA_XGS: Final = "1.3.6.1.4.1.30065.3.26.2.1"
ONYX_QOS: Final = "1.3.6.1.4.1.33049.15.1"
CUMULUS: Final = "1.3.6.1.4.1.40310.2.2.3.1"
JUNIPER_COS: Final = "1.3.6.1.4.1.2636.3.15.4.1"

OC_IF: Final = "/interfaces/interface/state/counters"
OC_ETH: Final = "/interfaces/interface/ethernet/state/counters"
OC_QUEUE: Final = "/qos/interfaces/interface/output/queues/queue/state"
EOS_PFC: Final = "/interfaces/interface/ethernet/pfc/priorities/priority/state"
EOS_WATCHDOG: Final = "/interfaces/interface/ethernet/pfc/watchdog/tx-queues/tx-queue/state"
NXOS_QUEUE: Final = (
    "/System/ipqos-items/queuing-items/policy-items/out-items/intf-items/If-list"
    "/queCmap-items/QueuingStats-list"
)
JUNOS_QUEUE: Final = "/interfaces/interface/state/counters/out-queue"
JUNOS_PFC: Final = "/interfaces/interface/ethernet/state/counters/jnx-pfc-statistics"
PPCNT_UNIT: Final = "not stated by OTLP; the chip's register (PPCNT) counts microseconds"
NVUE_PRIORITY: Final = "/qos/interfaces/interface/state/switch-priority/counters"

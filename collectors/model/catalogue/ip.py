"""Kernel IP counters that see ECN: for devices whose hardware does not count it (Soft-RoCE).

Kernel include/net/ip.h, net/ipv6/ip6_input.c: every IPv6 packet received is counted by its ECN
field, per interface in /proc/net/dev_snmp6/<netdev>, and for the whole network namespace in
/proc/net/netstat (group IpExt, IPv4 only).
"""

from typing import Final

from collectors.model.metric import Metric, Source, counter


def _ecn(field: str) -> tuple[Source, ...]:
    return (Source("dev_snmp6", f"Ip6In{field}"), Source("netstat", f"IpExt In{field}"))


IP_CE_RX = counter(
    "fabric_ip_ecn_ce_rx_packets_total",
    "packets",
    "IP packets received with congestion experienced.",
    *_ecn("CEPkts"),
    on=("netdev", "host"),
)
IP_ECT0_RX = counter(
    "fabric_ip_ecn_ect0_rx_packets_total",
    "packets",
    "IP packets received with ECT(0).",
    *_ecn("ECT0Pkts"),
    on=("netdev", "host"),
)
IP_ECT1_RX = counter(
    "fabric_ip_ecn_ect1_rx_packets_total",
    "packets",
    "IP packets received with ECT(1).",
    *_ecn("ECT1Pkts"),
    on=("netdev", "host"),
)
IP_NOT_ECT_RX = counter(
    "fabric_ip_ecn_not_ect_rx_packets_total",
    "packets",
    "IP packets received that cannot be marked: a full queue drops them.",
    *_ecn("NoECTPkts"),
    on=("netdev", "host"),
)
IP_RX = counter(
    "fabric_ip_rx_packets_total",
    "packets",
    "IPv6 packets received on the interface.",
    Source("dev_snmp6", "Ip6InReceives"),
    on="netdev",
)
IP_TX = counter(
    "fabric_ip_tx_packets_total",
    "packets",
    "IPv6 packets that this host sent through the interface.",
    Source("dev_snmp6", "Ip6OutRequests"),
    on="netdev",
)
IP_RX_DISCARDS = counter(
    "fabric_ip_rx_discards_total",
    "packets",
    "IPv6 packets received and discarded for want of buffer.",
    Source("dev_snmp6", "Ip6InDiscards"),
    on="netdev",
)
IP_TOO_BIG = counter(
    "fabric_ip_rx_too_big_errors_total",
    "packets",
    "IPv6 packets to forward that were larger than the next link's MTU.",
    Source("dev_snmp6", "Ip6InTooBigErrors"),
    on="netdev",
)

METRICS: Final = tuple(row for row in list(globals().values()) if isinstance(row, Metric))

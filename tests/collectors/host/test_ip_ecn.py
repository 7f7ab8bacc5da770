"""Kernel IP counters: per interface for IPv6, whole namespace for IPv4, from text of a kernel."""

from collectors.host.ip_ecn import IpEcnCollector, parse_netstat
from simlab.hosts.tree import FakeDevice, FakeNetdev, FakePort, write_device, write_netdev

NETSTAT = """TcpExt: SyncookiesSent SyncookiesRecv
TcpExt: 0 0
IpExt: InNoRoutes InTruncatedPkts InCEPkts InECT0Pkts
IpExt: 1 2 1886 -3
"""


def build(tmp_path, netdev="h1", **counters):
    port = FakePort(gids={0: ("fe80::1", "RoCE v2", netdev)})
    write_device(tmp_path, FakeDevice("rxe1", "", files={"parent": netdev}, ports=(port,)))
    write_netdev(tmp_path, FakeNetdev(netdev, index=7, snmp6=counters))
    (tmp_path / "proc/net/netstat").write_text(NETSTAT)


def test_both_levels(host, tmp_path, clock):
    build(tmp_path, Ip6InCEPkts=4598, Ip6InECT0Pkts=9, Ip6InNoECTPkts=1, Icmp6InMsgs=3)
    result = IpEcnCollector(host()).read(clock)
    got = {
        str(r.entity): ({c.metric: v for c, v in r.values.items()}, r.incarnation)
        for r in result.readings
    }
    assert got == {
        "netdev/n1/h1": (
            {
                "fabric_ip_ecn_ce_rx_packets_total": 4598,
                "fabric_ip_ecn_ect0_rx_packets_total": 9,
                "fabric_ip_ecn_not_ect_rx_packets_total": 1,
            },
            "boot1:7",
        ),
        "host/n1": ({"fabric_ip_ecn_ce_rx_packets_total": 1886}, "boot1"),
    }
    assert [(gap.what, gap.reason) for gap in result.gaps] == [("IpExt InECT0Pkts", "negative")]


def test_an_interface_without_ipv6_is_a_gap(host, tmp_path, clock):
    build(tmp_path)
    (tmp_path / "proc/net/dev_snmp6/h1").unlink()
    result = IpEcnCollector(host()).read(clock)
    assert ("netdev/n1/h1", "ENOENT") in [(gap.subject, gap.reason) for gap in result.gaps]
    assert len(result.readings) == 1


def test_netstat_pairs_only_lines_of_one_group():
    text = "A: x y\nB: 1 2\nC: z\nC: 3\n"
    assert list(parse_netstat(text)) == [("C z", "3")]


def test_n8_a_netdev_name_with_a_colon(host, tmp_path, clock):
    """N8: an IPoIB child."""
    build(tmp_path, "ibr10:30", Ip6InCEPkts=1)
    assert str(IpEcnCollector(host()).read(clock).readings[0].entity) == "netdev/n1/ibr10:30"

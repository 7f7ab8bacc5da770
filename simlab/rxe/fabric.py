"""A scenario's fabric as commands for iproute2: pure, nothing is run here.

Every host hN is the end of a veth pair in the initial namespace (rxe of kernel 6.1 knows no
other) with one IPv6 address and an rxe device; the other end pN is a port of the bridge br0 in
the namespace `sw`. So that packets between two addresses of one kernel really cross the switch,
each source address has its own routing table whose routes go out of its own hN, and the local
table is asked first only for what arrives on an hN. The fault of a cable (loss, delay) sits in an
ifb device behind the receiving end, where no counter of host or switch port shows it.
"""

from __future__ import annotations

from collections.abc import Mapping

from simlab.rxe.scenario import Link, Scenario, host_names

SWITCH = "sw"
MODULES = (
    *("rdma_rxe", "ib_uverbs", "veth", "bridge", "ifb", "cls_matchall", "act_mirred"),
    *("sch_tbf", "sch_red", "sch_netem", "sch_ingress"),
)
RED_AVERAGE_PACKET = 1100  # bytes: a RoCE packet at path MTU 1024 with its headers
TBF_BURST_FRAMES = 4


def address(host: str) -> str:
    """IPv6 address of a host."""
    return f"fd00:fab::{host[1:]}"


def mac(host: str) -> str:
    """MAC address of a host's end of its link."""
    return f"02:fa:b0:00:00:{int(host[1:]):02x}"


def switch_port(host: str) -> str:
    """Name of the switch port that a host hangs on: hN on pN."""
    return f"p{host[1:]}"


def rdma_device(host: str) -> str:
    """Name of a host's RDMA device."""
    return f"rxe_{host}"


def create(count: int, management: str = "") -> str:
    """Shell script that builds a fabric of `count` hosts, links up, no limits yet.

    `management`: shell lines that give the switch's namespace a way out, for its agent.
    """
    hosts = host_names(count)
    outside: list[str] = []
    inside = [
        "link add br0 type bridge stp_state 0 mcast_snooping 0 ageing_time 0",
        "link set br0 mtu 9216 up",
    ]
    rules = []
    one = "numrxqueues 1 numtxqueues 1"
    for host in hosts:
        port, own = switch_port(host), address(host)
        table = 100 + int(host[1:])
        outside += [
            f"link add {host} address {mac(host)} {one} type veth peer name {port} netns {SWITCH}",
            f"link set {host} addrgenmode none",
            f"link set {host} up",
            f"addr add {own}/128 dev {host} nodad",
        ]
        inside += [f"link set {port} master br0", f"link set {port} up"]
        rules += [
            f"rule add pref 10 iif {host} lookup local",
            f"rule add pref 20 from {own} iif lo lookup {table}",
        ]
        for peer in hosts:
            if peer != host:
                rules += [
                    f"route add {address(peer)}/128 dev {host} table {table}",
                    f"neigh replace {address(peer)} lladdr {mac(peer)} dev {host} nud permanent",
                ]
    rules += ["rule add pref 1000 lookup local", "rule del pref 0"]
    fdb = [f"fdb replace {mac(host)} dev {switch_port(host)} master static" for host in hosts]
    ports = [switch_port(host) for host in hosts]
    no_ipv6 = "net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1"
    # Two CPUs that deliver one link's packets reorder them, and RC takes that for loss.
    steer = "for d in {}; do echo 1 > /sys/class/net/$d/queues/rx-0/rps_cpus; done"
    devices = [f"link add {rdma_device(host)} type rxe netdev {host}" for host in hosts]
    return "\n".join(
        [
            "set -e",
            f"modprobe -a {' '.join(MODULES)}",
            f"ip netns add {SWITCH}",
            f"ip netns exec {SWITCH} sysctl -qw {no_ipv6}",
            f"ip -n {SWITCH} link set lo up",
            management,
            _batch("ip -batch -", outside),
            *(f"sysctl -qw net.ipv6.conf.{host}.accept_ra=0" for host in hosts),
            _batch(f"ip -n {SWITCH} -batch -", inside),
            _batch(f"bridge -n {SWITCH} -batch -", fdb),
            _batch("ip -6 -batch -", rules),
            _batch("rdma -b -", devices),
            steer.format(" ".join(hosts)),
            f"ip netns exec {SWITCH} sh -c '{steer.format(' '.join(ports))}'",
        ]
    )


def destroy() -> str:
    """Shell script that takes any lab fabric off again, whatever is left of it."""
    rules = ["rule add pref 0 lookup local", "rule del pref 1000 lookup local"]
    links = []
    for host in host_names(8):
        rules += [f"rule del pref 10 iif {host}", f"rule del pref 20 from {address(host)}"]
        links += [f"link del {host}", f"link del cable-{host}"]
    # An rxe device goes with its interface, a switch port with the other end of its link.
    return "\n".join(
        [
            _batch("ip -6 -force -batch - >/dev/null 2>&1", rules),
            _batch("ip -force -batch - >/dev/null 2>&1", links),
            f"ip netns del {SWITCH} 2>/dev/null",
            "true",
        ]
    )


def settings(scenario: Scenario) -> str:
    """Shell script that gives every link of a standing fabric its rate, queue, MTU and cable."""
    return link_settings({host: scenario.link(host) for host in scenario.hosts})


def link_settings(links: Mapping[str, Link]) -> str:
    """Shell script for the links of these hosts; safe to repeat while traffic runs."""
    parts = ["set -e"]
    for ends, on_switch in ((links, False), ({switch_port(h): k for h, k in links.items()}, True)):
        namespace = f"-n {SWITCH}" if on_switch else ""
        mtus, cables, queues = [], [], []
        for end, link in ends.items():
            mtu = link.switch_mtu if on_switch else link.host_mtu
            mtus.append(f"link set {end} mtu {mtu}")
            queues += _queues(end, link, on_switch=on_switch)
            if link.loss_ratio or link.delay_s:
                cables.append(end)
                queues += _cable(end, link)
        parts += [
            _batch(f"ip {namespace} -batch -", mtus),
            # What is not there cannot be deleted, and does not matter.
            _batch(
                f"! tc {namespace} -force -batch - >/dev/null 2>&1",
                [f"qdisc del dev {end} ingress" for end in ends],
            ),
            *(
                f"ip {namespace} link add cable-{end} type ifb 2>/dev/null || true"
                for end in cables
            ),
            *(f"ip {namespace} link set cable-{end} mtu 9216 up" for end in cables),
            _batch(f"tc {namespace} -batch -", queues),
        ]
    return "\n".join(parts)


def _queues(end: str, link: Link, *, on_switch: bool) -> list[str]:
    """Shaper of one end of a link; RED below it at the switch's end."""
    burst = TBF_BURST_FRAMES * (max(link.host_mtu, link.switch_mtu) + 18)
    shaper = f"qdisc replace dev {end} root handle 1: tbf rate {link.rate_bps}bit burst {burst}"
    if not on_switch:  # a NIC does not drop its own packets: there is room for every window
        return [f"{shaper} limit 8000000"]
    queue = link.queue
    red = (
        f"red limit {queue.limit_bytes} min {queue.kmin_bytes} max {queue.kmax_bytes}"
        f" avpkt {RED_AVERAGE_PACKET} burst {_red_burst(queue.kmin_bytes, queue.kmax_bytes)}"
        f" probability {queue.pmax_ratio} bandwidth {link.rate_bps}bit"
    )
    return [
        f"{shaper} limit {queue.limit_bytes}",
        f"qdisc replace dev {end} parent 1:1 handle 10: {red} {'ecn' if queue.ecn else ''}",
    ]


def _cable(end: str, link: Link) -> list[str]:
    """Loss and delay of what arrives at one end of a cable."""
    delay = f"delay {link.delay_s * 1e6:.0f}us" if link.delay_s else ""
    loss = f"loss random {link.loss_ratio * 100}%" if link.loss_ratio else ""
    cable = f"cable-{end}"
    return [
        f"qdisc replace dev {cable} root handle 1: netem limit 100000 {delay} {loss}",
        f"qdisc add dev {end} ingress",
        f"filter add dev {end} ingress matchall action mirred egress redirect dev {cable}",
    ]


def _red_burst(kmin: int, kmax: int) -> int:
    """Return tc-red(8)'s recommended burst, in packets."""
    return max(1, -(-(2 * kmin + kmax) // (3 * RED_AVERAGE_PACKET)))


def _batch(command: str, lines: list[str]) -> str:
    return "\n".join([f"{command} <<'END'", *lines, "END"])

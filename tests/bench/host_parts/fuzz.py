"""Random and mutated input to every parser of the host side: only its typed error may come out."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from collectors.codec import dcb, ethtool, genetlink, lldp, netlink, optics, qdisc, rtnetlink
from collectors.codec import rdma_netlink as rdma
from collectors.codec.rdma_layout import counter_layout
from collectors.host import congestion_control, ip_ecn, jobs, mstconfig, pcie, sysfs
from collectors.host.kernel_file import Unreadable, parse_count
from collectors.host.lldp import parse_lldpd
from collectors.model.errors import FabricError
from simlab.hosts.profile import FakeHost, build_host
from simlab.hosts.responder import FakeQueuePair, RdmaResponder
from simlab.hosts.server import FakeKernel, lldp_frame
from tests.bench.packet_parts.report import Report

TOTAL = 100_000


def of_message(parse: Callable[[netlink.Message], object]) -> Callable[[bytes], None]:
    """Return a target that takes a datagram and parses each of its messages."""

    def target(data: bytes) -> None:
        for message in netlink.parse_messages(data):
            parse(message)

    return target


def of_text(parse: Callable[[str], object]) -> Callable[[bytes], None]:
    """Return a target that takes bytes as text."""
    return lambda data: exhaust(parse(data.decode("utf-8", "replace")))


def read_by_layout(data: bytes) -> None:
    """Take the layout of a datagram, and read it and a shorter one by that."""
    layout = counter_layout(data)
    if layout is not None:
        layout.read(data)
        layout.read(data[:-1])


def exhaust(result: object) -> None:
    """Run through what a parser returns lazily."""
    if hasattr(result, "__next__"):
        for _ in result:  # type: ignore[attr-defined]
            pass


def seeds() -> dict[str, list[bytes]]:
    """Return well-formed input by kind of parser."""
    host: FakeHost = build_host("n", "mlx5", 2)
    kernel = FakeKernel(host)
    pairs = (
        FakeQueuePair(5, 6, pid=7, peer=("10.0.0.1", "10.0.0.2"), counters={"np_cnp_sent": 1}),
    )
    responder = RdmaResponder(host.devices, queue_pairs=pairs, optional={"cc_rx_ce_pkts": True})
    asked = [rdma.pack_get_devices(), rdma.pack_get_ports(0), rdma.pack_get_counters(0, 1),
             rdma.pack_get_queue_pairs(0), rdma.pack_get_connections(0),
             rdma.pack_get_counter_sets(0, 1), rdma.pack_get_counter_mode(0, 1),
             rdma.pack_get_counter_status(0, 1), rdma.pack_get_system()]  # fmt: skip
    route, generic = kernel.open_netlink(0), kernel.open_netlink(16)
    return {
        "rdma": [data for request in asked for data in responder.request(request)],
        "dcb": [
            data
            for command in (dcb.CMD_IEEE_GET, dcb.CMD_GDCBX)
            for data in route.request(dcb.pack_get(command, "eth0"))
        ],
        "ethtool": [
            data
            for pack in (ethtool.pack_pause_get, ethtool.pack_link_modes_get)
            for data in generic.request(pack(20, "eth0"))
        ],
        "lldp": [lldp_frame("leaf1", b"\x02" * 6, "Ethernet1/1")],
        "text": [b"400 Gb/sec (4X NDR)\n", b"4: ACTIVE\n", b"18446744073709551615\n",
                 b"IpExt: InCEPkts\nIpExt: 5\n", b"Ip6InCEPkts \t 4\n", b"0x1a", b"16.0 GT/s PCIe",
                 b"TOTAL_ERR_COR 0\n", b"Global tclass=106", b"0::/slurm/uid_1/job_2/step_3"],
        "mstconfig": [(b"Configurations: Default Current Next Boot\n"
                      b"* USER_PROGRAMMABLE_CC False(0) True(1) True(1)\n")],
        "json": [b'{"lldp": [{"interface": [{"name": "eth0"}]}]}'],
        "bytes": [bytes(256), b"NCCL_IB_TC=106\0UCX_TLS=rc\0"],
    }  # fmt: skip


TARGETS: dict[str, tuple[str, Callable[[bytes], None]]] = {
    "netlink messages": ("rdma", lambda data: exhaust(netlink.parse_messages(data))),
    "netlink attributes": ("rdma", lambda data: exhaust(netlink.parse_attributes(data))),
    "rdma device": ("rdma", of_message(rdma.parse_device)),
    "rdma port": ("rdma", of_message(rdma.parse_port)),
    "rdma counters": ("rdma", of_message(rdma.parse_counters)),
    "rdma queue pairs": ("rdma", of_message(rdma.parse_queue_pairs)),
    "rdma connections": ("rdma", of_message(rdma.parse_connections)),
    "rdma counter sets": ("rdma", of_message(rdma.parse_counter_sets)),
    "rdma counter mode": ("rdma", of_message(rdma.parse_counter_mode)),
    "rdma counter status": ("rdma", of_message(rdma.parse_counter_status)),
    "rdma namespaces": ("rdma", of_message(rdma.parse_netns_exclusive)),
    "addresses": ("rdma", of_message(rtnetlink.parse_address)),
    "genetlink family": ("ethtool", of_message(lambda m: genetlink.parse_family(m, "ethtool"))),
    "ethtool pause": ("ethtool", of_message(ethtool.parse_pause)),
    "ethtool fec": ("ethtool", of_message(ethtool.parse_fec)),
    "ethtool link modes": ("ethtool", of_message(ethtool.parse_link_modes)),
    "ethtool link state": ("ethtool", of_message(ethtool.parse_link_state)),
    "ethtool statistics": ("ethtool", of_message(ethtool.parse_statistics)),
    "ethtool module": ("ethtool", of_message(ethtool.parse_module)),
    "dcb": ("dcb", of_message(dcb.parse_dcb)),
    "dcbx": ("dcb", of_message(dcb.parse_dcbx)),
    "qdisc": ("dcb", of_message(qdisc.parse_qdisc)),
    "lldp frame": ("lldp", lambda data: exhaust(lldp.parse_frame(data))),
    "lldpd json": ("json", of_text(parse_lldpd)),
    "module memory": ("bytes", lambda data: exhaust(optics.parse_module_readings(data, data))),
    "pcie configuration": ("bytes", lambda data: exhaust(pcie.parse_express(data))),
    "pcie acs": ("bytes", lambda data: exhaust(pcie.parse_acs_redirect(data))),
    "environment": ("bytes", lambda data: exhaust(jobs.parse_environment(data))),
    "count": ("text", lambda data: exhaust(parse_count(data))),
    "rate": ("text", of_text(sysfs.parse_rate)),
    "state": ("text", of_text(sysfs.parse_enum)),
    "netstat": ("text", of_text(ip_ecn.parse_netstat)),
    "dev_snmp6": ("text", of_text(ip_ecn.parse_dev_snmp6)),
    "pcie speed": ("text", of_text(pcie.parse_speed)),
    "aer": ("text", of_text(pcie.parse_aer)),
    "tclass": ("text", of_text(congestion_control.parse_tclass)),
    "mstconfig": ("mstconfig", of_text(lambda text: mstconfig.parse_mstconfig(text, 1, "running"))),
    "rdma counter layout": ("rdma", read_by_layout),
    "flexible number": ("text", of_text(congestion_control.parse_flexible)),
    "cgroup": ("text", of_text(jobs.parse_job)),
}


def mutate(valid: bytes, seed: int) -> bytes:
    """Return a well-formed input with bytes changed, cut out or put in, as the seed has it."""
    chance = random.Random(seed)
    data = bytearray(valid)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        what = chance.randrange(3)
        if what == 0 and at < len(data):
            data[at] = chance.randrange(256)
        elif what == 1:
            del data[at : at + chance.randint(1, 8)]
        else:
            data[at:at] = chance.randbytes(chance.randint(1, 8))
    return bytes(data)


def mutated(valid: list[bytes]) -> st.SearchStrategy[bytes]:
    """Return mutations of well-formed input."""
    return st.builds(mutate, st.sampled_from(valid), st.integers(0, 2**63))


def feed(target: Callable[[bytes], None], valid: list[bytes], examples: int) -> int:
    """Give a target so many examples; return how many it took. Raises what it must not."""
    taken = 0

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.one_of(mutated(valid), st.binary(max_size=120)))
    def run(data: bytes) -> None:
        nonlocal taken
        taken += 1
        try:
            target(data)
        except (FabricError, Unreadable):
            pass

    run()
    return taken


def fuzz(report: Report, _root: Path, _host: FakeHost) -> None:
    """Feed every parser; anything but FabricError and Unreadable is a failure."""
    report.title(f"Fuzz: {len(TARGETS)} parsers, {TOTAL} examples and more")
    valid = seeds()
    each = -(-TOTAL // len(TARGETS))
    ran, failures = 0, []
    began = time.monotonic()
    for name, (kind, target) in TARGETS.items():
        try:
            ran += feed(target, valid[kind], each)
        except Exception as error:  # noqa: BLE001
            failures.append(f"{name}: {type(error).__name__}: {error}"[:120])
    for failure in failures:
        report.note(failure)
    report.line(f"  {ran} examples in {time.monotonic() - began:.0f} s")
    report.check("fuzz: examples", ran, TOTAL, ">=", "examples")
    report.check("fuzz: parsers that raise another error", len(failures), 0, "<=", "parsers")

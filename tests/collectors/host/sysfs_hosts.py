"""Hosts whose sysfs tree is written for a test, and what was read of them."""

from simlab.hosts.responder import FakeEthtool, RdmaResponder
from simlab.hosts.tree import FakeDevice, FakePort

PMA = {
    "port_xmit_data": 100,
    "port_rcv_data": 200,
    "port_xmit_packets": 7,
    "port_rcv_packets": 8,
    "port_xmit_wait": 9,
    "symbol_error": 1,
    "link_downed": 2,
    "VL15_dropped": 3,
}
GIDS = {
    0: ("fe80:0000:0000:0000:ba3f:d2ff:fe12:3400", "IB/RoCE v1", "eth0"),
    1: ("0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2", "eth0"),
    2: ("0000:0000:0000:0000:0000:0000:0000:0000", "", ""),
}


def mlx5(name="mlx5_0", **port) -> FakeDevice:
    return FakeDevice(name, ports=(FakePort(**{"counters": PMA, "gids": GIDS, **port}),))


def values(result, kind="port") -> dict[str, float]:
    """Metric -> value in the metric's unit over all readings of entities of one kind."""
    return {
        column.metric: column.to_unit(value)
        for reading in result.readings
        if str(reading.entity).startswith(kind)
        for column, value in reading.values.items()
    }


def reasons(result) -> dict[str, str]:
    return {gap.what: gap.reason for gap in result.gaps}


class NoFrames:
    def take(self):
        return []

    def close(self):
        pass


def equipped(host, **changes):
    return host(
        open_ethtool=lambda: FakeEthtool({}, {}),
        open_netlink=lambda _: RdmaResponder(()),
        open_frames=lambda _: NoFrames(),
        **changes,
    )


def read(row, context, clock):
    return row.build(context).read(clock)

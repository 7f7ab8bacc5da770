"""What to subscribe to on each platform, and how it wants to be asked. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Mode = Literal["sample", "on_change"]
Login = Literal["metadata", "basic"]


@dataclass(frozen=True, slots=True)
class Vendor:
    """A platform.

    paths: subscribed to, `*` for any key. driver: its name in the catalogue. encodings: in order
    of preference. target, origin: put on the prefix. has_get: Get is there. mode: STREAM mode of
    counters. serial_setup: only one subscription at a time is set up; busy is an answer.
    login: how user and password travel.
    """

    driver: str
    paths: tuple[str, ...]
    encodings: tuple[str, ...] = ("PROTO", "JSON_IETF", "JSON")
    target: str = ""
    origin: str = ""
    has_get: bool = True
    mode: Mode = "sample"
    serial_setup: bool = False
    login: Login = "metadata"
    port: int = 57400
    sonic: bool = False


_OC: Final = (
    "/interfaces/interface[name=*]/state/counters",
    "/interfaces/interface[name=*]/state/oper-status",
    "/interfaces/interface[name=*]/ethernet/state/counters",
    "/qos/interfaces/interface[interface-id=*]/output/queues/queue[name=*]/state",
    "/lldp/interfaces/interface[name=*]/neighbors/neighbor[id=*]/state",
    "/lldp/state",
)
_EOS_WATCHDOG: Final = (
    "/interfaces/interface[name=*]/ethernet/pfc/watchdog/tx-queues"
    "/tx-queue[index=*][queue-type=*]/state"
)
_NXOS_QUEUES: Final = (
    "/System/ipqos-items/queuing-items/policy-items/out-items/intf-items"
    "/If-list[name=*]/queCmap-items/QueuingStats-list[cmapName=*]"
)

VENDORS: Final[dict[str, Vendor]] = {
    "openconfig": Vendor("openconfig", _OC),
    "eos": Vendor(
        "eos",
        (
            *_OC,
            "/interfaces/interface[name=*]/ethernet/pfc/priorities/priority[index=*]/state",
            _EOS_WATCHDOG,
        ),
        encodings=("JSON", "PROTO", "JSON_IETF"),
        port=6030,
    ),
    "nxos": Vendor("nxos", (*_OC, _NXOS_QUEUES), encodings=("JSON", "PROTO"), port=50051),
    "junos": Vendor(
        "junos",
        (
            *_OC,
            "/interfaces/interface[name=*]/ethernet/state/counters/jnx-pfc-statistics[priority=*]",
            "/interfaces/interface[name=*]/state/counters/out-queue[queue-number=*]",
        ),
        encodings=("PROTO", "JSON_IETF", "JSON"),
        port=32767,
    ),
    "nvue": Vendor(
        "nvue",
        (
            "/interfaces/interface[name=*]/state/counters",
            "/interfaces/interface[name=*]/ethernet/state/counters",
            "/qos/interfaces/interface[interface-id=*]/output/queues/queue[name=*]/state",
            "/qos/interfaces/interface[interface-id=*]/state/switch-priority[id=*]/counters",
            "/qos/interfaces/interface[interface-id=*]/state/priority-group[id=*]/counters",
        ),
        target="netq",
        has_get=False,
        serial_setup=True,
        login="basic",
        port=9339,
    ),
    "nvue_netq": Vendor(
        "nvue",
        ("/interfaces/interface[name=*]/ethernet/state/counters",),
        target="netq",
        has_get=False,
        mode="on_change",
        serial_setup=True,
        login="basic",
        port=9339,
    ),
    "sonic": Vendor(
        "sonic",
        (
            "/COUNTERS/Ethernet*",
            "/COUNTERS/Ethernet*/Queues",
            "/PERIODIC_WATERMARKS/Ethernet*/PriorityGroups",
        ),
        encodings=("JSON_IETF",),
        target="COUNTERS_DB",
        port=8080,
        sonic=True,
    ),
}

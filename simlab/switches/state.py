"""One simulated switch: ports, queues, priorities and what they counted.

The state knows no protocol. Its faces (SNMP, gNMI, Redis) show the same numbers as each
platform would, so that what three collectors read can be compared to the frame.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import product
from typing import Final

PLATFORMS: Final = ("eos", "nxos", "junos", "sonic", "nvue", "onyx", "openconfig")
PORT_WORDS: Final = ("rx_bytes", "tx_bytes", "rx_drops", "tx_drops", "rx_errors", "rx_crc")
PRIORITY_WORDS: Final = ("pfc_rx", "pfc_tx", "pause_rx_us")
QUEUE_WORDS: Final = (
    "q_packets", "q_bytes", "q_drops", "q_ecn", "q_wred", "q_depth", "q_max", "wd_storms",
)  # fmt: skip
GROUP_WORDS: Final = ("pg_max", "pg_headroom_max")
SLOTS: Final = 8

_NAMES: Final = {
    "eos": "Ethernet{n}/1",
    "nxos": "Ethernet1/{n}",
    "junos": "et-0/0/{zero}",
    "sonic": "Ethernet{times4}",
    "nvue": "swp{n}",
    "onyx": "Eth1/{n}",
    "openconfig": "eth{n}",
}


def port_name(platform: str, number: int) -> str:
    """Return the name of port `number` (from 1) in the platform's own spelling."""
    return _NAMES[platform].format(n=number, zero=number - 1, times4=4 * (number - 1))


def port_alias(platform: str, number: int) -> str:
    """Return the vendor's name of the port, which SONiC shows over SNMP and gNMI."""
    return f"etp{number}" if platform == "sonic" else port_name(platform, number)


Key = tuple[str, int, int]


@dataclass
class SwitchState:
    """Numbers by (word, port from 1, slot from 0; slot 0 for words of the port)."""

    name: str
    platform: str
    ports: int = 64
    seed: int = 0
    values: dict[Key, int] = field(default_factory=dict)
    changed: set[Key] = field(default_factory=set)
    up_ticks: int = 100_000
    neighbours: dict[int, tuple[str, str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.platform not in PLATFORMS:
            raise ValueError(f"{self.platform!r} is none of {', '.join(PLATFORMS)}")
        self._random = random.Random(f"{self.seed} {self.name}")
        ports, self.ports = self.ports, 0
        self.grow(ports)

    def grow(self, ports: int) -> None:
        """Have at least so many ports; new ones have counted nothing."""
        for port in range(self.ports + 1, ports + 1):
            self.values |= {(word, port, 0): 0 for word in PORT_WORDS}
            slots = product((*PRIORITY_WORDS, *QUEUE_WORDS, *GROUP_WORDS), range(SLOTS))
            self.values |= {(word, port, slot): 0 for word, slot in slots}
        self.ports = max(self.ports, ports)

    @property
    def mac(self) -> str:
        """Base MAC address, made from the name."""
        tail = random.Random(self.name).getrandbits(40).to_bytes(5, "big")
        return "02:" + tail.hex(":")

    def get(self, word: str, port: int, slot: int = 0) -> int:
        """Return one number."""
        return self.values[word, port, slot]

    def add(self, word: str, port: int, slot: int = 0, count: int = 1) -> None:
        """Count up."""
        key = (word, port, slot)
        self.values[key] += count
        self.changed.add(key)

    def put(self, word: str, port: int, slot: int, value: int) -> None:
        """Set a gauge."""
        self.values[word, port, slot] = value
        self.changed.add((word, port, slot))

    def run(self, seconds: float, load: float = 0.5, rate_bps: float = 400e9) -> None:
        """Let traffic of a load run on all ports, with some PFC and marks on priority 3."""
        self.up_ticks = (self.up_ticks + round(seconds * 100)) % 2**32
        draw = self._random.random
        for port in range(1, self.ports + 1):
            sent = int(rate_bps / 8 * load * seconds * (0.5 + draw()))
            packets = sent // 4096
            for word, count in (("tx_bytes", sent), ("rx_bytes", int(sent * (0.5 + draw())))):
                self.add(word, port, 0, count)
            self.add("q_bytes", port, 3, sent)
            self.add("q_packets", port, 3, packets)
            marked = int(packets * load * 0.02 * draw())
            self.add("q_ecn", port, 3, marked)
            paused = int(load * 200 * seconds * draw())
            self.add("pfc_rx", port, 3, paused)
            self.add("pause_rx_us", port, 3, paused * 3)
            self.add("pfc_tx", port, 3, int(load * 150 * seconds * draw()))
            depth = int(load * 400_000 * draw())
            self.put("q_depth", port, 3, depth)
            self.put("q_max", port, 3, max(depth, self.get("q_max", port, 3)))

    def restart(self) -> None:
        """Begin anew: every number 0, sysUpTime 0."""
        self.up_ticks = 0
        self.changed |= self.values.keys()
        self.values = dict.fromkeys(self.values, 0)

"""What the things of a simulated fabric are called in the product's vocabulary."""

from __future__ import annotations

from functools import cached_property

from collectors.model.entities import Device, Interface, Netdev, Port, Switch
from simlab.packet.topology import Topology


class Names:
    """What the simulated things are called in the vocabulary."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        tiers = topology.tier or (1,) * topology.node_count
        seen: dict[int, int] = {}
        self._switches: dict[int, Switch] = {}
        for node in topology.switches:
            number = seen[tiers[node]] = seen.get(tiers[node], -1) + 1
            word = {1: "leaf", 2: "spine", 3: "core"}.get(tiers[node], "switch")
            mac = f"02:00:00:00:{node >> 8:02x}:{node & 255:02x}"
            self._switches[node] = Switch(mac, f"{word}{number}")
        self._place = {
            node: divmod(i, topology.nics_per_host) for i, node in enumerate(topology.hosts)
        }
        self._numbers = topology.interface_numbers()

    @cached_property
    def hosts(self) -> dict[str, list[int]]:
        """The NIC nodes of every machine, by its name."""
        found: dict[str, list[int]] = {}
        for node in self.topology.hosts:
            found.setdefault(self.host(node), []).append(node)
        return found

    @cached_property
    def interfaces(self) -> dict[int, Interface]:
        """The switch interfaces by directed port."""
        forwarding = set(self.topology.switches)
        return {
            port: self.interface(port)
            for port in range(2 * len(self.topology.cables))
            if self.topology.end(port) in forwarding
        }

    def host(self, node: int) -> str:
        """Return the name of the machine that a NIC node belongs to."""
        return f"host{self._place[node][0]}"

    def device(self, node: int) -> Device:
        """Return the RDMA device of a NIC node; its key is the node GUID."""
        guid = f"{0x0200_5E00_0000_0000 + node:016x}"
        return Device(self.host(node), guid, f"mlx5_{self._place[node][1]}")

    def port(self, node: int) -> Port:
        """Return the RDMA port of a NIC node."""
        return Port(self.device(node), 1)

    def netdev(self, node: int) -> Netdev:
        """Return the network interface of a NIC node."""
        return Netdev(self.host(node), f"eth{self._place[node][1]}")

    def switch(self, node: int) -> Switch:
        """Return the switch of a node: leaf0, spine1 ..., known by its chassis MAC."""
        return self._switches[node]

    def interface(self, port: int) -> Interface:
        """Return the switch interface of a directed port."""
        number = self._numbers[port]
        return Interface(self.switch(self.topology.end(port)), f"Ethernet{4 * (number - 1)}")

"""Entities of the vocabulary back to the nodes, directed ports and cables of a plan."""

from __future__ import annotations

from functools import cached_property

from collectors.model.entities import (
    Device,
    Entity,
    Host,
    Interface,
    Link,
    Netdev,
    Port,
    Slot,
    Switch,
    link,
)
from collectors.model.errors import NotSupported
from simlab.packet.telemetry_names import Names
from simlab.packet.topology import Topology


class Places:
    """Looks things up both ways. Everything is made once, when first asked for."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.names = Names(topology)

    @cached_property
    def _switches(self) -> dict[Switch, int]:
        return {self.names.switch(node): node for node in self.topology.switches}

    @cached_property
    def _interfaces(self) -> dict[Interface, int]:
        return {interface: port for port, interface in self.names.interfaces.items()}

    @cached_property
    def _nics(self) -> dict[Entity, int]:
        found: dict[Entity, int] = {}
        for node in self.topology.hosts:
            port = self.names.port(node)
            found |= {port: node, port.device: node, self.names.netdev(node): node}
        return found

    @cached_property
    def nic_port(self) -> dict[int, int]:
        """Directed port of each host node."""
        ports = self.topology.ports_of()
        return {node: ports[node][0] for node in self.topology.hosts}

    def switch(self, entity: Entity) -> int:
        """Return the node of a switch; NotSupported where the plan has no such thing."""
        node = self._switches.get(entity) if isinstance(entity, Switch) else None
        return self._known(node, entity)

    def interface(self, entity: Entity) -> int:
        """Return the directed port of a switch interface, or of what is part of it."""
        whole = entity.parent if isinstance(entity, Slot) else entity
        port = self._interfaces.get(whole) if isinstance(whole, Interface) else None
        return self._known(port, entity)

    def nics(self, entity: Entity) -> tuple[int, ...]:
        """Return the nodes of a host, or of one of its devices, ports or interfaces."""
        if isinstance(entity, Host):
            return tuple(self.names.hosts.get(entity.name, ())) or (self._known(None, entity),)
        return (self._known(self._nics.get(entity), entity),)

    def cable(self, entity: Entity) -> int:
        """Return the number of the cable between two ends, or at one end."""
        end = entity.a if isinstance(entity, Link) else entity
        if isinstance(end, Interface):
            return self.interface(end) // 2
        if isinstance(end, Port | Netdev | Device):
            return self.nic_port[self.nics(end)[0]] // 2
        return self._known(None, entity)

    def end(self, port: int) -> Interface | Netdev:
        """Return what is at a directed port of an Ethernet fabric."""
        interface = self.names.interfaces.get(port)
        return interface or self.names.netdev(self.topology.end(port))

    def link(self, cable: int) -> Link:
        """Return the link of a cable."""
        return link(self.end(2 * cable), self.end(2 * cable + 1))

    def around_cable(self, cable: int) -> tuple[Entity, ...]:
        """Return every entity that stands for a cable: the link, both ends, a NIC's port."""
        found: list[Entity] = [self.link(cable)]
        for port in (2 * cable, 2 * cable + 1):
            end = self.end(port)
            found.append(end)
            if isinstance(end, Netdev):
                node = self.topology.end(port)
                nic = self.names.port(node)
                interface = self.names.interface(port ^ 1)
                found += [nic, nic.device, link(nic, interface)]
        return tuple(found)

    def around_nic(self, node: int) -> tuple[Entity, ...]:
        """Return every entity that stands for a host's NIC."""
        port = self.names.port(node)
        return (port, port.device, self.names.netdev(node), Host(port.device.host))

    def around_host(self, node: int) -> tuple[Entity, ...]:
        """Return every entity that stands for a host's NIC or for its cable."""
        return (*self.around_nic(node), *self.around_cable(self.nic_port[node] // 2))

    @staticmethod
    def _known(found: int | None, entity: Entity) -> int:
        if found is None:
            raise NotSupported(str(entity), "change", "the scenario has no such place")
        return found

"""Simulated switches on the loopback: agents, targets, databases, traffic and faults."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from simlab.switches.packet_feed import PacketFeed

from simlab.switches.gnmi_face import FACES, GnmiFace
from simlab.switches.gnmi_target import GnmiFaults, GnmiTarget
from simlab.switches.snmp_agent import SnmpAgent, SnmpFaults
from simlab.switches.snmp_face import SnmpFace
from simlab.switches.state import SwitchState, port_name

FAULTS: Final = ("silent", "slow", "restart", "huge", "reordered", "wrong_types", "half_open")
HUGE_ROWS: Final = 20_000
SLOW_S: Final = 0.5
RESTART_EVERY_S: Final = 30.0


@dataclass
class LabSwitch:
    """One switch with its faces; ports are 0 where a face is not up."""

    state: SwitchState
    snmp: SnmpFace
    agent: SnmpAgent
    snmp_port: int = 0
    target: GnmiTarget | None = None
    gnmi_port: int = 0
    redis_port: int = 0
    fault: str = ""

    def refresh(self) -> None:
        """Show what has changed on every face."""
        self.snmp.refresh()
        if self.target is not None:
            self.target.changed.set()
        self.state.changed.clear()


@dataclass
class Lab:
    """Switches of one platform.

    same: all SNMP agents show one switch's numbers, which saves memory where load is what counts.
    faults: number of the switch, from 1 -> fault of FAULTS. feed: a packet simulation whose
    switches these are; count and ports are then its own.
    """

    count: int
    platform: str
    ports: int = 64
    same: bool = False
    with_gnmi: bool = True
    redis_ports: tuple[int, ...] = ()
    faults: dict[int, str] = field(default_factory=dict)
    feed: PacketFeed | None = None
    switches: list[LabSwitch] = field(default_factory=list)
    _redis: list[Any] = field(default_factory=list)

    async def up(self) -> None:
        """Open every socket."""
        if self.feed is not None:
            self.count, self.same = len(self.feed.states), False
        shared: tuple[SwitchState, SnmpFace] | None = None
        for number in range(1, self.count + 1):
            if shared is None or not self.same:
                state = self._state(number)
                shared = state, SnmpFace(state)
            state, face = shared
            switch = LabSwitch(state, face, SnmpAgent(face.mib))
            switch.snmp_port = await switch.agent.listen()
            if self.with_gnmi and (FACES[self.platform] or self.platform == "sonic"):
                switch.target = GnmiTarget(GnmiFace(state))
                switch.gnmi_port = await switch.target.listen()
            if number <= len(self.redis_ports):
                from simlab.switches.redis_face import RedisFace

                switch.redis_port = self.redis_ports[number - 1]
                self._redis.append(RedisFace(state, switch.redis_port))
            self.switches.append(switch)
            if fault := self.faults.get(number):
                self.set_fault(switch, fault)

    def _state(self, number: int) -> SwitchState:
        """Return a switch; without a feed, neighbours form a ring over the first two ports."""
        if self.feed is not None:
            return list(self.feed.states.values())[number - 1]
        state = SwitchState(f"switch{number}", self.platform, self.ports, number)
        if self.count > 1 and self.ports > 1 and not self.same:
            following = number % self.count + 1
            before = (number - 2) % self.count + 1
            for port, other, remote in ((1, following, 2), (2, before, 1)):
                peer = SwitchState(f"switch{other}", self.platform, 0)
                name = port_name(self.platform, remote)
                state.neighbours[port] = (peer.mac, name, peer.name)
        return state

    def set_fault(self, switch: LabSwitch, fault: str) -> None:
        """Let a switch misbehave; '' heals it. Raises ValueError for an unknown fault."""
        if fault and fault not in FAULTS:
            raise ValueError(f"{fault!r} is none of {', '.join(FAULTS)}")
        switch.fault = fault
        snmp, gnmi = SnmpFaults(), GnmiFaults()
        if fault in ("silent", "half_open"):
            snmp, gnmi = replace(snmp, silent=True), GnmiFaults(silent_after=0)
        elif fault == "slow":
            snmp, gnmi = replace(snmp, delay_s=SLOW_S), GnmiFaults(delay_s=SLOW_S)
        elif fault == "reordered":
            snmp = replace(snmp, shuffle_at=(1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 6, 2))
        elif fault == "wrong_types":
            gnmi = GnmiFaults(wrong_types=True)
        elif fault == "restart":
            switch.state.restart()
            switch.refresh()
        elif fault == "huge":
            for row in range(HUGE_ROWS):
                index = 100_000 + row
                switch.snmp.mib.put(f"1.3.6.1.2.1.31.1.1.1.1.{index}", 0x04, f"Vlan{row}")
        switch.agent.faults = snmp
        if switch.target is not None:
            switch.target.faults = gnmi

    async def traffic(self, tick_s: float, load: float) -> None:
        """Let traffic run for ever; a switch whose fault is `restart` does so again and again."""
        elapsed_s = 0.0
        while True:
            await asyncio.sleep(tick_s)
            before, elapsed_s = elapsed_s, elapsed_s + tick_s
            restarting = before // RESTART_EVERY_S != elapsed_s // RESTART_EVERY_S
            for switch in self.switches if restarting else ():
                if switch.fault == "restart":
                    switch.state.restart()
            if self.feed is not None and self.feed.running:
                await asyncio.to_thread(self.feed.advance, self.feed.step_s)
            await self._show(tick_s, load)

    async def _show(self, tick_s: float, load: float) -> None:
        seen: set[int] = set()
        for switch in self.switches:
            if id(switch.state) not in seen:
                seen.add(id(switch.state))
                if self.feed is None:
                    switch.state.run(tick_s, load)
                switch.refresh()
                await asyncio.sleep(0)
        for face in self._redis:
            face.refresh()

    async def down(self) -> None:
        """Close every socket."""
        for switch in self.switches:
            switch.agent.close()
            if switch.target is not None:
                await switch.target.close()
        for face in self._redis:
            face.close()

    def inventory(self, interval_s: float = 10.0) -> dict[str, Any]:
        """Return the inventory that reads these switches."""
        targets = []
        for number, switch in enumerate(self.switches, 1):
            target: dict[str, Any] = {
                "name": switch.state.name if self.feed else f"switch{number}",
                "address": "127.0.0.1",
                "platform": self.platform,
                "snmp": {"credentials": "lab", "port": switch.snmp_port},
            }
            if switch.gnmi_port:
                target["gnmi"] = {"port": switch.gnmi_port}
            if switch.redis_port:
                target["sonic_db"] = {"port": switch.redis_port}
            targets.append(target)
        return {
            "interval": interval_s,
            "credentials": {"lab": {"community_file": "community"}},
            "targets": targets,
        }

    def write_inventory(self, file: Path, interval_s: float = 10.0) -> None:
        """Write the inventory, and beside it the file that holds the community `public`."""
        content = self.inventory(interval_s)
        community = file.resolve().parent / "community"
        content["credentials"]["lab"]["community_file"] = str(community)
        community.write_text("public\n", encoding="ascii")
        file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


async def serve(lab: Lab, tick_s: float, load: float) -> None:
    """Run traffic until cancelled, then close everything."""
    with contextlib.suppress(asyncio.CancelledError):
        if tick_s > 0:
            await lab.traffic(tick_s, load)
        else:
            await asyncio.Event().wait()
    await lab.down()

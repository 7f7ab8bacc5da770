"""A simulated switch as its platform's SNMP agent shows it.

Written from the MIBs apart from the collector's tables, so that a column that is wrong there
does not agree with itself here.
"""

from __future__ import annotations

from typing import Final

from simlab.switches import ber
from simlab.switches.snmp_agent import Mib
from simlab.switches.state import SLOTS, SwitchState, port_alias

C32, C64, G32 = ber.COUNTER32, ber.COUNTER64, ber.GAUGE32
IF_X, IF_T = "1.3.6.1.2.1.31.1.1.1", "1.3.6.1.2.1.2.2.1"
CISCO, ARISTA, MLNX = "1.3.6.1.4.1.9.9", "1.3.6.1.4.1.30065.3", "1.3.6.1.4.1.33049.15.1"
LLDP = "1.0.8802.1.1.2.1"

Row = tuple[str, str, int]  # word, OID with {i} for ifIndex and {s} for the slot, tag
_IF_ROWS: Final[tuple[Row, ...]] = (
    ("rx_bytes", IF_X + ".6.{i}", C64),
    ("tx_bytes", IF_X + ".10.{i}", C64),
    ("rx_drops", IF_T + ".13.{i}", C32),
    ("rx_errors", IF_T + ".14.{i}", C32),
    ("tx_drops", IF_T + ".19.{i}", C32),
    ("rx_crc", "1.3.6.1.2.1.10.7.2.1.3.{i}", C32),
)
_CISCO_PFC: Final[tuple[Row, ...]] = (
    ("pfc_tx", CISCO + ".813.1.2.1.2.{i}.{s}", C64),
    ("pfc_rx", CISCO + ".813.1.2.1.3.{i}.{s}", C64),
)
FACES: Final[dict[str, tuple[Row, ...]]] = {
    "nxos": (
        *_CISCO_PFC,
        ("wd_storms", CISCO + ".813.1.3.1.3.{i}.{s}", C64),
        ("pause_rx_us", CISCO + ".813.1.4.1.2.{i}.{s}", C64),
        ("q_packets", CISCO + ".580.1.5.5.1.4.{i}.2.{s}.1", C64),
        ("q_bytes", CISCO + ".580.1.5.5.1.4.{i}.2.{s}.2", C64),
        ("q_drops", CISCO + ".580.1.5.5.1.4.{i}.2.{s}.5", C64),
        ("q_ecn", CISCO + ".166.1.20.1.1.21.{i}.10{s}.26", C64),
    ),
    "sonic": (
        *_CISCO_PFC,
        ("q_packets", CISCO + ".580.1.5.5.1.4.{i}.2.{s1}.1", C64),
        ("q_bytes", CISCO + ".580.1.5.5.1.4.{i}.2.{s1}.2", C64),
        ("q_drops", CISCO + ".580.1.5.5.1.4.{i}.2.{s1}.5", C64),
    ),
    "eos": (
        ("pfc_tx", ARISTA + ".11.1.1.1.3.{i}.{s}", C64),
        ("pfc_rx", ARISTA + ".11.1.1.1.4.{i}.{s}", C64),
        ("wd_storms", ARISTA + ".11.1.2.1.4.{i}.0.{s}", ber.INTEGER),
        ("q_packets", ARISTA + ".6.1.2.1.4.{i}.{s}.0", C64),
        ("q_bytes", ARISTA + ".6.1.2.1.5.{i}.{s}.0", C64),
        ("q_drops", ARISTA + ".6.1.2.1.6.{i}.{s}.0", C64),
        ("q_ecn", ARISTA + ".13.1.9.1.4.{i}.{s}", C64),
    ),
    "onyx": (
        ("pfc_rx", MLNX + ".2.1.3.{i}.{s}", C64),
        ("pfc_tx", MLNX + ".2.1.5.{i}.{s}", C64),
        ("q_depth", MLNX + ".4.1.6.{i}.{s}", G32),
        ("q_wred", MLNX + ".4.1.9.{i}.{s}", C64),
    ),
    "nvue": (
        ("pfc_rx", "1.3.6.1.4.1.40310.2.2.3.1.{even}.{i}", C64),
        ("pfc_tx", "1.3.6.1.4.1.40310.2.2.3.1.{odd}.{i}", C64),
    ),
    "junos": (
        ("q_packets", "1.3.6.1.4.1.2636.3.15.4.1.7.{i}.{s}", C64),
        ("q_drops", "1.3.6.1.4.1.2636.3.15.4.1.53.{i}.{s}", C64),
        ("q_wred", "1.3.6.1.4.1.2636.3.15.4.1.13.{i}.{s}", C64),
    ),
    "openconfig": (),
}
_DESCRIPTION: Final = {
    "eos": "Arista Networks EOS version 4.34.2F running on an Arista Networks DCS-7060X6",
    "nxos": "Cisco NX-OS(tm) nxos.10.5, Software (nxos64), Version 10.5(2)",
    "junos": "Juniper Networks, Inc. qfx5230-64cd, kernel JUNOS 24.4R1-EVO",
    "sonic": "SONiC Software Version: SONiC.202405 - HwSku: Acme-64x400G - Distribution: Debian",
    "nvue": "Cumulus Linux 5.14.0",
    "onyx": "Onyx 3.10.4504",
    "openconfig": "OpenConfig switch",
}


class SnmpFace:
    """Keeps a Mib in step with a state."""

    def __init__(self, state: SwitchState) -> None:
        self.state = state
        self.mib = Mib()
        self._rows = {row[0]: row for row in (*_IF_ROWS, *FACES[state.platform])}
        self._arcs: dict[tuple[str, int, int], tuple[int, ...]] = {}
        self._static()
        state.changed |= state.values.keys()
        self.refresh()

    def _static(self) -> None:
        put, state = self.mib.put, self.state
        put("1.3.6.1.2.1.1.1.0", ber.OCTETS, _DESCRIPTION[state.platform])
        put("1.3.6.1.2.1.1.5.0", ber.OCTETS, state.name)
        put(f"{LLDP}.3.2.0", ber.OCTETS, bytes.fromhex(state.mac.replace(":", "")))
        for port in range(1, state.ports + 1):
            name = port_alias(state.platform, port)
            put(f"{IF_X}.1.{port}", ber.OCTETS, name)
            put(f"{IF_T}.2.{port}", ber.OCTETS, name)
            put(f"{IF_T}.3.{port}", ber.INTEGER, 6)
            put(f"{IF_T}.4.{port}", ber.INTEGER, 9216)
            put(f"{IF_T}.8.{port}", ber.INTEGER, 1)
            put(f"{IF_X}.15.{port}", G32, 400_000)
            put(f"{LLDP}.3.7.1.3.{port}", ber.OCTETS, name)
            if state.platform == "eos":
                for slot in range(SLOTS):
                    put(f"{ARISTA}.13.1.9.1.3.{port}.{slot}", ber.INTEGER, 1)
            if state.platform == "nxos":
                self._policy(port)
            if port in state.neighbours:
                self._neighbour(port, *state.neighbours[port])

    def _policy(self, port: int) -> None:
        """An output policy with a class of eight queues, and WRED below each class."""
        put, base = self.mib.put, f"{CISCO}.166.1"
        put(f"{base}.1.1.1.3.{port}", ber.INTEGER, 2)
        put(f"{base}.1.1.1.4.{port}", ber.INTEGER, port)
        for slot in range(SLOTS):
            name = "c-out-8q-q-default" if slot == 0 else f"c-out-8q-q{slot}"
            put(f"{base}.7.1.1.1.30{slot}", ber.OCTETS, name)
            for at, kind, config, parent in (
                (f"{port}.20{slot}", 2, 300 + slot, 100),
                (f"{port}.10{slot}", 5, 400 + slot, 200 + slot),
            ):
                put(f"{base}.5.1.1.2.{at}", G32, config)
                put(f"{base}.5.1.1.3.{at}", ber.INTEGER, kind)
                put(f"{base}.5.1.1.4.{at}", G32, parent)

    def _neighbour(self, port: int, chassis: str, remote_port: str, name: str) -> None:
        put, at = self.mib.put, f"0.{port}.1"
        put(f"{LLDP}.4.1.1.4.{at}", ber.INTEGER, 4)
        put(f"{LLDP}.4.1.1.5.{at}", ber.OCTETS, bytes.fromhex(chassis.replace(":", "")))
        put(f"{LLDP}.4.1.1.6.{at}", ber.INTEGER, 5)
        put(f"{LLDP}.4.1.1.7.{at}", ber.OCTETS, remote_port)
        put(f"{LLDP}.4.1.1.9.{at}", ber.OCTETS, name)

    def refresh(self) -> None:
        """Bring the rows of changed numbers up to date."""
        self.mib.put("1.3.6.1.2.1.1.3.0", ber.TIMETICKS, self.state.up_ticks)
        for key in self.state.changed:
            word, port, slot = key
            row = self._rows.get(word)
            if row is None:
                continue
            arcs = self._arcs.get(key)
            if arcs is None:
                oid = row[1].format(
                    i=port, s=slot, s1=slot + 1, even=4 + 2 * slot, odd=5 + 2 * slot
                )
                arcs = self._arcs[key] = ber.parse_dotted(oid)
            value = self.state.values[key]
            self.mib.put(arcs, row[2], value % 2**32 if row[2] == C32 else value)

"""Congestion-control settings of RDMA devices, in DCQCN's own vocabulary and base units.

Where they are: MLNX_OFED's /sys/class/net/IF/ecn, upstream mlx5's debugfs cc_params, bnxt_re's
debugfs cc_config or configfs, irdma's configfs and module parameters; the traffic class of
connections in configfs rdma_cm and in MLNX_OFED's tc. Nothing is made or written: a configfs
folder that nobody made tells nothing, and that is a gap. All values are those in force now;
what a device takes over at its next reset is in its firmware configuration, which only the
vendor's tool reads: where its output is kept as FOLDER/PCI-ADDRESS.txt (option
`mstconfig_folder`), those values are told, too, as `next_boot`.

Which algorithm runs on mlx5 is told by what there is, in this order: MLNX_OFED's enable bits,
the current firmware settings (`mstconfig -e query`), and, on chips that know DCQCN only, that
the device has handled CNPs. DCQCN's parameters alone tell nothing: they are there when it is
off for all priorities, and when a program has taken its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from collectors.host.context import HostCollector, HostContext, refuse_unknown
from collectors.host.inventory import Inventory, RdmaDevice, RdmaPort
from collectors.host.kernel_file import (
    Unreadable,
    exists,
    folder,
    names_in,
    parse_count,
    read_count,
    read_optional,
    read_text,
)
from collectors.host.mstconfig import algorithm_of, parse_mstconfig
from collectors.model.dcqcn import (
    FIRMWARE_KNOBS,
    DcqcnRangeError,
    FirmwareDcqcn,
    FirmwareKnob,
    parameters_of_firmware,
)
from collectors.model.facts import Applies, Facts, Setting, Value
from collectors.model.reading import Clock, GapLog, Pass

_PRIORITIES: Final = 8
# ConnectX-4 to ConnectX-6, as mlx5_ib names them by their PCI device: RTT-based and programmable
# control came with ConnectX-6 Dx (MT4125).
_DCQCN_ONLY: Final = frozenset({"MT4115", "MT4117", "MT4119", "MT4121", "MT4123"})


def parse_tclass(text: str) -> int | None:
    """Return the number in MLNX_OFED's `Global tclass=106`; None where none is forced."""
    digits = text.rpartition("=")[2].strip()
    return int(digits) if digits.isascii() and digits.isdecimal() else None


def parse_flexible(text: str) -> int:
    """Return a number that a driver may print in decimal or as 0x hex; Unreadable if none."""
    word = text.split(maxsplit=1)[0] if text.split() else ""
    if word.startswith(("0x", "0X")):
        try:
            return int(word, 16)
        except ValueError:
            raise Unreadable("not numeric", word[:40]) from None
    return parse_count(word.encode())


def dcqcn_settings(
    registers: Mapping[str, int], port: RdmaPort, where: str, applies: Applies = "running"
) -> Iterator[Setting]:
    """Return the parameters of a set of mlx5 registers that is complete; nothing if it is not."""
    names = {knob.name for knob in FIRMWARE_KNOBS}
    if not names <= registers.keys():
        return
    firmware = FirmwareDcqcn(**{name: registers[name] for name in names})
    parameters = parameters_of_firmware(firmware)
    for knob in FIRMWARE_KNOBS:
        value = getattr(parameters, knob.paper_field)
        if value is None:  # off, or line rate
            value = 0
        at = f"{where}/{knob.name}"
        yield Setting(port.entity, f"dcqcn_{knob.paper_field}", value, at, applies)


class CongestionControlCollector:
    """Facts about the congestion control of every wanted port."""

    name = "congestion_control"

    def __init__(self, context: HostContext) -> None:
        """Take the option mstconfig_folder. Raises ConfigInvalid for another."""
        self._context = context
        self._inventory = Inventory.of(context)
        refuse_unknown(self.name, context.options, "mstconfig_folder")
        self._mstconfig = str(context.options.get("mstconfig_folder", ""))

    def read(self, clock: Clock) -> Pass:
        """Read once; what is not there is a gap with what to do about it."""
        gaps = GapLog(self.name)
        settings: list[Setting] = []
        for device in self._inventory.devices(clock, gaps):
            for port in device.ports:
                settings += self._traffic_class(device, port)
                if port.link_layer == "InfiniBand":
                    continue  # InfiniBand has its own congestion control, of the subnet manager
                found = list(self._by_driver(device, port, gaps))
                settings += found
                running = [setting for setting in found if setting.applies == "running"]
                if not any(setting.name == "congestion_control" for setting in running):
                    value = "off" if device.driver in ("rxe", "siw") else "unknown"
                    where = f"driver {device.driver or 'unknown'}"
                    settings.append(Setting(port.entity, "congestion_control", value, where))
        return Pass((), gaps.gaps(), Facts(tuple(settings)))

    def _by_driver(self, device: RdmaDevice, port: RdmaPort, gaps: GapLog) -> Iterator[Setting]:
        if device.driver == "mlx5":
            firmware = self._firmware(device, port, gaps)
            yield from self._next_boot(device, port, firmware["next_boot"], gaps)
            yield from self._mlx5(device, port, gaps)
            yield from self._algorithm(device, port, firmware["running"], gaps)
        elif device.driver == "bnxt_re":
            yield from self._bnxt_re(device, port, gaps)
        elif device.driver == "irdma":
            yield from self._irdma(device, port)

    # --- where a connection's traffic class comes from -----------------------------------------
    def _traffic_class(self, device: RdmaDevice, port: RdmaPort) -> Iterator[Setting]:
        number = str(port.entity.number)
        forced = f"{device.path}/tc/{number}/traffic_class"
        value = parse_tclass(read_optional(forced))
        if value is not None:
            yield Setting(port.entity, "forced_tclass", value, forced)
        home = folder(self._context.sysfs, "kernel/config/rdma_cm", device.name, "ports", number)
        tclass = read_optional(f"{home}/default_roce_tos")
        if tclass.isdecimal():
            where = f"{home}/default_roce_tos"
            yield Setting(port.entity, "rdma_cm_tclass", int(tclass), where)
        mode = read_optional(f"{home}/default_roce_mode")
        if mode:
            yield Setting(port.entity, "rdma_cm_roce_mode", mode, f"{home}/default_roce_mode")

    # --- mlx5 --------------------------------------------------------------------------------
    def _mlx5(self, device: RdmaDevice, port: RdmaPort, gaps: GapLog) -> Iterator[Setting]:
        ofed = folder(self._context.sysfs, "class/net", port.netdev or "-", "ecn")
        debugfs = folder(
            self._context.sysfs, "kernel/debug/mlx5", device.pci_address or "-", "cc_params"
        )
        if exists(ofed):
            where = ofed
            files = {knob.name: _ofed_file(ofed, knob) for knob in FIRMWARE_KNOBS}
            files |= {"cnp_dscp": _ofed_np(ofed, "cnp_dscp")}
            files |= {"cnp_802p_prio": _ofed_np(ofed, "cnp_802p_prio")}
        elif exists(debugfs):
            where = debugfs
            files = {knob.name: f"{debugfs}/{knob.debugfs}" for knob in FIRMWARE_KNOBS}
            files |= {"cnp_dscp": f"{debugfs}/np_cnp_dscp"}
            files |= {"cnp_802p_prio": f"{debugfs}/np_cnp_prio"}
        else:
            hint = "no MLNX_OFED ecn folder, no debugfs cc_params: mount debugfs and run as root"
            gaps.add(port.entity, "DCQCN parameters", "not visible", hint)
            return
        registers: dict[str, int] = {}
        for name, file in files.items():
            try:
                registers[name] = parse_flexible(read_text(file))
            except Unreadable as why:
                gaps.add(port.entity, name, why.reason, file)
        try:
            yield from dcqcn_settings(registers, port, where)
        except DcqcnRangeError as error:
            gaps.add(port.entity, "DCQCN parameters", "out of range", str(error))
        if "cnp_dscp" in registers:
            yield Setting(port.entity, "cnp_dscp", registers["cnp_dscp"], files["cnp_dscp"])
        if "cnp_802p_prio" in registers:
            value = registers["cnp_802p_prio"]
            yield Setting(port.entity, "cnp_priority", value, files["cnp_802p_prio"])
        for side in ("rp", "np"):
            where = f"{ofed}/roce_{side}/enable"
            bits = _enable_bits(where)
            if bits is not None:
                yield Setting(port.entity, f"dcqcn_{side}_enabled", bits, where)

    def _algorithm(
        self, device: RdmaDevice, port: RdmaPort, firmware: Mapping[str, int], gaps: GapLog
    ) -> Iterator[Setting]:
        """Return which algorithm runs, where that can be told."""
        where = folder(self._context.sysfs, "class/net", port.netdev or "-", "ecn/roce_rp/enable")
        bits = _enable_bits(where)
        algorithm = algorithm_of(firmware)
        if bits is not None and not any(bits):
            algorithm = "off"
        elif bits is not None and algorithm != "programmable":
            algorithm = "dcqcn"
        elif algorithm is not None:
            where = self._mstconfig_file(device)
        elif read_optional(f"{device.path}/hca_type") in _DCQCN_ONLY and _cnps_handled(port):
            algorithm, where = "dcqcn", f"{port.path}/hw_counters/rp_cnp_handled"
        if algorithm is None:
            hint = f"keep the output of `mstconfig -d {device.pci_address} -e query` for this agent"
            gaps.add(port.entity, "congestion_control", "not told", f"{hint} (mstconfig_folder)")
            return
        yield Setting(port.entity, "congestion_control", algorithm, where)

    def _mstconfig_file(self, device: RdmaDevice) -> str:
        return f"{self._mstconfig}/{device.pci_address}.txt"

    def _firmware(
        self, device: RdmaDevice, port: RdmaPort, gaps: GapLog
    ) -> dict[Applies, dict[str, int]]:
        """Return the firmware's registers by when they apply; none without the option."""
        text, number = "", port.entity.number
        if self._mstconfig:
            file = self._mstconfig_file(device)
            try:
                text = read_text(file)
            except Unreadable as why:
                gaps.add(port.entity, "mstconfig", why.reason, file)
        return {
            "running": parse_mstconfig(text, number, "running"),
            "next_boot": parse_mstconfig(text, number, "next_boot"),
        }

    def _next_boot(
        self, device: RdmaDevice, port: RdmaPort, registers: Mapping[str, int], gaps: GapLog
    ) -> Iterator[Setting]:
        file = self._mstconfig_file(device)
        try:
            yield from dcqcn_settings(registers, port, file, "next_boot")
        except DcqcnRangeError as error:
            gaps.add(port.entity, "mstconfig", "out of range", str(error))
        for register, name in (("cnp_dscp", "cnp_dscp"), ("cnp_802p_prio", "cnp_priority")):
            if register in registers:
                yield Setting(port.entity, name, registers[register], file, "next_boot")
        if "prio_mask" in registers:
            bits = tuple(bool(registers["prio_mask"] >> p & 1) for p in range(_PRIORITIES))
            for side in ("rp", "np"):
                yield Setting(port.entity, f"dcqcn_{side}_enabled", bits, file, "next_boot")
        algorithm = algorithm_of(registers)
        if algorithm is not None:
            yield Setting(port.entity, "congestion_control", algorithm, file, "next_boot")

    # --- bnxt_re -----------------------------------------------------------------------------
    def _bnxt_re(self, device: RdmaDevice, port: RdmaPort, gaps: GapLog) -> Iterator[Setting]:
        debugfs = folder(
            self._context.sysfs, "kernel/debug/bnxt_re", device.pci_address or "-", "cc_config"
        )
        configfs = folder(
            self._context.sysfs,
            "kernel/config/bnxt_re",
            device.name,
            "ports",
            str(port.entity.number),
            "cc",
        )
        home = next((path for path in (debugfs, configfs) if exists(path)), None)
        if home is None:
            hint = "no debugfs cc_config (newer kernels) and no configfs folder made for the device"
            gaps.add(port.entity, "congestion control", "not visible", hint)
            return

        def value(*names: str) -> tuple[int, str] | None:
            for name in names:
                if exists(f"{home}/{name}"):
                    try:
                        return parse_flexible(read_text(f"{home}/{name}")), f"{home}/{name}"
                    except Unreadable as why:
                        gaps.add(port.entity, name, why.reason, f"{home}/{name}")
            return None

        on = value("enable_cc", "ecn_enable")
        mode = value("cc_mode")
        if on is not None:
            # Mode 0 cuts in proportion to the marked share as DCTCP does, mode 1 is DCQCN.
            running: Value = "off"
            if on[0]:
                running = (
                    {0: "dctcp-like", 1: "dcqcn"}.get(mode[0], "unknown") if mode else "unknown"
                )
            yield Setting(port.entity, "congestion_control", running, (mode or on)[1])
        for name, files in (
            ("cnp_dscp", ("alt_tos_dscp", "alt_vlan_dscp", "cnp_dscp")),
            ("cnp_priority", ("alt_vlan_pcp", "cnp_prio")),
            ("roce_dscp", ("tos_dscp", "roce_dscp")),
            ("roce_priority", ("roce_prio",)),
            ("roce_ecn_codepoint", ("tos_ecn", "ecn_marking")),
            ("dcqcn_recovery_stages", ("num_phase_per_state", "nph_per_state")),
        ):
            found = value(*files)
            if found is not None:
                yield Setting(port.entity, name, found[0], found[1])

    # --- irdma -------------------------------------------------------------------------------
    def _irdma(self, device: RdmaDevice, port: RdmaPort) -> Iterator[Setting]:
        home = folder(self._context.sysfs, "kernel/config/irdma", device.name)
        for file, algorithm in (
            ("roce_dcqcn_enable", "dcqcn"),
            ("roce_dctcp_enable", "dctcp-like"),
            ("roce_timely_enable", "timely"),
        ):
            if read_optional(f"{home}/{file}") in ("1", "Y", "y", "on"):
                yield Setting(port.entity, "congestion_control", algorithm, f"{home}/{file}")
                break
        else:
            # The driver of the kernel itself switches DCQCN off (hw/irdma/verbs.c).
            where = home if exists(home) else "irdma of the kernel has no congestion control"
            yield Setting(port.entity, "congestion_control", "off", where)
        parameters = folder(self._context.sysfs, "module/irdma/parameters")
        if read_optional(f"{parameters}/dcqcn_cc_cfg_valid") != "1":
            return
        for file, name, scale in (
            ("dcqcn_F", "dcqcn_recovery_stages", 1),
            ("dcqcn_T", "dcqcn_increase_timer_s", 1e-6),
            ("dcqcn_B", "dcqcn_byte_counter_bytes", 1),
            ("dcqcn_rreduce_mperiod", "dcqcn_cut_window_s", 1e-6),
            ("dcqcn_min_rate_MBps", "dcqcn_min_rate_bps", 1_000_000),  # Mbit/s despite its name
            ("dcqcn_min_dec_factor", "dcqcn_min_decrease_ratio", 0.01),
        ):
            try:
                value = parse_flexible(read_text(f"{parameters}/{file}"))
            except Unreadable:
                continue
            if value:  # 0: the device's own default, which the driver does not tell
                yield Setting(port.entity, name, value * scale, f"{parameters}/{file}")


def _cnps_handled(port: RdmaPort) -> bool:
    """Tell whether the port has cut rates for CNPs; slow restarts count as CNPs, too."""
    home = f"{port.path}/hw_counters"
    try:
        handled = read_count(f"{home}/rp_cnp_handled")
        return handled > 0 and handled > read_count(f"{home}/roce_slow_restart_cnps")
    except Unreadable:
        return False


def _ofed_file(ofed: str, knob: FirmwareKnob) -> str:
    side = "roce_np" if knob.debugfs.startswith("np_") else "roce_rp"
    return _probe(ofed, side, knob.name)


def _ofed_np(ofed: str, name: str) -> str:
    return _probe(ofed, "roce_np", name)


def _probe(ofed: str, side: str, name: str) -> str:
    """Return the file under either of the two spellings that MLNX_OFED had."""
    new = f"{ofed}/{side}/params/{name}"
    return new if exists(new) else f"{ofed}/{side}/{name}"


def _enable_bits(path: str) -> tuple[bool, ...] | None:
    try:
        present = names_in(path)
    except Unreadable:
        return None
    bits = [read_optional(f"{path}/{p}") for p in range(_PRIORITIES) if str(p) in present]
    return tuple(bit == "1" for bit in bits) if len(bits) == _PRIORITIES else None


CONGESTION_CONTROL: Final = HostCollector(
    "congestion_control",
    "DCQCN parameters, algorithm in use, CNP class, traffic class of connections",
    CongestionControlCollector,
    interval_s=60.0,
    deadline_s=5.0,
    needs="root, for debugfs",
)

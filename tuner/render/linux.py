"""Linux hosts: a shell script of dcb, ip, ethtool and files of sysfs, debugfs and configfs.

Files are tried under each spelling that drivers have had. SYS stands for /sys, so that a script
can be tried on a copy. What it sets is lost at reboot or when the driver reloads.
"""

from __future__ import annotations

from shlex import quote
from typing import Final

from collectors.model.entities import Device, Entity, Interface, Netdev, Port
from collectors.model.facts import Value
from collectors.model.printable import printable
from tuner.advice.knobs.catalogue import KNOBS
from tuner.render.form import Change, Renderer
from tuner.render.registers import MARKS, SETTINGS, ports_of, registers_of

_ETS: Final = ("priority_to_traffic_class", "ets_algorithm", "ets_bandwidth_ratio")
_BUFFER: Final = ("priority_to_buffer", "buffer_bytes")
_PAUSE: Final = ("pause_rx_enabled", "pause_tx_enabled")
_ACCELERATOR: Final = {
    name: knob.homes[0].place.rpartition(" ")[2]
    for name, knob in KNOBS.items()
    if knob.homes and knob.homes[0].place.startswith("mlxreg ROCE_ACCL")
}
_DRIVERS: Final = ("mlx5", "")  # whose congestion control has these files; '' is not known

HELPER: Final = """SYS=${SYS:-/sys}
put() {  # value, then the files to try; writes the first that is there
  value=$1; shift
  for file in "$@"; do
    if [ -e "$file" ]; then echo "$value" > "$file"; return; fi
  done
  echo "none of these files is there: $*" >&2; return 1
}
"""


def write(change: Change) -> str:
    """Return the script, without its head."""
    lines: list[str] = []
    for place in dict.fromkeys(place for place, _ in change.keys):
        match place:
            case Netdev() | Interface():
                lines += _netdev(change, place)
            case Port():
                lines += _port(change, place)
            case Device():
                lines += _device(change, place)
            case _:
                change.lacks([place], KNOBS, "this is no interface, port or device of a host")
    return "".join(f"{line}\n" for line in lines)


def _unknown(change: Change, place: Entity, name: str) -> str:
    """Return the line for a value to go back to that was never seen."""
    del change
    said = f"{name} of {place}: its former value was not visible; see what `verify` showed before"
    return f"# {printable(said)}"


def _plain(change: Change, place: Entity, name: str, line: str) -> list[str]:
    if not change.changed(place, name):
        return []
    return [line] if (place, name) in change.after else [_unknown(change, place, name)]


# --- interfaces ---------------------------------------------------------------------------------
def _netdev(change: Change, place: Netdev | Interface) -> list[str]:
    dev = quote(place.name)
    mtu = change.whole(place, "mtu_bytes")
    lines = _plain(change, place, "mtu_bytes", f"ip link set dev {dev} mtu {mtu}")
    for name, word in zip(_PAUSE, ("rx", "tx"), strict=True):
        state = "on" if change.flag(place, name) else "off"
        lines += _plain(change, place, name, f"ethtool -A {dev} {word} {state}")
    if isinstance(place, Interface):
        names = [name for at, name in change.keys if at == place and name != "mtu_bytes"]
        change.lacks([place], names, "a Linux box that forwards has no command for it here")
        return lines
    lines += _buffers(change, place)
    pfc = change.row(place, "pfc_priorities")
    states = " ".join(f"{p}:{'on' if up else 'off'}" for p, up in enumerate(pfc))
    lines += _plain(change, place, "pfc_priorities", f"dcb pfc set dev {dev} prio-pfc {states}")
    if pfc and change.changed(place, "pfc_priorities"):
        lines.append(f"# or: mlnx_qos -i {dev} --pfc {','.join(str(int(bool(p))) for p in pfc)}")
    metres = change.whole(place, "pfc_cable_length_metres")
    word = f"dcb pfc set dev {dev} delay {metres}"
    lines += _plain(change, place, "pfc_cable_length_metres", word)
    return lines + _ets(change, place) + _classes(change, place) + _rates(change, place)


def _listed(row: tuple[Value, ...]) -> str:
    return " ".join(f"{at}:{value}" for at, value in enumerate(row))


def _buffers(change: Change, place: Netdev) -> list[str]:
    if not change.changed(place, *_BUFFER):
        return []
    words = []
    for name, word in zip(_BUFFER, ("prio-buffer", "buffer-size"), strict=True):
        row = change.row(place, name)
        if row and change.changed(place, name):
            words.append(f"{word} {_listed(row)}")
    if not words:
        return [_unknown(change, place, "receive buffers")]
    return [f"dcb buffer set dev {quote(place.name)} {' '.join(words)}"]


def _ets(change: Change, place: Netdev) -> list[str]:
    """Set scheduling in one go: the kernel refuses shares that do not add up."""
    if not change.changed(place, *_ETS):
        return []
    words = []
    for name, word in zip(_ETS, ("prio-tc", "tc-tsa", "tc-bw"), strict=True):
        row = change.row(place, name)
        if not row:
            continue
        if name == "ets_bandwidth_ratio":
            row = tuple(round(float(str(share)) * 100) for share in row)
        words.append(f"{word} {_listed(row)}")
    if not words:
        return [_unknown(change, place, "ETS")]
    return [f"dcb ets set dev {quote(place.name)} {' '.join(words)}"]


def _classes(change: Change, place: Netdev) -> list[str]:
    lines = []
    dev = quote(place.name)
    for dscp, old, new in change.moved(place, "dscp_to_priority"):
        if old >= 0:
            lines.append(f"dcb app del dev {dev} dscp-prio {dscp}:{old}")
        if new >= 0:
            lines.append(f"dcb app add dev {dev} dscp-prio {dscp}:{new}")
    if change.changed(place, "trust"):
        mapped = any(value != -1 for value in change.row(place, "dscp_to_priority"))
        wanted = change.text(place, "trust")
        if wanted and (wanted == "dscp") != mapped:
            why = (
                "drivers trust DSCP from the first DSCP rule on: set dscp_to_priority, too"
                if wanted == "dscp"
                else "drivers trust DSCP as long as there is a DSCP rule: take those out"
            )
            change.lacks([place], ["trust"], why)
        elif wanted:
            word = quote(wanted)
            lines.append(f"# trust {word}: by the DSCP rules; or: mlnx_qos -i {dev} --trust {word}")
    return lines


def _rates(change: Change, place: Netdev) -> list[str]:
    """Limit classes with mlnx_qos: dcb of iproute2 6.1 writes bytes where the kernel has bits."""
    row = change.row(place, "traffic_class_rate_bps")
    rates = ",".join(f"{float(str(rate)) / 10**9:g}" for rate in row)
    word = f"mlnx_qos -i {quote(place.name)} -r {rates}"
    return _plain(change, place, "traffic_class_rate_bps", word)


# --- RDMA ports and devices ---------------------------------------------------------------------
def _pci(change: Change, place: Port | Device) -> str:
    device = place.device if isinstance(place, Port) else place
    known = change.attribute(device, "pci_address")
    return quote(found) if (found := known or (device.key if ":" in device.key else "")) else ""


def _port(change: Change, port: Port) -> list[str]:
    lines = _congestion(change, port)
    number, device = port.number, quote(port.device.name or port.device.key)
    home = f"$SYS/kernel/config/rdma_cm/{device}"
    tos = f"{home}/ports/{number}/default_roce_tos"
    if change.changed(port, "rdma_cm_tclass", "rdma_cm_roce_mode", "roce_ecn_codepoint"):
        lines.append(f"mkdir -p {home}  # taken away again, it forgets what was set")
    tclass = change.whole(port, "rdma_cm_tclass")
    lines += _plain(change, port, "rdma_cm_tclass", f"put {tclass} {tos}")
    mode = change.text(port, "rdma_cm_roce_mode")
    file = f"{home}/ports/{number}/default_roce_mode"
    lines += _plain(change, port, "rdma_cm_roce_mode", f"put {quote(mode)} {file}")
    if change.changed(port, "roce_ecn_codepoint"):
        point = change.whole(port, "roce_ecn_codepoint")
        line = f"put $(( ($(cat {tos}) & ~3) | {point} )) {tos}"
        lines += _plain(change, port, "roce_ecn_codepoint", line)
        lines.append(
            "# that is for rdma_cm; jobs choose their own: NCCL_IB_TC, UCX_IB_TRAFFIC_CLASS"
        )
    forced = change.whole(port, "forced_tclass")
    file = f"$SYS/class/infiniband/{device}/tc/{number}/traffic_class"
    lines += _plain(change, port, "forced_tclass", f"put {forced} {file}")
    bits = [
        f"{_ACCELERATOR[name]}=0x{int(bool(change.flag(port, name)))}"
        for name in change.changed(port, *_ACCELERATOR)
        if (port, name) in change.after
    ]
    if bits:
        pci = _pci(change, port) or device
        lines.append(f"mlxreg -d {pci} --reg_name ROCE_ACCL --set {','.join(bits)} --yes")
    for name in change.changed(port, *_ACCELERATOR):
        if (port, name) not in change.after:
            lines.append(_unknown(change, port, name))
    return lines


def _congestion(change: Change, port: Port) -> list[str]:
    """Set DCQCN in MLNX_OFED's sysfs (two spellings) or the kernel's debugfs."""
    names = (*SETTINGS, *MARKS)
    if not change.changed(port, *names):
        return []
    driver = change.attribute(port.device, "driver") or change.attribute(port, "driver")
    if driver not in _DRIVERS:
        why = {
            "bnxt_re": "the units of bnxt_re's registers are not public: niccli or bnxt_setupcc.sh",
            "irdma": "irdma takes DCQCN as parameters of its module, when that is loaded",
        }.get(driver, f"the driver {driver} has no DCQCN parameters")
        change.lacks([port], names, why)
        return []
    netdev = quote(change.attribute(port, "netdev"))
    found = f'$(basename "$(readlink -f $SYS/class/net/{netdev}/device)")'
    pci = _pci(change, port) or found
    ofed, debugfs = f"$SYS/class/net/{netdev}/ecn", f"$SYS/kernel/debug/mlx5/{pci}/cc_params"
    lines = []
    for row in registers_of(change, port):
        if row.value is None:
            lines.append(_unknown(change, port, row.setting))
            continue
        old = f"{ofed}/{row.side}/{row.ofed}"
        new = f"{ofed}/{row.side}/params/{row.ofed}"
        lines.append(f"put {row.value} {new} {old} {debugfs}/{row.debugfs}")
    for name in change.changed(port, *MARKS):
        side = f"roce_{name.split('_')[1]}"
        for priority, up in enumerate(change.row(port, name)):
            lines.append(f"put {int(bool(up))} {ofed}/{side}/enable/{priority}")
        if not change.row(port, name):
            lines.append(_unknown(change, port, name))
    return lines


def _device(change: Change, device: Device) -> list[str]:
    name = "pcie_max_read_request_bytes"
    size, pci = change.whole(device, name), _pci(change, device)
    if not change.changed(device, name):
        return []
    if not pci:
        change.lacks([device], [name], "the PCI address of the device is not known")
        return []
    code = 0 if size is None else (size // 128).bit_length() - 1
    return _plain(change, device, name, f"setpci -s {pci} CAP_EXP+8.w={code << 12:04x}:7000")


def verify(change: Change) -> str:
    """Return the commands that show what was changed; run them before, too."""
    lines: list[str] = []
    for place in dict.fromkeys(place for place, _ in change.keys):
        if isinstance(place, (Netdev, Interface)):
            dev = quote(place.name)
            lines.append(f"ip -d link show dev {dev}")
            if any(KNOBS[name].homes[0].place.startswith("dcb") for _, name in change.keys):
                lines += [f"dcb {part} show dev {dev}" for part in ("pfc", "ets", "app", "buffer")]
    for port in ports_of(change):
        device, netdev = (
            quote(port.device.name or port.device.key),
            quote(change.attribute(port, "netdev")),
        )
        pci = _pci(change, port)
        if change.changed(port, *SETTINGS, *MARKS):
            files = f"$SYS/class/net/{netdev}/ecn $SYS/kernel/debug/mlx5/{pci}/cc_params"
            lines.append(f"grep -rs . {files}")
        home = f"$SYS/kernel/config/rdma_cm/{device}/ports/{port.number}"
        if change.changed(port, "rdma_cm_tclass", "rdma_cm_roce_mode", "roce_ecn_codepoint"):
            lines.append(f"grep -s . {home}/default_roce_tos {home}/default_roce_mode")
        if change.changed(port, *_ACCELERATOR):
            lines.append(f"mlxreg -d {pci or device} --reg_name ROCE_ACCL --get")
        if change.changed(port, "forced_tclass"):
            lines.append(f"cat $SYS/class/infiniband/{device}/tc/{port.number}/traffic_class")
    text = "".join(f"{line}\n" for line in dict.fromkeys(lines))
    return f"SYS=${{SYS:-/sys}}\n{text}" if text else ""


_BOOT: Final = (
    "# Lost at reboot and when the driver reloads: to keep it, run this script at boot\n"
    "# (a systemd unit after network-pre.target), or set the firmware with mlxconfig.\n"
)

RENDERER: Final = Renderer(
    "linux",
    "host",
    write,
    verify,
    "#",
    "sh",
    before=f"set -eu\n{HELPER}",
    after=_BOOT,
    undo_before=f"set -eu\n{HELPER}",
)

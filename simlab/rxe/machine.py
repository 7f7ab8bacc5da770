"""Where the lab runs: a VM with the cached stock kernel, or this host if its kernel has rdma_rxe.

Either way the result is a connection to the lab's daemon (guestd.py). The VM is started by
virtme-ng on a read-only view of this host's root file system, so that the same programs and the
same virtual environment are inside. KVM is used where a probe shows that it works, else QEMU
emulates (TCG). The guest reaches this host's loopback as 10.0.2.2.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from simlab.loopback import free_port, free_ports
from simlab.rxe.kernel import KernelError, LabKernel, fetch_kernel

HERE = Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"  # the distribution's: pyverbs belongs to it, and it starts fastest
GUEST_ADDRESS = "10.0.2.15"
SWITCH_ADDRESS = "10.0.2.16"  # of the switch's namespace, for the agent that runs on it
OUTER_ADDRESS = "10.0.2.2"
CONTROL_PORT = 9399
TIMED_OUT = 124  # exit code by which the daemon says so, as timeout(1) does
BOOT_TIMEOUT_S = 300.0  # 20 s on a quiet machine
KVM_PROBE_S = 12.0
TCG_CPU = "Nehalem"  # the oldest that wheels of today run on (x86-64-v2)
# What gives the switch's namespace in the VM its own address on the management network.
SWITCH_MANAGEMENT = f"""modprobe macvlan
ip link add link mgmt name mgmt-sw netns sw type macvlan mode bridge
ip -n sw addr add {SWITCH_ADDRESS}/24 dev mgmt-sw
ip -n sw link set mgmt-sw up
ip -n sw route add default via {OUTER_ADDRESS}"""
Where = Literal["auto", "vm", "host"]


class LabError(Exception):
    """The lab cannot run or an operation in it failed; the text names the place and the fix."""


@dataclass
class Machine:
    """A running lab machine and the connection to its daemon."""

    kind: Literal["kvm", "tcg", "host"]
    folder: Path
    outer: str  # address under which processes in the lab reach this host's loopback
    forwards: dict[int, int]  # port in the lab -> port on this host's 127.0.0.1
    process: subprocess.Popen[bytes]
    connection: socket.socket
    boot_s: float = 0.0
    _stream: Any = field(default=None, repr=False)

    def ask(self, op: str, **arguments: Any) -> Any:
        """Have the daemon do one operation; raises LabError with its reason."""
        timeout = float(arguments.get("timeout_s", arguments.get("wait_s", 60.0))) + 30.0
        self.connection.settimeout(timeout)
        try:
            self._stream.write(json.dumps({"op": op, **arguments}) + "\n")
            self._stream.flush()
            line = self._stream.readline()
        except OSError as error:
            raise LabError(f"lab machine: {op} got no answer: {error}") from error
        if not line:
            raise LabError(f"lab machine went away during {op}; its console: {self.folder}/console")
        reply = json.loads(line)
        if "error" in reply:
            raise LabError(f"lab machine: {op}: {reply['error']}")
        return reply.get("value")

    def sh(self, script: str, *, timeout_s: float = 180.0) -> str:
        """Run a shell script in the lab; its standard output. Raises LabError on failure."""
        done = self.ask("run", script=script, timeout_s=timeout_s)
        if done["code"] == TIMED_OUT:
            what = script.splitlines()[0][:80]
            raise LabError(f"in the lab: {what!r}: no end within {timeout_s:.0f} s (busy machine?)")
        if done["code"]:
            reason = (done["err"].strip() or done["out"].strip() or "no message").splitlines()
            raise LabError(f"in the lab: {script.splitlines()[0][:80]!r}: {'; '.join(reason[-3:])}")
        return str(done["out"])

    def close(self) -> None:
        """End the machine and everything in it; safe to repeat."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()
        # The host's daemon must take the fabric down; a VM has nothing worth waiting for.
        grace_s = 90.0 if self.kind == "host" else 0.0
        for number in (0, signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(grace_s if number == 0 else 5.0)
            except subprocess.TimeoutExpired:
                continue
            except ProcessLookupError:
                pass
            break
        shutil.rmtree(self.folder, ignore_errors=True)


def host_has_rxe() -> bool:
    """Tell whether this host itself can carry the lab: root, and a kernel with rdma_rxe."""
    if os.geteuid() != 0 or shutil.which("modprobe", path="/usr/sbin:/sbin") is None:
        return False
    probe = ["/usr/sbin/modprobe", "--dry-run", "--quiet", "rdma_rxe"]
    return subprocess.run(probe, check=False).returncode == 0


def why_not(where: Where = "auto") -> str | None:
    """Return the reason why the lab cannot run here, None if it can (as far as can be seen)."""
    if where == "host" or (where == "auto" and host_has_rxe()):
        return None if host_has_rxe() else "needs root and a host kernel with rdma_rxe"
    if shutil.which("qemu-system-x86_64") is None:
        return "qemu-system-x86_64 is missing: ./run setup rxe"
    if shutil.which("virtme-run", path=_tool_path()) is None:
        return "virtme-ng is missing: ./run setup"
    try:
        fetch_kernel()
    except KernelError as error:
        return f"no lab kernel: {error}"
    return None


def start(
    *,
    ports: tuple[int, ...] = (),
    switch_port: int = 0,
    where: Where = "auto",
    cpus: int = 2,
    memory_mib: int = 2048,
    cleanup: str = "",
    say: Callable[[str], None] = lambda _: None,
) -> Machine:
    """Start the lab machine and connect; `ports` of the lab become reachable on 127.0.0.1.

    `switch_port` likewise, of the switch's own address (VM only).
    `cleanup` is a shell script that takes the fabric off the host again (host mode only).
    Raises LabError.
    """
    if (reason := why_not(where)) is not None:
        raise LabError(f"the Soft-RoCE lab cannot run here: {reason}")
    folder = Path(tempfile.mkdtemp(prefix="fabric-lab-"))
    token = secrets.token_hex(16)
    (folder / "token").write_text(token)
    (folder / "token").chmod(0o600)
    began = time.monotonic()
    try:
        if where == "host" or (where == "auto" and host_has_rxe()):
            say("starting the lab on this host (its kernel has rdma_rxe)")
            machine = _start_on_host(folder, token, ports, cleanup)
        else:
            machine = _start_vm(folder, token, ports, switch_port, cpus, memory_mib, say)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    machine.boot_s = time.monotonic() - began
    return machine


def _start_on_host(folder: Path, token: str, ports: tuple[int, ...], cleanup: str) -> Machine:
    port = free_port()
    (folder / "cleanup.sh").write_text(cleanup)
    argv = [PYTHON, "-E", "-s", str(HERE / "guestd.py"), "127.0.0.1", str(port)]
    argv += [str(folder / "token"), str(folder / "cleanup.sh")]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
    same = {inner: inner for inner in ports}
    return _connect(
        Machine("host", folder, "127.0.0.1", same, process, socket.socket()), port, token
    )


def _start_vm(
    folder: Path,
    token: str,
    ports: tuple[int, ...],
    switch_port: int,
    cpus: int,
    memory_mib: int,
    say: Callable[[str], None],
) -> Machine:
    kernel = fetch_kernel()
    kvm = kvm_works(kernel)
    kind: Literal["kvm", "tcg"] = "kvm" if kvm else "tcg"
    say(f"booting kernel {kernel.release} in QEMU ({'KVM' if kvm else 'emulated: no usable KVM'})")
    inner = (CONTROL_PORT, *ports, *((switch_port,) if switch_port else ()))
    outer = dict(zip(inner, free_ports(len(inner)), strict=True))
    net = ["user", "id=lab"]
    for port, forward in outer.items():
        address = SWITCH_ADDRESS if port == switch_port else GUEST_ADDRESS
        net.append(f"hostfwd=tcp:127.0.0.1:{forward}-{address}:{port}")
    init = folder / "init.sh"
    init.write_text(_guest_init(folder))
    init.chmod(0o755)
    argv = [shutil.which("vng", path=_tool_path()) or "vng"]
    if not kvm:
        # Emulated, AVX is slower than SSE, and every guard against speculation is pure cost.
        argv += ["--disable-kvm", "--append", "mitigations=off", f"--qemu-opts=-cpu {TCG_CPU}"]
    argv += ["--run", str(kernel.image), "--user", "root", "--force-9p"]
    argv += ["--cpus", str(cpus), "--memory", f"{memory_mib}M", "--cwd", "/"]
    argv += ["--rwdir", str(folder), "--disable-monitor"]
    argv += [f"--qemu-opts=-netdev {','.join(net)} -device virtio-net-pci,netdev=lab"]
    share = "local,id=lab,path=/,security_model=none,readonly=on,multidevs=remap"
    argv += [f"--qemu-opts=-fsdev {share} -device virtio-9p-pci,fsdev=lab,mount_tag=lab"]
    argv += ["--exec", str(init)]
    with (folder / "console").open("wb") as console:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": _tool_path(), "TMPDIR": str(folder)},
            start_new_session=True,
        )
    machine = Machine(kind, folder, OUTER_ADDRESS, outer, process, socket.socket())
    machine = _connect(machine, outer[CONTROL_PORT], token)
    machine.ask("set_clock", wall_s=time.time())
    return machine


def _guest_init(folder: Path) -> str:
    """First and only program of the VM: network, file cache, then the daemon until the lab leaves.

    virtme-ng's view of this host's files is read uncached, which makes an import take five times
    as long; programs and libraries, which nobody changes meanwhile, are mounted again with a cache.
    """
    code = [str(path) for path in (Path(sys.prefix).resolve(), HERE.parents[1])]
    cached = ["/usr/bin", "/usr/sbin", "/usr/lib/x86_64-linux-gnu", "/usr/lib/python3*", *code]
    return f"""#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
for path in /sys/class/net/*; do
  [ -e "$path/device" ] || continue
  nic=${{path##*/}}
  ip link set "$nic" down name mgmt
  sysctl -qw net.ipv6.conf.mgmt.disable_ipv6=1
  ip addr add {GUEST_ADDRESS}/24 dev mgmt
  ip link set mgmt up
  ip route add default via {OUTER_ADDRESS}
done
ip link set lo up
mkdir -p /run/lab
if mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=512000 lab /run/lab; then
  for path in {" ".join(cached)}; do
    [ -d "$path" ] && mount --bind "/run/lab$path" "$path"
  done
fi
ulimit -l unlimited
exec {PYTHON} -E -s {HERE}/guestd.py 0.0.0.0 {CONTROL_PORT} {folder}/token ''
"""


def _connect(machine: Machine, port: int, token: str) -> Machine:
    """Wait for the daemon; under emulation it takes a while to come up."""
    until = time.monotonic() + BOOT_TIMEOUT_S
    try:
        while time.monotonic() < until:
            if machine.process.poll() is not None:
                raise LabError(f"the lab machine ended while starting: {_console_tail(machine)}")
            try:
                connection = socket.create_connection(("127.0.0.1", port), timeout=10.0)
                stream = connection.makefile("rw", encoding="utf-8", newline="\n")
                machine.connection, machine._stream = connection, stream  # noqa: SLF001
                stream.write(token + "\n")
                machine.ask("ping")
            except (OSError, LabError):
                machine.connection.close()  # QEMU accepts before the guest listens
                time.sleep(0.25)
            else:
                return machine
        raise LabError(f"no answer in {BOOT_TIMEOUT_S:.0f} s: {_console_tail(machine)}")
    except BaseException:
        machine.close()
        raise


def _console_tail(machine: Machine) -> str:
    path = machine.folder / "console"
    text = path.read_text(errors="replace") if path.exists() else ""
    return " | ".join(text.strip().splitlines()[-4:]) or "no output"


def kvm_works(kernel: LabKernel) -> bool:
    """Tell whether KVM boots the lab kernel: /dev/kvm may exist and yet hang a guest.

    The kernel is booted without a root file system: it panics and reboots within seconds where
    KVM works. The answer is remembered until the next boot of this host.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    memo = kernel.modules.parents[3] / "kvm-probe"
    if memo.exists() and memo.read_text().split()[:1] == [boot_id]:
        return memo.read_text().split()[1] == "yes"
    argv = ["qemu-system-x86_64", "-accel", "kvm", "-cpu", "host", "-m", "512", "-no-reboot"]
    argv += ["-display", "none", "-nodefaults", "-kernel", str(kernel.image)]
    argv += ["-append", "panic=-1 quiet"]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=KVM_PROBE_S, check=False
        )
        works = done.returncode == 0
    except subprocess.TimeoutExpired:
        works = False
    memo.write_text(f"{boot_id} {'yes' if works else 'no'}\n")
    return works


def _tool_path() -> str:
    """virtme-ng lives in the virtual environment, which need not be activated."""
    beside = str(Path(sys.executable).parent)
    return f"{beside}:{os.environ.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"

"""The lab's kernel: the distribution's stock one, unpacked into the user's cache, never installed.

`python -m simlab.rxe.kernel` (called by `./run setup`) downloads and unpacks it; nothing is
written outside the cache folder: no initramfs, no boot loader, no /boot, no /lib/modules.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

# The newest stock kernel of each distribution, by its meta package.
META_PACKAGES = {"debian": "linux-image-amd64", "ubuntu": "linux-image-generic"}
# Ubuntu keeps rdma_rxe in modules-extra and the rest of the modules in linux-modules.
PARTS = re.compile(r"^linux-(?:image|modules|modules-extra)-(?:unsigned-)?\d\S*$")
NEEDED_MODULES = ("rdma_rxe", "veth", "bridge", "sch_tbf", "sch_red", "sch_netem", "ifb")


class KernelError(Exception):
    """The lab kernel cannot be had; the text says why and what to do."""


@dataclass(frozen=True)
class LabKernel:
    """An unpacked kernel: its release, boot image and the folder that holds its modules."""

    release: str
    image: Path
    modules: Path


def cache_folder() -> Path:
    """Return where lab kernels are kept: $XDG_CACHE_HOME/fabric-tuner/kernel."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "fabric-tuner" / "kernel"


def read_kernel(folder: Path | None = None) -> LabKernel | None:
    """Return the newest complete lab kernel of the cache, None if there is none."""
    found = [
        kernel
        for root in (folder or cache_folder()).glob("*/root")
        if (kernel := _kernel_in(root)) is not None
    ]
    return max(found, key=lambda kernel: _version_key(kernel.release), default=None)


def fetch_kernel(folder: Path | None = None) -> LabKernel:
    """Return the cached lab kernel, downloading the distribution's (about 70 MB) if need be.

    Raises KernelError where there is no apt, no such package, no network or no space.
    """
    cache = folder or cache_folder()
    if (kernel := read_kernel(cache)) is not None:
        return kernel
    if platform.machine() != "x86_64":
        raise KernelError(f"the lab VM needs an x86_64 machine, this is {platform.machine()}")
    for tool in ("apt-get", "apt-cache", "dpkg-deb", "depmod"):
        if _which(tool) is None:
            raise KernelError(f"{tool} is missing (the lab kernel comes from Debian or Ubuntu)")
    packages = _resolve_packages()
    _say(f"downloading {' '.join(packages)} (70-130 MB) into {cache}; nothing is installed")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="unpack-", dir=cache) as scratch:
            kernel = _unpack(packages, Path(scratch), cache)
    except OSError as error:
        raise KernelError(f"{cache}: {error.strerror or error}") from error
    _say(f"lab kernel {kernel.release} is ready")
    return kernel


def _unpack(packages: list[str], scratch: Path, cache: Path) -> LabKernel:
    done = _run(["apt-get", "download", "-q", *packages], cwd=scratch)
    archives = sorted(scratch.glob("*.deb"))
    if done.returncode or len(archives) < len(packages):
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise KernelError(f"apt-get download failed (run apt-get update?): {reason}")
    root = scratch / "root"
    for archive in archives:
        unpacked = _run(["dpkg-deb", "-x", str(archive), str(root)])
        if unpacked.returncode:
            raise KernelError(f"{archive.name}: {unpacked.stderr.strip()}")
        archive.unlink()
    if not (root / "lib").exists():  # newer packages hold /usr/lib only; depmod wants /lib
        (root / "lib").symlink_to("usr/lib")
    releases = [path.name for path in (root / "lib/modules").glob("*")]
    if len(releases) != 1:
        raise KernelError(f"expected one kernel in {packages}, found {releases}")
    if _run(["depmod", "-b", str(root), releases[0]]).returncode:
        raise KernelError(f"depmod failed for {releases[0]}")
    if _kernel_in(root) is None:
        raise KernelError(f"{' '.join(packages)} lacks one of {', '.join(NEEDED_MODULES)}")
    target = cache / releases[0]
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    root.rename(target / "root")  # last: a folder with `root` in it is complete
    kernel = _kernel_in(target / "root")
    assert kernel is not None  # noqa: S101  it was, before the rename
    return kernel


def _resolve_packages() -> list[str]:
    """Follow the meta package to the real, versioned packages."""
    names = _os_release()
    meta = next((META_PACKAGES[name] for name in names if name in META_PACKAGES), None)
    if meta is None:
        raise KernelError(f"no known kernel package for {'/'.join(names) or 'this system'}")
    found = parse_depends(_apt_depends(meta))
    extra = [name.replace("linux-image-", "linux-modules-extra-", 1) for name in found]
    more = [part for name in found for part in parse_depends(_apt_depends(name))]
    more += [name for name in extra if _apt_depends(name)]
    packages = list(dict.fromkeys([*found, *more]))
    if not packages:
        raise KernelError(f"apt knows no {meta}; run apt-get update first")
    return packages


def parse_depends(text: str) -> list[str]:
    """Kernel packages that the output of `apt-cache depends` names as dependencies."""
    names = [line.split()[-1] for line in text.splitlines() if "Depends:" in line]
    return [name for name in names if PARTS.match(name)]


def _apt_depends(package: str) -> str:
    return _run(["apt-cache", "depends", "--important", package]).stdout


def _os_release() -> list[str]:
    """Ids of this distribution, its own first, then those it descends from."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return []
    return [release.get("ID", ""), *release.get("ID_LIKE", "").split()]


def _kernel_in(root: Path) -> LabKernel | None:
    for modules in root.glob("lib/modules/*"):
        image = root / "boot" / f"vmlinuz-{modules.name}"
        index = modules / "modules.dep"
        if image.exists() and index.exists():
            text = index.read_text() + (modules / "modules.builtin").read_text()
            if all(f"/{name}.ko" in text for name in NEEDED_MODULES):
                return LabKernel(modules.name, image, modules)
    return None


def _version_key(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", release))


def _which(tool: str) -> str | None:
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _run(argv: list[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin", "LC_ALL": "C"}
    return subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def _say(text: str) -> None:
    print(f"[lab kernel] {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Make sure that the lab kernel is there; exit 1 with the reason if it cannot be."""
    try:
        kernel = fetch_kernel()
    except KernelError as error:
        _say(f"cannot go on: {error}")
        return 1
    print(f"{kernel.release} {kernel.image}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

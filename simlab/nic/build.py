"""Builds the lab NIC module for the lab kernel, from the distribution's headers, in the cache.

The headers are downloaded and unpacked beside the kernel (about 11 MB, 85 MB unpacked); nothing
is installed. `python -m simlab.nic.build` does it by hand.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from simlab.rxe.kernel import KernelError, LabKernel, fetch_kernel

HERE = Path(__file__).resolve().parent
MODULE = "fabric_lab_nic"
_SOURCES = (f"{MODULE}.c", "Makefile")
_HEADERS = re.compile(r"^linux-(?:headers|kbuild|modules-headers)-\d\S*$")


class BuildError(Exception):
    """The module cannot be built; the text says why and what to do."""


def why_not() -> str | None:
    """Return why the module cannot be built here, None if it can as far as can be seen."""
    lacking = [t for t in ("gcc", "make", "apt-get", "dpkg-deb") if shutil.which(t) is None]
    return f"{', '.join(lacking)} missing: ./run setup rxe" if lacking else None


def build_module(kernel: LabKernel | None = None) -> Path:
    """Return the module for a lab kernel, built if it is not in the cache. Raises BuildError."""
    if (reason := why_not()) is not None:
        raise BuildError(reason)
    try:
        kernel = kernel or fetch_kernel()
    except KernelError as error:
        raise BuildError(f"no lab kernel: {error}") from error
    home = kernel.modules.parents[3]  # cache/RELEASE, above root/lib/modules/RELEASE
    source = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in _SOURCES))
    built = home / f"nic-{source.hexdigest()[:12]}" / f"{MODULE}.ko"
    if built.exists():
        return built
    headers = _headers(home, kernel.release)
    with tempfile.TemporaryDirectory(prefix="nic-", dir=home) as scratch:
        for name in _SOURCES:
            shutil.copy(HERE / name, scratch)
        done = _run(["make", "-C", str(headers), f"M={scratch}", "modules"])
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise BuildError(f"make for {kernel.release}: {'; '.join(lines[-3:])}")
        built.parent.mkdir(exist_ok=True)
        shutil.move(Path(scratch) / built.name, built)
    return built


def _headers(home: Path, release: str) -> Path:
    """Return the folder of the headers of a release, unpacked into the cache if need be."""
    root = home / "headers"
    found = root / "usr/src" / f"linux-headers-{release}"
    if (found / "Makefile").exists():
        return found
    package = f"linux-headers-{release}"
    depends = _run(["apt-cache", "depends", package])
    names = [package]
    for line in depends.stdout.splitlines():
        kind, _, name = line.strip().partition(": ")
        if kind == "Depends" and _HEADERS.match(name):
            names.append(name)
    print(f"[nic] downloading {' '.join(names)} into {home}; nothing is installed", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="headers-", dir=home) as scratch:
        done = _run(["apt-get", "download", *names], Path(scratch))
        debs = sorted(Path(scratch).glob("*.deb"))
        if done.returncode or len(debs) != len(names):
            why = (done.stderr.strip().splitlines() or ["apt-get gave nothing"])[-1]
            raise BuildError(f"headers of {release} cannot be downloaded: {why}")
        unpacked = Path(scratch) / "root"
        for deb in debs:
            if _run(["dpkg-deb", "-x", str(deb), str(unpacked)]).returncode:
                raise BuildError(f"{deb.name} cannot be unpacked")
        # The headers name each other by their installed place.
        makefile = unpacked / "usr/src" / f"linux-headers-{release}" / "Makefile"
        makefile.write_text(makefile.read_text().replace(" /usr/src/", f" {root}/usr/src/"))
        shutil.rmtree(root, ignore_errors=True)
        unpacked.rename(root)
    return found


def _run(argv: list[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    try:
        print(build_module())
    except BuildError as error:
        sys.exit(f"lab NIC: {error}")

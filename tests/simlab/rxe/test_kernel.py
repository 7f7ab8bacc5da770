from pathlib import Path

import pytest

from simlab.rxe import kernel
from simlab.rxe.kernel import KernelError, parse_depends, read_kernel

UBUNTU = """linux-image-generic
  Depends: linux-image-6.8.0-60-generic
  Depends: linux-firmware
  Depends: intel-microcode
"""
UBUNTU_REAL = """linux-image-6.8.0-60-generic
  Depends: kmod
  Depends: linux-modules-6.8.0-60-generic
"""


def fake(cache: Path, release: str, modules: tuple[str, ...] = kernel.NEEDED_MODULES) -> None:
    root = cache / release / "root"
    folder = root / "lib/modules" / release
    folder.mkdir(parents=True)
    (root / "boot").mkdir()
    (root / "boot" / f"vmlinuz-{release}").touch()
    (folder / "modules.dep").write_text("".join(f"kernel/x/{name}.ko:\n" for name in modules))
    (folder / "modules.builtin").write_text("")


def test_depends_names_only_real_kernel_packages():
    assert parse_depends(UBUNTU) == ["linux-image-6.8.0-60-generic"]
    assert parse_depends(UBUNTU_REAL) == ["linux-modules-6.8.0-60-generic"]
    assert parse_depends("linux-image-amd64\n  Depends: linux-image-6.1.0-57-amd64\n") == [
        "linux-image-6.1.0-57-amd64"
    ]


def test_the_newest_complete_kernel_is_taken(tmp_path):
    assert read_kernel(tmp_path) is None
    fake(tmp_path, "6.1.0-9-amd64")
    fake(tmp_path, "6.1.0-57-amd64")
    fake(tmp_path, "6.12.1-amd64", modules=("veth",))  # no rdma_rxe: of no use
    found = read_kernel(tmp_path)
    assert found is not None
    assert found.release == "6.1.0-57-amd64"


def test_a_cached_kernel_is_not_downloaded_again(tmp_path, monkeypatch):
    fake(tmp_path, "6.1.0-57-amd64")
    monkeypatch.setattr(kernel, "_run", lambda *_args, **_kw: pytest.fail("ran a command"))
    assert kernel.fetch_kernel(tmp_path).release == "6.1.0-57-amd64"


def test_another_architecture_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel.platform, "machine", lambda: "aarch64")
    with pytest.raises(KernelError, match="aarch64"):
        kernel.fetch_kernel(tmp_path)


def test_no_apt_is_said_plainly(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(kernel, "_which", lambda _tool: None)
    with pytest.raises(KernelError, match="apt-get is missing"):
        kernel.fetch_kernel(tmp_path)


def test_the_cache_follows_xdg(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert kernel.cache_folder() == Path("/somewhere/fabric-tuner/kernel")

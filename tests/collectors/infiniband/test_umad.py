"""Which local port, and what is said where there is none; I3, I11."""

import pytest

from collectors.infiniband import umad
from collectors.infiniband.umad import UmadPort, check_abi, choose_port
from collectors.model.errors import NotSupported


def test_i3_an_ethernet_only_host_is_told_so():
    """I3: `client_register for mgmt 1 failed` on a RoCE host."""
    with pytest.raises(NotSupported, match=r"mlx5_0/1: .*Ethernet link layer, no MAD"):
        choose_port([UmadPort("mlx5_0", 1, "Ethernet", 4)])


def test_first_active_infiniband_port():
    ports = [
        UmadPort("mlx5_0", 1, "Ethernet", 4),
        UmadPort("mlx5_1", 1, "InfiniBand", 1),
        UmadPort("mlx5_2", 1, "InfiniBand", 4),
        UmadPort("mlx5_2", 2, "InfiniBand", 4),
    ]
    assert choose_port(ports) == ports[2]
    assert choose_port(ports, "mlx5_2", 2) == ports[3]
    assert choose_port(ports, "mlx5_1") == ports[1]  # asked for: down or not
    with pytest.raises(NotSupported, match=r"mlx9 port any: .*this host has mlx5_0/1"):
        choose_port(ports, "mlx9")
    with pytest.raises(NotSupported, match="this host has none"):
        choose_port([])


def test_i11_another_abi_is_refused(tmp_path):
    """I11: ioctl ENOTTY on another ABI."""
    (tmp_path / "abi_version").write_text("4\n")
    with pytest.raises(NotSupported, match="ABI 4, needs 5"):
        check_abi(str(tmp_path))
    (tmp_path / "abi_version").write_text("5\n")
    check_abi(str(tmp_path))
    check_abi(str(tmp_path / "nowhere"))  # left to libibumad


def test_i11_a_32_bit_process_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(umad.struct, "calcsize", lambda code: 4)
    with pytest.raises(NotSupported, match="64-bit"):
        check_abi(str(tmp_path))


def test_no_library_says_which_package(monkeypatch):
    def none(name, **_):
        raise OSError(name)

    monkeypatch.setattr(umad.ctypes, "PyDLL", none)
    with pytest.raises(NotSupported, match="apt install libibumad3"):
        umad.read_umad_ports()

"""serve, status and record as a user runs them: one clear line for what is wrong."""

import json
import subprocess

import pytest

from collectors.model.entities import Device, Port
from collectors.model.metric import Column
from collectors.model.reading import Reading
from tests.tuner.builders import Uplink, at
from tests.tuner.processes import Sender, Serving, tuner
from tuner.store.sources import Tls, fetch_status, open_window

COUNTER = Column("c_total", "counter", "hw_counters")
PORT = Port(Device("secret-host", "0000:01:00.0", "mlx5_0"), 1)


def fill(serving, count=20):
    up, sender = Uplink("secret-host"), Sender(serving.target, "secret-host")
    sender.start()
    for n in range(count):
        sender.put(up.batch([Reading(PORT, {COUNTER: n}, at(n))]))
    sender.finish()


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    with Serving(tmp_path_factory.mktemp("tuner") / "data") as serving:
        fill(serving)
        yield serving


def test_status_as_json_and_table(filled):
    shown = tuner("status", "--tuner", filled.target, "--format", "json")
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    assert document["schema"] == "fabric-tuner/status/1"
    (agent,) = document["agents"]
    assert (agent["agent"], agent["ports"], agent["batches"]) == ("secret-host", 1, 20)
    assert (agent["missing"], agent["duplicates"], agent["acknowledged"]) == (0, 0, 20)
    shown = tuner("status", "--tuner", filled.target)
    assert shown.returncode == 0
    assert "secret-host" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 100


def test_record_and_replay_give_the_same_growth(filled, tmp_path):
    out = tmp_path / "recording"
    shown = tuner("record", "--tuner", filled.target, "--out", str(out), "--since", "3650d")
    assert shown.returncode == 0, shown.stderr
    assert "20 items recorded" in shown.stdout
    live, _ = open_window(tuner=filled.target, since="3650d")
    replayed, _ = open_window(f"dir={out}")
    assert replayed.growth("c_total", PORT) == live.growth("c_total", PORT)
    assert replayed.growth("c_total", PORT) is not None
    nobody = tuner(
        "record", "--tuner", filled.target, "--out", str(tmp_path / "none"), "--agent", "nobody"
    )
    assert nobody.returncode == 1
    assert "nothing of nobody" in nobody.stderr
    assert not (tmp_path / "none").exists()
    again = tuner("record", "--tuner", filled.target, "--out", str(out), "--since", "3650d")
    assert again.returncode in (1, 2)
    assert "not empty" in again.stderr
    assert again.stderr.count("\n") == 1


def test_an_anonymised_recording_names_nobody(filled, tmp_path):
    out = tmp_path / "anonymous"
    args = ("--out", str(out), "--since", "3650d", "--anonymise")
    shown = tuner("record", "--tuner", filled.target, *args)
    assert shown.returncode == 0, shown.stderr
    window, _ = open_window(f"dir={out}")
    (entity,) = window.entities("c_total")
    growth = window.growth("c_total", entity)
    assert growth is not None
    assert growth.total == 19
    assert "secret" not in f"{entity} {window.agents}"


def test_a_store_folder_is_a_recording_too(filled):
    window, _ = open_window(f"dir={filled.folder}")
    growth = window.growth("c_total", PORT)
    assert growth is not None
    assert growth.total == 19


@pytest.mark.parametrize("command", [("status",), ("record", "--out", "never-made")])
def test_an_unreachable_tuner_is_one_clear_line(command, tmp_path):
    shown = tuner(*command, "--tuner", "127.0.0.1:1")
    assert shown.returncode == 1
    assert shown.stderr.count("\n") == 1
    assert "127.0.0.1:1" in shown.stderr
    assert "cannot be reached" in shown.stderr


def serve_error(*args, code):
    shown = tuner("serve", *args)
    assert shown.returncode == code, shown
    assert shown.stderr.count("\n") == 1, shown.stderr
    assert "Traceback" not in shown.stderr
    return shown.stderr


def test_serve_says_what_is_wrong_in_one_line(filled, tmp_path):
    data = ("--data", str(tmp_path / "d"), "--metrics", "off")
    assert "in use" in serve_error("--listen", filled.target, *data, code=1)
    assert "HOST:PORT" in serve_error("--listen", "nonsense", *data, code=2)
    assert "HOST:PORT" in serve_error("--listen", "127.0.0.1:99999", *data, code=2)
    assert "another tuner" in serve_error(
        "--listen", "127.0.0.1:0", "--data", str(filled.folder), "--metrics", "off", code=1
    )
    assert "1w" in serve_error("--retention", "1w", *data, code=2)
    blocked = tmp_path / "file"
    blocked.write_text("")
    line = serve_error("--listen", "127.0.0.1:0", "--data", str(blocked / "x"), code=1)
    assert str(blocked) in line


def test_a_wrong_configuration_is_a_usage_error_with_its_path(tmp_path):
    file = tmp_path / "tuner.yaml"
    file.write_text("listn: x")
    line = serve_error("--config", str(file), "--check", code=2)
    assert str(file) in line
    assert "listn" in line


def test_a_configuration_is_checked_without_starting(tmp_path):
    file = tmp_path / "tuner.yaml"
    file.write_text(
        "listen: 127.0.0.1:7\ndata: /nonesuch\nretention: {age: 2h, max_bytes: 9999999}"
    )
    shown = tuner("serve", "--config", str(file), "--check")
    assert shown.returncode == 0, shown.stderr
    assert "127.0.0.1:7" in shown.stdout


def certificate(folder, name, ca=None):
    """A key and a certificate, self-signed or signed by `ca`."""
    key, cert = folder / f"{name}.key", folder / f"{name}.pem"
    signer = () if ca is None else ("-CA", f"{ca}.pem", "-CAkey", f"{ca}.key")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(key), "-out", str(cert), *signer],
        check=True, capture_output=True,
    )  # fmt: skip
    return str(cert), str(key)


def test_tls_with_client_certificates(tmp_path):
    ca = tmp_path / "ca"
    authority, _ = certificate(tmp_path, "ca")
    cert, key = certificate(tmp_path, "server", ca)
    mine = certificate(tmp_path, "client", ca)
    stranger = certificate(tmp_path, "stranger")
    file = tmp_path / "tuner.yaml"
    file.write_text(f"tls: {{cert: {cert}, key: {key}, client_ca: {authority}}}\nmetrics: null\n")
    with Serving(tmp_path / "data", "--config", str(file)) as serving:
        assert fetch_status(serving.target, Tls(authority, *mine)).agents == []
        good = ("--ca", authority, "--cert", mine[0], "--key", mine[1])
        assert tuner("status", "--tuner", serving.target, *good).returncode == 0
        for wrong in ((), ("--ca", authority, *_pair(stranger))):
            shown = tuner("status", "--tuner", serving.target, *wrong)
            assert shown.returncode == 1
            assert shown.stderr.count("\n") == 1, shown.stderr
    missing = tuner("status", "--tuner", "127.0.0.1:1", "--ca", str(tmp_path / "nonesuch"))
    assert missing.returncode == 2
    assert "nonesuch" in missing.stderr


def _pair(files):
    return ("--cert", files[0], "--key", files[1])

"""Targets behind TLS: by CA and name, with a client certificate, trusted on purpose."""

import subprocess

import pytest

from collectors.gnmi.client import Client, Dial
from collectors.gnmi.vendors import VENDORS
from collectors.model.errors import Unavailable
from collectors.targets.tls import Tls
from tests.collectors.passes import values

from .conftest import first_error


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*argv):
        subprocess.run(["openssl", *argv], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "rsa:2048", "-nodes", "-days", "2")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca")
    for name in ("leaf1.lab", "client"):
        openssl(
            "req", *key[:3], "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}"
        )
        (folder / "ext").write_text(f"subjectAltName=DNS:{name}\n")
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-out", f"{name}.pem", "-days", "2", "-extfile", "ext",
        )  # fmt: skip
    return folder


def keys(folder, client_ca=None):
    return (
        (folder / "leaf1.lab.key").read_bytes(),
        (folder / "leaf1.lab.pem").read_bytes(),
        client_ca,
    )


def test_tls_by_ca_and_name(rig, certificates):
    tls = Tls(ca=str(certificates / "ca.pem"), server_name="leaf1.lab")
    made = rig("eos", None, keys(certificates))
    made.dial = Dial("127.0.0.1", made.port, tls=tls)
    made.subscriber = made.new()
    assert values(made.poll())


def test_tls_mutual(rig, certificates):
    ca = (certificates / "ca.pem").read_bytes()
    made = rig("eos", None, keys(certificates, ca))
    files = {name: str(certificates / name) for name in ("ca.pem", "client.pem", "client.key")}
    good = Tls(files["ca.pem"], files["client.pem"], files["client.key"], "leaf1.lab")
    made.dial = Dial("127.0.0.1", made.port, tls=good)
    made.subscriber = made.new()
    assert values(made.poll())
    made.run(made.subscriber.close())
    made.dial = Dial("127.0.0.1", made.port, tls=Tls(files["ca.pem"], server_name="leaf1.lab"))
    made.subscriber = made.new()
    assert isinstance(first_error(made), Unavailable)


def test_tls_of_a_stranger_is_refused_and_may_be_trusted_on_purpose(rig, certificates):
    made = rig("eos", None, keys(certificates))

    async def ask(tls):
        client = Client("leaf1", Dial("127.0.0.1", made.port, tls=tls, timeout_s=3), VENDORS["eos"])
        await client.open()
        try:
            return await client.capabilities()
        finally:
            await client.close()

    with pytest.raises(Unavailable):
        made.run(ask(Tls()))
    assert made.run(ask(Tls(trust_first=True))).models

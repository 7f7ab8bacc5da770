"""The listener in front of /metrics: formats, passwords, TLS, and what promtool says."""

import base64
import http.client
import re
import shutil
import socket
import ssl
import subprocess
import time
import urllib.request

import pytest

from agent.config import BasicAuth, Metrics, MetricsTls
from agent.exposition import Exposition
from agent.listener import Listener, prometheus_render
from collectors.model.catalogue.registry import CATALOGUE
from collectors.model.entities import (
    Host,
    Netdev,
    QueuePair,
    Slot,
)
from collectors.model.errors import ConfigInvalid, Unavailable
from collectors.model.facts import Attribute, Facts, Gap
from collectors.model.metric import Source
from tests.agent.boards import LEAF, PORT, RX_WORDS, reading, snapshot
from tests.agent.test_uplink import certificate  # noqa: F401  a fixture


@pytest.fixture
def served():
    listeners = []

    def serve(config, board=None):
        board = board or snapshot(reading(PORT, {RX_WORDS: 1}), at=time.monotonic_ns())
        exposed = Exposition(board.outcomes, "gpu01")
        listener = Listener(config, prometheus_render(lambda: exposed))
        listeners.append(listener)
        return f"127.0.0.1:{listener.port}"

    yield serve
    for listener in listeners:
        listener.close()


def get(url, context=None, **headers):
    request = urllib.request.Request(url, headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:  # noqa: S310
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, "", error.headers


LOCAL = Metrics(address="127.0.0.1", port=0)


def test_listener_serves_both_formats(served):
    where = served(LOCAL)
    status, text, headers = get(f"http://{where}/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert "process_resident_memory_bytes" in text
    assert 'received_bytes_total{device="mlx5_0",port="1"} 4\n' in text
    status, text, headers = get(
        f"http://{where}/metrics", Accept="application/openmetrics-text;version=1.0.0"
    )
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")
    assert get(f"http://{where}/")[0] == 200
    assert get(f"http://{where}/secret")[0] == 404
    connection = http.client.HTTPConnection(where, timeout=10)
    connection.request("POST", "/metrics", b"x")
    assert connection.getresponse().status == 405


def test_port_in_use_is_one_clear_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = Metrics(address="127.0.0.1", port=port)
        with pytest.raises(Unavailable) as caught:
            Listener(config, lambda accept: (b"", ""))
    assert str(caught.value) == (
        f"metrics listener 127.0.0.1:{port}: bind: Address already in use; "
        "set metrics.port to a free one"
    )


def test_password(served, tmp_path):
    secret = tmp_path / "password"
    secret.write_text("s3cret\n")
    config = Metrics(
        address="127.0.0.1", port=0, basic_auth=BasicAuth("prom", password_file=str(secret))
    )
    where = served(config)
    assert get(f"http://{where}/metrics")[0] == 401
    for word, code in (("prom:s3cret", 200), ("prom:wrong", 401), ("x", 401)):
        header = "Basic " + base64.b64encode(word.encode()).decode()
        assert get(f"http://{where}/metrics", Authorization=header)[0] == code
    assert get(f"http://{where}/metrics", Authorization="Basic \xe4!")[0] == 401


def test_tls_with_client_certificate(served, certificate):  # noqa: F811
    cert, key = (str(certificate / name) for name in ("cert.pem", "key.pem"))
    where = served(
        Metrics(address="127.0.0.1", port=0, tls=MetricsTls(cert=cert, key=key, client_ca=cert))
    )
    context = ssl.create_default_context(cafile=cert)
    with pytest.raises((OSError, http.client.HTTPException)):
        get(f"https://{where}/metrics", context)
    context.load_cert_chain(cert, key)
    assert get(f"https://{where}/metrics", context)[0] == 200


def test_unreadable_tls_files():
    with pytest.raises(ConfigInvalid, match=r"\$\.metrics\.tls: load /none/c, /none/k"):
        Listener(
            Metrics(address="127.0.0.1", port=0, tls=MetricsTls(cert="/none/c", key="/none/k")),
            lambda accept: (b"", ""),
        )


def test_scrape_does_not_wait_for_a_client_that_says_nothing(served):
    where = served(LOCAL)
    host, port = where.split(":")
    with socket.create_connection((host, int(port))):
        began = time.monotonic()
        assert get(f"http://{where}/metrics")[0] == 200
        assert time.monotonic() - began < 5


@pytest.mark.lab_prom
def test_promtool_finds_nothing_to_complain_of(served):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    of_kind = {
        "host": Host("gpu01"), "device": PORT.device, "port": PORT, "netdev": Netdev("gpu01", "e"),
        "switch": LEAF.switch, "interface": LEAF, "qp": QueuePair(PORT.device, 4),
    }  # fmt: skip
    values = {}
    for row in CATALOGUE.values():  # every metric, on everything that may carry it
        for kind in row.on:
            entity = of_kind.get(kind) or Slot(LEAF, kind, 1)
            source = row.sources[0] if row.sources else Source("derived", row.name)
            values.setdefault(entity, {})[row.column(source)] = 5
    readings = [reading(entity, of) for entity, of in values.items()]
    facts = Facts(attributes=(Attribute(PORT.device, "driver", "mlx5"),))
    gaps = (Gap("x", "sysfs", "y", "EINVAL"),)
    board = snapshot(*readings, facts=facts, gaps=gaps, at=time.monotonic_ns())
    board.register("bad", 5)
    board.failed("bad", "denied", "no", 1)
    where = served(LOCAL, board)
    text = get(f"http://{where}/metrics")[1]
    assert len(re.findall("^# TYPE (node_infiniband|fabric)_", text, re.MULTILINE)) > len(CATALOGUE)
    answer = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")

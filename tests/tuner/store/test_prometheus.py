"""Windows from a database that answers as Prometheus' HTTP API does, and from a real one."""

import contextlib
import itertools
import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from collectors.model.entities import Device, Port
from collectors.model.errors import ConfigInvalid, Denied, Malformed, Unavailable
from simlab.loopback import free_ports
from tests.tuner.processes import tuner
from tuner.store import prometheus_api
from tuner.store.sources import open_window

PORT = Port(Device("gpu7", "mlx5_0"), 1)
OUT_OF_BUFFER = "node_infiniband_out_of_buffer_drops_total"
LABELS = {"instance": "gpu7:9100", "job": "node", "device": "mlx5_0", "port": "1"}


def answers(rows, *, token=""):
    """Serve rows of (labels, [(seconds ago, value)]); return (URL, list of queries)."""
    asked = []

    class Api(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def reply(self, code, body):
            text = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self):
            if token and self.headers.get("Authorization") != f"Bearer {token}":
                self.reply(401, {"status": "error"})
                return
            names = sorted({labels["__name__"] for labels, _ in rows})
            self.reply(200, {"status": "success", "data": names})

        def do_POST(self):
            length = int(self.headers["Content-Length"])
            form = urllib.parse.parse_qs(self.rfile.read(length).decode())
            asked.append(form)
            until = float(form["time"][0])
            wanted = form["query"][0].split('"')[1].split("|")
            result = [
                {"metric": labels, "values": [[until - ago, text] for ago, text in samples]}
                for labels, samples in rows
                if labels["__name__"] in wanted
            ]
            data = {"resultType": "matrix", "result": result}
            self.reply(200, {"status": "success", "data": data})

    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}", asked


@pytest.fixture
def database():
    made = []

    def serve(rows, **options):
        server, url, asked = answers(rows, **options)
        made.append(server)
        return url, asked

    yield serve
    for server in made:
        server.shutdown()
        server.server_close()


def rising(name, *values, **labels):
    at = range(10 * (len(values) - 1), -1, -10)
    return {"__name__": name, **LABELS, **labels}, list(zip(at, values, strict=True))


def test_counters_of_node_exporter_become_growth(database):
    url, asked = database([rising(OUT_OF_BUFFER, "100", "130", "190"), rising("go_threads", "7")])
    window, named = open_window(f"prometheus={url}", since="5m")
    growth = window.growth(OUT_OF_BUFFER, PORT)
    assert growth.total == 90
    assert growth.seconds == pytest.approx(20, abs=0.01)
    assert window.agents == ("gpu7",)
    assert named == f"prometheus={url}"
    assert "[300s]" in asked[0]["query"][0]
    assert "go_threads" not in asked[0]["query"][0]


def test_a_decrease_is_a_reset_even_of_a_narrow_counter(database):
    url, _ = database([rising(OUT_OF_BUFFER, "4294967290", "4294967295", "10")])
    growth = open_window(f"prometheus={url}")[0].growth(OUT_OF_BUFFER, PORT)
    assert (growth.total, growth.resets) == (15, 1)


def test_units_are_converted(database):
    url, _ = database([rising("rdma_port_rcv_data_total", "1000", "1500")])
    window, _ = open_window(f"prometheus={url}")
    assert window.growth("node_infiniband_port_data_received_bytes_total", PORT).total == 2000


def test_stale_marks_are_no_values(database):
    url, _ = database([rising(OUT_OF_BUFFER, "1", "NaN", "3")])
    growth = open_window(f"prometheus={url}")[0].growth(OUT_OF_BUFFER, PORT)
    assert (growth.total, growth.samples) == (2, 2)


def test_info_series_say_which_interface_a_port_has(database):
    info = rising("fabric_port_info", "1", netdev="eth4", link_layer="Ethernet", driver="mlx5")
    url, _ = database([rising(OUT_OF_BUFFER, "1", "2"), info])
    attributes = open_window(f"prometheus={url}")[0].attributes(PORT)
    assert attributes["netdev"].value == "eth4"
    assert attributes["link_layer"].value == "Ethernet"


def test_a_token_comes_from_a_file(database, tmp_path, monkeypatch):
    url, _ = database([rising(OUT_OF_BUFFER, "1", "2")], token="s3cret")
    with pytest.raises(Denied, match=prometheus_api.TOKEN_FILE):
        open_window(f"prometheus={url}")
    (tmp_path / "token").write_text("s3cret\n")
    monkeypatch.setenv(prometheus_api.TOKEN_FILE, str(tmp_path / "token"))
    assert open_window(f"prometheus={url}")[0].agents == ("gpu7",)
    monkeypatch.setenv(prometheus_api.TOKEN_FILE, str(tmp_path / "none"))
    with pytest.raises(ConfigInvalid, match="No such file"):
        open_window(f"prometheus={url}")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "localhost:9090",
        "http://",
        "http://u:pw@h:9090",
        "http://h:abc",
        "http://h:99999",
        "http://a b/",
        "http://[::1",
        "http://h/?token=pw",
        "http://h\n",
    ],
)
def test_urls_that_are_none(url):
    with pytest.raises(ConfigInvalid) as error:
        open_window(f"prometheus={url}")
    assert "pw" not in str(error.value)


def test_databases_that_do_not_answer_as_they_should(database):
    with pytest.raises(Unavailable, match="cannot be read"):
        open_window("prometheus=http://127.0.0.1:1")
    url, _ = database([rising("go_threads", "7")])
    with pytest.raises(Malformed, match="no metric that the catalogue knows"):
        open_window(f"prometheus={url}")


def raw(answer, *, then=b""):
    """Serve these bytes to whoever connects; return (URL, what was received)."""
    listener = socket.create_server(("127.0.0.1", 0))
    received = []

    def serve():
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                received.append(peer.recv(1 << 16))
                peer.sendall(answer)
                for byte in then:
                    time.sleep(0.05)
                    with contextlib.suppress(OSError):
                        peer.send(bytes([byte]))

    threading.Thread(target=serve, daemon=True).start()
    return listener, f"http://127.0.0.1:{listener.getsockname()[1]}", received


def http_answer(body, status="200 OK", extra=""):
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{extra}Connection: close\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize(
    "answer",
    [
        b"junk\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        http_answer(b"<html>"), http_answer(b"[" * 200_000), http_answer(b"[]"),
        http_answer(b'{"status":"error"}'), http_answer(b'{"status":"success","data":[{}]}'),
        http_answer(b'{"error":"a\\nb\\u001b[31m"}', "500 Internal Server Error"),
        http_answer(b"", "302 Found", "Location: http://127.0.0.1:1/x\r\n"),
    ],
)  # fmt: skip
def test_answers_that_are_none_give_one_clear_line(answer):
    listener, url, _ = raw(answer)
    with listener, pytest.raises((Unavailable, Malformed)) as error:
        open_window(f"prometheus={url}")
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    "row",
    [
        {"values": [[1, "1"]]}, {"metric": []}, {"metric": {"device": None}},
        {"metric": {}, "values": [[1]]}, {"metric": {}, "values": 7},
        {"metric": {}, "values": [["x", "1"]]}, {"metric": {}, "values": [[1, None]]},
    ],
)  # fmt: skip
def test_rows_of_another_shape_are_malformed(row):
    body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [row]}})
    listener, url, _ = raw(http_answer(body.encode()))
    with listener, pytest.raises(Malformed, match="shape"):
        prometheus_api.database_of(url).samples(["x"], 1, 1.0)


@pytest.mark.parametrize("text", ["abc", "0x1"])
def test_a_value_that_is_no_number_is_malformed(database, text):
    url, _ = database([rising(OUT_OF_BUFFER, "1", text)])
    with pytest.raises(Malformed, match="is no number"):
        open_window(f"prometheus={url}")


def test_the_token_does_not_follow_a_redirect(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("s3cret")
    monkeypatch.setenv(prometheus_api.TOKEN_FILE, str(tmp_path / "token"))
    other, elsewhere, received = raw(http_answer(b"{}"))
    listener, url, asked = raw(http_answer(b"", "302 Found", f"Location: {elsewhere}/x\r\n"))
    with other, listener, pytest.raises(Unavailable, match="elsewhere"):
        open_window(f"prometheus={url}")
    assert b"s3cret" in asked[0]
    assert received == []


@pytest.mark.parametrize("token", [b"\xff\xfe", b"two words", b"two\nlines"])
def test_a_token_that_is_none(database, tmp_path, monkeypatch, token):
    (tmp_path / "token").write_bytes(token)
    monkeypatch.setenv(prometheus_api.TOKEN_FILE, str(tmp_path / "token"))
    url, _ = database([rising(OUT_OF_BUFFER, "1", "2")])
    with pytest.raises(ConfigInvalid):
        open_window(f"prometheus={url}")


def test_a_slow_or_endless_answer_is_cut_off():
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
    listener, url, _ = raw(head, then=b"x" * 40)
    with listener, pytest.raises(Unavailable, match="not whole"):
        prometheus_api.Database(url, deadline_s=0.3).names()
    listener, url, _ = raw(head + b"x" * 5000)
    with listener, pytest.raises(Unavailable, match="over"):
        prometheus_api.Database(url, max_bytes=1000).names()


def test_series_that_do_not_tell_whom_are_counted_and_nothing_at_all_is_an_error(database, caplog):
    lost = rising(OUT_OF_BUFFER, "1", "2", port="abc")
    url, _ = database([lost, rising(OUT_OF_BUFFER, "1", "2")])
    open_window(f"prometheus={url}")
    assert "1 series left out" in caplog.text
    url, _ = database([lost])
    with pytest.raises(Malformed, match="holds none"):
        open_window(f"prometheus={url}")


NODE_EXPORTER = shutil.which("prometheus-node-exporter")
RATES = {
    "port_rcv_data": 1e9, "port_xmit_data": 1e9, "port_rcv_packets": 1e6, "port_xmit_packets": 1e6,
}  # fmt: skip


@pytest.mark.lab_prom
@pytest.mark.skipif(
    not (NODE_EXPORTER and shutil.which("prometheus")),
    reason="prometheus and prometheus-node-exporter are not installed",
)
def test_host_causes_through_a_real_prometheus_and_node_exporter(tmp_path):
    from simlab.hosts.motion import moved, rewrite
    from simlab.hosts.profile import build_host, write_host

    hosts = {
        "healthy": RATES,
        "starved": RATES,
        "lossy": {**RATES, "symbol_error": 300, "link_error_recovery": 3, "port_rcv_errors": 200},
    }
    ports = free_ports(4)
    fakes = {name: build_host(name, "mlx5", 1) for name in hosts}
    scrape = [
        {"targets": [f"127.0.0.1:{port}"], "labels": {"instance": name}}
        for name, port in zip(hosts, ports, strict=False)
    ]
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "node", "static_configs": scrape}],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    url = f"http://127.0.0.1:{ports[3]}"
    with ExitStack() as stack:
        for (name, fake), port in zip(fakes.items(), ports, strict=False):
            write_host(fake, tmp_path / name)
            start(
                stack, tmp_path / f"{name}.log", NODE_EXPORTER, "--collector.disable-defaults",
                "--collector.infiniband", f"--path.sysfs={tmp_path / name / 'sys'}",
                "--collector.textfile", f"--collector.textfile.directory={tmp_path / name}",
                f"--web.listen-address=127.0.0.1:{port}",
            )  # fmt: skip
        start(
            stack, tmp_path / "prometheus.log", "prometheus",
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{ports[3]}",
        )  # fmt: skip
        answer = None
        deadline = time.monotonic() + 60
        for tick in itertools.count():
            assert time.monotonic() < deadline, answer
            for name, rates in hosts.items():
                after = moved(fakes[name], 1.0, rates)
                rewrite(fakes[name], after, tmp_path / name)
                fakes[name] = after
            write_text(tmp_path / "starved" / "newer.prom", out_of_buffer=400 * tick)
            time.sleep(1.0)
            answer = suggest(url)
            if answer and {"receiver-not-ready", "link-errors"} <= {
                finding["rule"] for finding in answer["findings"]
            }:
                break
    found = {
        (finding["rule"], finding["place"]["name"].split()[0])
        for finding in answer["findings"]
        if finding["severity"] != "info"
    }
    assert found == {("receiver-not-ready", "starved"), ("link-errors", "lossy")}
    assert {rec["scope"]["name"].split()[0] for rec in answer["recommendations"]} <= {
        "starved",
        "lossy",
    }


def write_text(path, *, out_of_buffer):
    """What newer releases of node_exporter add to Debian's: hardware counters."""
    text = f'{OUT_OF_BUFFER}{{device="mlx5_0",port="1"}} {out_of_buffer}\n'
    path.with_suffix(".new").write_text(f"# TYPE {OUT_OF_BUFFER} counter\n{text}")
    path.with_suffix(".new").rename(path)


def start(stack, log, *argv):
    with log.open("w") as out:
        child = subprocess.Popen(argv, stdout=out, stderr=out)
    stack.callback(child.wait, 20)
    stack.callback(child.terminate)


def suggest(url):
    done = tuner("suggest", "--source", f"prometheus={url}", "--since", "1m", "--format", "json")
    return json.loads(done.stdout) if done.returncode in (0, 3) else None

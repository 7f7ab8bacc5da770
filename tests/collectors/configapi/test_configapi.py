"""Configurations over management APIs, from small servers that answer as the vendors document."""

import asyncio
import base64
import json
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.switches import Switchboard
from collectors.configapi.http import Dial, fetch_text
from collectors.configapi.jsonrpc import parse_result
from collectors.configapi.poller import APIS, ConfigApi
from collectors.model.entities import Switch
from collectors.model.errors import (
    ConfigInvalid,
    Denied,
    FabricError,
    Malformed,
    NotSupported,
    Unavailable,
)
from collectors.model.reading import Instant
from collectors.targets.secret import Secret
from collectors.targets.tls import Tls

CASES = Path(__file__).parents[2] / "fixtures/switchconfig"
LEAF = Switch("leaf1", "leaf1")
USER, WORD = "ann", "w0rd-in-hiding"


def case(name):
    (file,) = (CASES / name).glob("input.*")
    return file.read_text()


def rpc(body):
    call = json.loads(body)
    assert call["jsonrpc"] == "2.0"
    return call


def eapi(body):
    call = rpc(body)
    assert call["method"] == "runCmds"
    shown = {"enable": "\n", "show running-config": case("eos_profile")}
    assert call["params"]["format"] == "text"
    result = [{"output": shown[command]} for command in call["params"]["cmds"]]
    return {"jsonrpc": "2.0", "id": call["id"], "result": result}


def nxapi(body):
    call = rpc(body)
    assert call["method"] == "cli_ascii"
    assert call["params"]["cmd"] == "show running-config"
    return {"jsonrpc": "2.0", "id": call["id"], "result": {"msg": case("nxos_blueprint")}}


NVUE = {
    "interface": {"swp1": {"type": "swp", "link": {"mtu": 9216}}},
    "qos": {"roce": {"enable": "on", "mode": "lossless"}},
}
OPENCONFIG = json.loads(case("openconfig_restconf"))
ROUTES = {
    ("POST", "/command-api"): eapi,
    ("POST", "/ins"): nxapi,
    ("GET", "/nvue_v1/?rev=applied&filled=false"): lambda _: NVUE,
    ("GET", "/rpc/get-configuration"): lambda _: case("junos_braces"),
    **{
        ("GET", f"/restconf/data/{name}?content=config"): lambda _, name=name: {
            name: OPENCONFIG[name]
        }
        for name in OPENCONFIG
    },
}


class Switchlike(BaseHTTPRequestHandler):
    """fault: what to do instead of answering. asked: what came, for the test to look at."""

    routes = ROUTES
    fault = ""
    asked = ()

    def log_message(self, *args):
        pass

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.command, self.path, dict(self.headers)))
        fault = self.server.fault
        login = base64.b64encode(f"{USER}:{WORD}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {login}":
            return self.say(401, WORD)  # a device that echoes what it was sent
        if fault == "redirect":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:9/")
            self.end_headers()
            return None
        if fault == "trickle":
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.05)
        if fault == "slow headers":
            for octet in b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1000:
                self.wfile.write(bytes([octet]))
                self.wfile.flush()
                time.sleep(0.02)
        if fault == "short":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"half")
            self.close_connection = True
            return None
        if fault:
            return self.say(200, fault)
        route = self.server.routes.get((self.command, self.path))
        if route is None:
            return self.say(404, "")
        found = route(body)
        return self.say(200, found if isinstance(found, str) else json.dumps(found))

    def say(self, status, text):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = answer  # noqa: N815


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
         "/CN=leaf1", "-addext", "subjectAltName=DNS:leaf1", "-out", cert, "-keyout", key],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


@pytest.fixture
def serve():
    made = []

    def make(certificate=None, routes=ROUTES):
        server = ThreadingHTTPServer(("127.0.0.1", 0), Switchlike)
        server.daemon_threads = True
        server.fault, server.asked, server.routes = "", [], routes
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made.append(server)
        return server

    yield make
    for server in made:
        server.shutdown()
        server.server_close()


def dial(server, **more):
    settings = {"tls": None, "user": USER, "password": Secret(WORD), "timeout_s": 5.0} | more
    return Dial("leaf1", "127.0.0.1", server.server_address[1], **settings)


def at(seconds):
    return lambda: Instant(0, int(seconds * 1e9))


def poll(poller, seconds=0.0):
    return asyncio.run(poller.poll(at(seconds)))


@pytest.mark.parametrize(
    ("protocol", "wanted"),
    [
        ("eapi", ("Ethernet1/1", "pfc_mode", "on")),
        ("nxapi", ("Ethernet1/1", "pfc_mode", "on")),
        ("nvue", ("swp1", "mtu_bytes", 9216)),
        ("junos", ("switch/leaf1", "load_balancing", "flowlet")),
        ("restconf", ("Ethernet1", "mtu_bytes", 9214)),
    ],
)
def test_the_answer_becomes_settings(serve, protocol, wanted):
    server = serve()
    facts = poll(ConfigApi(LEAF, APIS[protocol], dial(server))).facts
    found = {
        (
            getattr(row.entity, "name", str(row.entity))
            if "interface" in str(row.entity)
            else str(row.entity),
            row.name,
        ): row
        for row in facts.settings
        if "queue" not in str(row.entity)
    }
    row = found[wanted[:2]]
    assert row.value == wanted[2]
    assert row.where.startswith(APIS[protocol].where + ":")
    assert all(method in ("GET", "POST") for method, _, _ in server.asked)
    assert len(facts.settings) > 5 or protocol == "nvue"


def test_an_unchanged_configuration_is_read_once(serve):
    server = serve()
    poller = ConfigApi(LEAF, APIS["eapi"], dial(server), every_s=100)
    assert poll(poller, 0).facts is not None
    assert poll(poller, 50).facts is None
    assert len(server.asked) == 1  # not even asked for
    assert poll(poller, 150).facts is None
    assert len(server.asked) == 2


def test_a_failure_is_tried_again_after_a_minute_not_every_round(serve):
    server = serve()
    server.fault = "no JSON"
    poller = ConfigApi(LEAF, APIS["eapi"], dial(server), every_s=600)
    for second in (0, 10, 50):
        with pytest.raises(Malformed, match="not JSON"):
            poll(poller, second)
    assert len(server.asked) == 1
    server.fault = ""
    assert poll(poller, 61).facts is not None


def test_one_restconf_resource_is_enough(serve):
    routes = {key: value for key, value in ROUTES.items() if "qos" not in key[1]}
    facts = poll(ConfigApi(LEAF, APIS["restconf"], dial(serve(routes=routes)))).facts
    assert {row.name for row in facts.settings} >= {"mtu_bytes", "speed_bps"}
    with pytest.raises(NotSupported, match="switched on"):
        poll(ConfigApi(LEAF, APIS["restconf"], dial(serve(routes={}))))


@pytest.mark.parametrize(
    ("fault", "kind", "why"),
    [
        ("redirect", Unavailable, "HTTP 302"),
        ("trickle", Unavailable, "no whole answer in 0.5 s"),
        ("slow headers", Unavailable, "no whole answer in 0.5 s"),
        ("short", Malformed, "ends too early|IncompleteRead"),
        ("[]", Malformed, "no JSON-RPC object"),
        ('{"id": 1, "result": [{}]}', Malformed, "one answer for each command"),
        ('{"id": 1, "result": [{}, {}]}', Malformed, "no text"),
        ('{"id": 1, "error": {"message": "privileged mode required"}}', Denied, "privileged"),
        ('{"id": 1, "error": {"message": "invalid command"}}', NotSupported, "invalid command"),
    ],
)
def test_what_goes_wrong_is_typed(serve, fault, kind, why):
    server = serve()
    server.fault = fault
    began = time.monotonic()
    with pytest.raises(kind, match=why) as caught:
        poll(ConfigApi(LEAF, APIS["eapi"], dial(server, timeout_s=0.5)))
    assert time.monotonic() - began < 4
    assert str(caught.value).startswith("leaf1: ")
    assert len(server.asked) == 1  # a redirect is not followed


def test_a_wrong_password_is_denied_and_not_told(serve):
    server = serve()
    with pytest.raises(Denied, match="check user, password") as caught:
        poll(ConfigApi(LEAF, APIS["nvue"], dial(server, password=Secret("other-w0rd"))))
    assert WORD not in str(caught.value)
    assert "other-w0rd" not in f"{caught.value} {caught.value!r} {dial(server)!r}"


def test_a_large_answer_is_refused(serve):
    with pytest.raises(Malformed, match="larger than 100 bytes"):
        fetch_text(
            dial(serve(), max_bytes=100), "GET", "/rpc/get-configuration", accept="text/plain"
        )


def test_nobody_listens():
    with pytest.raises(Unavailable, match="refused"):
        fetch_text(Dial("leaf1", "127.0.0.1", 9, None), "GET", "/", accept="*/*")


def test_the_certificate_is_checked(serve, certificate, tmp_path):
    server = serve(certificate)

    def ask(**files):
        return fetch_text(
            dial(server, tls=Tls(**files)), "GET", "/rpc/get-configuration", accept="text/plain"
        )

    ca = str(certificate[0])
    with pytest.raises(Unavailable, match=r"self.signed"):
        ask()
    with pytest.raises(Unavailable, match="IP address mismatch"):
        ask(ca=ca)
    assert "class-of-service" in ask(ca=ca, server_name="leaf1")
    assert "class-of-service" in ask(trust_first=True)
    with pytest.raises(ConfigInvalid, match=r"gone\.pem"):
        ask(ca=str(tmp_path / "gone.pem"))


def test_the_inventory_names_it(serve, tmp_path, monkeypatch):
    server = serve()
    monkeypatch.setenv("LAB_WORD", WORD)
    file = tmp_path / "targets.yaml"
    file.write_text(
        f"""
credentials: {{lab: {{user: {USER}, password_env: LAB_WORD}}}}
targets:
  - name: leaf1
    address: 127.0.0.1
    platform: eos
    api: {{credentials: lab, port: {server.server_address[1]}, tls: null}}
"""
    )
    board = Switchboard(file)
    poller = board.poller(board.inventory.targets[0], "api", 10)
    assert poll(poller).facts.settings
    file.write_text(file.read_text().replace("platform: eos", "platform: sonic"))
    with pytest.raises(ConfigInvalid, match="name the protocol"):
        Switchboard(file)


@given(
    st.text(max_size=100)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["result", "error", "id", "message"]), inner, max_size=3
            )
        ),
    ).map(json.dumps)
)
def test_any_answer_is_a_result_or_a_typed_error(text):
    try:
        parse_result(text, "leaf1", "eapi")
    except FabricError:
        pass

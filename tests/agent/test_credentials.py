"""Secrets of switches: in no log, metric, command line, error, recording or dump of objects."""

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request

import msgspec
import pytest
import yaml

from agent.config import parse_config
from agent.sources import jobs
from agent.switches import TRANSPORTS, Switchboard
from collectors.model.errors import FabricError
from collectors.model.reading import Instant
from simlab.loopback import free_port

from .test_switches import COMMUNITY, PASSWORD, lab

OTHERS = {
    "LAB_AUTH": "auth-in-hiding",
    "LAB_PRIV": "priv-in-hiding",
    "LAB_REDIS": "redis-in-hiding",
    "LAB_API": "api-in-hiding",
    "LAB_TOKEN": "token-in-hiding",
}
SECRETS = (COMMUNITY, PASSWORD, *OTHERS.values())
FORMS = [form for word in SECRETS for form in (
    word, word.encode().hex(), base64.b64encode(word.encode()).decode(),
    base64.b64encode(f"ann:{word}".encode()).decode(),
)]  # fmt: skip
PROGRAM = [sys.executable, "-c", "from agent.cli import app; app()"]


def leaks(text):
    if isinstance(text, bytes):
        return [form for form in FORMS if form.encode() in text]
    return [form for form in FORMS if form in text]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An inventory with a secret of every kind; only leaf1 and leaf2 are there."""
    for name, word in {"LAB_COMMUNITY": COMMUNITY, "LAB_PASSWORD": PASSWORD, **OTHERS}.items():
        monkeypatch.setenv(name, word)
    with lab(tmp_path) as file:
        inventory = yaml.safe_load(file.read_text())
        inventory["credentials"] |= {
            "usm": {
                "user": "ann", "password_env": "LAB_AUTH", "priv_password_env": "LAB_PRIV",
            },
            "redis": {"password_env": "LAB_REDIS"},
            "api": {"user": "ann", "password_env": "LAB_API"},
        }  # fmt: skip
        inventory["targets"].append(
            {
                "name": "dark1", "address": "127.0.0.1", "platform": "eos",
                "snmp": {"credentials": "usm", "port": free_port(), "timeout": 0.2, "repeats": 0},
                "sonic_db": {"credentials": "redis", "port": free_port(), "timeout": 0.5},
                "api": {"credentials": "api", "port": free_port(), "timeout": 1, "tls": None},
            }
        )  # fmt: skip
        file.write_text(yaml.safe_dump(inventory))
        (tmp_path / "agent.yaml").write_text(
            f"""
agent: mgmt1
log_level: debug
collectors: {{}}
switches: {{inventory: targets.yaml}}
otlp: {{address: 127.0.0.1, port: {free_port()}, token_env: LAB_TOKEN}}
metrics: {{address: 127.0.0.1, port: {free_port()}}}
"""
        )
        yield tmp_path


@pytest.mark.parametrize(
    "argv",
    [
        ["check-config", "agent.yaml"],
        ["once", "--config", "agent.yaml", "--format", "prom"],
        ["once", "--config", "agent.yaml", "--format", "json"],
        ["targets", "test", "targets.yaml"],
        ["record", "--config", "agent.yaml", "--out", "recording", "--duration", "3"],
    ],
    ids=" ".join,
)
def test_commands_say_nothing(folder, argv):
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "GRPC_VERBOSITY": "info"}
    process = subprocess.Popen(
        [*PROGRAM, *argv], cwd=folder, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    with open(f"/proc/{process.pid}/cmdline", "rb") as line:
        assert leaks(line.read()) == []
    said = process.communicate(timeout=90)[0]
    assert leaks(said) == []
    if argv[0] == "once":
        assert b"fabric_pfc_rx_frames_total" in said
    if argv[0] == "targets":
        assert "no answer" in " ".join(said.decode().replace("│", " ").split())  # it is wrapped
    recorded = [file for file in (folder / "recording").rglob("*") if file.is_file()]
    for file in recorded:
        assert leaks(file.read_bytes()) == []
    assert bool(recorded) == (argv[0] == "record")


def test_the_daemon_says_nothing(folder):
    """Logs at debug, and its metrics while targets fail."""
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    log = folder / "log"
    port = yaml.safe_load((folder / "agent.yaml").read_text())["metrics"]["port"]
    url = f"http://127.0.0.1:{port}/metrics"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*PROGRAM, "run", "--config", "agent.yaml"], cwd=folder, env=environment, stdout=out,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    seen = b""
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until and b"fabric_pfc_rx_frames_total" not in seen:
            time.sleep(0.5)
            try:
                with urllib.request.urlopen(url, timeout=10) as answer:
                    seen = answer.read()
            except (urllib.error.URLError, OSError):
                continue
        assert b"fabric_pfc_rx_frames_total" in seen
        assert b"dark1" in seen
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert leaks(seen) == []
    said = log.read_bytes()
    assert said
    assert leaks(said) == []


def dump(thing, depth=6, seen=None):
    """Return what an error reporter prints: representations, attribute by attribute."""
    seen = set() if seen is None else seen
    if depth == 0 or id(thing) in seen:
        return ""
    seen.add(id(thing))
    text = f"{thing!r} {thing!s}\n"
    inner = []
    if isinstance(thing, dict):
        inner = [*thing.keys(), *thing.values()]
    elif isinstance(thing, (list, tuple, set, frozenset)):
        inner = list(thing)
    elif type(thing).__module__.startswith(("agent.", "collectors.")):
        if type(thing).__name__ == "Secret":
            return text  # its one slot is the secret's home
        names = [*getattr(thing, "__dict__", {}), *getattr(type(thing), "__slots__", ())]
        names += list(getattr(type(thing), "__struct_fields__", ()))
        inner = [getattr(thing, name) for name in names if hasattr(thing, name)]
    return text + "".join(dump(one, depth - 1, seen) for one in inner)


def test_dumps_of_objects_and_tracebacks_say_nothing(folder):
    """Configuration, pollers before and after use, and tracebacks with local variables."""
    board = Switchboard(folder / "targets.yaml")
    texts = [dump(board), msgspec.json.encode(board.inventory).decode()]
    failed = []

    async def poll_all():
        for target in board.inventory.targets:
            for transport in TRANSPORTS:
                if not getattr(target, transport):
                    continue
                poller = board.poller(target, transport, 5.0)
                texts.append(dump(poller))
                try:
                    await poller.poll(lambda: Instant(time.time_ns(), time.monotonic_ns()))
                except FabricError as error:
                    failed.append((target.name, transport))
                    told = traceback.TracebackException.from_exception(error, capture_locals=True)
                    texts.extend(told.format())
                    texts.append(f"{error!r} {error.args!r}")
                texts.append(dump(poller))
                closing = poller.close() if hasattr(poller, "close") else None
                if closing is not None:
                    await closing

    asyncio.run(poll_all())
    assert {("dark1", "snmp"), ("dark1", "sonic_db"), ("dark1", "api")} <= set(failed)
    config = parse_config((folder / "agent.yaml").read_text(), "agent.yaml")
    texts += [dump(config), json.dumps(msgspec.to_builtins(config))]
    for job in jobs(config, str(folder / "agent.yaml")):
        if job.name == "otlp":
            receiver = job.build()
            texts.append(dump(receiver))
            receiver.close()
    whole = "\n".join(texts)
    assert "LAB_TOKEN" in whole  # by reference
    assert "(secret)" in whole
    assert leaks(whole) == []

"""Every expression that is shipped, run by a real Prometheus that scraped real agents.

It scrapes the agents of the Soft-RoCE lab, under traffic, and the agent of a fake mlx5 host, which
has what Soft-RoCE lacks (CNPs, PFC). Every board query and recording rule must return data; every
alert must evaluate.
"""

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from deploy.grafana.boards import BOARDS, expressions, render
from simlab.demo import program
from simlab.loopback import free_ports
from simlab.rxe.scenario import read_scenario

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy/prometheus/fabric-tuner.rules.yml"

pytestmark = [
    pytest.mark.lab_rxe,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus (Debian package)"),
]


@contextmanager
def running(argv, log):
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=20)


def ask(port, query):
    url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]["result"]


def wait_until(answers, seconds):
    until = time.monotonic() + seconds
    while not answers():
        assert time.monotonic() < until, "nothing came"
        time.sleep(1)


@pytest.fixture(scope="module")
def prometheus(product, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prometheus")
    hosts = folder / "hosts"
    fake_port, port = free_ports(2)
    serve = [program("simlab"), "hosts", "serve", "--out", str(hosts), "--nics", "2"]
    with running([*serve, "--duration", "600"], folder / "hosts.log"):
        wait_until(lambda: list(hosts.glob("*/agent.yaml")), 60)
        [config_path] = hosts.glob("*/agent.yaml")
        config = yaml.safe_load(config_path.read_text())
        config |= {"metrics": {"address": "127.0.0.1", "port": fake_port}, "interval": 2}
        config_path.write_text(yaml.safe_dump(config))
        lab = product.lab
        targets = [f"127.0.0.1:{lab.metrics_port(host)}" for host in [*lab.hosts, "sw"]]
        targets.append(f"127.0.0.1:{fake_port}")
        scraping = {
            "global": dict.fromkeys(
                ("scrape_interval", "scrape_timeout", "evaluation_interval"), "3s"
            ),
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {"job_name": "fabric-agent", "static_configs": [{"targets": targets}]}
            ],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(scraping))
        argv = [
            "prometheus", f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}",
        ]  # fmt: skip
        agent = [program("fabric-agent"), "run", "--config", str(config_path)]
        with running(agent, folder / "agent.log"), running(argv, folder / "prometheus.log"):
            lab.apply(read_scenario("incast-ecn"))
            lab.start_traffic(40)
            wait_until(lambda: len(up(port)) == len(targets), 90)
            time.sleep(25)
            yield port
            lab.finish_traffic()


def up(port):
    try:
        return [row for row in ask(port, "up == 1") if row]
    except OSError:
        return []


def filled_in(query):
    for name in ("instance", "device", "netdev"):
        query = query.replace(f"${name}", ".*")
    return query.replace("$__rate_interval", "30s")


def test_every_query_of_every_board_returns_data(prometheus):
    queries = [q for name in BOARDS for q in expressions(json.loads(render(name)))]
    empty = [query for query in queries if not ask(prometheus, filled_in(query))]
    assert empty == []
    assert len(queries) > 25


def test_every_recording_rule_has_recorded_and_every_alert_evaluates(prometheus):
    shipped = yaml.safe_load(RULES.read_text())["groups"]
    rules = [rule for group in shipped for rule in group["rules"]]
    recorded = [rule["record"] for rule in rules if "record" in rule]
    assert recorded
    assert [name for name in recorded if not ask(prometheus, name)] == []
    for rule in rules:
        ask(prometheus, rule["expr"])  # HTTP 400 where an expression is wrong
    url = f"http://127.0.0.1:{prometheus}/api/v1/rules"
    with urllib.request.urlopen(url, timeout=10) as answer:
        groups = json.load(answer)["data"]["groups"]
    assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}

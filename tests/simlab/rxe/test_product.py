"""The whole product on real Soft-RoCE traffic: agents in the lab, a tuner outside, its answers.

Runs in the boot that the lab's own tests made. Each scenario is run once under the agents' eyes.
"""

import json
import shutil
import signal
import subprocess
import time
import warnings
from pathlib import Path

import pytest

from collectors.model.catalogue.registry import columns
from collectors.model.entities import Netdev, Port, host_of, parse_entity
from collectors.wire.segment import read_segment, segments
from simlab.demo import outcomes
from simlab.rxe.agents import (
    kill_agent,
    scrape,
    start_agent,
    wait_for_agents,
)
from simlab.rxe.applier import changes
from simlab.rxe.scenario import Truth, flows, read_scenario, scenario_names
from tuner.store.sources import open_window

pytestmark = pytest.mark.lab_rxe

SECONDS = 10.0
SETTLE_S = 4.0
RUNS = 3


def findings(document: dict) -> list[dict]:
    return [finding for finding in document["findings"] if not finding["explained_by"]]


@pytest.mark.parametrize("name", scenario_names())
def test_the_tuner_names_cause_and_place_and_is_silent_where_nothing_is_wrong(product, name):
    """Ten seconds on an emulated CPU hold chance: a run may be repeated, no answer may differ."""
    for attempt in range(RUNS):
        code, document = product.suggest(name)
        try:
            check_answer(read_scenario(name).truth, code, document)
        except AssertionError:
            if attempt == RUNS - 1:
                raise
            warnings.warn(f"{name} again: {summaries(document)}", stacklevel=1)
        else:
            return


def check_answer(truth: Truth, code: int, document: dict) -> None:
    if truth.cause == "none":
        assert findings(document) == [], summaries(document)
        assert document["recommendations"] == []
        assert code == 0
        return
    assert findings(document), "nothing found"
    first = findings(document)[0]
    assert first["rule"] == truth.cause, summaries(document)
    assert truth.place is not None
    place = first["place"]["entity"]
    wanted = truth.place.interface or truth.place.host
    if truth.place.kind == "link":
        assert f"%2F{truth.place.host}" in place or place.endswith(f"/{wanted}"), place
    elif truth.place.kind == "port":
        assert place == f"interface/sw/{wanted}"
    else:
        assert host_of(parse_entity(place)) == truth.place.host
    assert len(findings(document)) == 1, summaries(document)
    assert code == 3
    assert document["recommendations"][0]["because"] == [first["id"]]


def summaries(document: dict) -> list[str]:
    return [finding["summary"] for finding in document["findings"]]


def test_agents_read_what_the_kernel_counts_each_its_own(product):
    product.run("incast-ecn")
    truth = product.lab.counters()
    window, _ = open_window("", product.tuner.address, "15s")
    compared = 0
    for host in product.lab.hosts:
        for via, kind, counts in (
            ("hw_counters", Port, truth.rdma[host]),
            ("dev_snmp6", Netdev, truth.ip6[host]),
        ):
            for key, column in columns(via, "rxe").items():
                if key not in counts:
                    continue
                [entity] = [
                    e
                    for e in window.entities(column.metric)
                    if isinstance(e, kind) and host_of(e) == host
                ]
                seen = window.latest(column.metric, entity)
                assert seen.value == counts[key], f"{host} {key}"
                assert window.agent_of(entity) == host
                compared += 1
    assert compared >= 4 * 15
    for name, port in truth.ports.items():
        for metric, count in (
            ("fabric_queue_ecn_marked_packets_total", port.marked),
            ("fabric_queue_drop_packets_total", port.drops),
        ):
            [slot] = [e for e in window.entities(metric) if f"/{name}" in str(e)]
            assert window.latest(metric, slot).value == count, f"{name} {metric}"


def assert_complete(data: Path) -> dict[str, int]:
    """Check the numbers in the tuner's store, none missing, no sample twice; count by epoch.

    Facts may stand in several segments: a new one repeats those that hold, so as to stand alone.
    """
    batches: dict[str, list[int]] = {}
    facts: dict[str, set[int]] = {}
    for path in segments(data):
        for item in read_segment(path):
            body = item.WhichOneof("body")
            if body == "batch":
                run = f"{item.batch.agent}/{item.batch.epoch}"
                batches.setdefault(run, []).append(item.batch.seq)
            elif body == "facts":
                run = f"{item.facts.agent}/{item.facts.epoch}"
                facts.setdefault(run, set()).add(item.facts.seq)
    for run, numbers in batches.items():
        assert len(set(numbers)) == len(numbers), run
        known = facts.get(run, set()) | set(numbers)
        assert not facts.get(run, set()) & set(numbers), run
        assert known == set(range(1, len(known) + 1)), run
    return {run: len(numbers) for run, numbers in batches.items()}


def test_a_tuner_that_crashes_loses_and_doubles_nothing(product):
    product.lab.apply(read_scenario("healthy"))
    product.lab.start_traffic(12)
    time.sleep(3)
    product.tuner.stop(signal.SIGKILL)
    time.sleep(4)
    product.tuner.start()
    product.lab.finish_traffic()
    time.sleep(SETTLE_S + 6)  # agents back off before they come again
    status = product.status()
    for agent in [*product.lab.hosts, "sw"]:
        assert status[agent]["connected"], agent
        assert status[agent]["missing"] == 0
    assert len(assert_complete(product.tuner.data)) == len(status)


def test_an_agent_that_crashes_loses_and_doubles_nothing_that_was_in_its_spool(product):
    before = assert_complete(product.tuner.data)
    kill_agent(product.lab, "h1")
    start_agent(product.lab, "h1")
    wait_for_agents(product.lab, ["h1"])
    time.sleep(2 * SETTLE_S)
    after = assert_complete(product.tuner.data)
    [new] = [run for run in after if run not in before]  # each run of an agent has its own epoch
    assert new.startswith("h1/")
    assert after[new] > 2
    [old] = [run for run in before if run.startswith("h1/")]
    assert after[old] >= before[old]
    status = product.status()["h1"]
    assert status["connected"]
    assert status["missing"] == 0


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (package prometheus)")
def test_a_scrape_is_clean_and_of_one_host_only(product):
    text = scrape(product.lab, "h1")
    shown = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert 'device="rxe_h1"' in text
    assert "rxe_h2" not in text


def test_a_planted_wrong_recommendation_brings_no_improvement_the_tuners_own_does(product):
    lab, scenario = product.lab, read_scenario("lossy-link")
    before = product.run("lossy-link")
    shown = product.tuner.run(
        "suggest", "--since", f"{SECONDS + SETTLE_S:.0f}s", "--format", "json"
    )
    right = json.loads(shown.stdout)
    wrong = json.loads(shown.stdout)
    wrong["recommendations"] = [
        {
            "knob": "queue_limit_bytes",
            "scope": {"entity": "queue/0/interface/sw/p2", "name": "sw p2 queue 0"},
            "proposed": 2_000_000,
        }
    ]
    results = {}
    for name, document in (("wrong", wrong), ("right", right)):
        lab.apply(scenario)
        todo = changes(json.dumps(document), flows(scenario))
        assert todo, name
        for change in todo:
            lab.change(change)
        after = lab.run_traffic(SECONDS)
        results[name] = [outcome.better for outcome in outcomes(scenario, before, after)]
    assert results == {"wrong": [False], "right": [True]}

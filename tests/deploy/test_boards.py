"""Boards are generated, current, and speak only of metrics that exist."""

import json
import re
from pathlib import Path

import pytest

from collectors.model.catalogue.own import OWN
from collectors.model.catalogue.registry import CATALOGUE
from deploy.grafana.boards import BOARDS, expressions, render

HERE = Path(__file__).parents[2] / "deploy"
KNOWN = CATALOGUE.keys() | OWN.keys()


@pytest.mark.parametrize("name", BOARDS)
def test_committed_board_is_what_the_code_makes(name):
    assert (HERE / "grafana" / name).read_text() == render(name) + "\n"


@pytest.mark.parametrize("name", BOARDS)
def test_every_query_is_of_a_known_metric(name):
    queries = expressions(json.loads(render(name)))
    assert len(queries) > 20
    for query in queries:
        for metric in re.findall(r"\b(?:node_infiniband|fabric)_\w+", query):
            assert metric in KNOWN, query


def test_every_alert_is_of_a_known_metric():
    text = (HERE / "prometheus/fabric-tuner.rules.yml").read_text()
    names = set(re.findall(r"(?<![:\w])(?:node_infiniband|fabric)_\w+", text))
    assert names
    for metric in names:
        assert metric in KNOWN, metric

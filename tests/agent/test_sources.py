"""From configuration to jobs."""

import pytest

from agent import sources
from agent.config import parse_config
from collectors.host.context import HostCollector
from collectors.model.errors import ConfigInvalid
from collectors.model.reading import Pass


class Nothing:
    name = "nothing"

    def __init__(self, context):
        self.context = context

    def read(self, clock):
        return Pass()


ROWS = (
    HostCollector("fast", "one", Nothing, interval_s=1, deadline_s=0.5),
    HostCollector("slow", "two", Nothing, interval_s=60, deadline_s=9),
    HostCollector("rare", "three", Nothing, on=False),
)


@pytest.fixture(autouse=True)
def rows(monkeypatch):
    monkeypatch.setattr(sources, "HOST_COLLECTORS", ROWS)


def test_defaults_come_from_the_registry():
    planned = sources.jobs(parse_config("", "f"))
    assert [(job.name, job.interval_s, job.deadline_s) for job in planned] == [
        ("fast", 1, 0.5),
        ("slow", 60, 9),
    ]


def test_config_overrides():
    text = """
interval: 3
collectors:
  fast: {on: off}
  slow: {interval: 7}
  rare: {on: on, deadline: 4, options: {deep: true}}
"""
    planned = {job.name: job for job in sources.jobs(parse_config(text, "f"))}
    assert set(planned) == {"slow", "rare"}
    assert (planned["slow"].interval_s, planned["slow"].deadline_s) == (7, 9)
    assert (planned["rare"].interval_s, planned["rare"].deadline_s) == (3, 4)
    assert planned["rare"].build().context.options == {"deep": True}
    assert planned["slow"].build().context.options == {}


def test_unknown_collector_names_the_near_one():
    with pytest.raises(ConfigInvalid) as caught:
        sources.jobs(parse_config("collectors: {slwo: {}}", "f"), "agent.yaml")
    assert str(caught.value) == (
        "agent.yaml: $.collectors.slwo: no such collector; is 'slow' meant?"
    )


def test_devices_are_listed_not_opened(tmp_path):
    for name in ("mlx5_0", "mlx5_1", "rxe0"):
        (tmp_path / "class/infiniband" / name).mkdir(parents=True)
    text = f"paths: {{sysfs: {tmp_path}}}\ndevices: {{include: ['mlx5_.*'], exclude: [mlx5_1]}}"
    context = sources.host_context(parse_config(text, "f"))
    assert sources.read_rdma_devices(context) == ("mlx5_0",)


def test_no_rdma_class_is_no_device(tmp_path):
    context = sources.host_context(parse_config(f"paths: {{sysfs: {tmp_path}}}", "f"))
    assert sources.read_rdma_devices(context) == ()

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.model.entities import Netdev
from tuner.advice.outcome.measured import Measured
from tuner.advice.outcome.money import BUS_BANDWIDTH, GPU_HOURS, STEP_TIME, gain_of, with_outcome
from tuner.advice.recommendation import Effect, Recommendation

JOB = Measured(1024, 100e9, 2.0, 0.5)


def goodput(low, high, before=1.0, metric="goodput of affected flows", unit="ratio"):
    return Effect(metric, unit, before, low, high, "a model", "an assumption")


def recommendation(*effects):
    return Recommendation(
        "mtu_bytes", Netdev("h1", "eth0"), 1500, 9000, "bytes", "s", ("f",), (), effects, 0.9,
        "low", "r", "how", "undo",
    )  # fmt: skip


def worth(rec, measured):
    [valued] = with_outcome([rec], measured)
    return {effect.metric: effect for effect in valued.effects}, valued.missing


def test_a_gain_shrinks_the_waiting_part_of_a_step_only():
    effects, missing = worth(recommendation(goodput(2.0, 4.0)), JOB)
    step, hours = effects[STEP_TIME], effects[GPU_HOURS]
    assert (step.before, step.low, step.high) == (2.0, pytest.approx(1.25), pytest.approx(1.5))
    assert (hours.low, hours.high) == (pytest.approx(24576 * 0.25), pytest.approx(24576 * 0.375))
    bandwidth = effects[BUS_BANDWIDTH]
    assert (bandwidth.low, bandwidth.high) == (200e9, 400e9)
    assert missing == ()


def test_the_time_of_the_job_counts_before_goodput():
    time = goodput(0.5, 0.8, before=1.0, metric="job time", unit="seconds")
    gain = gain_of([goodput(9.0, 9.0), time])
    assert (gain.low, gain.high) == (1.25, 2.0)


def test_of_several_flows_the_slowest_gains_most():
    gain = gain_of([goodput(1.1, 1.2), goodput(3.0, 3.5, metric="goodput of h3", before=1.0)])
    assert (gain.low, gain.high) == (3.0, 3.5)


@pytest.mark.parametrize(
    ("unknown", "word"),
    [("bus_bandwidth_bps", "nccl-tests"), ("step_s", "--step-time"), ("gpus", "--gpus"),
     ("communication_ratio", "--communication")],
)  # fmt: skip
def test_what_is_missing_is_named(unknown, word):
    _, [missing] = worth(recommendation(goodput(2, 2)), replace(JOB, **{unknown: None}))
    assert word in missing


def test_without_a_predicted_throughput_no_worth_is_claimed():
    effects, [missing] = worth(recommendation(goodput(0, 0, metric="retransmissions/s")), JOB)
    assert set(effects) == {"retransmissions/s"}
    assert "no throughput" in missing


def test_idle_gpus_are_an_upper_bound():
    effects, _ = worth(recommendation(goodput(2, 2)), replace(JOB, communication_is_bound=True))
    assert "upper bound" in effects[STEP_TIME].assumptions


@given(st.floats(1, 100), st.floats(1, 100), st.floats(0, 1))
def test_a_gain_never_slows_a_step_nor_regains_more_than_was_waited(one, other, share):
    low, high = sorted((one, other))
    effects, _ = worth(recommendation(goodput(low, high)), replace(JOB, communication_ratio=share))
    step = effects[STEP_TIME]
    assert 2.0 * (1 - share) - 1e-9 <= step.low <= step.high <= 2.0 + 1e-9
    assert -1e-6 <= effects[GPU_HOURS].low <= effects[GPU_HOURS].high <= 24576 * share + 1e-6

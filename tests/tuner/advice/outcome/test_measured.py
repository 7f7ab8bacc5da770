import json

import pytest

from collectors.model.errors import ConfigInvalid, Malformed
from tuner.advice.outcome.measured import Measured, joined
from tuner.advice.outcome.read import parse_measured

NCCL_TESTS = """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 8(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid   4711 on       gpu1 device  0 [0000:07:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   4712 on       gpu1 device  1 [0000:0f:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid   2311 on       gpu2 device  0 [0000:07:00] NVIDIA H100 80GB HBM3
#
#                                                    out-of-place                  in-place
#       size         count      type   redop    root  time   algbw   busbw #wrong  time   algbw
#        (B)    (elements)                            (us)  (GB/s)  (GB/s)         (us)  (GB/s)
           8             2     float     sum    -1   23.58    0.00    0.00      0  23.2 0.0 0.0 0
   134217728      33554432     float     sum    -1  1250  107.37  143.16      0  1249 107.4 143.2 0
  1073741824     268435456     float   sum   -1 5402.7 198.74 372.64  N/A 5400 198.8 372.8 N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 171.94
"""


def test_nccl_tests_largest_message_counts():
    measured = parse_measured(NCCL_TESTS, "run.log")
    assert measured.gpus == 3
    assert measured.bus_bandwidth_bps == pytest.approx(372.64 * 8e9)
    assert measured.sources == ("run.log: nccl-tests",)


def test_nccl_tests_whole_times_and_no_in_place_half():
    line = "  134217728  33554432  float  sum  -1  1250  107.37  143.16  0"
    measured = parse_measured(f"# algbw busbw\n{line}\n", "x")
    assert measured.bus_bandwidth_bps == pytest.approx(143.16 * 8e9)


def test_nccl_tests_without_a_result():
    head = "\n".join(NCCL_TESTS.splitlines()[:10])
    with pytest.raises(Malformed, match="no line of results"):
        parse_measured(head, "run.log")


def test_nccl_tests_of_all_to_all_has_no_reduction():
    line = "  1048576  32768  float  none  -1  100.5  10.43  9.13  0  99.1  10.5  9.2  0"
    measured = parse_measured(f"# algbw busbw\n{line}\n", "a2a.log")
    assert measured.bus_bandwidth_bps == pytest.approx(9.13 * 8e9)
    assert measured.gpus is None


def record(stamp_us, took_us, busbw, pid=1, size=1 << 20):
    return json.dumps(
        {
            "header": {"id": "0x1", "rank": 0, "n_ranks": 16, "nnodes": 2},
            "metadata": {"hostname": "gpu1", "pid": pid, "dump_timestamp_us": stamp_us},
            "coll_perf": {
                "coll": "AllReduce", "coll_msg_size_bytes": size, "coll_exec_time_us": took_us,
                "coll_algobw_gbs": busbw / 2, "coll_busbw_gbs": busbw,
            },
        }
    )  # fmt: skip


def test_inspector_weighs_by_time_and_takes_the_busiest_process():
    lines = [
        record(1e6, 250_000, 100), record(2e6, 250_000, 100), record(3e6, 250_000, 100),
        record(1e6, 500_000, 50, pid=2), record(3e6, 750_000, 50, pid=2),
    ]  # fmt: skip
    measured = parse_measured("\n".join(lines), "nccl.jsonl")
    assert measured.gpus == 16
    assert measured.bus_bandwidth_bps == pytest.approx((100 * 750 + 50 * 1250) / 2000 * 8e9)
    # pid 1: 0.5 s in 2 s; pid 2: 0.75 s in 2 s; what ended as the span began is not in it
    assert measured.communication_ratio == pytest.approx(0.375)
    assert measured.communication_is_bound


def test_inspector_without_time_stamps_or_too_short_tells_no_share():
    assert parse_measured(record(1e6, 10, 100), "x").communication_ratio is None


def test_inspector_damaged():
    with pytest.raises(Malformed, match="line 2"):
        parse_measured(record(1e6, 10, 100) + '\n{"coll_perf": 3}', "x")
    with pytest.raises(Malformed, match="no collective"):
        parse_measured(record(1e6, 0, 100), "x")


DCGM = """\
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",Hostname="gpu1"} 100
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",Hostname="gpu1"} 100
"""


def test_dcgm_prefers_activity_to_utilisation():
    busy = 'DCGM_FI_PROF_SM_ACTIVE{{gpu="{}",UUID="GPU-{}",Hostname="gpu1"}} {}\n'
    text = DCGM + busy.format(0, "a", 0.6) + busy.format(1, "b", 0.8)
    measured = parse_measured(text, "scrape")
    assert measured.gpus == 2
    assert measured.communication_ratio == pytest.approx(0.3)
    assert parse_measured(DCGM, "scrape").communication_ratio == 0.0


def test_dcgm_damaged_or_beside_the_point():
    with pytest.raises(Malformed, match="no Prometheus exposition"):
        parse_measured("DCGM_FI_DEV_GPU_UTIL{gpu= 7", "scrape")
    with pytest.raises(Malformed, match="neither"):
        parse_measured('DCGM_FI_DEV_SM_CLOCK{gpu="0"} 7\n', "scrape")


def test_unknown_text():
    with pytest.raises(ConfigInvalid, match="neither nccl-tests"):
        parse_measured("hello", "notes.txt")


def test_the_first_input_wins_and_all_are_named():
    whole = joined(
        [
            Measured(step_s=1.0, communication_ratio=0.2, sources=("options",)),
            Measured(gpus=8, communication_ratio=0.9, communication_is_bound=True, sources=("x",)),
        ]
    )
    assert whole == Measured(8, None, 1.0, 0.2, False, ("options", "x"))


@pytest.mark.parametrize("figure", ["nan", "inf"])
def test_nccl_tests_without_a_finite_figure_are_malformed(figure):
    row = f"1048576 262144 float sum -1 {figure} {figure} {figure} 0 {figure} {figure} {figure} 0"
    with pytest.raises(Malformed, match="no line of results"):
        parse_measured(f"# size count type redop root time algbw busbw #wrong\n{row}\n", "f")

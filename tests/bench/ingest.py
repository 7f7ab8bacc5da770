"""./run bench ingest: what a value costs on its way from the wire to an answer.

1. Through gRPC into `tuner serve` (checked, de-duplicated, compressed, on disk, acknowledged, in
   the window), CPU of the server process; beside it a server that takes labelled samples and
   stores nothing.
2. Bytes per value on disk; beside it the same values as labelled samples, compressed alike.
3. A window over 24,576 ports x 60 counters x 100 samples: memory, growth of everything; beside
   it the one-by-one arithmetic.
4. Replay of the store after a restart.
`./run bench ingest --ports N` for fewer ports.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import grpc

from collectors.model.counters import delta
from collectors.wire import telemetry_pb2 as pb
from collectors.wire.segment import segments
from simlab.loopback import free_port
from tests.bench.ingest_parts import labelled
from tests.bench.ingest_parts.traffic import COLUMNS, COUNTERS, PORTS, VALUES, agent_items
from tests.bench.packet_parts.report import Report
from tests.bench.processes import used_cpu_s
from tuner.store.memory import MemoryStore
from tuner.store.sources import fetch_status, open_window

UPLOAD = "/fabric.wire.v1.Telemetry/Upload"
TUNER = [sys.executable, "-c", "from tuner.cli.main import app; app(prog_name='tuner')"]


def beside(
    report: Report, name: str, ours: float, op: str, limit: float, unit: str, reference: float
) -> None:
    """Hold the ratio of ours to a reference of the same run to a limit."""
    report.check(name, ours / reference, limit, op, unit, ours=ours, reference=reference)


def in_streams(target: str, method: str, streams: list[list[bytes]], last: int) -> None:
    """Send each list of serialized messages in a stream of its own; wait for all answers."""
    failures: list[Exception] = []

    def one(messages: list[bytes]) -> None:
        done = threading.Event()

        def feed() -> Iterator[bytes]:
            yield from messages
            done.wait(300)

        try:
            with grpc.insecure_channel(target) as channel:
                answers = enumerate(channel.stream_stream(method)(feed()), 1)
                reached = (
                    pb.Answer.FromString(answer).acknowledged if answer else number
                    for number, answer in answers
                )
                next(number for number in reached if number >= last)
                done.set()
        except Exception as error:  # noqa: BLE001  reported by the main thread
            failures.append(error)
        done.set()

    threads = [threading.Thread(target=one, args=(messages,)) for messages in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def uploads(agents: int, samples: int) -> list[list[bytes]]:
    """Serialized uploads of agents."""
    now_ns = time.time_ns() - samples * 10**9
    return [
        [
            pb.Item(hello=pb.Hello(wire_version=1, agent=f"node{n}", epoch="bench"))
            .SerializeToString(),
            *(i.SerializeToString() for i in agent_items(f"node{n}", samples, n, now_ns)),
        ]
        for n in range(agents)
    ]  # fmt: skip


def writes(agents: int, samples: int) -> list[list[bytes]]:
    """The same values as labelled samples."""
    request = labelled.write_request()
    out = []
    for n in range(agents):
        stream = []
        for item in agent_items(f"node{n}", samples, n):
            if not item.HasField("batch"):
                continue
            message = request()
            values = iter(item.batch.ints)
            for port, column in itertools.product(range(PORTS), COLUMNS):
                sample = message.samples.add(value=next(values), at_ms=item.batch.at_ns // 10**6)
                sample.labels.add(name="__name__", value=column.metric)
                sample.labels.add(name="host", value=f"node{n}")
                sample.labels.add(name="device", value=f"mlx5_{port}")
                sample.labels.add(name="port", value="1")
            stream.append(message.SerializeToString())
        out.append(stream)
    return out


def reference_ingest(agents: int, samples: int) -> tuple[float, float]:
    """CPU seconds and compressed bytes per value of labelled samples."""
    streams = writes(agents, samples)
    values = agents * samples * VALUES
    size = sum(len(zlib.compress(message, 1)) for stream in streams for message in stream)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.ingest_parts.labelled"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        if process.stdout is None:
            raise RuntimeError("no pipe")
        target = f"127.0.0.1:{int(process.stdout.readline())}"
        before = used_cpu_s(process.pid)
        in_streams(target, labelled.METHOD, streams, samples)
        used = used_cpu_s(process.pid) - before
    finally:
        process.kill()
        process.wait()
    return used / values, size / values


def serving(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """Start `tuner serve` and wait until it answers."""
    process = subprocess.Popen(
        [*TUNER, "serve", "--listen", f"127.0.0.1:{port}", "--data", str(folder),
         "--metrics", "off"],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for _ in range(600):
        time.sleep(0.1)
        if process.poll() is not None:
            raise RuntimeError("tuner serve ended")
        try:
            fetch_status(f"127.0.0.1:{port}")
        except Exception:  # noqa: BLE001, S112  not yet
            continue
        return process
    raise RuntimeError("tuner serve does not answer")


def bench_ingest(report: Report, folder: Path, agents: int, samples: int) -> None:
    """Parts 1, 2 and 4."""
    streams = uploads(agents, samples)
    values = agents * samples * VALUES
    port = free_port()
    process = serving(folder, port)
    try:
        before, began = used_cpu_s(process.pid), time.monotonic()
        in_streams(f"127.0.0.1:{port}", UPLOAD, streams, samples)
        wall = time.monotonic() - began
        used = (used_cpu_s(process.pid) - before) / values
        stored = sum(agent.values for agent in fetch_status(f"127.0.0.1:{port}").agents)
    finally:
        process.terminate()
        process.wait()
    if stored != values:
        raise RuntimeError(f"{values} values sent, {stored} stored")
    size = sum(path.stat().st_size for path in segments(folder)) / values
    reference, reference_size = reference_ingest(4, max(samples // 5, 10))
    report.note(
        f"ingest: {agents} agents, {values} values in {wall:.1f} s of wall time, all acknowledged "
        "after fdatasync; the reference stores nothing and syncs nothing"
    )
    beside(
        report, "values per second and core through gRPC to disk and window",
        1 / used, ">=", 3, "values/s", 1 / reference,
    )  # fmt: skip
    beside(report, "bytes per value on disk", size, "<=", 0.5, "bytes", reference_size)
    before = time.process_time()
    window, _ = open_window(f"dir={folder}")
    replay = time.process_time() - before
    if len(window.agents) != agents:
        raise RuntimeError("replay lost agents")
    report.check(
        "replay from disk into a window", values / replay / 1e6, 3, ">=", "million values/s"
    )


def bench_window(report: Report, ports: int, samples: int) -> None:
    """Part 3."""
    store = MemoryStore()
    agents = ports // PORTS
    began = time.process_time()
    adding = 0.0
    for n in range(agents):
        for item in agent_items(f"node{n}", samples, n):
            before = time.process_time()
            store.add(item)
            adding += time.process_time() - before
    values = agents * samples * VALUES
    report.note(
        f"window: {ports} ports x {COUNTERS} counters x {samples} samples = {values} values; "
        f"{adding / values * 1e9:.0f} ns per value to add ({time.process_time() - began:.0f} s "
        "with making them)"
    )
    before = time.process_time()
    window = store.window()
    first = window.growth_all(COLUMNS[0].metric)
    grown = time.process_time() - before
    report.check(f"growth of all {ports * COUNTERS} counters", grown, 10, "<=", "CPU s")
    before = time.process_time()
    total = sum(
        growth.rate for column in COLUMNS for growth in window.growth_all(column.metric).values()
    )
    looked = time.process_time() - before
    report.check("the same, every growth looked at one by one", looked, 15, "<=", "CPU s")
    before = time.process_time()
    tables = sum(float(window.growth_table(column.metric).rate.sum()) for column in COLUMNS)
    report.note(f"the same as arrays: {time.process_time() - before:.2f} CPU s")
    if abs(tables - total) > 1e-6 * total or len(first) != ports:
        raise RuntimeError("table and mapping differ")
    entity = next(iter(first))
    series = window.series(COLUMNS[1].metric, entity)
    if series is None:
        raise RuntimeError("a series is missing")
    numbers = series.values.tolist()
    before = time.process_time()
    rounds = 200
    for _ in range(rounds):
        for old, new in itertools.pairwise(numbers):
            delta(series.column, old, new)
    by_one = (time.process_time() - before) / rounds / (len(numbers) - 1)
    steps = ports * COUNTERS * (samples - 1)
    beside(
        report, "steps of counter arithmetic per second",
        steps / grown, ">=", 10, "steps/s", 1 / by_one,
    )  # fmt: skip
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    report.check(f"memory with {ports} ports in the window", peak, 6, "<=", "GiB")


def main() -> int:
    """Run all parts; exit 0 whatever fails: the numbers are the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ports", type=int, default=24_576)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--agents", type=int, default=16, help="of the part through gRPC")
    chosen = parser.parse_args()
    report = Report("ingest")
    with tempfile.TemporaryDirectory() as folder:
        bench_ingest(report, Path(folder) / "data", chosen.agents, 500)
    bench_window(report, chosen.ports, chosen.samples)
    report.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())

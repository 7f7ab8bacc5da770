"""gNMI: updates through to readings, against pygnmi's parser on the same recorded stream.

./run bench gnmi. Each side parses the same bytes in a process of its own; CPU is process time,
the median of several runs. pygnmi is installed from PyPI into an environment of its own.
"""

from __future__ import annotations

import json
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(path for path in sys.path if Path(path) != Path(__file__).parent)]

from collectors.gnmi.decoder import Decoder  # noqa: E402
from collectors.gnmi.messages import SealedResponse, gnmi  # noqa: E402
from collectors.gnmi.vendors import VENDORS  # noqa: E402
from collectors.model.entities import Switch  # noqa: E402
from collectors.model.reading import Instant  # noqa: E402
from simlab.switches.gnmi_face import GnmiFace, pack  # noqa: E402
from simlab.switches.gnmi_target import ENCODINGS, GnmiTarget  # noqa: E402
from simlab.switches.own_environment import PYGNMI, python  # noqa: E402
from simlab.switches.state import SwitchState  # noqa: E402
from tests.bench.packet_parts.report import Report  # noqa: E402

RUNS = 5
SAMPLES = 30  # samples of the whole switch in the stream: five minutes at 10 s
PARSER = """
import json, struct, sys, time, statistics
from pygnmi.client import telemetryParser
from pygnmi.spec.v080 import gnmi_pb2
data, at, messages = open(sys.argv[1], "rb").read(), 0, []
while at < len(data):
    size = struct.unpack_from(">I", data, at)[0]
    messages.append(data[at + 4 : at + 4 + size]); at += 4 + size
spent, updates = [], 0
for _ in range(int(sys.argv[2])):
    began, updates = time.process_time(), 0
    for raw in messages:
        parsed = telemetryParser(gnmi_pb2.SubscribeResponse.FromString(raw))
        updates += len(parsed["update"]["update"])
    spent.append(time.process_time() - began)
print(json.dumps({"seconds": statistics.median(spent), "updates": updates}))
"""


def record(file: Path, encoding: str) -> int:
    """Write a stream of a 64-port EOS switch; return its updates."""
    state = SwitchState("leaf1", "eos", 64)
    target = GnmiTarget(GnmiFace(state))
    wanted = [pack(path) for path in VENDORS["eos"].paths]
    updates = 0
    with file.open("wb") as out:
        for _ in range(SAMPLES):
            state.run(1.0)
            for notification in target._notifications(wanted, ENCODINGS[encoding]):
                updates += len(notification.update)
                raw = gnmi.SubscribeResponse(update=notification).SerializeToString()
                out.write(struct.pack(">I", len(raw)) + raw)
    return updates


def messages(file: Path) -> list[bytes]:
    data, at, found = file.read_bytes(), 0, []
    while at < len(data):
        size = struct.unpack_from(">I", data, at)[0]
        found.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return found


def ours(file: Path) -> tuple[float, int, int]:
    """Return CPU seconds (median), values and readings of the stream."""
    stream, spent, values, readings = messages(file), [], 0, 0
    for _ in range(RUNS):
        decoder = Decoder(Switch("leaf1"), VENDORS["eos"], lambda _: True, lambda *_: None)
        began = time.process_time()
        values = readings = 0
        per_sample = len(stream) // SAMPLES
        for at, raw in enumerate(stream, 1):
            now = Instant(time.time_ns(), time.monotonic_ns())
            values += decoder.take(SealedResponse.FromString(raw).update, now)
            if at % per_sample == 0:
                readings += sum(1 for _ in decoder.readings())
        spent.append(time.process_time() - began)
    return statistics.median(spent), values, readings


def theirs(file: Path) -> tuple[float, int]:
    done = subprocess.run(
        [str(python(PYGNMI)), "-c", PARSER, str(file), str(RUNS)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return found["seconds"], found["updates"]


def main() -> int:
    report = Report("gnmi")
    report.title(f"a 64-port EOS switch, {SAMPLES} samples; ours to readings, {PYGNMI[0]}")
    with tempfile.TemporaryDirectory() as folder:
        for encoding in ("PROTO", "JSON", "JSON_IETF"):
            file = Path(folder) / encoding
            updates = record(file, encoding)
            seconds, values, readings = ours(file)
            other_seconds, other_updates = theirs(file)
            if other_updates != updates:
                report.note(f"{encoding}: pygnmi saw {other_updates} of {updates} updates")
            report.line(f"  {encoding}: {updates} updates, {values} values, {readings} readings")
            rate, other = updates / seconds, other_updates / other_seconds
            report.check(
                f"{encoding} updates per CPU-second", rate / other, 3, ">=", "ratio",
                ours=rate, reference=other,
            )  # fmt: skip
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())

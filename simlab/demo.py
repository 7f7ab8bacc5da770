"""`./run demo`: real RDMA traffic over a mis-set fabric, what the tuner says, the cure, the proof.

Everything is what a user would run: `tuner serve`, one `fabric-agent` on each simulated host and
on the switch, `tuner suggest`. The cure comes from `demo-out/suggest.json` and nowhere else. Exit
code 0 only where the harmed flow's goodput grew to 1.5 times or more and it retransmitted less.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from simlab.loopback import free_port
from simlab.rxe.agents import scrape, start_agents, stop_agents, wait_for_agents
from simlab.rxe.applier import changes
from simlab.rxe.lab import Lab, RunReport
from simlab.rxe.machine import LabError
from simlab.rxe.scenario import Change, Scenario, ScenarioError, flows, read_scenario

OUT = Path("demo-out")
GAIN = 1.5
REPORTED = 3  # exit code of `tuner suggest` that has recommendations


@dataclass(frozen=True)
class Outcome:
    """Goodput of the harmed flows and retransmissions of their senders, before and after."""

    flow: str
    before_bps: float
    after_bps: float
    before_retransmissions: int
    after_retransmissions: int

    @property
    def gain(self) -> float:
        """Goodput after, in terms of goodput before."""
        return self.after_bps / self.before_bps if self.before_bps else float("inf")

    @property
    def better(self) -> bool:
        """What the demo promises."""
        fewer = self.after_retransmissions < self.before_retransmissions
        return self.gain >= GAIN and fewer


class Tuner:
    """A `tuner serve` on the loopback with a data folder of its own."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.address = f"127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers. Raises LabError."""
        log = (self.data.parent / "tuner.log").open("ab")
        argv = [program("tuner"), "serve", "--listen", self.address, "--data", str(self.data)]
        argv += ["--metrics", "off"]  # its default port may be another tuner's
        self._process = subprocess.Popen(argv, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while self.run("status", "--format", "json").returncode:
            if self._process.poll() is not None or time.monotonic() > until:
                tail = (self.data.parent / "tuner.log").read_text(errors="replace")[-300:]
                raise LabError(f"tuner serve does not answer: {tail}")
            time.sleep(0.5)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it: SIGTERM as an administrator would, SIGKILL as a crash."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(timeout=30)

    def run(self, command: str, *args: str) -> subprocess.CompletedProcess[str]:
        """Run one of its client commands."""
        argv = [program("tuner"), command, "--tuner", self.address, *args]
        env = {**os.environ, "COLUMNS": "100"}
        return subprocess.run(argv, capture_output=True, text=True, check=False, env=env)


def program(name: str) -> str:
    """Return the path of a command of this environment."""
    return str(Path(sys.executable).parent / name)


def outcomes(scenario: Scenario, before: RunReport, after: RunReport) -> list[Outcome]:
    """Compare two runs for each harmed flow."""
    return [
        Outcome(
            flow,
            before.flow(flow).goodput_bps,
            after.flow(flow).goodput_bps,
            before.retransmissions(flow),
            after.retransmissions(flow),
        )
        for flow in scenario.truth.harmed
    ]


def run(scenario_name: str, seconds: float, out: Path, suggestion: Path | None = None) -> int:
    """Run the demo; returns the exit code.

    suggestion: a `suggest.json` to apply instead of the tuner's (tests plant a wrong one).
    Raises LabError, ScenarioError.
    """
    scenario = read_scenario(scenario_name)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fabric-tuner-demo-") as folder:
        tuner = Tuner(Path(folder) / "tuner")
        tuner.start()
        say(f"tuner serves on {tuner.address}")
        try:
            with Lab(scenario.fabric.hosts, say=say) as lab:
                lab.apply(scenario)
                start_agents(lab, tuner.address)
                wait_for_agents(lab)
                say(f"agents report; now traffic over a fabric with this fault: {scenario.summary}")
                before = traffic(lab, seconds)
                save_answers(tuner, lab, scenario, seconds, out)
                chosen = suggestion or out / "suggest.json"
                todo = changes(chosen.read_text(), flows(scenario))
                cure(lab, todo)
                after = traffic(lab, seconds)
                stop_agents(lab)
        finally:
            tuner.stop()
    compared = outcomes(scenario, before, after)
    save(out / "before-after.json", compared)
    show(compared)
    return 0 if todo and all(outcome.better for outcome in compared) else 1


def cure(lab: Lab, todo: Sequence[Change]) -> None:
    """Apply the recommended changes, saying each."""
    for change in todo:
        say(f"apply: {change.knob} of {change.target} = {change.value}")
        lab.change(change)


def traffic(lab: Lab, seconds: float) -> RunReport:
    """Run the lab's traffic, saying every few seconds how it does."""
    lab.start_traffic(seconds)
    last = 0.0
    while lab.traffic_running():
        time.sleep(0.3)
        if time.monotonic() - last >= 5:
            last = time.monotonic()
            now = [
                f"{f.name} {f.seconds_bps[-1] / 1e6:.1f}" for f in lab.progress() if f.seconds_bps
            ]
            say(f"Mbit/s: {', '.join(now) or 'flows are connecting'}")
    return lab.finish_traffic()


def save_answers(tuner: Tuner, lab: Lab, scenario: Scenario, seconds: float, out: Path) -> None:
    """Print what the tuner says and keep it: suggest.json, metrics.prom. Raises LabError."""
    since = f"{seconds:.0f}s"
    print(tuner.run("status").stdout, flush=True)
    shown = tuner.run("suggest", "--since", since)
    print(shown.stdout, flush=True)
    answer = tuner.run("suggest", "--since", since, "--format", "json")
    if answer.returncode not in (0, REPORTED):
        raise LabError(f"tuner suggest: {answer.stderr.strip()}")
    (out / "suggest.json").write_text(answer.stdout)
    show_plan(tuner, since, out / "plan")
    harmed = flows(scenario)[0].receiver
    (out / "metrics.prom").write_text(scrape(lab, harmed))
    say(f"saved {out / 'suggest.json'} and a Prometheus scrape of {harmed}, {out / 'metrics.prom'}")


def show_plan(tuner: Tuner, since: str, out: Path) -> None:
    """Write the recommended changes in the languages of the devices, and print them.

    The lab applies suggest.json itself: this is what an engineer would be handed.
    """
    shutil.rmtree(out, ignore_errors=True)
    answer = tuner.run("suggest", "--since", since, "--render", "auto", "--out", str(out))
    if answer.returncode not in (0, REPORTED):
        raise LabError(f"tuner suggest --render: {answer.stderr.strip()}")
    texts = sorted(out.glob("*/*.apply.*")) + sorted(out.glob("*/not-carried-out.txt"))
    for file in texts:
        print(f"--- {file}\n{file.read_text().rstrip()}\n", flush=True)
    say(f"the plan with checks and undo: {out / 'plan.md'}")


def save(path: Path, compared: Sequence[Outcome]) -> None:
    """Write the comparison for machines."""
    rows = [
        {
            "flow": outcome.flow,
            "goodput_bps": {"before": outcome.before_bps, "after": outcome.after_bps},
            "gain": outcome.gain,
            "retransmissions": {
                "before": outcome.before_retransmissions,
                "after": outcome.after_retransmissions,
            },
            "better": outcome.better,
        }
        for outcome in compared
    ]
    path.write_text(json.dumps({"wanted_gain": GAIN, "flows": rows}, indent=2) + "\n")


def show(compared: Sequence[Outcome]) -> None:
    """Print before and after side by side."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Harmed flows before and after the recommended change")
    for name in ("flow", "Mbit/s before", "after", "gain", "retransmissions before", "after"):
        table.add_column(name, justify="left" if name == "flow" else "right")
    for outcome in compared:
        table.add_row(
            outcome.flow,
            f"{outcome.before_bps / 1e6:.2f}",
            f"{outcome.after_bps / 1e6:.2f}",
            f"{outcome.gain:.2f}×",
            str(outcome.before_retransmissions),
            str(outcome.after_retransmissions),
        )
    width = shutil.get_terminal_size((100, 24)).columns
    Console(width=min(width, 100)).print(table)


def say(text: str) -> None:
    """Print one line of progress."""
    print(f"[demo] {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="./run demo", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--scenario", default="no-ect", help="a scenario of `simlab rxe scenarios`")
    parser.add_argument("--seconds", type=float, default=25.0, help="traffic before and after")
    parser.add_argument("--out", type=Path, default=OUT, help="folder for what is saved")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return run(args.scenario, args.seconds, args.out)
    except (LabError, ScenarioError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; the lab is gone", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

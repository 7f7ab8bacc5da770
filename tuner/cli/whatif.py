"""`tuner whatif`: the current fabric in the packet simulator, before and after a change."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from collectors.model.errors import ConfigInvalid
from tuner.cli.options import Answer, Format, Since, Source, TunerAddress, made_by, reporting

if TYPE_CHECKING:
    from rich.console import RenderableType

    from collectors.model.entities import Entity
    from collectors.model.facts import Value
    from tuner.advice.knobs.knob import Knob
    from tuner.advice.twin.change import Assignment
    from tuner.advice.twin.compare import Comparison
    from tuner.advice.twin.twin import Twin
    from tuner.store.window import Window

SCHEMA: Final = "fabric-tuner/whatif/1"
_MARKING: Final = ("ecn_enabled", "kmin_bytes", "kmax_bytes", "pmax_ratio")
_PAUSING: Final = ("pfc_priorities", "pool_size_bytes")
_SWITCHED: Final = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}

Sets = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KNOB[@PLACE]=VALUE",
        help="a knob's new value, everywhere or at a place (host3, leaf0, leaf0 Ethernet4); repeat",
    ),
]
Budget = Annotated[
    float, typer.Option("--budget", metavar="SECONDS", min=0.1, help="of simulations, as work")
]


def whatif(
    assignments: Sets,
    tuner: TunerAddress = "",
    source: Source = "",
    since: Since = "",
    budget: Budget = 30.0,
    seed: Annotated[int, typer.Option("--seed", help="of the simulator")] = 1,
    answer: Answer = Format.table,
) -> None:
    """Simulate the fabric as it is and with a change: job time, goodput, queue, marks, pauses.

    The simulator gets the cables, settings, queue pairs and byte counts of the window, and repeats
    the comparison with N, RTT and burst ±30 % around what was estimated, as the budget allows.

    tuner whatif --set kmin_bytes=400KB --set kmax_bytes=1600KB --set pmax_ratio=0.2

    tuner whatif --set dcqcn_rp_enabled=off --set pfc_priorities@leaf0=3,4
    """
    from tuner.advice.twin.budget import Budget
    from tuner.advice.twin.compare import compare
    from tuner.advice.twin.twin import build_twin
    from tuner.cli.options import look
    from tuner.cli.progress import counting
    from tuner.fabric.graph import build_fabric

    with reporting():
        window, named = look(tuner, source, since)
        fabric = build_fabric(window)
        changes = [parse_assignment(text, window.known_entities) for text in assignments]
        twin = build_twin(window, fabric)
        other = twin.changed(window, fabric, changes)
        purse = Budget(budget, time.monotonic)
        with counting("simulating", "runs", lambda: purse.spent_s / purse.seconds) as count:
            found = compare(twin, other, purse, seed=seed, progress=count)
    blind = _blind(changes, window, twin, other, found)
    if answer is Format.table:
        from tuner.cli import show

        show.console().print(_table(changes, twin, other, found, blind))
        return
    from tuner.cli.suggest import as_text

    print(as_text(_document(named, changes, twin, other, found, blind), answer))


def parse_assignment(text: str, entities: Callable[[], Sequence[Entity]]) -> Assignment:
    """Parse `KNOB[@PLACE]=VALUE`. Raises ConfigInvalid naming what is wrong and what is known."""
    from tuner.advice.knobs.catalogue import KNOBS
    from tuner.advice.twin.change import Assignment, shows

    left, equals, value = text.partition("=")
    name, at, place = (part.strip() for part in left.partition("@"))
    if not equals or not name or not value.strip() or (at and not place):
        raise ConfigInvalid("--set", repr(text), "must be KNOB=VALUE or KNOB@PLACE=VALUE")
    knob = KNOBS.get(name)
    if knob is None and name != "buffer_alpha":
        raise ConfigInvalid("--set", name, "no such knob; `tuner suggest` names those it changes")
    if not shows(name):
        raise ConfigInvalid("--set", name, "the packet simulator does not show what it changes")
    made = _alpha(value.strip()) if knob is None else _value(knob, value.strip())
    why = "" if knob is None else knob.unfit(made)
    if why:
        raise ConfigInvalid("--set", name, why)
    return Assignment(name, made, _place(place, entities) if place else None)


def _value(knob: Knob, text: str) -> Value:
    from tuner.cli import quantity

    if knob.unit == "bool" or (knob.choices and set(knob.choices) == {True, False}):
        return _switched(knob, text)
    readers: dict[str, Callable[[str], float]] = {
        "bytes": quantity.size_bytes, "bps": quantity.rate_bps, "seconds": quantity.seconds,
    }  # fmt: skip
    try:
        if knob.unit in readers:
            return readers[knob.unit](text)
    except typer.BadParameter as error:
        raise ConfigInvalid("--set", knob.name, f"{error}{_range(knob)}") from None
    if knob.choices and text in knob.choices:
        return text
    if "," in text:
        return tuple(part.strip() for part in text.split(","))
    number = _number(knob.name, text, _range(knob))
    return int(number) if number == int(number) and knob.unit != "ratio" else number


def _switched(knob: Knob, text: str) -> Value:
    """Return on or off; where the knob has places, of each place."""
    whole = _SWITCHED.get(text.lower())
    if not knob.places:
        if whole is None:
            raise ConfigInvalid("--set", knob.name, f"{text!r} is neither on nor off")
        return whole
    if whole is not None and text not in ("0", "1"):  # these are priorities
        return (whole,) * knob.places
    known = [str(index) for index in range(knob.places)]
    chosen = [part.strip() for part in text.split(",")]
    for part in chosen:
        if part not in known:
            raise ConfigInvalid(
                "--set", knob.name, f"{part!r} is neither on, off nor in 0..{knob.places - 1}"
            )
    return tuple(index in chosen for index in known)


def _alpha(text: str) -> float:
    """Return alpha itself; its range is that of its exponent to the base 2."""
    from tuner.advice.knobs.catalogue import KNOBS

    exponent = KNOBS["buffer_alpha_exponent"]
    low, high = 2.0 ** (exponent.low or 0), 2.0 ** (exponent.high or 0)
    span = f"; {low:g}..{high:g} is possible"
    made = _number("buffer_alpha", text, span)
    if not low <= made <= high:
        raise ConfigInvalid("--set", "buffer_alpha", f"{made:g} is out of range{span}")
    return made


def _number(name: str, text: str, span: str) -> float:
    """Return a finite number. Raises ConfigInvalid naming the knob, the text and the range."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigInvalid("--set", name, f"{text!r} is no number{span}")
    return number


def _range(knob: Knob) -> str:
    if knob.choices:
        return f"; one of {', '.join(str(choice) for choice in knob.choices)}"
    if knob.low is None:
        return ""
    return f"; {knob.low:g}..{'' if knob.high is None else format(knob.high, 'g')} is possible"


def _place(text: str, entities: Callable[[], Sequence[Entity]]) -> Entity:
    """Return the entity of a name for people, a canonical string, a host or a switch."""
    from collectors.model.entities import Host, Interface, display, host_of

    for entity in entities():
        if text in (display(entity), str(entity)):
            return entity
        if host_of(entity) == text:
            return Host(text)
        if isinstance(entity, Interface) and text in (entity.switch.name, entity.switch.key):
            return entity.switch
    raise ConfigInvalid("--set", text, "no such place; `tuner topology` lists hosts and switches")


def _rows(found: Comparison) -> list[tuple[str, str, float, float, float, float]]:
    """Return (name, unit, before, after, least and most after over all runs) of each measure."""
    from tuner.advice.twin.compare import MEASURES

    rows = []
    for measure in MEASURES:
        after = [measure.of(run) for run in found.after]
        before = measure.of(found.before[0])
        if measure.unit in ("seconds", "bps"):  # the job differs between variations, too
            olds = [measure.of(run) for run in found.before]
            after = [before * new / old for old, new in zip(olds, after, strict=True) if old]
        rows.append((measure.name, measure.unit, before, after[0], min(after), max(after)))
    return rows


def _document(
    named: str,
    changes: Sequence[Assignment],
    twin: Twin,
    other: Twin,
    found: Comparison,
    blind: str,
) -> dict[str, Any]:
    ratios = found.job_ratios
    return {
        "schema": SCHEMA,
        "made_by": made_by(),
        "source": named,
        "changes": [
            {
                "knob": one.knob,
                "place": "" if one.place is None else str(one.place),
                "value": list(one.value) if isinstance(one.value, tuple) else one.value,
            }
            for one in changes
        ],
        "twin": {
            "hosts": len(twin.wiring.hosts),
            "switches": len(twin.wiring.switches),
            "queue_pairs": len(twin.load.traffic.connections),
            "share_of_span": twin.load.share,
            "seen": {
                "seconds": twin.seen.seconds * twin.load.share,
                "marked_ratio": twin.seen.marked_ratio,
                "paused_ratio": twin.seen.paused_ratio,
            },
            "estimates": {
                name: {"value": one.value, "low": one.low, "high": one.high}
                for name, one in (
                    ("flows", twin.flows), ("rtt_s", twin.rtt_s), ("burst_bytes", twin.burst_bytes)
                )
            },
        },
        "measures": [
            {
                "metric": name, "unit": unit, "before": before, "after": after,
                "after_low": low, "after_high": high,
            }
            for name, unit, before, after, low, high in _rows(found)
        ],
        "cannot_tell": blind,
        "job_time_ratio": None
        if blind
        else {"estimate": ratios[0], "low": min(ratios), "high": max(ratios)},
        "runs": 2 * len(ratios),
        "finished": {"before": found.before[0].finished, "after": found.after[0].finished},
        "assumed": list(other.assumed),
    }  # fmt: skip


def _table(
    changes: Sequence[Assignment],
    twin: Twin,
    other: Twin,
    found: Comparison,
    blind: str,
) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from collectors.model.entities import display
    from collectors.model.units import quantity
    from tuner.advice.knobs.catalogue import KNOBS
    from tuner.advice.knobs.knob import shown

    table = Table(title="What if", title_justify="left", expand=True)
    for name in ("measure", "before", "after", "change", "after, ±30 %"):
        table.add_column(name, justify="left" if name == "measure" else "right", no_wrap=True)
    for name, unit, before, after, low, high in _rows(found):
        change = f"{after / before - 1:+.1%}" if before else ("" if not after else "new")
        span = f"{quantity(low, unit)} … {quantity(high, unit)}"
        table.add_row(name, quantity(before, unit), quantity(after, unit), change, span)
    told = []
    for one in changes:
        unit = KNOBS[one.knob].unit if one.knob in KNOBS else ""
        where = f" at {display(one.place)}" if one.place else ""
        told.append(f"{one.knob} = {shown(one.value, unit)}{where}")
    ratios = found.job_ratios
    lines: list[RenderableType] = [
        Text(f"change: {'; '.join(told)}"),
        Text(
            f"twin: {len(twin.wiring.hosts)} ports, {len(twin.wiring.switches)} switches, "
            f"{len(twin.load.traffic.connections)} queue pairs, {twin.load.share:.1%} of the "
            f"span's bytes; N {twin.flows.value:g}, RTT {quantity(twin.rtt_s.value, 'seconds')} "
            "at the busiest receiver"
        ),
        Text(_fit(twin, found)),
    ]
    if blind:
        lines.append(Text(f"cannot tell: {blind}", style="yellow"))
    else:
        lines += [
            table,
            Text(
                f"job time × {ratios[0]:.3f}, {min(ratios):.3f} to {max(ratios):.3f} with N, RTT "
                f"and burst ±30 % ({2 * len(ratios)} runs)"
            ),
        ]
    return Group(*lines, Text("assumed:\n  " + "\n  ".join(other.assumed), style="dim"))


def _blind(
    changes: Sequence[Assignment], window: Window, twin: Twin, other: Twin, found: Comparison
) -> str:
    """Return why a comparison without any difference says nothing, '' where there is one."""
    if found.differs:
        return ""
    given = {one.knob for one in changes}
    missing = dict.fromkeys(
        name for one in changes for name in _needed(one, window) if name not in given
    )
    if missing:
        return (
            f"{', '.join(missing)} not known where it counts, so the simulation does without; "
            "read the switches' configuration, or give them with --set"
        )
    if other.plan.model == twin.plan.model:
        return "nothing in the simulated fabric takes this value, or it has it already"
    run = found.before[0]
    return (
        f"no run differs: this window's traffic does not get there ({run.marked_ratio:.2%} marked, "
        f"{run.paused_ratio:.1%} paused in the simulation)"
    )


def _needed(change: Assignment, window: Window) -> Iterator[str]:
    """Yield the settings that a change has no effect without and that are not known there."""
    knob = change.knob
    loop = knob in _MARKING or knob.startswith(("dcqcn_", "roce_ecn"))
    for name in _MARKING if loop else _PAUSING if "buffer" in knob or "pause" in knob else ():
        told = window.setting_all(name)
        marking = window.setting_all("ecn_enabled") if knob in _MARKING else {}
        if not told or any(q not in told for q in marking if change.holds_for(q)):
            yield name


def _fit(twin: Twin, found: Comparison) -> str:
    """Return how well the twin as it is does what was counted."""
    from collectors.model.units import quantity

    run, seen = found.before[0], twin.seen
    parts = [f"time {quantity(run.job_s, 'seconds')}"]
    if seen.marked_ratio is not None:
        parts.append(f"marked {run.marked_ratio:.2%} ({seen.marked_ratio:.2%} counted)")
    if seen.paused_ratio is not None:
        parts.append(f"paused {run.paused_ratio:.1%} ({seen.paused_ratio:.1%} counted)")
    parts[0] += f" ({quantity(seen.seconds * twin.load.share, 'seconds')} counted)"
    return f"the twin as it is: {', '.join(parts)}"


COMMANDS: tuple[Callable[..., None], ...] = (whatif,)

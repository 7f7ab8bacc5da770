"""Keeps a subscription to one target alive and says what came of it at every poll.

A task consumes the stream into the decoder, which holds one value per series: memory is bounded
by what the target has, not by how fast it talks. When the stream ends or falls silent the task
reconnects with a growing pause, and meanwhile asks once per interval (Subscribe ONCE, else Get).
A target whose samples stop again and again is polled (Subscribe POLL) from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from collectors.gnmi.client import Capabilities, Client, Dial
from collectors.gnmi.decoder import Decoder
from collectors.gnmi.messages import seal
from collectors.gnmi.tree import parse_tree
from collectors.gnmi.vendors import VENDORS, Vendor
from collectors.model.entities import Switch
from collectors.model.errors import FabricError, NotSupported, Unavailable
from collectors.model.facts import Attribute, Facts
from collectors.model.reading import Clock, GapLog, Pass
from collectors.switchconfig.read import parse_configuration

NAME: Final = "gnmi"
_PAUSE_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_BUSY: Final = "busy"
CONFIGURED: Final = ("/interfaces", "/qos")  # of these the configuration
_STALLS: Final = 2  # streams fallen silent before the target is polled


@dataclass(frozen=True, slots=True)
class Options:
    """interval_s: SAMPLE interval. silent_after: intervals without a word that mean silence.

    pauses_s: between attempts to connect, the last for ever. first_s: how long the first poll
    waits for a first answer. poll: POLL instead of STREAM from the beginning. settings_s:
    between looks at the OpenConfig configuration by Get, 0 for never.
    """

    wants: Callable[[str], bool]
    interval_s: float = 10.0
    silent_after: float = 3.0
    pauses_s: tuple[float, ...] = _PAUSE_S
    first_s: float = 2.0
    poll: bool = False
    settings_s: float = 0.0
    max_series: int = 200_000
    paths: tuple[str, ...] = ()
    aliases: dict[str, str] = field(default_factory=dict)


class Subscriber:
    """One switch. `poll` returns what changed since the last poll."""

    def __init__(self, switch: Switch, platform: str, dial: Dial, options: Options) -> None:
        self._switch = switch
        self._vendor: Vendor = VENDORS[platform]
        self._client = Client(switch.name or switch.key, dial, self._vendor)
        self._options = options
        self._gaps = GapLog(NAME)
        self._decoder = Decoder(
            switch,
            self._vendor,
            options.wants,
            lambda what, reason: self._gaps.add(switch, what, reason),
            aliases=options.aliases,
            max_series=options.max_series,
        )
        self._task: asyncio.Task[None] | None = None
        self._error: FabricError | None = None
        self._heard = False
        self._answered = asyncio.Event()
        self._news = asyncio.Event()
        self._first_s = dial.timeout_s
        self._polls = options.poll
        self._stalls = 0
        self._said_missing = False
        self._encoding = self._vendor.encodings[0]
        self._paths = options.paths or self._vendor.paths
        self._facts: Facts | None = None
        self._configured = Facts()
        self._asking: asyncio.Task[None] | None = None
        self.mode = "connecting"
        self.capabilities: Capabilities | None = None

    @property
    def subject(self) -> Switch:
        """The switch that is subscribed to."""
        return self._switch

    @property
    def lost(self) -> int:
        """Updates that a later one replaced before anybody took them."""
        return self._decoder.overwritten

    async def poll(self, clock: Clock) -> Pass:
        """Return news since the last poll; starts the subscription at the first.

        Raises the error of the connection where nothing has come since the last poll.
        """
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(clock), name=f"gnmi {self._switch}")
            with contextlib.suppress(TimeoutError):  # a first answer, where it comes quickly
                async with asyncio.timeout(self._options.first_s):
                    await self._answered.wait()
        lasting = self._vendor.mode == "on_change" and self.mode == "stream"  # says only changes
        if not self._heard and not lasting and self._error is None:
            await self._wait_for_sample()
        readings = tuple(self._decoder.readings(everything=lasting, now=clock()))
        if not readings and self._error is not None and not self._heard:
            raise self._error  # the gaps stay for the next pass
        gaps, self._gaps = self._gaps.gaps(), GapLog(NAME)
        self._heard = False
        return Pass(readings, gaps, self._new_facts())

    async def _wait_for_sample(self) -> None:
        """Wait for a sample that is due: poll and sample intervals are the same, and drift."""
        self._news.clear()
        try:
            async with asyncio.timeout(self._options.interval_s / 2):
                await self._news.wait()
        except TimeoutError:
            why = f"nothing for {self._options.interval_s * 1.5:g} s"
            self._gaps.add(self._switch, "gnmi sample", "no update", why)

    async def close(self) -> None:
        """End the subscription and the channel."""
        for task in (self._asking, self._task):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task
        await self._client.close()

    def _new_facts(self) -> Facts | None:
        neighbours = self._decoder.neighbours
        attributes = []
        if neighbours.chassis_id:
            attributes.append(Attribute(self._switch, "chassis_id", neighbours.chassis_id))
        configured = self._configured
        facts = Facts(
            configured.settings,
            tuple(attributes),
            neighbours=neighbours.facts(),
            gaps=configured.gaps,
        )
        if facts == (self._facts or Facts()):
            return None
        self._facts = facts
        return facts

    async def _run(self, clock: Clock) -> None:
        attempt = 0
        while True:
            began = clock()
            try:
                await self._connect()
                self._ask_for_settings()
                await self._stream(clock)
                self._error = Unavailable(self._name, "gnmi subscribe", "the target ended it")
            except FabricError as error:
                self._error = error
                self._answered.set()
                self._gaps.add(self._switch, error.what, type(error).__name__, error.why)
                self._choose_mode(error)
            lasted_s = (clock().mono_ns - began.mono_ns) / 1e9
            attempt = 0 if lasted_s > self._options.interval_s * 2 else attempt + 1
            pause = self._options.pauses_s[min(attempt, len(self._options.pauses_s)) - 1]
            busy = self._vendor.serial_setup and _BUSY in str(self._error).lower()
            if not busy:
                await self._fall_back(clock, pause)
            else:
                await asyncio.sleep(pause)
            await self._client.close()

    @property
    def _name(self) -> str:
        return self._switch.name or self._switch.key

    def _ask_for_settings(self) -> None:
        """Let the configuration be read beside the stream, on the same channel."""
        wanted = self._options.settings_s > 0 and self._vendor.has_get and not self._vendor.sonic
        if wanted and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self._read_settings())

    async def _read_settings(self) -> None:
        offered = self.capabilities.encodings if self.capabilities else ()
        encoding = "JSON" if "JSON" in offered and "JSON_IETF" not in offered else "JSON_IETF"
        while True:
            try:
                found = await self._client.get(CONFIGURED, encoding, config_only=True)
                text = json.dumps(parse_tree(found))
                self._configured = parse_configuration("openconfig", text, self._switch, "gnmi get")
            except FabricError as error:
                self._gaps.add(self._switch, "settings", type(error).__name__, error.why)
            await asyncio.sleep(self._options.settings_s)

    async def _connect(self) -> None:
        self.mode = "connecting"
        await self._client.open()
        try:
            found = await self._client.capabilities()
        except NotSupported:
            return
        self.capabilities = found
        self._decoder.modules = frozenset(name for name, _ in found.models)
        offered = [name for name in self._vendor.encodings if name in found.encodings]
        if found.encodings and not offered:
            wanted = ", ".join(self._vendor.encodings)
            why = f"offers {', '.join(found.encodings)}, not one of {wanted}"
            raise NotSupported(self._name, "gnmi encoding", why)
        self._encoding = offered[0] if offered else self._encoding

    def _choose_mode(self, error: FabricError) -> None:
        """Poll a target whose samples stop; sample one that cannot be polled."""
        if isinstance(error, NotSupported) and error.what == "gnmi subscribe":
            self._polls = False
            self._stalls = -1_000_000  # and never again
        if error.what != "gnmi stale" or self._polls:
            return
        self._stalls += 1
        if self._stalls >= _STALLS:
            self._polls = True
            self._gaps.add(self._switch, "gnmi sample", "falls silent", "polled from now on")

    async def _stream(self, clock: Clock) -> None:
        """Consume until the stream ends; silence is an end. Raises FabricError."""
        limit_s = self._options.interval_s * self._options.silent_after
        sample = self._polls or self._vendor.mode == "sample"
        heard = False
        responses = self._client.subscribe(
            self._paths,
            self._encoding,
            mode="poll" if self._polls else "stream",
            interval_s=self._options.interval_s,
            sample=sample,
        )
        async with contextlib.aclosing(responses):  # type: ignore[type-var]
            while True:
                try:
                    # an ON_CHANGE stream may well say nothing once it is in step
                    patience = limit_s if heard else max(limit_s, self._first_s)
                    async with asyncio.timeout(patience if sample or not heard else None):
                        response = await anext(responses)
                    heard = True
                except TimeoutError:
                    why = f"no update for {patience:g} s though samples were asked for"
                    raise Unavailable(self._name, "gnmi stale", why) from None
                except StopAsyncIteration:
                    return
                self._take(response, clock)

    def _take(self, response: object, clock: Clock) -> None:
        message: str = response.WhichOneof("response")  # type: ignore[attr-defined]
        if message == "update":
            self._decoder.take(response.update, clock())  # type: ignore[attr-defined]
            self._heard = True
            self._news.set()
            self._error = None
            if self.mode != "once":
                self.mode = "poll" if self._polls else "stream"
        elif message == "sync_response":
            self._answered.set()
            self._report_missing()

    def _report_missing(self) -> None:
        """Name what was asked for and did not come: the model says yes, the device says nothing."""
        if self._said_missing:
            return
        self._said_missing = True
        for metric in sorted(self._decoder.expected(self._paths) - self._decoder.seen):
            self._gaps.add(self._switch, metric, "not supported", "subscribed, but no value came")

    async def _fall_back(self, clock: Clock, pause_s: float) -> None:
        """Until the next attempt, ask once per interval by ONCE, or by Get where that fails."""
        rounds = max(1, round(pause_s / self._options.interval_s))
        every = pause_s / rounds
        for _ in range(rounds):
            try:
                await self._once(clock)
            except FabricError as error:
                self._gaps.add(self._switch, error.what, type(error).__name__, error.why)
            await asyncio.sleep(every)

    async def _once(self, clock: Clock) -> None:
        self.mode = "once"
        try:
            responses = self._client.subscribe(self._paths, self._encoding, mode="once")
            async with contextlib.aclosing(responses):  # type: ignore[type-var]
                async for response in responses:
                    self._take(response, clock)
        except FabricError:
            if not self._vendor.has_get:
                raise
            self.mode = "get"
            for notification in await self._client.get(self._paths, self._encoding):
                if self._decoder.take(seal(notification), clock()):
                    self._heard = True
                    self._news.set()

"""Calls into drivers that may hang: each in a thread of its own, with a deadline, one at a time.

A thread that sits in an ioctl cannot be stopped, so its device is left alone until it returns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from collectors.model.errors import Unavailable

T = TypeVar("T")


@dataclass
class _Call(Generic[T]):
    done: threading.Event = field(default_factory=threading.Event)
    value: T | None = None
    error: Exception | None = None


class OneAtATime:
    """Runs at most one call for each device."""

    def __init__(self) -> None:
        self._running: dict[str, threading.Event] = {}

    def run(self, device: str, call: Callable[[], T], deadline_s: float) -> T:
        """Return what the call returns, raise what it raises.

        Raises Unavailable when it does not return in time or an earlier one is still running.
        """
        running = self._running.get(device)
        if running is not None and not running.is_set():
            raise Unavailable(device, "call driver", "an earlier call has not returned")
        entry: _Call[T] = _Call()
        self._running[device] = entry.done

        def work() -> None:
            try:
                entry.value = call()
            except Exception as error:  # noqa: BLE001 - handed to the caller below
                entry.error = error
            finally:
                entry.done.set()

        threading.Thread(target=work, name=f"driver-{device}", daemon=True).start()
        if not entry.done.wait(deadline_s):
            raise Unavailable(device, "call driver", f"no answer within {deadline_s:g} s")
        if entry.error is not None:
            raise entry.error
        return entry.value  # type: ignore[return-value]

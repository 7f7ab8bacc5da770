"""Prometheus' HTTP API: what a database is asked, and answers of the shape that it documents.

No redirect is followed, because the token would follow it. The deadline is of a whole answer,
not of each read; its size is bounded.
"""

from __future__ import annotations

import http.client
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeVar

import msgspec

from collectors.model.errors import ConfigInvalid, Denied, FabricError, Malformed, Unavailable
from collectors.model.printable import printable

TOKEN_FILE: Final = "FABRIC_TUNER_PROMETHEUS_TOKEN_FILE"  # noqa: S105  the name of a variable
DEADLINE_S: Final = 120.0
MAX_BYTES: Final = 1 << 30
_CHUNK: Final = 1 << 20
_LONGEST_REASON: Final = 200

T = TypeVar("T")


class Row(msgspec.Struct, frozen=True):
    """A series: its labels, and samples as (seconds, value as text)."""

    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Matrix(msgspec.Struct, frozen=True, rename={"kind": "resultType"}):
    kind: Literal["matrix"]
    result: list[Row]


class _Samples(msgspec.Struct, frozen=True):
    status: Literal["success"]
    data: _Matrix


class _Names(msgspec.Struct, frozen=True):
    status: Literal["success"]
    data: list[str]


@dataclass(frozen=True, slots=True)
class Database:
    """Where to ask. Build it with `database_of`."""

    base: str
    deadline_s: float = DEADLINE_S
    max_bytes: int = MAX_BYTES

    def names(self) -> list[str]:
        """Return the names of all series. Raises as `samples`."""
        return self._ask("label/__name__/values", {}, _Names).data

    def samples(self, names: Sequence[str], seconds: int, until_s: float) -> list[Row]:
        """Return the series of these names with the samples of a span as they were scraped.

        Raises Unavailable, Denied, Malformed, and ConfigInvalid for a token that is none.
        """
        selector = f'{{__name__=~"{"|".join(map(re.escape, names))}"}}[{seconds}s]'
        form = {"query": selector, "time": f"{until_s:.3f}"}
        return self._ask("query", form, _Samples).data.result

    def _ask(self, path: str, form: dict[str, str], shape: type[T]) -> T:
        what = f"ask {path}"
        try:
            body = self._fetch(path, form)
        except urllib.error.HTTPError as error:
            raise self._refused(what, error) from None
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error or type(error).__name__
            raise Unavailable(self.base, what, f"cannot be read ({_line(why)})") from None
        try:
            return msgspec.json.decode(body, type=shape)
        except msgspec.ValidationError as error:
            why = f"the answer is not of Prometheus' shape ({_line(error)})"
            raise Malformed(self.base, what, why) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            why = "the answer is no JSON; is this Prometheus?"
            raise Malformed(self.base, what, why) from None

    def _fetch(self, path: str, form: dict[str, str]) -> bytes:
        until = time.monotonic() + self.deadline_s
        data = urllib.parse.urlencode(form).encode() if form else None
        request = urllib.request.Request(f"{self.base}/api/v1/{path}", data=data)  # noqa: S310
        token = _token()
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        with _OPENER.open(request, timeout=self.deadline_s) as reply:
            parts, size = [], 0
            while part := reply.read1(_CHUNK):
                parts.append(part)
                size += len(part)
                if size > self.max_bytes:
                    raise OSError(f"over {self.max_bytes >> 20} MiB; ask for a shorter --since")
                if time.monotonic() > until:
                    raise OSError(f"not whole after {self.deadline_s:.0f} s")
            if reply.length:  # read1 does not complain of a body that ends early
                raise OSError(f"it ends {reply.length} bytes early")
            return b"".join(parts)

    def _refused(self, what: str, error: urllib.error.HTTPError) -> FabricError:
        if error.code in (401, 403):
            return Denied(self.base, what, f"HTTP {error.code}; a token: {TOKEN_FILE}")
        if error.code // 100 == 3:
            return Unavailable(self.base, what, f"HTTP {error.code}: it sends elsewhere; name that")
        try:
            why = str(msgspec.json.decode(error.read(_CHUNK), type=dict[str, Any]).get("error", ""))
        except (msgspec.DecodeError, OSError, http.client.HTTPException, RecursionError):
            why = ""
        return Unavailable(self.base, what, f"HTTP {error.code} {_line(why)}".strip())


def database_of(url: str) -> Database:
    """Return the database at a URL. Raises ConfigInvalid without repeating a secret in it."""
    problem = "must be prometheus=http://HOST:PORT"
    try:
        parts = urllib.parse.urlsplit(url)
        right = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        right = False
    if not right or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigInvalid("prometheus=", "--source", problem)
    where = f"prometheus={parts.scheme}://{parts.hostname}"
    if parts.username or parts.password:
        why = f"carries a password; put a bearer token into a file and name it in {TOKEN_FILE}"
        raise ConfigInvalid(where, "--source", why)
    if parts.query or parts.fragment:
        raise ConfigInvalid(where, "--source", "must end with host, port or path")
    return Database(url.rstrip("/"))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Turns a redirect into the error that its status is."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any,
        newurl: str,
    ) -> None:  # fmt: skip
        """Follow none."""


_OPENER: Final = urllib.request.build_opener(_NoRedirect)


def _token() -> str:
    path = os.environ.get(TOKEN_FILE, "")
    if not path:
        return ""
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise ConfigInvalid(path, TOKEN_FILE, "it is not UTF-8 text") from None
    except OSError as error:
        raise ConfigInvalid(path, TOKEN_FILE, error.strerror or str(error)) from None
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigInvalid(path, TOKEN_FILE, "it must hold one token and nothing else")
    return token


def _line(of: object) -> str:
    """Return a peer's or the system's words as one line of bounded length, without escapes."""
    return printable(" ".join(str(of).split()))[:_LONGEST_REASON]

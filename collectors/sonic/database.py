"""SONiC's Redis: where each table lives, and hashes fetched in few round trips.

Databases have numbers in SONiC (APPL_DB 0, COUNTERS_DB 2, CONFIG_DB 4, STATE_DB 6); multi-ASIC
boxes have one Redis per ASIC. The connection is read-only by use: HGETALL, HGET, KEYS by SCAN.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import redis.asyncio
from redis.exceptions import (
    AuthenticationError,
    RedisError,
)
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)

from collectors.model.errors import Denied, FabricError, Malformed, Unavailable
from collectors.targets.secret import Secret

APPL_DB: Final = 0
COUNTERS_DB: Final = 2
CONFIG_DB: Final = 4
STATE_DB: Final = 6
_BATCH: Final = 1000

Hash = dict[str, str]


class Database:
    """One Redis server of one switch."""

    def __init__(
        self, name: str, address: str, port: int = 6379, password: Secret | None = None,
        timeout_s: float = 5.0,
    ) -> None:  # fmt: skip
        self._name = name
        self._where = (address, port)
        self._password = password
        self._timeout_s = timeout_s
        self._clients: dict[int, Any] = {}

    def _client(self, number: int) -> Any:
        client = self._clients.get(number)
        if client is None:
            client = self._clients[number] = redis.asyncio.Redis(
                host=self._where[0],
                port=self._where[1],
                db=number,
                password=self._password.reveal() if self._password else None,
                socket_timeout=self._timeout_s,
                socket_connect_timeout=self._timeout_s,
                decode_responses=True,
                encoding_errors="replace",
            )
        return client

    async def fetch_hash(self, number: int, key: str) -> Hash:
        """Return one hash, empty where it does not exist. Raises FabricError."""
        try:
            found: Hash = await self._client(number).hgetall(key)
        except (RedisError, OSError) as error:
            raise self._typed(error) from error
        return found

    async def fetch_hashes(self, number: int, keys: Iterable[str]) -> dict[str, Hash]:
        """Return key -> hash, a thousand a round trip; a key that is no hash is left out."""
        wanted = list(keys)
        found: dict[str, Hash] = {}
        for start in range(0, len(wanted), _BATCH):
            part = wanted[start : start + _BATCH]
            pipe = self._client(number).pipeline(transaction=False)
            for key in part:
                pipe.hgetall(key)
            try:
                answers = await pipe.execute(raise_on_error=False)
            except (RedisError, OSError) as error:
                raise self._typed(error) from error
            found |= {
                key: answer
                for key, answer in zip(part, answers, strict=True)
                if isinstance(answer, dict)
            }
        return found

    async def fetch_keys(self, number: int, pattern: str) -> list[str]:
        """Return the keys of a pattern, by SCAN. Raises FabricError."""
        try:
            return [key async for key in self._client(number).scan_iter(pattern, count=_BATCH)]
        except (RedisError, OSError) as error:
            raise self._typed(error) from error

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    def _typed(self, error: Exception) -> FabricError:
        if isinstance(error, AuthenticationError):
            return Denied(self._name, "sonic db", "the password is wrong or missing")
        if isinstance(error, (RedisConnectionError, RedisTimeoutError, OSError)):
            where = f"{self._where[0]}:{self._where[1]}"
            return Unavailable(self._name, "sonic db", f"no answer at {where}")
        return Malformed(self._name, "sonic db", type(error).__name__)

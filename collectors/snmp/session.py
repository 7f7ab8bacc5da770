"""One SNMP conversation with one target: GETBULK and GET, timeouts, repeats, typed errors.

Built on gufo's sockets rather than on its session: that one waits with `asyncio.wait_for`,
which on Python 3.11 loses a cancellation that meets a reply, and it cannot tell the end of a
table from a reply that was too big.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from gufo.snmp import (
    Aes128Key,
    Aes256Key,
    Md5Key,
    Sha1Key,
    Sha256Key,
    Sha512Key,
    SnmpAuthError,
    SnmpDecodeError,
    SnmpError,
    User,
)
from gufo.snmp._fast import GetIter, SnmpV2cClientSocket, SnmpV3ClientSocket

from collectors.model.errors import ConfigInvalid, Denied, FabricError, Malformed, Unavailable
from collectors.targets.secret import Secret

T = TypeVar("T")
Row = tuple[str, Any]

AUTH: Final = {"md5": Md5Key, "sha": Sha1Key, "sha256": Sha256Key, "sha512": Sha512Key}
PRIV: Final = {"aes": Aes128Key, "aes256": Aes256Key}
_RECEIVE_BUFFER: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Community:
    """SNMPv2c."""

    community: Secret


@dataclass(frozen=True, slots=True)
class Usm:
    """SNMPv3 user-based security; auth and priv name the algorithm, '' for none."""

    user: str
    auth: str = "sha256"
    auth_password: Secret = field(default_factory=lambda: Secret(""))
    priv: str = "aes"
    priv_password: Secret = field(default_factory=lambda: Secret(""))


Credentials = Community | Usm


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how to ask. timeout_s: of one request; repeats: requests after the first."""

    address: str
    credentials: Credentials
    port: int = 161
    timeout_s: float = 2.0
    repeats: int = 1


def _user(usm: Usm, name: str) -> User:
    if usm.auth and usm.auth not in AUTH:
        raise ConfigInvalid(name, "snmp user", f"auth is one of {', '.join(AUTH)}")
    if usm.priv and usm.priv not in PRIV:
        raise ConfigInvalid(name, "snmp user", f"priv is one of {', '.join(PRIV)}")
    auth = AUTH[usm.auth](usm.auth_password.reveal().encode()) if usm.auth_password else None
    priv = PRIV[usm.priv](usm.priv_password.reveal().encode()) if usm.priv_password else None
    return User(usm.user, auth_key=auth, priv_key=priv)


class Session:
    """A socket to one target, used by one task at a time."""

    def __init__(self, name: str, endpoint: Endpoint) -> None:
        self._name = name
        self._endpoint = endpoint
        self._socket: Any = None
        self._ready: asyncio.Future[None] | None = None
        self._fd = -1
        self._listening = False
        self.requests = 0

    async def open(self) -> None:
        """Open the socket; for SNMPv3 learn the engine.

        Raises Unavailable, Denied, ConfigInvalid.
        """
        where = self._endpoint.address
        where = f"[{where}]" if ":" in where else where
        address = f"{where}:{self._endpoint.port}"
        credentials = self._endpoint.credentials
        try:
            if isinstance(credentials, Community):
                self._socket = SnmpV2cClientSocket(
                    address, credentials.community.reveal(), 0, 0, _RECEIVE_BUFFER, 0
                )
            else:
                self._socket = SnmpV3ClientSocket(
                    address, b"", "", 0, b"", 0, b"", 0, 0, _RECEIVE_BUFFER, 0
                )
        except (OSError, ValueError) as error:
            raise Unavailable(self._name, "snmp", f"no socket to {address}: {error}") from error
        self._fd = self._socket.get_fd()
        if isinstance(credentials, Usm):
            await self._engine(credentials)

    async def _engine(self, usm: Usm) -> None:
        user = _user(usm, self._name)
        await self._ask(self._socket.send_refresh, self._socket.recv_refresh)
        self._socket.set_keys(
            user.name,
            user.get_auth_alg(),
            user.get_auth_key(),
            user.get_priv_alg(),
            user.get_priv_key(),
        )
        await self._ask(self._socket.send_refresh, self._socket.recv_refresh)

    def close(self) -> None:
        """Forget the socket."""
        if self._socket is not None:
            self._mute()
            self._socket = None

    @property
    def is_open(self) -> bool:
        """Tell whether there is a socket."""
        return self._socket is not None

    async def bulk(self, position: GetIter) -> list[Row | None] | None:
        """Return the next rows of a walk; None in the list, or instead of it, ends the table."""
        socket = self._socket
        try:
            rows: list[Row | None] = await self._ask(
                lambda: socket.send_get_bulk(position), lambda: socket.recv_get_bulk(position)
            )
        except StopAsyncIteration:
            return None
        return rows

    async def get(self, oids: list[str]) -> dict[str, Any]:
        """Return the values of those OIDs that exist."""
        socket = self._socket
        found: dict[str, Any] = await self._ask(
            lambda: socket.send_get_many(oids), socket.recv_get_many
        )
        return found

    def _wake(self) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)
        else:  # a late reply that nobody waits for would wake the loop again and again
            self._mute()

    def _mute(self) -> None:
        if self._listening:
            asyncio.get_running_loop().remove_reader(self._fd)
            self._listening = False

    async def _ask(self, send: Callable[[], None], receive: Callable[[], T]) -> T:
        waited = 0.0
        for _ in range(self._endpoint.repeats + 1):
            self.requests += 1
            try:
                send()
                async with asyncio.timeout(self._endpoint.timeout_s):
                    return await self._receive(receive)
            except TimeoutError:
                waited += self._endpoint.timeout_s
            except StopAsyncIteration:
                raise
            except (OSError, SnmpError) as error:
                raise self._typed(error) from error
        why = f"no answer in {waited:g} s: down, filtered, or the community or user is not known"
        raise Unavailable(self._name, "snmp", why)

    async def _receive(self, receive: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        while True:
            self._ready = loop.create_future()
            try:
                return receive()
            except BlockingIOError:
                if not self._listening:
                    loop.add_reader(self._fd, self._wake)
                    self._listening = True
                await self._ready

    def _typed(self, error: Exception) -> FabricError:
        if isinstance(error, SnmpAuthError):
            return Denied(self._name, "snmp", "the user, its passwords or its algorithms are wrong")
        if isinstance(error, SnmpDecodeError):
            return Malformed(self._name, "snmp", f"a reply that is no SNMP message ({error})")
        return Unavailable(self._name, "snmp", str(error) or type(error).__name__)

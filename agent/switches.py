"""Switches of an inventory as fleets: one for each transport and interval."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from collectors.model.entities import Switch
from collectors.model.reading import Collector
from collectors.targets.fleet import Claims, Fleet, Member, Poller
from collectors.targets.inventory import (
    API_OF_PLATFORM,
    Api,
    CredentialRef,
    Gnmi,
    Inventory,
    Snmp,
    SonicDb,
    Target,
    read_inventory,
)
from collectors.targets.secret import read_secret

if TYPE_CHECKING:
    from collectors.targets.pushed import Exporter

TRANSPORTS: Final = ("gnmi", "sonic_db", "snmp", "config", "api")
"""The better source of a series first."""
_HOLD_ROUNDS: Final = 3


def fleets(inventory: Inventory) -> dict[tuple[str, float], tuple[Target, ...]]:
    """Return (transport, interval) -> targets that are read so."""
    found: dict[tuple[str, float], tuple[Target, ...]] = {}
    for target in inventory.targets:
        for transport in TRANSPORTS:
            if getattr(target, transport):
                key = (transport, inventory.interval_of(target))
                found[key] = (*found.get(key, ()), target)
    return found


class Switchboard:
    """Builds the fleets of one inventory; what transports of one target share lives here."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.inventory = read_inventory(file)
        self._aliases: dict[str, dict[str, str]] = {}
        self._claims: dict[str, Claims] = {}

    def build(
        self, name: str, transport: str, interval_s: float, targets: tuple[Target, ...]
    ) -> Collector:
        """Return the fleet of a transport and interval. Raises ConfigInvalid."""
        members = [
            Member(
                self.poller(target, transport, interval_s),
                self._claims_of(target, interval_s),
                TRANSPORTS.index(transport),
            )
            for target in targets
        ]
        return Fleet(name, members, wait_s=interval_s * 0.8)

    def _claims_of(self, target: Target, interval_s: float) -> Claims | None:
        several = sum(bool(getattr(target, transport)) for transport in TRANSPORTS[:3]) > 1
        if not several:
            return None
        return self._claims.setdefault(target.name, Claims(interval_s * _HOLD_ROUNDS))

    def poller(self, target: Target, transport: str, interval_s: float) -> Poller:
        """Return the poller of one target. Raises ConfigInvalid for secrets that are not there."""
        if transport == "snmp" and target.snmp:
            return self._snmp(target, target.snmp, interval_s)
        if transport == "gnmi" and target.gnmi:
            return self._gnmi(target, target.gnmi, interval_s)
        if transport == "sonic_db" and target.sonic_db:
            return self._sonic_db(target, target.sonic_db)
        if transport == "api" and target.api:
            return self._api(target, target.api)
        return self._config(target)

    def _credentials(self, name: str) -> CredentialRef:
        return self.inventory.credentials.get(name, CredentialRef())

    def _where(self, name: str) -> str:
        return f"{self._file}: $.credentials.{name}"

    def _snmp(self, target: Target, row: Snmp, interval_s: float) -> Poller:
        from collectors.snmp.poller import Options, SnmpPoller
        from collectors.snmp.session import Community, Credentials, Endpoint, Usm
        from collectors.targets.wanted import Wanted

        ref, where = self._credentials(row.credentials), self._where(row.credentials)
        credentials: Credentials
        if ref.user:
            credentials = Usm(
                ref.user,
                ref.auth,
                read_secret(ref.password_env, ref.password_file, where),
                ref.priv,
                read_secret(ref.priv_password_env, ref.priv_password_file, where),
            )
        else:
            credentials = Community(read_secret(ref.community_env, ref.community_file, where))
        endpoint = Endpoint(target.address, credentials, row.port, row.timeout, row.repeats)
        options = Options(
            Wanted(target.include, target.exclude),
            row.max_repetitions,
            relearn_s=row.relearn,
            deadline_s=interval_s * 0.8,
            aliases=self._alias(target),
        )
        return SnmpPoller(target.switch, target.platform, endpoint, options)

    def _alias(self, target: Target) -> dict[str, str]:
        return self._aliases.setdefault(target.name, {})

    def _gnmi(self, target: Target, row: Gnmi, interval_s: float) -> Poller:
        from collectors.gnmi.client import Dial
        from collectors.gnmi.subscriber import Options, Subscriber
        from collectors.gnmi.vendors import VENDORS
        from collectors.targets.wanted import Wanted

        ref = self._credentials(row.credentials)
        platform: str = target.platform if target.platform in VENDORS else "openconfig"
        if platform == "nvue" and row.on_change_only:
            platform = "nvue_netq"
        dial = Dial(
            target.address,
            row.port or VENDORS[platform].port,
            row.tls,
            ref.user,
            read_secret(ref.password_env, ref.password_file, self._where(row.credentials)),
            row.max_message_bytes,
            row.timeout,
            gzip=row.gzip,
        )
        wanted = Wanted(target.include, target.exclude)
        options = Options(
            wanted.wants,
            interval_s,
            poll=row.poll,
            settings_s=row.settings,
            paths=row.paths,
            aliases=self._alias(target),
        )
        return Subscriber(target.switch, platform, dial, options)

    def _sonic_db(self, target: Target, row: SonicDb) -> Poller:
        from collectors.sonic.database import Database
        from collectors.sonic.poller import Options, SonicPoller
        from collectors.targets.wanted import Wanted

        ref = self._credentials(row.credentials)
        secret = read_secret(ref.password_env, ref.password_file, self._where(row.credentials))
        database = Database(target.name, target.address, row.port, secret or None, row.timeout)
        wanted = Wanted(target.include, target.exclude)
        return SonicPoller(
            target.switch, database, Options(wanted.wants, aliases=self._alias(target))
        )

    def _config(self, target: Target) -> Poller:
        from collectors.switchconfig.poller import ConfigFile

        file = self._file.parent / target.config
        return ConfigFile(target.switch, target.platform, file)

    def _api(self, target: Target, row: Api) -> Poller:
        from collectors.configapi.http import Dial
        from collectors.configapi.poller import APIS, ConfigApi

        ref = self._credentials(row.credentials)
        api = APIS[row.protocol or API_OF_PLATFORM[target.platform]]
        where = self._where(row.credentials)
        dial = Dial(
            target.name,
            target.address,
            row.port or api.port,
            row.tls,
            ref.user,
            read_secret(ref.password_env, ref.password_file, where),
            row.timeout,
        )
        return ConfigApi(target.switch, api, dial, row.every)


class _Shared:
    """One switchboard for all fleets of a file, made by the first worker that needs it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._board: Switchboard | None = None

    def build(
        self, name: str, transport: str, interval_s: float, targets: tuple[Target, ...]
    ) -> Collector:
        """Return a fleet. Raises ConfigInvalid."""
        with self._lock:
            if self._board is None:
                self._board = Switchboard(self._file)
        return self._board.build(name, transport, interval_s, targets)


def exporters(file: Path) -> dict[str, Switch]:
    """Return address -> switch of an inventory. Raises ConfigInvalid."""
    return {target.address: target.switch for target in read_inventory(file).targets}


def pushers(file: Path, by: str) -> tuple[Exporter, ...]:
    """Return the switches that may push. by: `otlp` or `gnmi_dialout`. Raises ConfigInvalid."""
    from collectors.targets.pushed import Exporter
    from collectors.targets.wanted import Wanted

    return tuple(
        Exporter(
            target.switch,
            target.address,
            Wanted(target.include, target.exclude).wants,
            target.platform,
            expected=by in target.pushes,
        )
        for target in read_inventory(file).targets
    )


def builders(file: Path) -> Iterator[tuple[str, Callable[[], Collector], float]]:
    """Yield name, builder and interval of each fleet of an inventory. Raises ConfigInvalid."""
    found = fleets(read_inventory(file))
    intervals = Counter(transport for transport, _ in found)
    shared = _Shared(file)
    for (transport, interval_s), targets in found.items():
        name = f"switch_{transport}"
        if intervals[transport] > 1:
            name += f"_{interval_s:g}s"
        yield name, partial(shared.build, name, transport, interval_s, targets), interval_s

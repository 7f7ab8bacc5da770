"""Pseudonyms for what may not leave a site: names, addresses, GUIDs, MACs.

Keyed by a random salt that is thrown away with the `Pseudonyms`, so that nobody can tell the
original from the pseudonym, while the same original always gives the same pseudonym within one
recording. Addresses keep their shared prefixes (as Xu et al., "Prefix-preserving IP address
anonymization", ICNP 2002) and their special ranges, GUIDs and MACs keep their vendor (OUI):
what belongs together still does. PCI addresses, numbers, times, firmware and drivers stay.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import secrets
from dataclasses import replace
from typing import Final

from collectors.model.entities import (
    Device,
    Entity,
    Host,
    Interface,
    Link,
    Netdev,
    Port,
    QueuePair,
    Slot,
    Switch,
    Wire,
    link,
    parse_entity,
)
from collectors.model.errors import Malformed
from collectors.model.facts import Attribute, Facts, Gap, Value
from collectors.wire.facts import map_facts


def _ranges(*networks: str) -> tuple[tuple[int, int], ...]:
    """Return networks as (first bits, how many)."""
    nets = [ipaddress.ip_network(text) for text in networks]
    return tuple(
        (int(net.network_address) >> (net.max_prefixlen - net.prefixlen), net.prefixlen)
        for net in nets
    )


# Ranges that mean something: they map onto themselves.
_RANGES4: Final = _ranges(
    "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
    "224.0.0.0/4",
)  # fmt: skip
_RANGES6: Final = _ranges("2000::/3", "fc00::/7", "fe80::/64", "ff00::/8")
_LINK_LOCAL: Final = 0xFE80 << 48
_OUI_BITS: Final = 24

_H: Final = "[0-9a-fA-F]"
_ADDRESSES: Final = (
    rf"(?P<mac>(?<![\w:])(?:{_H}{{2}}[:-]){{5}}{_H}{{2}}(?![\w:]))"
    rf"|(?P<guid>(?<![\w:])(?:(?:0x)?{_H}{{16}}|(?:{_H}{{4}}:){{3}}{_H}{{4}})(?![\w:]))"
    rf"|(?P<ip>(?<![\w:.])(?:{_H}{{0,4}}:){{2,7}}(?:\d+(?:\.\d+){{3}}|{_H}{{1,4}})?(?![\w:])"
    r"|(?<![\w.:])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]))"
)
_PCI: Final = re.compile(rf"(?:{_H}{{4,}}:)?{_H}{{2}}:{_H}{{2}}\.{_H}")
_VENDOR_SPELLING: Final = re.compile(  # of interfaces; says nothing about the site
    r"(?:Ethernet|Eth|et-|xe-|swp|(?:Four|Two)?HundredGigE|hu)?\d+(?:[/:._]\d+)*"
)
_KINDS_AND_VERSIONS: Final = frozenset(
    {"driver", "firmware", "board_id", "hca_type", "node_type", "link_layer", "pci_address"}
)
_FREE_TEXT: Final = re.compile(r"serial|descri|name|contact|location|alias|user|job|process|owner")
_CACHED_TEXTS: Final = 50_000


class Pseudonyms:
    """Replaces names and addresses in entities, facts and texts, the same way each time.

    salt: for tests only; left out, it is random and known to nobody.
    """

    def __init__(self, salt: bytes = b"") -> None:
        self._salt = salt or secrets.token_bytes(32)
        self._words: dict[str, str] = {}
        self._pattern = re.compile(_ADDRESSES)
        self._texts: dict[str, str] = {}

    def host(self, name: str) -> str:
        """Return the pseudonym of a host or an agent; an address stays an address."""
        return self._address(name) or self.name("host", name)

    def name(self, kind: str, original: str) -> str:
        """Return `kind-xxxxxxxxxx` for a name, '' for ''; texts lose that name from now on."""
        if not original:
            return ""
        pseudonym = f"{kind}-{self._digest('name', original)[:5].hex()}"
        if original not in self._words:
            self._words[original] = pseudonym
            self._texts.clear()
            telling = [word for word in self._words if len(word) > 1 and not word.isdigit()]
            names = "|".join(re.escape(word) for word in sorted(telling, key=len, reverse=True))
            known = rf"(?P<name>(?<![\w-])(?:{names})(?![\w-]))|" if names else ""
            self._pattern = re.compile(known + _ADDRESSES)
        return pseudonym

    def opaque(self, original: str) -> str:
        """Return a pseudonym of an id whose form means nothing (boot id, incarnation)."""
        return self._digest("id", original)[:8].hex() if original else ""

    def entity(self, entity: Entity) -> Entity:
        """Return the entity with every name and address in it replaced."""
        match entity:
            case Host(name):
                return Host(self.host(name))
            case Device() as device:
                return self._device(device)
            case Switch() as switch:
                return self._switch(switch)
            case Port() | Netdev() | Interface():
                return self._wire(entity)
            case QueuePair(device, number):
                return QueuePair(self._device(device), number)
            case Slot(parent, kind, index):
                whole = parent
                if isinstance(whole, Switch):
                    return Slot(self._switch(whole), kind, index)
                return Slot(self._wire(whole), kind, index)
            case Link(a, b):
                return link(self._wire(a), self._wire(b))

    def text(self, text: str) -> str:
        """Return a free text without addresses and without any name seen so far."""
        if text not in self._texts:
            if len(self._texts) >= _CACHED_TEXTS:
                self._texts.clear()
            self._texts[text] = self._words.get(text) or self._pattern.sub(self._replaced, text)
        return self._texts[text]

    def facts(self, facts: Facts) -> Facts:
        """Return the facts with entities and texts replaced; jobs and processes are names."""
        for entity in [s.entity for s in facts.settings] + [a.entity for a in facts.attributes]:
            self.entity(entity)
        for neighbour in facts.neighbours:
            self._wire(neighbour.local)
            self._wire(neighbour.remote)
        for gid in facts.gids:
            self.name("net", gid.netdev)
        for pair in facts.queue_pairs:
            self.name("job", pair.job)
            self.name("process", pair.process)
        mapped = map_facts(replace(facts, attributes=(), gaps=()), self.entity, self.text)
        return replace(
            mapped,
            attributes=tuple(self._attribute(item) for item in facts.attributes),
            gaps=tuple(self._gap(gap) for gap in facts.gaps),
        )

    def _attribute(self, item: Attribute) -> Attribute:
        def text(value: str) -> str:
            if item.name in _KINDS_AND_VERSIONS:
                return value
            if item.name == "netdev":
                return self.name("net", value)
            return self.name("text", value) if _FREE_TEXT.search(item.name) else self.text(value)

        value: Value = item.value
        if isinstance(value, str):
            value = text(value)
        elif isinstance(value, tuple):
            value = tuple(text(part) if isinstance(part, str) else part for part in value)
        return Attribute(self.entity(item.entity), item.name, value)

    def _gap(self, gap: Gap) -> Gap:
        try:
            subject = str(self.entity(parse_entity(gap.subject)))
        except Malformed:
            subject = self.text(gap.subject)
        return replace(gap, subject=subject, what=self.text(gap.what), detail=self.text(gap.detail))

    def _device(self, device: Device) -> Device:
        name = self.name("dev", device.name)
        return Device(self.host(device.host), self._key(device.key, "dev"), name)

    def _switch(self, switch: Switch) -> Switch:
        return Switch(self._key(switch.key, "switch"), self.name("switch", switch.name))

    def _wire(self, wire: Wire) -> Wire:
        match wire:
            case Port(device, number):
                return Port(self._device(device), number)
            case Netdev(host, name):
                return Netdev(self.host(host), self.name("net", name))
            case Interface(switch, name):
                plain = _VENDOR_SPELLING.fullmatch(name)
                return Interface(self._switch(switch), name if plain else self.name("if", name))

    def _key(self, key: str, kind: str) -> str:
        return key if _PCI.fullmatch(key) else self._address(key) or self.name(kind, key)

    def _address(self, text: str) -> str:
        """Return the pseudonym of a text that is wholly an address, else ''."""
        match = re.fullmatch(_ADDRESSES, text)
        return self._replaced(match) if match else ""

    def _replaced(self, match: re.Match[str]) -> str:
        text = match[0]
        match match.lastgroup:
            case "name":
                return self._words[text]
            case "mac":
                digits = f"{self._permute('mac', _hex(text), 48, keep=_OUI_BITS):012x}"
                return text[2].join(digits[at : at + 2] for at in range(0, 12, 2))
            case "guid":
                digits = f"{self._guid(_hex(text)):016x}"
                if ":" in text:
                    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))
                return f"0x{digits}" if text.startswith("0x") else digits
            case _:
                return self._ip(text)

    def _ip(self, text: str) -> str:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return text  # a time of day, a version
        if isinstance(address, ipaddress.IPv4Address):
            return str(self._four(address))
        if address.ipv4_mapped:
            return f"::ffff:{self._four(address.ipv4_mapped)}"
        value = int(address)
        if value <= 1:
            return text  # unspecified, loopback
        if value >> 64 == _LINK_LOCAL:  # an InfiniBand GID: its low half is a GUID
            return str(ipaddress.IPv6Address(_LINK_LOCAL << 64 | self._guid(value & (1 << 64) - 1)))
        return str(ipaddress.IPv6Address(self._permute("six", value, 128, _RANGES6)))

    def _four(self, address: ipaddress.IPv4Address) -> ipaddress.IPv4Address:
        return ipaddress.IPv4Address(self._permute("four", int(address), 32, _RANGES4))

    def _guid(self, value: int) -> int:
        return self._permute("guid", value, 64, keep=_OUI_BITS) if value else 0

    def _permute(
        self,
        domain: str,
        value: int,
        width: int,
        ranges: tuple[tuple[int, int], ...] = (),
        keep: int = 0,
    ) -> int:
        """Return a one-to-one image of a number that shares prefixes as the originals do.

        Each bit is flipped or not as a keyed hash of the bits before it says, but for the first
        `keep` bits and for those that lead to a range.
        """
        image = 0
        for place in range(width):
            prefix = value >> (width - place)
            bit = value >> (width - 1 - place) & 1
            fixed = place < keep or any(
                place < length and first >> (length - place) == prefix for first, length in ranges
            )
            if not fixed:
                bit ^= self._digest(domain, f"{place}/{prefix:x}")[0] & 1
            image = image << 1 | bit
        return image

    def _digest(self, domain: str, text: str) -> bytes:
        data = f"{domain}/{text}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, key=self._salt, digest_size=16).digest()


def _hex(text: str) -> int:
    return int(text.removeprefix("0x").replace(":", "").replace("-", ""), 16)

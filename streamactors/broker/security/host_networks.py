"""Ranges of addresses as hosts of access control entries: 10.0.0.0/8, 2001:db8::/32 (KIP-1276).

Owner: pure. A host with a slash is meant to be a range. The checks and their sentences are those of Apache Kafka 4.4.0, which was asked."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import Final

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_V4: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})/([0-9]{1,2})")
_V6_PREFIX: Final = re.compile(r"[+-]?[0-9]{1,9}")
_V4_BITS: Final = 32
_V6_BITS: Final = 128
_OCTET: Final = 255
_REMEMBERED: Final = 10_000


class NotANetwork(ValueError):
    """A host with a slash that is no range of addresses; the message says why."""


def is_network(host: str) -> bool:
    """Whether the host of an entry is a range of addresses, or is meant to be one."""
    return "/" in host


def parse_network(host: str) -> Network:
    """Return the range. Bits of the address beyond the prefix do not count. Raises NotANetwork."""
    return _parse_v6(host) if ":" in host else _parse_v4(host)


def contains(network: Network, address: str) -> bool:
    """Whether an address of a client is in the range. What is not an address is in none."""
    found = _address(address)
    return found is not None and found in network


@lru_cache(maxsize=_REMEMBERED)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return found if mapped is None else mapped


def _parse_v4(host: str) -> Network:
    match = _V4.fullmatch(host)
    if match is None:
        raise NotANetwork(f"Could not parse [{host}]")
    *octets, bits = (int(each) for each in match.groups())
    for value, most in (*((octet, _OCTET) for octet in octets), (bits, _V4_BITS)):
        if value > most:
            raise NotANetwork(f"Value [{value}] not in range [0,{most}]")
    return ipaddress.IPv4Network((bytes(octets), bits), strict=False)


def _parse_v6(host: str) -> Network:
    text, _, prefix = host.partition("/")
    if _V6_PREFIX.fullmatch(prefix) is None:
        raise NotANetwork(f"Could not parse [{host}] - invalid prefix length")
    bits = int(prefix)
    if not 0 <= bits <= _V6_BITS:
        raise NotANetwork(f"Could not parse [{host}] - prefix length must be between 0 and {_V6_BITS}")
    bare = text.removeprefix("[").removesuffix("]") if text.startswith("[") else text
    try:
        address = ipaddress.IPv6Address(bare.partition("%")[0])
    except ValueError:
        raise NotANetwork(f"Could not parse [{text}]") from None
    if address.ipv4_mapped is not None:
        raise NotANetwork(f"Could not parse [{text}] - not an IPv6 address")
    return ipaddress.IPv6Network((address, bits), strict=False)

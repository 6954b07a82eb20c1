"""Rules for librdkafka properties: which settings refuse, because they break a promise, what the address of a broker is, and whose values
are secrets.

Owner: the settings. docs/kafka-errors.md shows the table to users; tests/kafka/test_property_rules.py compares the two."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from streamactors.errors import BuildError

_FALSE: Final = frozenset({"false", "f", "0"})
_TRUE: Final = frozenset({"true", "t", "1"})
_SECRET: Final = re.compile(r"^(sasl|ssl)\.|pass|secret|token|credential|oauth|jaas|key", re.IGNORECASE)
_HARMLESS: Final = re.compile(
    r"^(sasl\.mechanisms?|sasl\.kerberos\.service\.name|ssl\.[a-z.]+\.location|ssl\.(cipher\.suites|curves\.list|"
    r"sigalgs\.list|providers)|ssl\.endpoint\.identification\.algorithm)$"
)
HIDDEN: Final = "[hidden]"
CLEARLY_SECRET: Final = 8
"""Characters of a secret that is hidden wherever it occurs in a string."""
_USERS: Final = frozenset({"sasl.username"})


class Rule(NamedTuple):
    """A property whose value must be `allowed`; `advice` says why, and what to use instead."""

    allowed: Callable[[str], bool]
    advice: str


def _never(_: str) -> bool:
    return False


_COMMON: Final = {
    "error_cb": Rule(_never, "errors fail the stream, or go to the logger 'streamactors.kafka'"),
    "logger": Rule(_never, "librdkafka's log goes to the logger 'streamactors.kafka.librdkafka'"),
    "default.topic.config": Rule(_never, "give its properties directly, beside the others"),
}
_NOT_DONE: Final = "librdkafka would commit records that are not done; sources commit what is done"
CONSUMER_RULES: Final[Mapping[str, Rule]] = {
    **_COMMON,
    "enable.auto.commit": Rule(_FALSE.__contains__, _NOT_DONE),
    "enable.auto.offset.store": Rule(_FALSE.__contains__, _NOT_DONE),
    "auto.commit.enable": Rule(_FALSE.__contains__, _NOT_DONE),
    "offset.store.method": Rule("broker".__eq__, "offsets are committed to the broker"),
    "enable.partition.eof": Rule(_TRUE.__contains__, "bounded reads and windows must hear that a partition has ended"),
    "statistics.interval.ms": Rule(lambda value: value != "0", "deleted topics are noticed by the statistics"),
    "group.id": Rule(_never, "give ConsumerSettings(…, group_id='…')"),
    "auto.offset.reset": Rule(_never, "give ConsumerSettings(…, auto_offset_reset='…')"),
    "max.poll.records": Rule(_never, "give ConsumerSettings(…, max_poll_records=N)"),
    "group.protocol": Rule(_never, "give ConsumerSettings(…, group_protocol='consumer')"),
}
_AT_BROKER: Final = "with group_protocol='consumer' it is a setting of the group at the broker"
BROKER_GROUP_RULES: Final[Mapping[str, Rule]] = {
    "session.timeout.ms": Rule(_never, f"{_AT_BROKER}, consumer.session.timeout.ms"),
    "heartbeat.interval.ms": Rule(_never, f"{_AT_BROKER}, consumer.heartbeat.interval.ms"),
    "partition.assignment.strategy": Rule(
        _never, "with group_protocol='consumer' give group.remote.assignor: uniform or range"
    ),
    "group.protocol.type": Rule(_never, "with group_protocol='consumer' there is none"),
}
"""Properties that librdkafka refuses in a group whose partitions the broker divides."""
PRODUCER_RULES: Final[Mapping[str, Rule]] = {
    **_COMMON,
    "transactional.id": Rule(_never, "give ProducerSettings(…, transactional_id='…'), for Transactional.sink"),
    "delivery.report.only.error": Rule(_FALSE.__contains__, "a record is done when its delivery is reported"),
    "on_delivery": Rule(_never, "the results of Producer.flexi_flow say where each record is stored"),
    "queuing.strategy": Rule("fifo".__eq__, "records would change their order"),
}


def check_properties(who: str, rules: Mapping[str, Rule], properties: Mapping[str, Any], origin: str = "") -> None:
    """Raise BuildError for a property that breaks a promise. `origin` says where the properties are from, if not `properties=`."""
    for name, value in properties.items():
        rule = rules.get(name)
        if rule is not None and not rule.allowed(str(value).strip().lower()):
            shown = "" if callable(value) or rule.allowed is _never else f"={value}"
            raise BuildError(f"{who}: the property {name}{shown}{origin} is refused: {rule.advice}")


_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_HOST: Final = re.compile(r"[A-Za-z0-9_.\-%]+|\[[0-9A-Fa-f:.%\w]+\]")
FORM: Final = "its form is host:port, as in localhost:9092"
LARGEST_PORT: Final = 65_535


class Address(NamedTuple):
    """The host and the port of a broker; an IPv6 host has no brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def addresses_of(text: object) -> list[Address]:
    """Return the addresses in a string. Raises BuildError naming the one that is not an address, and why.

    librdkafka would take a wrong port modulo 65536, and a word for port 0."""
    if not isinstance(text, str) or not text.strip():
        raise BuildError(f"bootstrap_servers must be 'host:port', got {text!r}")
    if "@" in text:
        raise BuildError(
            "bootstrap_servers must be 'host:port' without a user; give properties={'sasl.username': …, …}"
        )
    return [_address(part.strip()) for part in text.split(",")]


def _address(text: str) -> Address:
    protocol, slashes, place = text.rpartition("://")
    if slashes and protocol.upper() not in _PROTOCOLS:
        raise BuildError(f"{text!r} is not an address: leave out {protocol}://; {FORM}")
    place = place.removesuffix("/") if slashes else place
    host, colon, port = place.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        shown = f"[{place}]" if colon else place
        raise BuildError(f"{text!r} has no port; {FORM if not place else f'give {shown}:9092 if it is the usual one'}")
    if not _HOST.fullmatch(host):
        raise BuildError(f"{text!r} is not an address: {host!r} is not a host name; {FORM}")
    if not port.isascii() or not port.isdecimal() or not 1 <= int(port) <= LARGEST_PORT:
        raise BuildError(f"{text!r} is not an address: {port!r} is not a port (1 to {LARGEST_PORT}); {FORM}")
    return Address(host.strip("[]"), int(port))


def is_secret(name: str) -> bool:
    """Return whether the value of a property may be a password, a token, a key or the name of a user."""
    return _SECRET.search(name) is not None and _HARMLESS.match(name) is None


class Properties(dict[str, Any]):
    """Properties of a client; `repr` hides secrets, also under a misspelt name."""

    def __repr__(self) -> str:
        return repr({name: HIDDEN if is_secret(name) else value for name, value in self.items()})

    __str__ = __repr__

    def without_secrets(self, text: str) -> str:
        """Return a string, such as librdkafka's complaint, with the secrets in it hidden. The name of a user is no secret here.

        A secret that reads like a word, as "client", is hidden only where it is a value: in quotes or after an equals sign."""
        for name, value in self.items():
            if name not in _USERS and is_secret(name) and isinstance(value, str) and value:
                clear = len(value) >= CLEARLY_SECRET and not value.isalpha()
                pattern = re.escape(value) if clear else f"(?<=[\"'`=]){re.escape(value)}(?![\\w.-])"
                text = re.sub(pattern, HIDDEN, text)
        return text

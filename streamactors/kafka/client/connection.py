"""Making librdkafka's clients: their settings, their log, their errors, and the question whether a broker answers.

Owner: each client has a connection of its own; no two threads share one."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final

import confluent_kafka
import confluent_kafka.admin

from streamactors.kafka.errors import KafkaError, NoBroker, TopicNotFound
from streamactors.kafka.property_rules import Properties
from streamactors.kafka.settings import ClientSettings

ck: Any = confluent_kafka  # its type hints leave out much of what its documentation names
ck_admin: Any = confluent_kafka.admin

REQUEST_TIMEOUT_MS: Final = 10_000
BEGINNING: Final = ck.OFFSET_BEGINNING
LOOK_EVERY_MS: Final = 1_000
"""The time between two looks at a broker that is silent: librdkafka may have found out meanwhile that there is none."""

_log = logging.getLogger("streamactors.kafka")
_librdkafka_log: Final = logging.getLogger("streamactors.kafka.librdkafka")
_librdkafka_log.propagate = False  # its lines do not reach the terminal; give it a handler to read them
_librdkafka_log.addHandler(logging.NullHandler())
_RESET: Final = re.compile(r"(\S+) \[(\d+)\]: offset reset \(at offset (\d+).*?\) to offset (\w+)")
_REASONS: Final = ("Connection refused", "Failed to resolve", "timed out", "Disconnected")
_ENDED: Final = "the broker ends the connection; its listener may want TLS or a login, see security.protocol"
_DOORS: Final = (
    (
        "SASL authentication error",
        "the broker refuses the login; check sasl.username, sasl.password and sasl.mechanism",
    ),
    ("certificate verify failed", "the broker's certificate is not trusted; give its authority by ssl.ca.location"),
    (
        "certificate required",
        "the broker wants a certificate of the client; give ssl.certificate.location and ssl.key.location",
    ),
    ("connecting to a PLAINTEXT", "the listener has no TLS; set security.protocol to PLAINTEXT or SASL_PLAINTEXT"),
    ("wrong version number", "the listener has no TLS; set security.protocol to PLAINTEXT or SASL_PLAINTEXT"),
    (
        "connecting to a SSL listener",
        "the listener wants TLS or a login; set security.protocol to SSL, SASL_SSL or SASL_PLAINTEXT",
    ),
    ("in current SASL state", "the listener has no logins; set security.protocol to PLAINTEXT or SSL"),
    ("SSL handshake failed", "the handshake of TLS failed; see security.protocol and ssl.*"),
    ("Disconnected: connection closed by peer", _ENDED),
)
"""Signs in librdkafka's complaints that a broker is there and its door is closed."""
_NOBODY: Final = (ck.KafkaError._TRANSPORT, ck.KafkaError._ALL_BROKERS_DOWN, ck.KafkaError._TIMED_OUT)
NO_TOPIC: Final = (ck.KafkaError.UNKNOWN_TOPIC_OR_PART, ck.KafkaError._UNKNOWN_TOPIC)


class _Resets(logging.Handler):
    """Warns of a reset offset. librdkafka reports skipped or repeated records in its log only."""

    def emit(self, record: logging.LogRecord) -> None:
        found = _RESET.search(record.getMessage())
        if found is not None:
            topic, partition, offset, where = found.groups()
            _log.warning(
                "%s-%s: the offset %s does not exist: its record was deleted, or the topic was created anew; "
                "auto_offset_reset moves the consumer to the %s",
                topic,
                partition,
                offset,
                where.lower(),
            )


_librdkafka_log.addHandler(_Resets(logging.WARNING))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean X? or " for a similar name among the known ones; else an empty text."""
    near = get_close_matches(name, known, n=1, cutoff=0.7)
    return f"did you mean {near[0]}? or " if near else ""


def _shortened(complaint: str) -> str:
    """Return a complaint of librdkafka without its address and its times."""
    return re.sub(r"\s*\(after \d+ms.*?\)", "", complaint.partition(": ")[2] or complaint)[:300]


class Connection:
    """What every client has: its settings, and librdkafka's last complaint, which becomes part of the error when no broker answers."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings: Final = settings
        self.complaint = ""
        self._knows_why = False  # whether the complaint has a reason
        self._at_the_door: tuple[int, str] | None = None  # the number of the sign in _DOORS, and the line of the log
        self._properties = Properties()

    def make(self, factory: Callable[[dict[str, Any]], Any], properties: Mapping[str, Any]) -> Any:
        """Return a new client of librdkafka. Raises KafkaError naming the property that is wrong."""
        self._properties = Properties(properties)
        asked = {"client.id": "streamactors", **properties, "error_cb": self._on_error, "logger": self}
        kind = factory.__name__.removesuffix("Client").lower()
        try:
            return factory(asked)
        except ck.KafkaException as error:
            raise KafkaError(f"{kind} settings: {self._shown(error.args[0])}") from None
        except (TypeError, ValueError) as error:
            raise KafkaError(f"{kind} settings: {self._properties.without_secrets(str(error))}") from None

    def _shown(self, error: Any) -> str:
        return self._properties.without_secrets(error.str()).strip()

    def log(self, level: int, text: str, *arguments: Any) -> None:
        """Write a line of librdkafka's log, without secrets: the client has this object for its logger."""
        line = text % arguments if arguments else text
        self._look_at_the_door(line)
        if _librdkafka_log.isEnabledFor(level):
            _librdkafka_log.log(level, "%s", self._properties.without_secrets(line))

    def _look_at_the_door(self, line: str) -> None:
        """Keep the clearest sign in librdkafka's log that a broker is there and ends the connection."""
        sign = next((number for number, (sign, _) in enumerate(_DOORS) if sign in line), None)
        if sign is not None and (self._at_the_door is None or sign < self._at_the_door[0]):
            self._at_the_door = (sign, self._properties.without_secrets(line.rpartition("]: ")[2]))

    def _on_error(self, error: Any) -> None:
        complaint = self._shown(error)
        if error.code() != ck.KafkaError._ALL_BROKERS_DOWN:
            self.complaint, self._knows_why = complaint, True
        elif not self._knows_why:
            self.complaint = complaint  # it tells no reason
        _log.info("%s: %s", self.settings.bootstrap_servers, complaint)

    def known_topics(self, client: Any) -> Any:
        """Return the broker's topics by name, as librdkafka describes them. Waits for the answer; raises NoBroker.

        A broker that refuses connections, or whose name is unknown, has `preflight_timeout_ms` to come up. A broker that accepts the
        connection and is silent is most likely busy; it has REQUEST_TIMEOUT_MS besides."""
        began = time.monotonic()
        looks_ms = [LOOK_EVERY_MS] * (REQUEST_TIMEOUT_MS // LOOK_EVERY_MS)
        for wait_ms in (self.settings.preflight_timeout_ms, *looks_ms):
            try:
                found = client.list_topics(timeout=wait_ms / 1_000).topics
                self._at_the_door = None
                return found
            except ck.KafkaException:
                client.poll(0)  # runs the error callback
                if self.complaint:
                    break
        raise self.no_broker(time.monotonic() - began)

    def no_broker(self, waited_s: float) -> NoBroker:
        """Return the error that no broker answers, with librdkafka's last reason."""
        reason = self.complaint or "no answer"
        self._look_at_the_door(reason)
        if self._at_the_door is not None:
            number, line = self._at_the_door
            return NoBroker(f"{self.settings.bootstrap_servers}: {_DOORS[number][1]} ({_shortened(line)})")
        for known in _REASONS:
            if known.lower() in reason.lower():
                reason = known.lower()
        way_out = "start one with: streamactors broker"
        if "brokers are down" in reason:  # it takes connections and ends them, or is silent
            way_out += "; if one is there, its listener may want TLS or a login, see security.protocol"
        return NoBroker(f"no broker at {self.settings.bootstrap_servers} ({reason} for {waited_s:.1f} s); {way_out}")

    def no_topic(self, topic: str, known: Iterable[str] = ()) -> TopicNotFound:
        """Return the error that a topic does not exist; it names the known one that is meant, most likely."""
        return TopicNotFound(
            f"no topic {topic} at {self.settings.bootstrap_servers}; {did_you_mean(topic, known)}"
            f"create it with: streamactors topics create {topic}"
        )

    def failure(self, error: Any, what: str) -> KafkaError:
        """Return the error of this package for a KafkaException or a KafkaError of librdkafka; `what` names what was asked."""
        cause = error.args[0] if isinstance(error, ck.KafkaException) else error
        if cause.code() in _NOBODY:
            return self.no_broker(REQUEST_TIMEOUT_MS / 1_000)
        kind = TopicNotFound if cause.code() in NO_TOPIC else KafkaError
        return kind(f"{what}: {self._shown(cause)}")

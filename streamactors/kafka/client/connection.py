"""Making librdkafka's clients: their settings, their log, their errors, and the question whether a broker answers.

Owner: each client has a connection of its own; no two threads share one."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Final

import confluent_kafka
import confluent_kafka.admin

from streamactors.clock import told_as_seconds
from streamactors.kafka.client.diagnosis.listener_probe import fault_of, listens
from streamactors.kafka.client.diagnosis.listener_signs import ListenerSigns, not_kafka, shortened
from streamactors.kafka.client.diagnosis.outage import Outage
from streamactors.kafka.client.diagnosis.property_names import is_known
from streamactors.kafka.client.diagnosis.refused_properties import check_files, check_token, told_refusal, warn_once
from streamactors.kafka.client.diagnosis.refused_writes import RefusedWrites
from streamactors.kafka.client.diagnosis.rights import DENIED, REFUSED_PARTITION, Right, not_allowed
from streamactors.kafka.errors import KafkaError, NoBroker, ProducerFailed, TopicNotFound
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.property_rules import Properties, addresses_of
from streamactors.kafka.settings import ClientSettings
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.log_limit import alike, log_limited

ck: Any = confluent_kafka  # its type hints leave out much of what its documentation names
ck_admin: Any = confluent_kafka.admin

REQUEST_TIMEOUT_MS: Final = 10_000
BEGINNING: Final = ck.OFFSET_BEGINNING
LOOK_EVERY_MS: Final = 500
"""The time between two looks at a broker that is silent: librdkafka may have found out meanwhile that there is none."""
CLOSED_DOOR_MS: Final = 1_000
"""A broker that refuses the client's TLS or login is not waited for any longer. librdkafka has tried several times by then."""
SILENCE_MS: Final = 4_000
"""How long a port that takes connections may be silent. A longer `preflight_timeout_ms` counts instead."""

ASKS_EVERY_S: Final = 1.0
"""The time between two questions of a producer whether a broker is back."""
ANSWER_S: Final = 0.2
"""How long such a question waits."""

ZERO_IS_ONE: Final = (
    "a record has the timestamp 0, which librdkafka takes for now: it is written with 1, the next millisecond"
)

_log = logging.getLogger("streamactors.kafka")
_librdkafka_log: Final = logging.getLogger("streamactors.kafka.librdkafka")
_librdkafka_log.propagate = False  # its lines do not reach the terminal; give it a handler to read them
_librdkafka_log.addHandler(logging.NullHandler())
_RESET: Final = re.compile(
    r"(\S+) \[(\d+)\]: offset reset \(at offset (\d+).*?\) to (?:cached BEGINNING offset )?offset (\w+)"
)
_REASONS: Final = ("Connection refused", "Failed to resolve", "timed out", "Disconnected")
_NOBODY: Final = (ck.KafkaError._TRANSPORT, ck.KafkaError._ALL_BROKERS_DOWN, ck.KafkaError._TIMED_OUT)
NO_TOPIC: Final = (ck.KafkaError.UNKNOWN_TOPIC_OR_PART, ck.KafkaError._UNKNOWN_TOPIC)


class _Resets(logging.Handler):
    """Warns of a reset offset. librdkafka reports skipped or repeated records in its log only."""

    def emit(self, record: logging.LogRecord) -> None:
        found = _RESET.search(record.getMessage())
        if found is not None:
            topic, partition, offset, where = found.groups()
            _log.warning(
                "%s-%s: the offset %s does not exist: its record was deleted, or the topic was created again; "
                "auto_offset_reset moves the consumer to the %s",
                topic,
                partition,
                offset,
                where.lower(),
            )


_librdkafka_log.addHandler(_Resets(logging.WARNING))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean X? or " for a similar name among the known ones; else an empty string."""
    near = get_close_matches(name, known, n=1, cutoff=0.7)
    return f"did you mean {near[0]}? or " if near else ""


class ClientConnection:
    """What every client has: its settings, and librdkafka's last complaint, which becomes part of the error when no broker answers.

    `on_reset` is called with each partition that a consumer reads from another offset because its own no longer exists."""

    silence_ms: ClassVar[int] = SILENCE_MS
    """SILENCE_MS, of all clients of this process; a program on a slow machine, such as a test, sets more."""

    def __init__(self, settings: ClientSettings, on_reset: Callable[[TopicPartition], object] = lambda _: None) -> None:
        self.settings: Final = settings
        self._on_reset = on_reset
        self.complaint = ""
        self._knows_why = False  # whether the complaint has a reason
        self.refused_topic = ""  # of the last transaction, whose error does not name it
        self.fatal: Any = None  # librdkafka's error after which a producer sends no more
        self._signs = ListenerSigns()
        self._outage = Outage(settings.bootstrap_servers)
        self._refused_writes = RefusedWrites(settings.bootstrap_servers)
        self._records_left = 0
        self._events = (
            0  # callbacks of librdkafka since the last look at the records that wait: they wait in the same queue
        )
        self._asked_at_s = -ASKS_EVERY_S
        self._seconds_told = False
        self._zero_told = False
        self._properties = Properties()

    def make(self, factory: Callable[[dict[str, Any]], Any], properties: Mapping[str, Any]) -> Any:
        """Return a new client of librdkafka. Raises KafkaError naming the property that is wrong."""
        self._properties = Properties(properties)
        kind = factory.__name__.removesuffix("Client").lower()
        check_files(kind, properties)
        check_token(kind, properties)
        asked = {"client.id": "streamactors", **properties, "error_cb": self._on_error, "logger": self}
        try:
            return factory(asked)
        except ck.KafkaException as error:
            raise KafkaError(f"{kind} settings: {told_refusal(self.shown(error.args[0]), properties)}") from None
        except (TypeError, ValueError) as error:
            raise KafkaError(f"{kind} settings: {self._properties.without_secrets(str(error))}") from None

    def check_names(self) -> None:
        """Raise KafkaError for a property that librdkafka does not know. A client that needs only some of the properties calls this."""
        for name, value in self.settings.merged({}, {}).items():
            if not is_known(name):  # a newer librdkafka may know it
                self.make(ck_admin.AdminClient, {name: value})

    def shown(self, error: Any) -> str:
        """Return the text of an error of librdkafka, without secrets."""
        return self._properties.without_secrets(error.str()).strip()

    def log(self, level: int, text: str, *arguments: Any) -> None:
        """Write a line of librdkafka's log, without secrets: the client has this object for its logger."""
        self._events += 1
        line = self._properties.without_secrets(text % arguments if arguments else text)
        self._signs.look(line)
        self._refused_writes.look(line, time.monotonic())
        if (refused := REFUSED_PARTITION.search(line)) is not None:
            self.refused_topic = refused[1]
        if line.startswith("CONFWARN") and "Configuration property " in line:
            warn_once(line)
        if (reset := _RESET.search(line)) is not None:
            self._on_reset(TopicPartition(reset[1], int(reset[2])))
        if _librdkafka_log.isEnabledFor(level):
            _librdkafka_log.log(level, "%s", line)

    def _on_error(self, error: Any) -> None:
        complaint = self.shown(error)
        self._events += 1
        if error.fatal():
            self.fatal = error
        if error.code() != ck.KafkaError._ALL_BROKERS_DOWN:
            self.complaint, self._knows_why = complaint, True
        elif not self._knows_why:
            self.complaint = complaint  # it tells no reason
        tells_why = error.code() != ck.KafkaError._ALL_BROKERS_DOWN or not self._knows_why
        self._outage.complained(shortened(complaint) if tells_why else "", time.monotonic())
        servers = self.settings.bootstrap_servers
        log_limited(_log, logging.INFO, (servers, alike(complaint)), "%s: %s", servers, complaint)

    def look_at_time(self, topic: str, timestamp: Any) -> None:
        """Warn once of a timestamp in seconds, and once of 0; `timestamp` is that of a record to be sent."""
        if timestamp == 0 and not self._zero_told:
            self._zero_told = True
            log_limited(_log, logging.WARNING, (topic, "zero"), "topic %s: %s", topic, ZERO_IS_ONE)
        told = None if self._seconds_told or not isinstance(timestamp, int) else told_as_seconds(timestamp)
        if told is not None:
            self._seconds_told = True
            log_limited(_log, logging.WARNING, (topic, "seconds"), "topic %s: %s", topic, told)

    def records_wait(self, client: Any) -> None:
        """Look at the records of a producer that are not acknowledged. If there are fewer than before, a broker may be back, or they have timed
        out: ask. Ask also before it is said that there is none, and while it is gone."""
        left = len(client)
        if not self._records_left:
            self._outage.nobody_waited()
        fewer = not left or left < self._records_left - self._events
        self._records_left, self._events = left, 0
        asks = self._outage.is_long(time.monotonic()) or (fewer and self._outage.has_begun)
        self.look_for_broker(seen=asks and self._answers(client, at_once=not left))
        if self._refused_writes:
            for said in self._refused_writes.due(left):
                _log.warning("%s", said)

    def _answers(self, client: Any, *, at_once: bool) -> bool:
        """Whether a broker answers now. Waits for ANSWER_S at most, and asks every ASKS_EVERY_S only, or `at_once`: no later call may follow."""
        now_s = time.monotonic()
        if not at_once and now_s - self._asked_at_s < ASKS_EVERY_S:
            return False
        self._asked_at_s = now_s
        try:
            client.list_topics(timeout=ANSWER_S)
        except (ck.KafkaException, ProducerFailed):
            return False
        return True

    def refusal_of(self, record: ProducerRecord | None) -> str:
        """Return why the broker refuses a record that librdkafka sends again, None: any record; an empty string if it refuses none."""
        named = () if record is None else (record.topic, record.partition)
        return self._refused_writes.reason(time.monotonic(), *named)

    def why_late(self) -> str:
        """Return who has not acknowledged a record in time, with librdkafka's last complaint if a broker is gone."""
        complaint = f" ({shortened(self.complaint)})" if self.complaint and self._outage.has_begun else ""
        return f"{self.settings.bootstrap_servers} has not acknowledged it within message.timeout.ms{complaint}"

    def look_for_broker(self, *, seen: bool) -> float:
        """Log that no broker has answered for a while, or that one is back. `seen`: there is a sign of a broker. Returns for how many seconds
        there has been none."""
        now_s = time.monotonic()
        said = self._outage.look(seen=seen, now_s=now_s)
        if said is not None:  # once, though each client of this process notices it
            log_limited(_log, logging.WARNING, (self.settings.bootstrap_servers, alike(said)), "%s", said)
        return self._outage.gone_s(now_s)

    def known_topics(self, client: Any) -> Any:
        """Return the broker's topics by name, as librdkafka describes them. Waits for the answer; raises NoBroker.

        A broker that refuses connections, or whose name is unknown, has `preflight_timeout_ms` to come up. A broker that refuses TLS or the
        login has CLOSED_DOOR_MS. A broker that accepts the connection and is silent may be busy; it has `silence_ms` in all."""
        began = time.monotonic()
        preflight_ms: float = self.settings.preflight_timeout_ms
        wait_ms = min(preflight_ms, CLOSED_DOOR_MS)
        looks_early = wait_ms < preflight_ms
        while True:
            try:
                found = client.list_topics(timeout=wait_ms / 1_000).topics
                self._signs.opened()
                self.look_for_broker(seen=True)
                return found
            except ck.KafkaException:
                client.poll(0)  # runs the error callback
            if looks_early and not self._signs.is_closed:
                looks_early = False
                # each call sends a request of its own, and a busy broker may need the whole time for one
                wait_ms = preflight_ms - wait_ms if self.complaint else preflight_ms
                continue
            left_ms = self.silence_ms - (time.monotonic() - began) * 1_000
            if self.complaint or left_ms <= 0:
                break
            wait_ms = min(LOOK_EVERY_MS, left_ms)
        del client  # the error keeps this frame, and a client runs as long as there is a reference to it
        error = self.no_broker(time.monotonic() - began)
        error.at_start = True
        raise error

    def no_broker(self, waited_s: float) -> NoBroker:
        """Return the error that no broker answers, with librdkafka's last reason."""
        servers, complaint = self.settings.bootstrap_servers, self.complaint
        self._signs.look(complaint)
        reason = self._signs.sentence()
        if complaint or reason is not None:  # a port that is silent has nothing to say to a probe
            reason = fault_of(addresses_of(servers), self._properties) or reason
        if reason is not None:
            return NoBroker(f"{servers}: {reason}")
        silent = None if complaint else listens(addresses_of(servers))
        if silent is not None:
            return not_kafka(silent, waited_s)
        reason = complaint or "no answer"
        for known in _REASONS:
            if known.lower() in reason.lower():
                reason = known.lower()
        way_out = "start one with: streamactors broker"
        if "brokers are down" in reason:  # it takes connections and ends them, or is silent
            way_out += "; if one is there, its listener may want TLS or a login, see security.protocol"
        return NoBroker(f"no broker at {servers} ({reason} for {waited_s:.1f} s); {way_out}")

    def no_topic(self, topic: str, known: Iterable[str] = ()) -> TopicNotFound:
        """Return the error that a topic does not exist; it names the known topic that was most likely meant."""
        return TopicNotFound(
            f"no topic {topic} at {self.settings.bootstrap_servers}; {did_you_mean(topic, known)}"
            f"create it with: streamactors topics create {topic}"
        )

    def not_allowed(self, *rights: Right) -> str:
        """Return the sentence that the user of this connection lacks rights, with the way out."""
        user = str(self._properties.get("sasl.username", ""))
        return not_allowed(user, self.settings.bootstrap_servers, rights)

    def failure(self, error: Any, what: str, right: Right | None = None) -> KafkaError:
        """Return the error of this package for a KafkaException or a KafkaError of librdkafka; `what` names what was asked, `right` the
        right that it needs."""
        cause = error.args[0] if isinstance(error, ck.KafkaException) else error
        if cause.code() in DENIED and right is not None:
            return KafkaError(f"{what}: {self.not_allowed(right)}")
        if cause.code() in _NOBODY:
            return self.no_broker(REQUEST_TIMEOUT_MS / 1_000)
        kind = TopicNotFound if cause.code() in NO_TOPIC else KafkaError
        return kind(f"{what}: {self.shown(cause)}")

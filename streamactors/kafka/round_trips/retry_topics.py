"""RetryTopics: records that fail are tried again later, from topics of their own, while the records after them continue.

    orders ──► flow ──fails──► billing-retry-1 (10 s) ──fails──► billing-retry-2 (1 min) ──fails──► the dead letters

A record in a retry topic has a due time in its headers. Until then its partition is paused; nothing sleeps. All records of a retry topic have the
same delay, so a record that waits holds up none that is due before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.flow import Flow
from streamactors.dsl.sink import Sink
from streamactors.dsl.source import Source
from streamactors.durations import Duration
from streamactors.engine.blueprint.modules import keep_right
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.stage import ChunkLogic, Stage
from streamactors.errors import BuildError
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.consumer import consumer_source, needs_group
from streamactors.kafka.controls.control import Control
from streamactors.kafka.dead_letters import PREFIX, letter_of, record_of
from streamactors.kafka.producer import Producer
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.reading.delays import DelayedTopics
from streamactors.kafka.reading.messages import Commits
from streamactors.kafka.record import ConsumerRecord
from streamactors.kafka.round_trips.transactional import Transactional
from streamactors.kafka.settings import ConsumerSettings, ProducerSettings
from streamactors.kafka.subscriptions import Subscriptions
from streamactors.stages.checks import span_ms
from streamactors.stages.errors.failed_element import FailedElement

DUE: Final = PREFIX + "due"


@dataclass(frozen=True)
class RetryTopics:
    """The retry topics "<name>-retry-1" and so on, one for each delay, of consumers of `topics`.

        retries = RetryTopics("billing", "orders", delays=["10s", "1m"], dead_letters="orders-dead")
        retries.create(settings)
        flow = Flow.map(bill).retry(2, "100ms", dead_letters=retries.sink(ProducerSettings("localhost:9092")))
        retries.source(settings).via(flow).run_with(Sink.ignore())

    Each delay is seconds, a timedelta or a string. Raises BuildError for names and delays that cannot work."""

    name: str
    """The first part of the topics' names; usually the group's name."""
    topics: str | tuple[str, ...]
    """The topics whose records are tried again."""
    delays: tuple[Duration, ...]
    """The delay of each retry topic. The delays should grow."""
    dead_letters: str
    """The topic for records whose last attempt has failed."""

    def __init__(
        self, name: str, topics: str | Iterable[str], *, delays: Iterable[Duration], dead_letters: str
    ) -> None:
        main = (topics,) if isinstance(topics, str) else tuple(topics)
        given = tuple(delays) if not isinstance(delays, str) else ()
        for what, value in (("name", name), ("dead_letters", dead_letters)):
            if not isinstance(value, str) or not value:
                raise BuildError(f"RetryTopics: {what} must be a string that is not empty, got {value!r}")
        if not main or not all(isinstance(each, str) and each for each in main):
            raise BuildError(f"RetryTopics: topics must be a topic's name or several, got {topics!r}")
        if not given:
            raise BuildError(
                f"RetryTopics: delays must be a list of one or more delays, as ['10s', '1m'], got {delays!r}"
            )
        for each in given:
            span_ms("RetryTopics", "delays", each)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "topics", main)
        object.__setattr__(self, "delays", given)
        object.__setattr__(self, "dead_letters", dead_letters)

    @property
    def names(self) -> tuple[str, ...]:
        """The retry topics, in the order of the attempts."""
        return tuple(f"{self.name}-retry-{number}" for number in range(1, len(self.delays) + 1))

    def create(self, settings: ConsumerSettings | ProducerSettings, partitions: int = -1, replicas: int = -1) -> None:
        """Create those retry topics and the dead-letter topic that do not exist; -1 asks for the broker's default."""
        with Admin(settings) as admin:
            admin.create([*self.names, self.dead_letters], partitions, replicas, exist_ok=True)

    def source(
        self, settings: ConsumerSettings, *, transactional: bool = False, until: str | None = None
    ) -> Source[ConsumerRecord, Control]:
        """Emit the records of the topics and, when they are due, of the retry topics; commit as `Consumer.source` does.

        `transactional`: as `Transactional.source`, for a run whose sinks are transactional. `until="end"` waits for the records that are
        in the retry topics at the start."""
        where = "RetryTopics.source"
        needs_group(where, settings)
        if transactional and isinstance(settings, ConsumerSettings):
            settings = settings.with_property("isolation.level", "read_committed")
        return consumer_source(
            where,
            settings,
            Subscriptions.topics(*self.topics, *self.names),
            until,
            commits=Commits.TRANSACTION if transactional else Commits.MARKS,
            delayed=DelayedTopics(frozenset(self.names), due_of),
        )

    def sink(
        self, settings: ProducerSettings, *, key: Any = None, value: Any = None
    ) -> Sink[FailedElement, StreamFuture[None]]:
        """Write what `Flow.retry` gives up to the next retry topic, after the last one to the dead letters.

        The offset of a record is committed when its copy is stored. Settings with a transactional id: in the transaction of the run's other
        transactional sinks. `key`, `value`: as in `Producer.dead_letter_sink`."""
        write = Transactional.sink if getattr(settings, "transactional_id", None) else Producer.plain_sink
        route: Flow[FailedElement, ProducerRecord, Any] = Flow.from_stage(_Route(self))
        return route.to_mat(write(settings, key=key, value=value), keep_right)

    def next_record(self, failed: FailedElement, now_ms: int) -> ProducerRecord:
        """Return the record for the next retry topic, or for the dead letters. `now_ms`: since 1970."""
        letter = letter_of("RetryTopics.sink", failed)
        topic = record_of(failed.element).topic
        level = self.names.index(topic) + 1 if topic in self.names else 0
        if level == len(self.delays):
            return letter.to_record(self.dead_letters)
        due_ms = now_ms + int(span_ms("RetryTopics", "delays", self.delays[level]))
        return letter.to_record(self.names[level], due_ms)


def due_of(message: Any) -> int | None:
    """Return the due time in the headers of librdkafka's message; None if there is none that can be read."""
    for name, data in message.headers() or ():
        if name == DUE:
            try:
                return int(data)
            except (TypeError, ValueError):
                return None
    return None


class _Route(Stage[FailedElement, ProducerRecord]):
    """Make the record for the next retry topic of each element."""

    name = "retry_topics"
    handling = EXACT

    def __init__(self, retries: RetryTopics) -> None:
        self.retries = retries

    def logic(self) -> Logic:
        next_record: Callable[[FailedElement, int], ProducerRecord] = self.retries.next_record

        def on_chunk(chunk: list[FailedElement]) -> list[ProducerRecord]:
            now_ms = logic.interpreter.island.run.system.clock.wall_ms()
            return [next_record(failed, now_ms) for failed in chunk]

        logic = ChunkLogic(on_chunk)
        return logic

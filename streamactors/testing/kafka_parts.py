"""What a Kafka source and a producer give to a stream, made without a broker: records, messages with offsets in hand, results, a control."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.durations import Duration
from streamactors.kafka.client.runs import made_message
from streamactors.kafka.committable import CommittableMessage, KeptMessage, Origin
from streamactors.kafka.controls.control import Control
from streamactors.kafka.producer_record import (
    Message,
    MultiMessage,
    MultiResult,
    ProducerRecord,
    RecordMetadata,
    Result,
)
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from streamactors.kafka.record import ConsumerRecord, KeptRecord
from streamactors.kafka.subscriptions import TopicPartition

Headers = Iterable[tuple[str, bytes | None]]


def consumer_record(
    value: Any = None,
    key: bytes | None = None,
    *,
    topic: str = "topic",
    partition: int = 0,
    offset: int = 0,
    timestamp: int | None = None,
    headers: Headers = (),
) -> ConsumerRecord:
    """Return a record as `Consumer.source` emits it; `timestamp` in ms since 1970."""
    return KeptRecord((value, made_message(TopicPartition(topic, partition), offset, key, value, timestamp, headers)))


class CommittableMessages:
    """Makes messages as `Consumer.committable_source` emits them, and keeps the offsets that are committed.

    As in a stream without marks, the commit of an offset commits every offset before it in its partition."""

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, int] = {}
        """The positions committed by now: the last offset + 1."""
        self.commits = 0
        """How often something was committed."""
        self._tracker = OffsetTracker()
        self._origins: dict[TopicPartition, Origin] = {}
        self._offsets: defaultdict[TopicPartition, itertools.count[int]] = defaultdict(itertools.count)

    def message(
        self,
        value: Any = None,
        key: bytes | None = None,
        *,
        topic: str = "topic",
        partition: int = 0,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> CommittableMessage:
        """Return a message; the offsets of a partition count from 0."""
        place = TopicPartition(topic, partition)
        offset = next(self._offsets[place])
        origin = self._origins.get(place)
        if origin is None:
            self._tracker.assigned([place], 1)
            origin = self._origins[place] = Origin(place, 1, self._tracker, self._commit)
        self._tracker.delivered(place, 1, offset + 1, offset)
        return KeptMessage((value, made_message(place, offset, key, value, timestamp, headers), origin))

    def _commit(self, reply: StreamFuture[None]) -> None:
        found = self._tracker.to_commit()
        self._tracker.committed(found)
        self.committed.update(found)
        self.commits += bool(found)
        reply.try_complete(None)


def producer_result(message: Message, *, partition: int = 0, offset: int = 0, timestamp: int = 0) -> Result:
    """Return what `Producer.flexi_flow` emits for `ProducerMessage.message(record, …)` once it is stored."""
    return Result((message, {None: _report(message.record, partition, offset, timestamp)}))


def producer_multi_result(
    message: MultiMessage, *, partition: int = 0, first_offset: int = 0, timestamp: int = 0
) -> MultiResult:
    """Return what `Producer.flexi_flow` emits for `ProducerMessage.multi(records, …)` once all are stored."""
    parts = (
        RecordMetadata((_report(record, partition, first_offset + i, timestamp),))
        for i, record in enumerate(message.records)
    )
    return MultiResult(tuple(parts), message)


def _report(record: ProducerRecord, partition: int, offset: int, timestamp: int) -> Any:
    place = TopicPartition(record.topic, partition if record.partition is None else record.partition)
    return made_message(place, offset, record.key, record.value, record.timestamp or timestamp)


class TestControl(Control):
    """The control of a source that is not Kafka's: `stop` and `shutdown` end it, `fail` makes it fail.

    `source.map_materialized_value(lambda _: TestControl())` takes the place of a Consumer source in `DrainingControl.create`."""

    __test__ = False  # pytest: no test class

    def __init__(self) -> None:
        super().__init__()
        self.started.try_complete(None)
        self.paused: set[TopicPartition] = set()
        """The partitions that `pause` was called for, and `resume` was not."""
        self.stopped = False

    def stop(self) -> None:
        """End: `is_shutdown` is done."""
        self.stopped = True
        self.is_shutdown.try_complete(None)

    def stop_at_end(self) -> None:
        """End, as `stop`."""
        self.stop()

    def fail(self, error: BaseException) -> None:
        """Let `is_shutdown` fail, as that of a consumer that has failed."""
        self.is_shutdown.try_fail(error)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Note the partitions in `paused`."""
        self.paused.update(TopicPartition(*partition) for partition in partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Take the partitions out of `paused`."""
        self.paused.difference_update(TopicPartition(*partition) for partition in partitions)

    def snapshot(self, timeout: Duration = 5.0) -> dict[str, Any]:
        """Return the snapshot of a consumer without partitions, at once whatever `timeout` (seconds, a timedelta or a string) is."""
        return {"partitions": {}}

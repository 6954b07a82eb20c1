"""RangeReader: the records [start, end) of one partition, read again and again by a process that is given one range after the other.

Owner: one thread. The reader keeps its connections from range to range: one, and more where ranges are read at the same time. It fetches
little ahead, because what it has fetched beyond the end of a range is dropped: with the settings of a stream it would read a multiple of
what it returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from streamactors.kafka.client.connection import ClientConnection, ck
from streamactors.kafka.errors import ConsumerFailed, RecordsGone
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition

PREFETCH: Final = {"queued.min.messages": 10_000, "queued.max.messages.kbytes": 4_096}
CHUNK: Final = 1_000
POLL_S: Final = 1.0
SILENCE_S: Final = 60.0
"""Give up on a range after this many seconds without data. Its records existed when it was asked for."""


TO_SKIP: Final = "fail_on_data_loss=False"
"""The setting that skips deleted records, as Python's callers write it."""


class _Client(NamedTuple):
    connection: ClientConnection
    consumer: Any


class RangeReader:
    """Reads ranges of partitions. `skip_lost`: skip records that retention has deleted, instead of raising. `to_skip`: the setting that asks for it.
    `stopped()`: True when nobody wants the records any more; a range that is being read then raises ConsumerFailed within a second."""

    def __init__(
        self,
        settings: ConsumerSettings,
        *,
        skip_lost: bool = False,
        to_skip: str = TO_SKIP,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._to_skip = to_skip
        self._stopped = stopped
        self._servers = settings.bootstrap_servers
        reading = settings.with_auto_offset_reset("earliest" if skip_lost else "error")
        properties = {**reading.client_properties(), **PREFETCH, **settings.properties}
        properties.update(
            {"enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": reading.auto_offset_reset}
        )
        properties["group.id"] = "streamactors-no-group"  # librdkafka wants one; nothing is committed to it
        self._reading = reading
        self._properties = properties
        self._free = [self._connect()]

    def read(self, key: TopicPartition, start: int, end: int, most: int = CHUNK) -> Iterator[list[Any]]:
        """Yield librdkafka's messages from `start` to before `end`, in chunks of up to `most`. Raises RecordsGone, ConsumerFailed.

        The range ends at a record after it or at the end of the partition, because its last offsets may be those of transaction
        markers or of records that were compacted away."""
        if start >= end:
            return
        client = self._free.pop() if self._free else self._connect()
        client.consumer.assign([ck.TopicPartition(*key, start)])
        try:
            yield from self._chunks(client, key, start, end, most)
        finally:
            client.consumer.unassign()
            self._free.append(client)

    def close(self) -> None:
        """Disconnect. No range is being read."""
        for client in self._free:
            client.consumer.close()

    def _connect(self) -> _Client:
        connection = ClientConnection(self._reading)
        return _Client(connection, connection.make(ck.Consumer, self._properties))

    def _chunks(self, client: _Client, key: TopicPartition, position: int, end: int, most: int) -> Iterator[list[Any]]:
        heard_at = time.monotonic()
        consumer = client.consumer
        while position < end:
            first = consumer.poll(POLL_S)
            if first is None:
                if self._stopped():
                    raise ConsumerFailed(f"{key}: reading was stopped at {position}, and the range ends at {end}")
                if time.monotonic() - heard_at > SILENCE_S:
                    raise ConsumerFailed(
                        f"{key}: no record at {position} for {SILENCE_S:.0f} s, and the range ends at {end}: "
                        f"{client.connection.complaint or 'the broker is silent'}"
                    )
                continue
            heard_at = time.monotonic()
            messages = [first, *consumer.consume(min(most, end - position) - 1, 0)] if end - position > 1 else [first]
            reached = False
            if any(map(ck.Message.error, messages)):
                messages, reached = self._records(key, position, end, messages)
            if messages:
                position = messages[-1].offset() + 1
                if position > end:
                    messages = [message for message in messages if message.offset() < end]
                if messages:
                    yield messages
            if reached:
                return

    def _records(self, key: TopicPartition, position: int, end: int, messages: list[Any]) -> tuple[list[Any], bool]:
        """Return the records among messages and events, and whether the partition ends at or after the end of the range."""
        found, reached = [], False
        for message in messages:
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == ck.KafkaError._PARTITION_EOF:
                reached = reached or message.offset() >= end
            elif error.code() in (ck.KafkaError._AUTO_OFFSET_RESET, ck.KafkaError.OFFSET_OUT_OF_RANGE):
                raise RecordsGone(
                    f"{key}: the records from {position} on are not there any more (retention has deleted them, or the topic was created "
                    f"again); {self._to_skip} continues after them"
                )
            elif not error.retriable() or error.fatal():
                raise ConsumerFailed(f"{key}: {error.str()} ({error.name()})")
        return found, reached

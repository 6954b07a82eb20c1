"""RangeWriter: writes what ranges of one partition become, each range in one transaction together with the position after it.

    init (fences earlier attempts) ─► committed position ─► records … ─► position after the range ─► commit

The position lies in the transaction, so it says exactly which ranges were written: an attempt that runs again finds its range done and
writes nothing. Owner: one thread, which runs one range after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from streamactors.kafka.client.connection import REQUEST_TIMEOUT_MS, ClientConnection, ck
from streamactors.kafka.client.producer import StreamProducer
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.settings import ClientSettings, ProducerSettings
from streamactors.kafka.subscriptions import TopicPartition

TIMEOUT_S: Final = 60.0


class RangeWriter:
    """Writes the results of one partition in transactions, together with its positions. `key` is the partition that is read; its positions are committed for `group`."""

    def __init__(self, settings: ProducerSettings, group: str, key: TopicPartition) -> None:
        self._settings = settings
        self._key = key
        self._connection = ClientConnection(ClientSettings(settings.bootstrap_servers, properties=settings.security()))
        self._group = self._connection.make(
            ck.Consumer,
            {**settings.address(), "group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"},
        )
        self._producer = StreamProducer(settings, errors_only=True)
        self._failed: BaseException | None = None
        self._in_transaction = False
        self._sent = 0

    def open(self) -> tuple[int, str] | None:
        """Fence earlier writers; return the committed position with its note, None if nothing was written yet. Raises KafkaError."""
        self._producer.start().result()
        try:
            (found,) = self._group.committed([ck.TopicPartition(*self._key)], timeout=REQUEST_TIMEOUT_MS / 1_000)
        except ck.KafkaException as error:
            raise self._connection.failure(error, f"the written position of {self._key}") from None
        return None if found.offset < 0 else (found.offset, found.metadata or "")

    def furthest(self) -> int:
        """Return the largest position that the group has in partition 0 of any topic; -1 if it has none. After `open`. Raises KafkaError."""
        known = self._connection.known_topics(self._group)
        try:
            found = self._group.committed(
                [ck.TopicPartition(name, 0) for name in known], timeout=REQUEST_TIMEOUT_MS / 1_000
            )
        except ck.KafkaException as error:
            raise self._connection.failure(error, "the written positions of a group") from None
        return max((each.offset for each in found if each.error is None and each.offset >= 0), default=-1)

    def write(self, records: Sequence[ProducerRecord]) -> None:
        """Send records; the first ones begin the transaction. Raises RecordError, ProducerFailed."""
        if not records:
            return
        self._begin()
        self._producer.call(self._producer.send_all, records, self._report).result()
        self._sent += len(records)
        self._raise()

    def commit(self, position: int, note: str) -> None:
        """Commit the records with the position after their range. Raises RecordError, ProducerFailed; the transaction is aborted then."""
        self._begin()
        producer = self._producer
        try:
            metadata = self._group.consumer_group_metadata()
            producer.call(producer.send_offsets, {self._key: position}, metadata, TIMEOUT_S, note).result()
            producer.call(producer.flush).result()
            self._raise()
            producer.call(producer.commit, TIMEOUT_S).result()
        except BaseException:
            self.abort()
            raise
        self._in_transaction = False

    def abort(self) -> None:
        """Abort what was not committed; nothing happens if there is nothing."""
        if self._in_transaction:
            self._in_transaction = False
            self._producer.call(self._producer.abort, TIMEOUT_S).exception()  # a fenced producer's is aborted already

    def close(self) -> None:
        """Abort, and disconnect."""
        self.abort()
        self._producer.close(drop=True).exception()
        self._group.close()

    def _begin(self) -> None:
        if not self._in_transaction:
            self._producer.call(self._producer.begin).result()
            self._in_transaction = True

    def _report(self, error: Any, message: Any) -> None:
        if error is not None and self._failed is None:
            record = ProducerRecord(message.topic(), message.value(), message.key())
            self._failed = self._producer.not_delivered(record, error)

    def _raise(self) -> None:
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed if isinstance(failed, Exception) else KafkaError(str(failed))

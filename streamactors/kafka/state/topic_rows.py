"""Rows in topics: Record and WindowedRecord become records of a topic, and are restored from them.

A WindowedRecord is stored with the value (start, end, value) and a header that marks it. A timestamp that a record cannot carry (before
1970; 0 means "now" to librdkafka) is stored in a header, too."""

from __future__ import annotations

from typing import Any, Final

from streamactors.errors import StreamError
from streamactors.kafka.producer_record import ProducerRecord, new_record
from streamactors.kafka.record import ConsumerRecord
from streamactors.kafka.serdes.serdes import not_serialised, serde_of
from streamactors.kafka.state.topic_keys import ReadContext
from streamactors.windows.record import Record, RecordContext, WindowedRecord

_OWN: Final = "streamactors."
_WINDOWED: Final = "streamactors.windowed"
_TIMESTAMP: Final = "streamactors.timestamp"
_FINAL, _EARLY = b"final", b"early"


class NoRow(StreamError):
    """An element to write, or a record that was read, is not a row."""


class TopicRows:
    """The rows of one topic."""

    def __init__(self, where: str, topic: str, key: Any, value: Any) -> None:
        self._where = where
        self._topic = topic
        keys = serde_of(f"{where}: key", key).for_topic(topic, is_key=True)
        values = serde_of(f"{where}: value", value).for_topic(topic, is_key=False)
        self._key_serde, self._value_serde = keys.name, values.name
        self._to_key, self._from_key = keys.serialize, keys.deserialize
        self._to_value, self._from_value = values.serialize, values.deserialize

    def write(self, row: Any, partition: int | None = None) -> ProducerRecord:
        """Return the record of a row for a partition; None: its key chooses one. Raises NoRow."""
        headers: list[tuple[str, bytes | None]] | None = None
        if type(row) is Record:
            value = row.value
        elif type(row) is WindowedRecord:
            value = (row.start, row.end, row.value)
            headers = [(_WINDOWED, _FINAL if row.is_final else _EARLY)]
        else:
            raise NoRow(
                f"{self._where} {self._topic}: takes Record and WindowedRecord, got {type(row).__name__}; "
                "make one: .map(lambda x: Record(key, x, timestamp))"
            )
        key, timestamp, context = row.key, row.timestamp, row.context
        if context is not None and context.headers:
            headers = [*context.headers, *(headers or ())]
        if timestamp <= 0:
            headers = [*(headers or ()), (_TIMESTAMP, b"%d" % timestamp)]
            timestamp = 1
        part, serde, given = "key", self._key_serde, key
        try:
            raw_key = None if key is None else self._to_key(key)
            if type(context) is ReadContext and raw_key != context.raw_key and self._reads_as(key, context.raw_key):
                raw_key = context.raw_key
            part, serde, given = "value", self._value_serde, value
            raw_value = None if value is None else self._to_value(value)
        except Exception as error:
            raise not_serialised(self._topic, part, given, serde, error) from error
        return new_record((self._topic, raw_value, raw_key, partition, timestamp, headers))

    def _reads_as(self, key: Any, raw: bytes) -> bool:
        """True if a key has not changed since it was read from these bytes."""
        try:
            return key is not None and bool(self._from_key(raw) == key)
        except Exception:  # noqa: BLE001 - bytes of another serde
            return False

    def write_beside(self, row: Any) -> ProducerRecord:
        """As `write`, for the partition that the row came from."""
        context = getattr(row, "context", None)
        return self.write(row, None if context is None else context.partition)

    def read(self, record: ConsumerRecord) -> Record | WindowedRecord:
        """Return the row of a record. Raises NoRow for a record that this class did not write."""
        own = {name: value for name, value in record.headers if name.startswith(_OWN)}
        headers = tuple(header for header in record.headers if not header[0].startswith(_OWN))
        context = RecordContext(record.topic, record.partition, record.offset, headers)
        raw_key, raw_value = record.key, record.value
        key = None if raw_key is None else self._from_key(raw_key)
        value = None if raw_value is None else self._from_value(raw_value)
        timestamp = int(own[_TIMESTAMP] or 0) if _TIMESTAMP in own else record.timestamp or 0
        windowed = own.get(_WINDOWED)
        if windowed is None:
            return Record(key, value, timestamp, context)
        if not (isinstance(value, (tuple, list)) and len(value) == 3):
            raise NoRow(f"{self._where} {self._topic}: {context} is not a windowed row; another program wrote it")
        start, end, inner = value
        return WindowedRecord(key, start, end, inner, timestamp, context, windowed == _FINAL)

"""Global tables over Kafka: every instance reads all partitions of their topics, before the first row and then on.

Owner: the run. One thread reads; the tasks read the table meanwhile, which is safe because each entry is one dict operation.
Nothing is committed: a global table is its topic."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from streamactors.kafka.client.connection import BEGINNING
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.errors import ConsumerFailed, KafkaError, TopicNotFound
from streamactors.kafka.record import ConsumerRecord
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.operators.operator import Found, Ident, Operator, TaskEnvironment
from streamactors.windows.record import Record
from streamactors.windows.state.serdes import Serdes
from streamactors.windows.values import snapshot

_FILL_S: Final = 60.0


class GlobalEntries(Operator):
    """The entries of one global table, as the operators of all tasks read them."""

    def __init__(self, topic: str, read_row: Callable[[ConsumerRecord], Record]) -> None:
        super().__init__(f"global table {topic}", TaskEnvironment(Serdes(), TaskMetrics()))
        self._read_row = read_row
        self._entries: dict[Ident, tuple[Any, int]] = {}
        self.dropped = 0

    def take(self, record: ConsumerRecord) -> None:
        """Apply a record of the topic. A record without key is dropped and counted."""
        row = self._read_row(record)
        if row.key is None:
            self.dropped += 1
            return
        ident = self.env.identity.of(row.key)
        if row.value is None:
            self._entries.pop(ident, None)
        else:
            self._entries[ident] = (row.value, row.timestamp)

    def process(self, rows: Sequence[Any], out: list[Any]) -> None:
        """No row of a task comes here."""

    def read(self, ident: Ident, start: int | None, end: int | None) -> Found | None:
        found = self._entries.get(ident)
        return None if found is None else (snapshot(found[0]), found[1])


class GlobalTables:
    """Reads the topics of the `tables`, by topic. `failed` is called on the thread that reads, when reading fails after the first ends: rows
    must not be joined with tables that are no longer updated."""

    def __init__(
        self,
        settings: ConsumerSettings,
        tables: Mapping[str, GlobalEntries],
        failed: Callable[[ConsumerFailed], object],
    ) -> None:
        properties = {**settings.security(), "isolation.level": "read_committed", "enable.partition.eof": True}
        self._settings = ConsumerSettings(settings.bootstrap_servers, None, "earliest", properties=properties)
        self._tables = tables
        self._failed = failed
        self._filled = threading.Event()
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"global tables {', '.join(tables)}", daemon=True)

    def fill(self) -> None:
        """Read the topics to the ends they have now, and continue reading. Raises the error of the reading, KafkaError after a minute."""
        self._thread.start()
        if not self._filled.wait(_FILL_S):
            self.stop()
            raise KafkaError(f"global tables {', '.join(self._tables)} were not read to their ends in {_FILL_S:g} s")
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop reading soon; any thread, idempotent."""
        self._over.set()

    def _run(self) -> None:
        client = StreamConsumer(self._settings)
        try:
            self._read(client)
        except Exception as error:  # noqa: BLE001 - fill raises it, or the run fails with it
            self._error = error
            if self._filled.is_set():
                ended = ConsumerFailed(f"{self._thread.name}: reading has failed: {type(error).__name__}: {error}")
                ended.__cause__ = error
                self._failed(ended)
        finally:
            self._filled.set()
            client.close()

    def _read(self, client: StreamConsumer) -> None:
        known = client.topics()
        for topic in self._tables:
            if topic not in known:
                raise TopicNotFound(f"no topic {topic} at {self._settings.bootstrap_servers} for a global table")
        keys = [TopicPartition(topic, number) for topic in self._tables for number in range(known[topic])]
        waits = {key for key, high in client.high_watermarks(keys).items() if high > 0}
        client.assign(dict.fromkeys(keys, BEGINNING))
        if not waits:
            self._filled.set()
        while not self._over.is_set():
            batch = client.poll(10_000, 0.2)
            for key, records, _, _ in batch.runs:
                table = self._tables[key.topic]
                for record in records:
                    table.take(record)
            waits -= {key for key, _ in batch.ends}
            if not waits:
                self._filled.set()

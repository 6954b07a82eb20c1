"""Global tables: their topics are read to the ends of the start before the first row, and then on. The broker is the test's."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.kafka import ConsumerSettings
from streamactors.kafka.client.connection import BEGINNING
from streamactors.kafka.errors import KafkaError, TopicNotFound
from streamactors.kafka.state.changelogs import global_tables
from streamactors.kafka.state.changelogs.global_tables import GlobalEntries, GlobalTables
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.windows import Record

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class Broker:
    """A consumer whose polls the test gives, one by one; without one a poll waits until the test is over."""

    def __init__(self, **partitions: int) -> None:
        self.partitions = partitions
        self.highs: dict[Any, int] = {}
        self.polls: list[Any] = []
        self.polled_all = threading.Event()
        self.more = threading.Event()
        self.assigned: dict[Any, int] = {}
        self.settings: Any = None
        self.closed = threading.Event()
        self.failed: list[Exception] = []  # the errors that the run got

    def consumer(self, settings: ConsumerSettings) -> Any:
        self.settings = settings
        return self

    def topics(self) -> dict[str, int]:
        return self.partitions

    def high_watermarks(self, keys: list[Any]) -> dict[Any, int]:
        return {key: self.highs.get(key, 0) for key in keys}

    def assign(self, positions: dict[Any, int]) -> None:
        self.assigned = positions

    def poll(self, most: int, timeout_s: float) -> Any:
        if self.polls:
            found = self.polls.pop(0)
            if isinstance(found, Exception):
                raise found
            return found
        self.polled_all.set()
        self.more.wait(timeout_s)
        return SimpleNamespace(runs=[], ends=[])

    def close(self) -> None:
        self.closed.set()


def records(key: Any, *rows: tuple[Any, Any]) -> Any:
    found = [SimpleNamespace(key=row[0], value=row[1], timestamp=at) for at, row in enumerate(rows)]
    return SimpleNamespace(runs=[(key, found, None, None)], ends=[])


def end(*keys: Any) -> Any:
    return SimpleNamespace(runs=[], ends=[(key, 0) for key in keys])


def entries() -> GlobalEntries:
    return GlobalEntries("a", lambda record: Record(record.key, record.value, record.timestamp))


def read(table: GlobalEntries, key: Any) -> Any:
    return table.read(table.env.identity.of(key), None, None)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Any:
    made: list[tuple[GlobalTables, Broker]] = []

    def begin(broker: Broker, table: GlobalEntries, **properties: Any) -> GlobalTables:
        monkeypatch.setattr(global_tables, "StreamConsumer", broker.consumer)
        settings = ConsumerSettings("localhost:1", "g", properties=properties)
        tables = GlobalTables(settings, {"a": table}, broker.failed.append)
        made.append((tables, broker))
        return tables

    yield begin
    for tables, broker in made:
        tables.stop()
        broker.more.set()
        if tables._thread.ident is not None:
            tables._thread.join(30)
            assert broker.closed.is_set()


def test_the_topic_is_read_to_the_ends_of_all_partitions_that_have_records(start: Any) -> None:
    broker, table = Broker(a=2, other=1), entries()
    broker.highs = {A0: 2, A1: 1}
    broker.polls = [records(A0, ("x", 1), ("y", 2)), end(A0), records(A1, ("x", 3)), end(A1)]
    start(broker, table).fill()
    assert (read(table, "x"), read(table, "y"), read(table, "z")) == ((3, 0), (2, 1), None)
    assert broker.assigned == {A0: BEGINNING, A1: BEGINNING}
    assert (broker.settings.group_id, broker.settings.auto_offset_reset) == (None, "earliest")
    assert broker.settings.properties["isolation.level"] == "read_committed"
    assert broker.settings.properties["enable.partition.eof"] is True


def test_a_topic_without_records_is_not_waited_for_and_is_read_on(start: Any) -> None:
    broker, table = Broker(a=1), entries()
    broker.polls = [records(A0, ("x", 1)), records(A0, ("x", None))]
    start(broker, table).fill()
    assert broker.polled_all.wait(30)
    assert read(table, "x") is None


def test_a_record_without_a_key_is_dropped_and_counted_and_one_without_a_value_deletes(start: Any) -> None:
    broker, table = Broker(a=1), entries()
    broker.highs = {A0: 4}
    broker.polls = [records(A0, (None, 1), ("x", 1), ("x", None), ("never", None)), end(A0)]
    start(broker, table).fill()
    assert (table.dropped, table._entries) == (1, {})


def test_a_topic_that_is_not_there_is_named(start: Any) -> None:
    broker = Broker(other=1)
    with pytest.raises(TopicNotFound, match="no topic a at localhost:1 for a global table"):
        start(broker, entries()).fill()
    assert broker.closed.wait(30)


def test_an_error_before_the_end_is_raised_and_one_behind_it_fails_the_run(start: Any) -> None:
    # The error was logged, and rows met a table that stood still.
    broker = Broker(a=1)
    broker.highs = {A0: 1}
    broker.polls = [ConnectionError("away")]
    with pytest.raises(ConnectionError):
        start(broker, entries()).fill()
    assert broker.failed == []
    later = Broker(a=1)
    tables = start(later, entries())
    tables.fill()
    later.polls.append(ConnectionError("away"))
    later.more.set()
    tables._thread.join(30)
    assert [str(each) for each in later.failed] == ["global tables a: reading has failed: ConnectionError: away"]


def test_tables_that_are_not_read_in_time_are_named(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert global_tables._FILL_S == 60.0
    monkeypatch.setattr(global_tables, "_FILL_S", 0.01)
    broker = Broker(a=1)
    broker.highs = {A0: 1}
    tables = start(broker, entries())
    with pytest.raises(KafkaError, match=r"global tables a were not read to their ends in 0\.01 s"):
        tables.fill()
    assert tables._over.is_set()


def test_no_row_of_a_task_comes_to_a_global_table() -> None:
    out: list[Any] = []
    entries().process([Record("x", 1, 0)], out)
    assert out == []

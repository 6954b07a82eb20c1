"""A coordinator's appends: grouped by turn, answered in the order of the log."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from streamactors.broker.coordinator.coordinator_log import CoordinatorLog, client_error
from streamactors.broker.coordinator.coordinator_messages import Flush
from streamactors.broker.errors import ErrorCode
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.control import build_marker

E = ErrorCode


class Outcome(NamedTuple):
    error: ErrorCode
    base_offset: int


class Log:
    """Keeps what is appended until the test says what became of it."""

    def __init__(self, max_batch_bytes: int = 10_000) -> None:
        self.batches: list[RecordBatch] = []
        self.callbacks: list = []
        self.asked = 0
        self.told: list[object] = []
        self.log = CoordinatorLog(self.append, lambda: 1_000, max_batch_bytes, self.ask)

    def append(self, batch: bytearray, then) -> None:
        self.batches.append(RecordBatch(batch))
        self.callbacks.append(then)

    def ask(self, message: object) -> None:
        self.told.append(message)
        self.asked += isinstance(message, Flush)

    def values(self) -> list[list[bytes | None]]:
        return [[record.value for record in batch.records()] for batch in self.batches]


def test_the_records_of_one_turn_are_one_batch() -> None:
    log = Log()
    heard: list[tuple[str, ErrorCode, int]] = []
    log.log.write([(b"a", b"1"), (b"b", b"2")], lambda error, offset: heard.append(("first", error, offset)))
    log.log.write([(b"c", None)], lambda error, offset: heard.append(("second", error, offset)))
    assert (log.asked, log.batches) == (1, [])
    log.log.flush()
    assert log.values() == [[b"1", b"2", None]]
    assert [r.timestamp for r in log.batches[0].records()] == [1_000] * 3
    log.callbacks[0](Outcome(E.NONE, 40))
    assert heard == [("first", E.NONE, 40), ("second", E.NONE, 42)]


def test_nothing_is_heard_before_the_log_has_answered() -> None:
    log = Log()
    heard: list[int] = []
    log.log.write([(b"a", b"1")], lambda error, offset: heard.append(offset))
    log.log.flush()
    assert heard == []


def test_answers_come_in_the_order_of_the_log() -> None:
    log = Log()
    heard: list[str] = []
    for name in ("first", "second", "third"):
        log.log.write([(b"k", b"v")], lambda error, offset, name=name: heard.append(f"{name} {error.name}"))
        log.log.flush()
    log.callbacks[2](Outcome(E.NONE, 2))
    log.callbacks[1](Outcome(E.REQUEST_TIMED_OUT, -1))
    assert heard == []
    log.callbacks[0](Outcome(E.NONE, 0))
    assert heard == ["first NONE", "second REQUEST_TIMED_OUT", "third NONE"]


def test_a_prepared_batch_comes_after_the_records_written_before_it() -> None:
    log = Log()
    heard: list[str] = []
    log.log.write([(b"k", b"v")], lambda error, offset: heard.append("records"))
    marker = build_marker(1, 0, committed=True, coordinator_epoch=0, timestamp_ms=0)
    log.log.write_batch(marker, lambda error, offset: heard.append("marker"))
    assert [batch.is_control for batch in log.batches] == [False, True]
    log.callbacks[0](Outcome(E.NONE, 0))
    log.callbacks[1](Outcome(E.NONE, 1))
    assert heard == ["records", "marker"]


def test_a_batch_is_not_larger_than_the_topic_allows() -> None:
    log = Log(max_batch_bytes=500)
    for _ in range(10):
        log.log.write([(b"k", bytes(100))], lambda error, offset: None)
    log.log.flush()
    assert len(log.batches) > 1
    assert all(batch.size <= 500 for batch in log.batches)
    assert sum(batch.count for batch in log.batches) == 10
    assert log.asked == len(log.batches)


def test_a_write_inside_a_callback_begins_a_new_batch() -> None:
    log = Log()
    log.log.write([(b"k", b"1")], lambda error, offset: log.log.write([(b"k", b"2")], lambda *_: None))
    log.log.flush()
    log.callbacks[0](Outcome(E.NONE, 0))
    assert log.asked == 2
    log.log.flush()
    assert log.values() == [[b"1"], [b"2"]]


@pytest.mark.parametrize(
    ("of_log", "of_client"),
    [
        (E.NONE, E.NONE),
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.REQUEST_TIMED_OUT, E.COORDINATOR_NOT_AVAILABLE),
        (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.INVALID_COMMIT_OFFSET_SIZE),
        (E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_client_gets_errors_of_the_coordinator_not_of_the_log(of_log: ErrorCode, of_client: ErrorCode) -> None:
    assert client_error(of_log, too_large=E.INVALID_COMMIT_OFFSET_SIZE) is of_client


def test_records_that_do_not_fit_into_one_batch_are_written_in_parts_that_fail_on_their_own() -> None:
    log = Log(max_batch_bytes=1_000)
    records: list[tuple[bytes, bytes | None]] = [(b"k%03d" % number, None) for number in range(100)]
    written: list[int] = []
    ended: list[ErrorCode] = []
    log.log.write_all(records, written.extend, ended.append)
    log.log.flush()
    assert all(batch.size <= 1_000 for batch in log.batches)
    assert [record.key for batch in log.batches for record in batch.records()] == [key for key, _ in records]
    for at, done in enumerate(log.callbacks):
        assert ended == []
        done(Outcome(E.NOT_ENOUGH_REPLICAS if at == 1 else E.NONE, 0))
    assert ended == [E.NOT_ENOUGH_REPLICAS]
    lost = log.batches[1].count
    assert len(written) == 100 - lost
    assert written == sorted(written)


def test_no_records_at_all_are_written_at_once() -> None:
    log = Log()
    ended: list[ErrorCode] = []
    log.log.write_all([], ended.append, ended.append)
    assert ended == [E.NONE]
    assert log.callbacks == []

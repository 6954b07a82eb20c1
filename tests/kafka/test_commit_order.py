"""A commit reads the membership before it looks whether the partitions are still here, and only of sources that have moved."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.engine.marks.cut_state import CutPhase
from streamactors.kafka import ProducerSettings
from streamactors.kafka.errors import ConsumerFailed, ProducerFailed
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.kafka.transactions.run_transaction import RunTransaction

KEY = TopicPartition("in", 0)


class Producer:
    """Notes the positions that it is given, with the membership."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send_offsets(self, offsets: Any, membership: Any, timeout_s: float) -> None:
        self.sent.append((offsets, membership))

    def commit(self, timeout_s: float) -> None:
        self.sent.append("committed")


def committing(producer: Producer, target: dict[Any, Any]) -> Any:
    """The transaction of a run that is about to commit these positions."""
    transaction: Any = RunTransaction(None)  # type: ignore[arg-type]
    transaction.producer = producer
    transaction._settings = ProducerSettings("localhost:9092", transactional_id="tx")
    transaction._cut = SimpleNamespace(phase=CutPhase.COMMITTING, target=target, committed_at={}, parts=[])
    transaction._on_committed = lambda _: None
    return transaction


def test_a_partition_that_goes_while_the_membership_is_read_fails_the_commit() -> None:
    # The partition was found to be here -> it was taken away, and the consumer joined anew -> the commit went under the new membership,
    # which the broker takes. The next owner had read the same records by then.
    tracker, producer = OffsetTracker(), Producer()
    tracker.assigned([KEY], epoch=7)

    def membership() -> str:
        tracker.forget([KEY])
        return "the new one"

    transaction = committing(producer, {("source", KEY): (7, 5)})
    transaction._sources = {"source": (tracker, membership, lambda: None)}
    with pytest.raises(ProducerFailed, match="in-0 was taken away"):
        transaction._commit()
    assert producer.sent == []


def test_a_source_whose_consumer_is_not_there_yet_does_not_fail_a_commit() -> None:
    # The first cut comes a commit interval behind the start of the transaction, with records or without. The consumer of a source was asked
    # for its membership before it was made: "the consumer is closed", and the run was aborted.
    tracker, producer = OffsetTracker(), Producer()
    tracker.assigned([KEY], epoch=7)

    def not_there_yet() -> str:
        raise ConsumerFailed("the consumer is closed; its positions cannot be committed")

    transaction = committing(producer, {("source", KEY): (7, 5)})
    transaction._sources = {
        "another": (OffsetTracker(), not_there_yet, lambda: None),
        "source": (tracker, lambda: "the membership", lambda: None),
    }
    transaction._commit()
    assert producer.sent == [({KEY: 5}, "the membership"), "committed"]


def test_a_source_that_begins_during_a_commit_does_not_fail_it() -> None:
    tracker, producer = OffsetTracker(), Producer()
    tracker.assigned([KEY], epoch=7)
    transaction = committing(producer, {("source", KEY): (7, 5)})

    def membership() -> str:
        transaction._sources["another"] = (OffsetTracker(), membership, lambda: None)
        return "the membership"

    transaction._sources = {"source": (tracker, membership, lambda: None)}
    transaction._commit()
    assert producer.sent == [({KEY: 5}, "the membership"), "committed"]

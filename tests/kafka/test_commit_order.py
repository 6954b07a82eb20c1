"""A commit reads the membership before it looks whether the partitions are still here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.engine.marks.cut_state import CutPhase
from streamactors.kafka import ProducerSettings
from streamactors.kafka.errors import ProducerFailed
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


def test_a_partition_that_goes_while_the_membership_is_read_fails_the_commit() -> None:
    # The partition was found to be here -> it was taken away, and the consumer joined anew -> the commit went under the new membership,
    # which the broker takes. The next owner had read the same records by then.
    tracker, producer = OffsetTracker(), Producer()
    tracker.assigned([KEY], epoch=7)

    def membership() -> str:
        tracker.forget([KEY])
        return "the new one"

    transaction: Any = RunTransaction(None)  # type: ignore[arg-type]
    transaction.producer = producer
    transaction._settings = ProducerSettings("localhost:9092", transactional_id="tx")
    transaction._sources = {"source": (tracker, membership, lambda: None)}
    transaction._cut = SimpleNamespace(
        phase=CutPhase.COMMITTING, target={("source", KEY): (7, 5)}, committed_at={}, parts=[]
    )
    with pytest.raises(ProducerFailed, match="in-0 was taken away"):
        transaction._commit()
    assert producer.sent == []

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
from streamactors.kafka.transactions.offsets import TransactionOffsets
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

    def abort(self, timeout_s: float) -> None:
        self.sent.append("aborted")


def committing(producer: Producer, target: dict[Any, Any]) -> Any:
    """The transaction of a run that is about to commit these positions."""
    transaction: Any = RunTransaction(SimpleNamespace(progress=None, begins_anew=False))  # type: ignore[arg-type]
    transaction.producer = producer
    transaction._settings = ProducerSettings("localhost:9092", transactional_id="tx")
    transaction._cut = SimpleNamespace(
        phase=CutPhase.COMMITTING, target=target, committed_at={}, parts=[], ended=[], settled=lambda: True
    )
    transaction.offsets = TransactionOffsets(transaction._cut)
    transaction._on_over = lambda _: None
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
    transaction.offsets.add("source", tracker, membership, lambda: None)
    with pytest.raises(ProducerFailed, match="in-0 was revoked"):
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
    transaction.offsets.add("another", OffsetTracker(), not_there_yet, lambda: None)
    transaction.offsets.add("source", tracker, lambda: "the membership", lambda: None)
    transaction._commit()
    assert producer.sent == [({KEY: 5}, "the membership"), "committed"]


def test_a_source_that_begins_during_a_commit_does_not_fail_it() -> None:
    tracker, producer = OffsetTracker(), Producer()
    tracker.assigned([KEY], epoch=7)
    transaction = committing(producer, {("source", KEY): (7, 5)})

    def membership() -> str:
        transaction.offsets.add("another", OffsetTracker(), membership, lambda: None)
        return "the membership"

    transaction.offsets.add("source", tracker, membership, lambda: None)
    transaction._commit()
    assert producer.sent == [({KEY: 5}, "the membership"), "committed"]


def dropping(producer: Producer) -> Any:
    """A transaction with results of a partition that is gone, in a run that is right without them."""
    transaction = committing(producer, {("source", KEY): (7, 5)})
    transaction._run.begins_anew = True
    transaction._cut.ask = lambda *, urgent: producer.sent.append(f"another cut, {urgent=}")
    transaction.offsets.add("source", OffsetTracker(), lambda: "the membership", lambda: None)
    return transaction


@pytest.mark.expects_log("was revoked while its results were in an open transaction")
def test_a_transaction_of_lost_partitions_is_dropped_and_the_run_goes_on() -> None:
    # A topic grew while a revocation waited: librdkafka joined the group again, which gave the partitions away, and the broker refused the
    # positions until revoke_timeout_ms. The run failed, and its next instance would have begun at the same positions as the next owner.
    producer = Producer()
    transaction = dropping(producer)
    transaction._commit()
    assert producer.sent == ["aborted", "another cut, urgent=True"]


def keeps_state(transaction: Any) -> None:
    transaction._run.begins_anew = False


def ends(transaction: Any) -> None:
    transaction._cut.ended = ["a sink"]


def has_told_places(transaction: Any) -> None:
    transaction.writes.repeatable = False


def has_another_partition(transaction: Any) -> None:
    other = TopicPartition("in", 1)
    transaction._cut.target["source", other] = (7, 9)
    transaction.offsets._sources["source"][0].assigned([other], epoch=7)


def has_lost_a_record(transaction: Any) -> None:
    transaction.writes.lost = ProducerFailed("too large")


def has_another_source(transaction: Any) -> None:
    transaction._cut.parts = [SimpleNamespace(part_state=SimpleNamespace(overtaken=set(), carried={"source", "range"}))]


def has_both_assignments(transaction: Any) -> None:
    part_state = SimpleNamespace(overtaken={("source", KEY)}, carried={"source"})
    transaction._cut.parts = [SimpleNamespace(part_state=part_state)]


@pytest.mark.parametrize(
    "more",
    [
        keeps_state,
        ends,
        has_told_places,
        has_another_partition,
        has_lost_a_record,
        has_another_source,
        has_both_assignments,
    ],
)
def test_a_transaction_with_more_than_lost_partitions_fails(more: Any) -> None:
    producer = Producer()
    transaction = dropping(producer)
    more(transaction)
    with pytest.raises(ProducerFailed, match="in-0 was revoked while its results"):
        transaction._commit()
    assert producer.sent == []


# ── results that stem from no row ─────────────────────────────────────────────────────────────────────────────────────


def owing(transaction, *inputs):
    """Return what is owed for results of these inputs: (source, epoch)."""
    return transaction.offsets.owe({(source, KEY): epoch for source, epoch in inputs}, last=False)


def test_a_commit_of_results_without_a_position_lets_the_broker_check_the_membership() -> None:
    tracker, producer = OffsetTracker(), Producer()
    tracker.assigned([KEY], epoch=7)
    transaction = committing(producer, {})
    transaction.offsets.add("source", tracker, lambda: "the membership", lambda: None)
    debts = owing(transaction, ("source", 7), ("elsewhere", 3))
    assert debts == [(tracker, KEY, 7)]
    transaction._commit()
    assert producer.sent == ["committed"]  # no offset of this assignment is committed yet
    transaction._cut.committed_at = {("source", KEY): (6, 9)}
    transaction._commit()
    transaction._cut.committed_at = {("source", KEY): (7, 5)}
    transaction._commit()
    assert producer.sent[1:] == ["committed", ({KEY: 5}, "the membership"), "committed"]
    transaction.offsets.paid(debts)
    transaction._commit()
    assert producer.sent[4:] == ["committed"]


def taken_away(transaction: Any, tracker: OffsetTracker) -> None:
    tracker.forget([KEY])


def assigned_again(transaction: Any, tracker: OffsetTracker) -> None:
    tracker.assigned([KEY], epoch=8)


def source_started_again(transaction: Any, tracker: OffsetTracker) -> None:
    transaction.offsets.add("source", OffsetTracker(), lambda: "the membership", lambda: None)


@pytest.mark.parametrize("gone", [taken_away, assigned_again, source_started_again])
def test_a_partition_that_goes_before_such_results_are_committed_fails_the_commit(gone: Any) -> None:
    """Its next owner has found the windows open."""
    tracker, producer = OffsetTracker(), Producer()
    tracker.assigned([KEY], epoch=7)
    transaction = committing(producer, {})
    transaction.offsets.add("source", tracker, lambda: "the membership", lambda: None)
    assert owing(transaction, ("source", 7))
    gone(transaction, tracker)
    with pytest.raises(ProducerFailed, match="in-0 was revoked while its results"):
        transaction._commit()
    assert producer.sent == []


def test_no_such_results_are_owed_while_one_of_the_inputs_is_revoked() -> None:
    trackers = [OffsetTracker(), OffsetTracker()]
    transaction = committing(Producer(), {})
    for n, tracker in enumerate(trackers):
        tracker.assigned([KEY], epoch=n)
        transaction.offsets.add(n, tracker, lambda: "the membership", lambda: None)
    trackers[1].revoking([KEY])
    assert owing(transaction, (0, 0), (1, 1)) is None
    assert [tracker.owed() for tracker in trackers] == [{}, {}]
    assert owing(transaction, (0, 9)) is None  # an assignment that is over

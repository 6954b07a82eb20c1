"""What an answer about a transaction is worth when the partition has changed since the question."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors import log_limit
from streamactors.broker.errors import ErrorCode
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer
from streamactors.broker.transaction.remote_verification import RemoteVerification
from streamactors.broker.transaction.transaction import TopicPartition
from streamactors.broker.transaction.transaction_events import SendMarkers
from streamactors.broker.transaction.transaction_messages import VerificationRequest

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Asking:
    """A question about two partitions, whose answer comes when the test says so."""

    def __init__(self, *, adds: bool = False, epoch: int = 0) -> None:
        self.hosted: dict[TopicPartition, Any] = {each: SimpleNamespace(leader_epoch=3) for each in (FIRST, SECOND)}
        self.errors: Any = None
        table: Any = SimpleNamespace(get=lambda *where: self.hosted.get(TopicPartition(*where)))
        self.verification = RemoteVerification(SimpleNamespace(), table)  # type: ignore[arg-type]
        self.verification._channels = SimpleNamespace(to=lambda _: SimpleNamespace(request=self._request))  # type: ignore[assignment]
        self.verification.ask(
            1,
            VerificationRequest("tx", 7, epoch, (FIRST, SECOND), adds),
            lambda errors: setattr(self, "errors", errors),
        )

    def _request(self, key: int, version: int, body: Any, then: Any) -> None:
        self._then = then

    def answer(self, code: int = 0, of_all: int = 0) -> dict[TopicPartition, ErrorCode]:
        results = [
            SimpleNamespace(partition_index=each.partition, partition_error_code=code) for each in (FIRST, SECOND)
        ]
        topic = SimpleNamespace(name="orders", results_by_partition=results)
        value = SimpleNamespace(error_code=of_all, results_by_transaction=[SimpleNamespace(topic_results=[topic])])
        self._then(ChannelAnswer(value))
        errors: dict[TopicPartition, ErrorCode] = self.errors
        return errors


def marker(producer_id: int, epoch: int, version: int = 0) -> SendMarkers:
    return SendMarkers(producer_id, epoch, True, frozenset(), version)


@pytest.fixture
def asking() -> Asking:
    return Asking()


def test_the_coordinators_answer_counts(asking: Asking) -> None:
    assert asking.answer() == {FIRST: ErrorCode.NONE, SECOND: ErrorCode.NONE}


def test_a_marker_makes_the_answer_too_old(asking: Asking) -> None:
    asking.verification.marked(FIRST, marker(8, 0))  # of another producer
    asking.verification.marked(SECOND, marker(7, 0))
    assert asking.answer() == {FIRST: ErrorCode.NONE, SECOND: ErrorCode.INVALID_TXN_STATE}


def test_the_marker_of_the_transaction_before_does_not_matter_to_the_next_one() -> None:
    # The end is answered before its markers are written -> the producer sends its next batch with the next epoch -> the marker, which has that
    # epoch, comes while the partition is being added -> the batch was refused with INVALID_TXN_STATE, and the producer had to abort.
    asking = Asking(adds=True, epoch=4)
    asking.verification.marked(FIRST, marker(7, 4, version=2))
    asking.verification.marked(SECOND, marker(7, 5, version=2))  # of this transaction: the append will be fenced
    assert asking.answer() == {FIRST: ErrorCode.NONE, SECOND: ErrorCode.CONCURRENT_TRANSACTIONS}


def test_a_marker_of_the_old_protocol_has_who_adds_ask_again() -> None:
    asking = Asking(adds=True, epoch=4)
    asking.verification.marked(FIRST, marker(7, 4))
    assert asking.answer() == {FIRST: ErrorCode.CONCURRENT_TRANSACTIONS, SECOND: ErrorCode.NONE}


def test_a_leadership_that_went_and_came_back_makes_the_answer_too_old(asking: Asking) -> None:
    # The other leader wrote the marker of the abort, and this broker copied it as a follower. Then the answer of before came.
    asking.hosted[FIRST] = SimpleNamespace(leader_epoch=5)
    assert asking.answer() == {FIRST: ErrorCode.NETWORK_EXCEPTION, SECOND: ErrorCode.NONE}


def test_a_partition_that_is_no_longer_here_is_asked_for_again(asking: Asking) -> None:
    del asking.hosted[SECOND]
    assert asking.answer() == {FIRST: ErrorCode.NONE, SECOND: ErrorCode.NETWORK_EXCEPTION}


def test_an_error_of_a_newer_broker_is_an_unknown_error(asking: Asking) -> None:
    # ErrorCode(9999) raised: nobody answered the producer, and its connection was never read again
    assert asking.answer(9999) == dict.fromkeys((FIRST, SECOND), ErrorCode.UNKNOWN_SERVER_ERROR)


@pytest.mark.expects_log("verifies nothing")
@pytest.mark.parametrize(
    ("of_all", "told"),
    [
        (
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            ErrorCode.INVALID_TXN_STATE,
        ),  # the broker lacks a right, not the client
        (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION),
        (9999, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_error_of_the_whole_answer_is_the_error_of_each_partition(
    asking: Asking, of_all: int, told: ErrorCode
) -> None:
    assert asking.answer(of_all=of_all) == dict.fromkeys((FIRST, SECOND), told)


def test_a_right_that_this_broker_lacks_is_one_line_a_second_however_many_transactions_ask(
    asking: Asking, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each batch of each transactional producer asks, and each was a line of its own.
    monkeypatch.setattr(log_limit._of_process, "_now_s", lambda: 0.0)
    asking.answer(of_all=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    for number in range(30):
        asking.verification.ask(1, VerificationRequest(f"tx-{number}", 8 + number, 0, (FIRST,)), lambda errors: None)
        asking.answer(of_all=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert caplog.messages == [
        "the coordinator of transactional id tx verifies nothing: CLUSTER_AUTHORIZATION_FAILED; "
        "this broker needs the right CLUSTER_ACTION of the cluster"
    ]

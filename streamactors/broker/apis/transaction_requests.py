"""What the files of the transaction APIs share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from streamactors.broker.coordinator.record_codec import too_long
from streamactors.broker.errors import ErrorCode
from streamactors.broker.security import Authorise
from streamactors.broker.transaction.transaction import TopicPartition

if TYPE_CHECKING:
    from streamactors.broker.request import Request


def transactional_id_error(transactional_id: str) -> ErrorCode:
    """Return INVALID_REQUEST for an empty id, or one too long to be stored."""
    return ErrorCode.INVALID_REQUEST if not transactional_id or too_long(transactional_id) else ErrorCode.NONE


def with_transactional_id(authorise: Authorise) -> Authorise:
    """Check the transactional id before the right to it."""

    def check(request: Request) -> ErrorCode:
        return authorise(request) or transactional_id_error(request.message.transactional_id)

    return check


def for_old_clients(error: ErrorCode, version: int, first_that_knows: int) -> ErrorCode:
    """Return INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED to a client too old to know it (KIP-588)."""
    if error is ErrorCode.PRODUCER_FENCED and version < first_that_knows:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    """Return partitions the way DescribeTransactions lists them."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()]

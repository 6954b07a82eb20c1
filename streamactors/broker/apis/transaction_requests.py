"""Common parts of the transaction APIs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from streamactors.broker.apis.group_requests import group_id_error
from streamactors.broker.errors import ErrorCode
from streamactors.broker.protocol.record_schema import too_long
from streamactors.broker.security.rights import Authorise, read_group, write_transactional_id
from streamactors.broker.transaction.transaction import TopicPartition

if TYPE_CHECKING:
    from streamactors.broker.requests.request import Request


def transactional_id_error(transactional_id: str) -> ErrorCode:
    """Return INVALID_REQUEST for an empty id, or one that is too long to be stored."""
    return ErrorCode.INVALID_REQUEST if not transactional_id or too_long(transactional_id) else ErrorCode.NONE


def with_transactional_id(authorise: Authorise) -> Authorise:
    """Return a check of the right to a transactional id and of the id."""

    def check(request: Request) -> ErrorCode:
        return authorise(request) or transactional_id_error(request.message.transactional_id)

    return check


def offsets_in_transaction(request: Request) -> ErrorCode:
    """Require WRITE on the transactional id, READ on the group, and two ids that can be stored."""
    error = with_transactional_id(write_transactional_id)(request) or read_group(request)
    return error or group_id_error(request.message.group_id)


def for_old_clients(error: ErrorCode, version: int, first_that_knows: int) -> ErrorCode:
    """Return INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED to a client too old to know it (KIP-588)."""
    if error is ErrorCode.PRODUCER_FENCED and version < first_that_knows:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    """Return the `topics` of DescribeTransactions."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()]

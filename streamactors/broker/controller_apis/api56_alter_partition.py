"""AlterPartition: the leader of partitions asks for other ISRs (KIP-497).

Versions: 2-3 (3 the broker epochs of the new ISR KIP-903).   Authorised: CLUSTER_ACTION.
Errors: STALE_BROKER_EPOCH, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INVALID_REQUEST,
INELIGIBLE_REPLICA, NOT_CONTROLLER (the broker knows a newer controller), NEW_LEADER_ELECTED.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.replication.isr_requests import AlterPartition, IsrOutcome, IsrProposal, PartitionsAltered
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action

_FIRST_WITH_EPOCHS: Final = 3


def handle(request: Request) -> Later:
    message = request.message

    @request.answer_with
    def reply(altered: PartitionsAltered) -> Body:
        return body_of(message, altered)

    request.node.controller.submit(command_of(message, request.version), reply)
    return LATER


def command_of(message: Any, version: int) -> AlterPartition:
    """Return the command of a decoded request."""
    proposals = []
    for topic in message.topics:
        for each in topic.partitions:
            if version >= _FIRST_WITH_EPOCHS:
                isr = tuple((member.broker_id, member.broker_epoch) for member in each.new_isr_with_epochs)
            else:
                isr = tuple((member, -1) for member in each.new_isr)
            proposals.append(
                IsrProposal(
                    topic.topic_id,
                    each.partition_index,
                    each.leader_epoch,
                    each.partition_epoch,
                    isr,
                    each.leader_recovery_state,
                )
            )
    return AlterPartition(message.broker_id, message.broker_epoch, tuple(proposals))


def body_of(message: Any, altered: PartitionsAltered) -> dict[str, Any]:
    """Return the response to a request."""
    if altered.error:
        return {"throttle_time_ms": 0, "error_code": altered.error, "topics": ()}
    outcomes = iter(altered.outcomes)
    topics = [
        {
            "topic_id": topic.topic_id,
            "partitions": [_partition(each.partition_index, next(outcomes)) for each in topic.partitions],
        }
        for topic in message.topics
    ]
    return {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "topics": topics}


def _partition(index: int, outcome: IsrOutcome) -> dict[str, Any]:
    return {
        "partition_index": index,
        "error_code": outcome.error,
        "leader_id": outcome.leader,
        "leader_epoch": outcome.leader_epoch,
        "isr": outcome.isr,
        "leader_recovery_state": outcome.recovering,
        "partition_epoch": outcome.partition_epoch,
    }


API: Final = Api(key=56, versions=(2, 3), authorise=cluster_action, handle=handle, between_nodes=True)

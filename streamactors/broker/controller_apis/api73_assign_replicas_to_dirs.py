"""AssignReplicasToDirs: a broker says which data folder a replica is in (KIP-858).

Versions: 0.   Authorised: CLUSTER_ACTION.
Errors: UNSUPPORTED_VERSION (metadata.version below 17), STALE_BROKER_EPOCH, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION,
NOT_LEADER_OR_FOLLOWER (the broker has no replica).   Differs from Apache Kafka: nothing."""

from __future__ import annotations

import uuid
from typing import Any, Final

from streamactors.broker.controller.cluster_command import AssignReplicas, ReplicasAssigned
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action


def handle(request: Request) -> Later:
    message = request.message
    command = AssignReplicas(
        message.broker_id,
        message.broker_epoch,
        tuple(
            (folder.id_, topic.topic_id, partition.partition_index)
            for folder in message.directories
            for topic in folder.topics
            for partition in topic.partitions
        ),
    )

    @request.answer_with
    def reply(assigned: ReplicasAssigned) -> Body:
        codes = dict(zip(command.assignments, assigned.codes, strict=False))
        return {
            "throttle_time_ms": 0,
            "error_code": assigned.error,
            "directories": [] if assigned.error else [_directory(each, codes) for each in message.directories],
        }

    request.node.controller.submit(command, reply)
    return LATER


def _directory(folder: Any, codes: dict[tuple[uuid.UUID, uuid.UUID, int], Any]) -> dict[str, Any]:
    return {
        "id_": folder.id_,
        "topics": [
            {
                "topic_id": topic.topic_id,
                "partitions": [
                    {
                        "partition_index": each.partition_index,
                        "error_code": codes[folder.id_, topic.topic_id, each.partition_index],
                    }
                    for each in topic.partitions
                ],
            }
            for topic in folder.topics
        ],
    }


API: Final = Api(key=73, versions=(0, 0), authorise=cluster_action, handle=handle, between_nodes=True)

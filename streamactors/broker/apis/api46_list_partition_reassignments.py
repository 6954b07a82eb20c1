"""ListPartitionReassignments: the moves of replicas in progress (KIP-455).

Versions: 0.   Authorised: DESCRIBE CLUSTER.   Errors: none.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.controller.rules.election_rules import partitions_of
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import describe_cluster


def handle(request: Request) -> Body:
    asked = request.message.topics
    wanted = None if asked is None else {(t.name, number) for t in asked for number in t.partition_indexes}
    topics: dict[str, list[dict[str, object]]] = {}
    for topic, partition in partitions_of(request.node.metadata.image):
        if not partition.adding and not partition.removing:
            continue
        if wanted is None or (topic.name, partition.partition) in wanted:
            moving = {
                "partition_index": partition.partition,
                "replicas": partition.replicas,
                "adding_replicas": partition.adding,
                "removing_replicas": partition.removing,
            }
            topics.setdefault(topic.name, []).append(moving)
    return {
        "error_message": None,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    }


API: Final = Api(key=46, versions=(0, 0), authorise=describe_cluster, handle=handle, forwarded=True)

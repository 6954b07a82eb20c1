"""What ShareFetch and ShareAcknowledge have in common: the checks of a member's request, and its acknowledgements.

Rules, their order and messages: Apache Kafka's KafkaApis."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from streamactors.broker.apis.feature_off import OFF, OFF_MESSAGE, has_share_groups
from streamactors.broker.coordinator.coordinators import gather
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType
from streamactors.broker.share.fetching.led_share_partition import Outcome
from streamactors.broker.share.fetching.share_sessions import Place, SessionKey
from streamactors.broker.share.partition.acknowledging import Acknowledgement, AcknowledgeType
from streamactors.broker.share.state.share_state import ShareKey

LONGEST_MEMBER_ID: Final = 36
NO_TOPIC_ID: Final = uuid.UUID(int=0)
"""The id of a topic that does not exist or must not be shown."""
_SAYS_LEADER: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})

Outcomes = Mapping[Place, Outcome]


def session_key(request: Request) -> SessionKey:
    """Return the member that asks. Raises Refusal if it may not, or if it has no name."""
    message = request.message
    if not has_share_groups(request):
        raise Refusal(OFF, OFF_MESSAGE)
    if message.group_id is None:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not request.allowed(Operation.READ, ResourceType.GROUP, message.group_id):
        raise Refusal(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if message.member_id is None or not 0 < len(message.member_id) <= LONGEST_MEMBER_ID:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return SessionKey(message.group_id, message.member_id)


def places_of(topics: Iterable[Any]) -> dict[Place, Any]:
    """Return the partitions that a request names."""
    return {
        Place(topic.topic_id or NO_TOPIC_ID, each.partition_index): each
        for topic in topics
        for each in topic.partitions
    }


def refusals(request: Request, places: Iterable[Place]) -> dict[Place, Outcome]:
    """Return why the member may not have some of the partitions."""
    topics = request.node.metadata.image.topics_by_id
    found: dict[Place, Outcome] = {}
    for place in places:
        topic = topics.get(place.topic_id)
        if topic is None:
            found[place] = Outcome(ErrorCode.UNKNOWN_TOPIC_ID)
        elif not request.allowed(Operation.READ, ResourceType.TOPIC, topic.name):
            found[place] = Outcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif not 0 <= place.partition < len(topic.partitions):
            found[place] = Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return found


def acknowledge_all(
    request: Request, key: SessionKey, named: Mapping[Place, Any], then: Callable[[Outcomes], object]
) -> None:
    """Carry out the acknowledgements of a request; `then` gets the outcome of each partition that has some."""
    asked = {place: each.acknowledgement_batches for place, each in named.items() if each.acknowledgement_batches}
    outcomes: dict[Place, Outcome] = {
        place: Outcome(ErrorCode.INVALID_REQUEST) for place, batches in asked.items() if not _valid(request, batches)
    }
    outcomes |= {place: why for place, why in refusals(request, asked).items() if place not in outcomes}
    left = [place for place in asked if place not in outcomes]
    partitions = request.node.share_partitions

    def acknowledge(place: Place, reply: Callable[[Outcome], object]) -> None:
        led = partitions.get(ShareKey(key.group_id, *place))
        if led is None:
            reply(Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."))
            return
        batches = [
            Acknowledgement(each.first_offset, each.last_offset, tuple(each.acknowledge_types)) for each in asked[place]
        ]
        led.acknowledge(key.member_id, batches, reply)

    def ended(found: Sequence[Outcome]) -> None:
        then({**outcomes, **dict(zip(left, found, strict=True))})

    gather([partial(acknowledge, place) for place in left], ended)


def _valid(request: Request, batches: Iterable[Any]) -> bool:
    renews = request.version >= 2 and request.message.is_renew_ack
    highest = AcknowledgeType.RENEW if request.version >= 2 else AcknowledgeType.REJECT
    previous = -1
    for each in batches:
        types = each.acknowledge_types
        if each.first_offset > each.last_offset or each.first_offset < previous or not types:
            return False
        if len(types) > 1 and each.last_offset - each.first_offset != len(types) - 1:
            return False
        if any(not 0 <= kind <= highest or (kind == AcknowledgeType.RENEW and not renews) for kind in types):
            return False
        previous = each.last_offset
    return True


def by_topic(partitions: Mapping[Place, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers of partitions as the answers of topics."""
    topics: dict[uuid.UUID, list[Mapping[str, Any]]] = {}
    for place, answer in partitions.items():
        topics.setdefault(place.topic_id, []).append(answer)
    return [{"topic_id": topic_id, "partitions": found} for topic_id, found in topics.items()]


def leader_of(request: Request, place: Place, error: ErrorCode, nodes: dict[int, dict[str, Any]]) -> dict[str, int]:
    """Return the leader of a partition for an error that says that this broker is not it, and add its address to `nodes`."""
    topic = request.node.metadata.image.topics_by_id.get(place.topic_id)
    if error not in _SAYS_LEADER or topic is None or not 0 <= place.partition < len(topic.partitions):
        return {"leader_id": 0, "leader_epoch": 0}
    record = topic.partitions[place.partition]
    broker = request.node.metadata.image.brokers.get(record.leader)
    endpoint = None if broker is None else broker.endpoint(request.listener.name)
    if broker is not None and endpoint is not None:
        nodes[record.leader] = {
            "node_id": record.leader, "host": endpoint.host, "port": endpoint.port, "rack": broker.rack,
        }  # fmt: skip
    return {"leader_id": record.leader, "leader_epoch": record.leader_epoch}

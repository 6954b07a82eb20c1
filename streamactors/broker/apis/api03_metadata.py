"""Metadata: the brokers, and topics with the leaders of their partitions. Creates missing topics on request.

Versions: 0-13 (1 controller and internal topics, 4 allows to create topics, 5 offline replicas, 7 leader epochs,
8 authorised operations, 9 flexible, 10 topic ids, 12 requests by topic id, 13 top-level error).
Authorised: DESCRIBE of each TOPIC; CREATE CLUSTER or CREATE of the TOPIC to create one.
Errors: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED,
LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND.
A missing topic is UNKNOWN_TOPIC_OR_PARTITION in the answer to the request that creates it; the client retries.
Differs from Apache Kafka: partitions are in order; a follower does not name a leader that has refused its connection, and with
controller.fence.closed.connections one that has closed it; a leader without a lease names the replica that
follows it (`replication.lease_state`)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from streamactors.broker.apis.authorised_operations import NOT_ASKED, on_cluster, on_topic
from streamactors.broker.apis.partition_view import (
    Brokers,
    leader_to_ask,
    may_lack_lease,
    partition_view,
    possible_leaders,
)
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import MetadataImage, TopicImage
from streamactors.broker.metadata.topic_name import INTERNAL_TOPICS, topic_name_complaint
from streamactors.broker.network.output import Part
from streamactors.broker.node import Node
from streamactors.broker.protocol.metadata import (
    BrokerMetadata,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
    encode_metadata,
    encode_topic,
)
from streamactors.broker.requests.api import Api
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import CLUSTER_NAME, Operation, ResourceType, each


class AskedTopics(NamedTuple):
    """A topic of the request: its name, or its id."""

    name: str | None
    topic_id: uuid.UUID | None


class EncodedTopics:
    """A cache of encoded topics. Consecutive images share the objects of unchanged topics, so a topic is encoded again only if its
    object or the brokers changed."""

    def __init__(self) -> None:
        self._brokers: Brokers = {}
        self._known: dict[tuple[str, str, int], tuple[TopicImage, bytes]] = {}

    def get(self, brokers: Brokers, topic: TopicImage, listener: str, version: int, topics: int) -> bytes:
        """Return the encoding of a topic, up to its partitions, for the clients of a listener. `topics` is the number of all topics."""
        if brokers != self._brokers or len(self._known) > 4 * topics + 1_000:
            self._brokers = brokers
            self._known.clear()
        key = (topic.name, listener, version)
        known = self._known.get(key)
        if known is None or known[0] is not topic:
            views = [partition_view(brokers, partition, listener) for partition in topic.partitions]
            known = self._known[key] = (topic, _encoded_topic(topic, views, version))
        return known[1]


def _encoded_topic(topic: TopicImage, views: Sequence[PartitionMetadata], version: int) -> bytes:
    return encode_topic(version, topic.name, topic.topic_id, views, internal=topic.name in INTERNAL_TOPICS)


_encoded: Final[WeakKeyDictionary[Node, EncodedTopics]] = WeakKeyDictionary()


def handle(request: Request) -> MetadataResponse:
    asked = _asked(request)
    missing = _to_create(request, asked)
    if missing:
        request.node.auto_creation.create(missing)
    return _answer(request, asked)


def refuse(request: Request, code: ErrorCode) -> MetadataResponse:
    topics = [_refused(request, topic, code) for topic in _asked(request) or ()]
    return MetadataResponse((), topics, None, -1, error_code=code)


def _asked(request: Request) -> list[AskedTopics] | None:
    """Return the requested topics, each once; None for all topics."""
    topics = request.message.topics
    if topics is None or (request.version == 0 and not topics):
        return None
    return list(dict.fromkeys(AskedTopics(topic.name, topic.topic_id) for topic in topics))


def _to_create(request: Request, asked: list[AskedTopics] | None) -> tuple[str, ...]:
    node = request.node
    if asked is None or not request.message.allow_auto_topic_creation or not node.config.auto_create_topics_enable:
        return ()
    topics = node.metadata.image.topics
    everywhere = request.allowed(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    return tuple(
        topic.name
        for topic in asked
        if topic.name is not None
        and topic.topic_id is None
        and topic.name not in topics
        and topic_name_complaint(topic.name) is None
        and request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        and (everywhere or request.allowed(Operation.CREATE, ResourceType.TOPIC, topic.name))
    )


def _answer(request: Request, asked: list[AskedTopics] | None) -> MetadataResponse:
    node = request.node
    image: MetadataImage = node.metadata.image
    listener = request.listener.name
    brokers = []
    for broker in image.brokers.values():
        endpoint = broker.endpoint(listener)
        if endpoint is not None and not broker.fenced:
            brokers.append(BrokerMetadata(broker.broker_id, endpoint.host, endpoint.port, broker.rack))
    if asked is None:
        topics = [_topic(request, image, topic) for topic in _describable(request, image.topics.values())]
    else:
        topics = [_one(request, image, topic) for topic in asked]
    operations = on_cluster(request) if request.message.include_cluster_authorized_operations else NOT_ASKED
    return MetadataResponse(brokers, topics, node.cluster_id, node.node_id, operations)


def _describable(request: Request, topics: Iterable[TopicImage]) -> Iterable[TopicImage]:
    return (topic for topic in topics if request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic.name))


def _one(request: Request, image: MetadataImage, asked: AskedTopics) -> TopicMetadata:
    name, topic_id = asked
    if topic_id is not None:
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            return _refused(request, AskedTopics(None, topic_id), ErrorCode.UNKNOWN_TOPIC_ID)
        if not request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            return _refused(request, AskedTopics(None, topic_id), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return _topic(request, image, topic)
    if name is None:
        return _refused(request, asked, ErrorCode.INVALID_REQUEST)
    if not request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, name):
        return _refused(request, asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = image.topics.get(name)
    if topic is not None:
        return _topic(request, image, topic)
    invalid = topic_name_complaint(name) is not None
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _refused(request, asked, code)._replace(operations=_operations(request, name))


def _topic(request: Request, image: MetadataImage, topic: TopicImage) -> TopicMetadata:
    node, brokers, listener = request.node, possible_leaders(request.node), request.listener.name
    if may_lack_lease(node):  # for the moment: nothing is kept
        views = [
            partition_view(brokers, each, listener, leader_to_ask(node, topic.name, each)) for each in topic.partitions
        ]
        encoded = _encoded_topic(topic, views, request.version)
    else:
        known = _encoded.setdefault(node, EncodedTopics())
        encoded = known.get(brokers, topic, listener, request.version, len(image.topics))
    return TopicMetadata(encoded, _operations(request, topic.name))


def _operations(request: Request, name: str) -> int:
    return on_topic(request, name) if request.message.include_topic_authorized_operations else NOT_ASKED


def _refused(request: Request, asked: AskedTopics, code: ErrorCode) -> TopicMetadata:
    internal = asked.name in INTERNAL_TOPICS
    return TopicMetadata(encode_topic(request.version, *asked, (), error_code=code, internal=internal))


def _encode(answer: MetadataResponse, version: int, correlation_id: int) -> list[Part]:
    return [encode_metadata(answer, version, correlation_id)]


API: Final = Api(key=3, versions=(0, 13), authorise=each, handle=handle, refuse=refuse, encode=_encode)

"""Metadata: the brokers, and topics with the leaders of their partitions; creates topics that are asked for and missing.

Versions: 0-13 (1 controller and internal topics, 4 says whether to create, 5 offline replicas, 7 leader epochs,
8 authorised operations, 9 flexible, 10 topic ids, 12 asks by topic id, 13 top-level error).
Authorised: DESCRIBE of each TOPIC; CREATE CLUSTER or CREATE of the TOPIC to create one.
Errors: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED,
LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND.
Differs from Apache Kafka: a topic that is created on the way is in the answer, where Kafka says
UNKNOWN_TOPIC_OR_PARTITION and lets the client ask again; partitions are in order."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from streamactors.broker.api import LATER, Api, Later
from streamactors.broker.apis.authorised_operations import NOT_ASKED, on_cluster, on_topic
from streamactors.broker.apis.partition_view import partition_view
from streamactors.broker.controller.command import AutoCreate, TopicCreated
from streamactors.broker.controller.image import BrokerRegistration, MetadataImage, TopicImage
from streamactors.broker.controller.topic_name import INTERNAL_TOPICS, topic_name_complaint
from streamactors.broker.errors import ErrorCode
from streamactors.broker.network.output import Part
from streamactors.broker.node import Node
from streamactors.broker.protocol.metadata import Broker, Metadata, Topic, encode_metadata, encode_topic
from streamactors.broker.request import Request
from streamactors.broker.security import CLUSTER_NAME, Operation, ResourceType, each


class Asked(NamedTuple):
    """A topic as the client asked for it: by name, or by id."""

    name: str | None
    topic_id: uuid.UUID | None


class EncodedTopics:
    """Topics as they were encoded last. An image shares the topics that did not change with the one before it, so a topic is
    encoded again only when it is another object, or when the brokers are others."""

    def __init__(self) -> None:
        self._brokers: Mapping[int, BrokerRegistration] = {}
        self._known: dict[tuple[str, str, int], tuple[TopicImage, bytes]] = {}

    def get(self, image: MetadataImage, topic: TopicImage, listener: str, version: int) -> bytes:
        """Return a topic for clients of a listener, up to its partitions."""
        if image.brokers != self._brokers or len(self._known) > 4 * len(image.topics) + 1_000:
            self._brokers = image.brokers
            self._known.clear()
        key = (topic.name, listener, version)
        known = self._known.get(key)
        if known is None or known[0] is not topic:
            views = [partition_view(image, partition, listener) for partition in topic.partitions]
            internal = topic.name in INTERNAL_TOPICS
            known = self._known[key] = (
                topic,
                encode_topic(version, topic.name, topic.topic_id, views, internal=internal),
            )
        return known[1]


_encoded: Final[WeakKeyDictionary[Node, EncodedTopics]] = WeakKeyDictionary()


def handle(request: Request) -> Metadata | Later:
    asked = _asked(request)
    missing = _to_create(request, asked)
    if not missing:
        return _answer(request, asked, {})

    def created(outcomes: Mapping[str, TopicCreated]) -> None:
        request.answer(_answer(request, asked, outcomes))

    request.node.controller.submit(AutoCreate(missing), created)
    return LATER


def refuse(request: Request, code: ErrorCode) -> Metadata:
    topics = [_refused(request, topic, code) for topic in _asked(request) or ()]
    return Metadata((), topics, None, -1, error_code=code)


def _asked(request: Request) -> list[Asked] | None:
    """Return the topics asked for, each once; None for all of them."""
    topics = request.message.topics
    if topics is None or (request.version == 0 and not topics):
        return None
    return list(dict.fromkeys(Asked(topic.name, topic.topic_id) for topic in topics))


def _to_create(request: Request, asked: list[Asked] | None) -> tuple[str, ...]:
    node = request.node
    if asked is None or not request.message.allow_auto_topic_creation or not node.config.auto_create_topics_enable:
        return ()
    topics = node.controller.image.topics
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


def _answer(request: Request, asked: list[Asked] | None, created: Mapping[str, TopicCreated]) -> Metadata:
    node = request.node
    image: MetadataImage = node.controller.image
    listener = request.listener.name
    brokers = []
    for broker in image.brokers.values():
        endpoint = broker.endpoint(listener)
        if endpoint is not None and not broker.fenced:
            brokers.append(Broker(broker.broker_id, endpoint.host, endpoint.port, broker.rack))
    if asked is None:
        topics = [_topic(request, image, topic) for topic in _describable(request, image.topics.values())]
    else:
        topics = [_one(request, image, topic, created) for topic in asked]
    operations = on_cluster(request) if request.message.include_cluster_authorized_operations else NOT_ASKED
    return Metadata(brokers, topics, node.cluster_id, node.node_id, operations)


def _describable(request: Request, topics: Iterable[TopicImage]) -> Iterable[TopicImage]:
    return (topic for topic in topics if request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic.name))


def _one(request: Request, image: MetadataImage, asked: Asked, created: Mapping[str, TopicCreated]) -> Topic:
    name, topic_id = asked
    if topic_id is not None:
        topic = image.topics_by_id.get(topic_id)
        if topic is None or not request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            return _refused(request, Asked(None, topic_id), ErrorCode.UNKNOWN_TOPIC_ID)
        return _topic(request, image, topic)
    if name is None:
        return _refused(request, asked, ErrorCode.INVALID_REQUEST)
    if not request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, name):
        return _refused(request, asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = image.topics.get(name)
    if topic is not None:
        return _topic(request, image, topic)
    if topic_name_complaint(name) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif name in created:
        code = created[name].outcome.code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # created, and deleted since
    else:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _refused(request, asked, code)._replace(operations=_operations(request, name))


def _topic(request: Request, image: MetadataImage, topic: TopicImage) -> Topic:
    encoded = _encoded.setdefault(request.node, EncodedTopics()).get(
        image, topic, request.listener.name, request.version
    )
    return Topic(encoded, _operations(request, topic.name))


def _operations(request: Request, name: str) -> int:
    return on_topic(request, name) if request.message.include_topic_authorized_operations else NOT_ASKED


def _refused(request: Request, asked: Asked, code: ErrorCode) -> Topic:
    internal = asked.name in INTERNAL_TOPICS
    return Topic(encode_topic(request.version, *asked, (), error_code=code, internal=internal))


def _encode(answer: Metadata, version: int, correlation_id: int) -> list[Part]:
    return [encode_metadata(answer, version, correlation_id)]


API: Final = Api(key=3, versions=(0, 13), authorise=each, handle=handle, refuse=refuse, encode=_encode)

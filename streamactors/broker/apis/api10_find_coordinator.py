"""FindCoordinator: the broker that coordinates a group, a transactional id or a share partition.

Versions: 0-6 (1 transactional ids, 3 flexible, 4 several keys KIP-699, 5 newer errors, 6 share groups).
Authorised: DESCRIBE of each GROUP or TRANSACTIONAL_ID; for share partitions CLUSTER_ACTION CLUSTER.   Errors: COORDINATOR_NOT_AVAILABLE,
INVALID_REQUEST (an unknown kind of key, or no key of a share partition), GROUP_AUTHORIZATION_FAILED,
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED.
Differs from Apache Kafka: the first request, which creates the internal topic, is answered when the topic exists; Kafka
answers COORDINATOR_NOT_AVAILABLE, and the client retries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from streamactors.broker.apis.partition_view import leader_to_ask
from streamactors.broker.coordinator.partitioning import partition_for
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.metadata.topic_name import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import CLUSTER_NAME, Operation, ResourceType, each
from streamactors.broker.share.state.share_state import ShareKey

_SEVERAL_KEYS: Final = 4
_SHARES: Final = 6
_SHARE: Final = 2
_KINDS: Final = {
    # key type: (internal topic, resource, error without the right to describe it)
    0: (OFFSETS_TOPIC, ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    1: (TRANSACTION_TOPIC, ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    _SHARE: (SHARE_STATE_TOPIC, ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
}


def handle(request: Request) -> Body | Later:
    message = request.message
    kind = _KINDS.get(message.key_type)
    if kind is None:
        raise Refusal(ErrorCode.INVALID_REQUEST)
    topic = kind[0]
    node = request.node
    if message.key_type == _SHARE and all(_share_error(request, key) for key in _keys(request)):
        return _answer(request)
    if topic in node.metadata.image.topics:
        return _answer(request)
    node.auto_creation.create((topic,), request.answer_with(lambda _: _answer(request)))
    return LATER


def _keys(request: Request) -> Sequence[str]:
    message = request.message
    return message.coordinator_keys if request.version >= _SEVERAL_KEYS else (message.key,)


def _answer(request: Request) -> Body:
    return _body(request, [_coordinator(request, key) for key in _keys(request)])


def _coordinator(request: Request, key: str) -> dict[str, Any]:
    topic, resource, refused = _KINDS[request.message.key_type]
    if request.message.key_type == _SHARE:
        error = _share_error(request, key)
        if error:
            return _nobody(key, error)
    elif not request.allowed(Operation.DESCRIBE, resource, key):
        return _nobody(key, refused)
    image = request.node.metadata.image
    found = image.topics.get(topic)
    if found is None:
        return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    partition = found.partitions[partition_for(key, len(found.partitions))]
    leader = leader_to_ask(request.node, topic, partition)
    broker = image.brokers.get(leader)
    for endpoint in () if broker is None or broker.fenced else broker.endpoints:
        if endpoint.name == request.listener.name:
            return {
                "key": key,
                "node_id": leader,
                "host": endpoint.host,
                "port": endpoint.port,
                "error_code": ErrorCode.NONE,
                "error_message": "" if request.version >= _SEVERAL_KEYS else ErrorCode.NONE.name,
            }
    return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _share_error(request: Request, key: str) -> ErrorCode:
    """Return why the coordinator of a share partition is not looked for."""
    if request.version < _SHARES:
        return ErrorCode.INVALID_REQUEST
    if not request.allowed(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ErrorCode.INVALID_REQUEST if ShareKey.of_coordinator_key(key) is None else ErrorCode.NONE


def _nobody(key: str, error: ErrorCode) -> dict[str, Any]:
    return {"key": key, "node_id": -1, "host": "", "port": -1, "error_code": error, "error_message": _text(error)}


def _text(error: ErrorCode) -> str | None:
    return error.name.replace("_", " ").capitalize() + "." if error else None


def _body(request: Request, coordinators: list[dict[str, Any]]) -> Body:
    if request.version >= _SEVERAL_KEYS:
        return {"coordinators": coordinators}
    (coordinator,) = coordinators
    return {name: value for name, value in coordinator.items() if name != "key"}


def refuse(request: Request, code: ErrorCode) -> Body:
    return _body(request, [_nobody(key, code) for key in _keys(request)])


API: Final = Api(key=10, versions=(0, 6), authorise=each, handle=handle, refuse=refuse)

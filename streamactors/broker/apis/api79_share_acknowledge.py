"""ShareAcknowledge: a member of a share group says what became of records that it has acquired (KIP-932).

Versions: 1-2 (2 renewal, time of locks KIP-1222).   Authorised: READ GROUP; READ each TOPIC.
Errors: UNSUPPORTED_VERSION (share.version is 0), INVALID_REQUEST, GROUP_AUTHORIZATION_FAILED, SHARE_SESSION_NOT_FOUND,
INVALID_SHARE_SESSION_EPOCH; by partition: INVALID_REQUEST, INVALID_RECORD_STATE, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION,
TOPIC_AUTHORIZATION_FAILED, NOT_LEADER_OR_FOLLOWER, errors of the share coordinator.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from streamactors.broker.apis.share_requests import (
    Outcomes,
    acknowledge_all,
    by_topic,
    leader_of,
    places_of,
    session_key,
)
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import each
from streamactors.broker.share.fetching.share_sessions import CLOSES, OPENS, ShareSession


def handle(request: Request) -> Body | Later:
    message, node = request.message, request.node
    try:
        key = session_key(request)
        if message.share_session_epoch == OPENS:
            raise Refusal(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = node.share_partitions.sessions.enter(key, message.share_session_epoch)
    except Refusal as refusal:
        return {"error_code": refusal.code, "error_message": refusal.message}
    named = places_of(message.topics)
    acknowledge_all(request, key, named, request.answer_with(partial(_answer, request, session)))
    return LATER


def _answer(request: Request, session: ShareSession, outcomes: Outcomes) -> Body:
    partitions = request.node.share_partitions
    if request.message.share_session_epoch == CLOSES:
        partitions.leave(session)
    nodes: dict[int, dict[str, Any]] = {}
    found = {
        place: {
            "partition_index": place.partition,
            "error_code": outcome.error,
            "error_message": outcome.message,
            "current_leader": leader_of(request, place, outcome.error, nodes),
        }
        for place, outcome in outcomes.items()
    }
    body: dict[str, Any] = {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "responses": by_topic(found),
        "node_endpoints": list(nodes.values()),
    }
    if request.version >= 2:
        body["acquisition_lock_timeout_ms"] = partitions.config_of(session.key.group_id).limits.lock_ms
    return body


API: Final = Api(key=79, versions=(1, 2), authorise=each, handle=handle)

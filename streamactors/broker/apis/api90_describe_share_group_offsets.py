"""DescribeShareGroupOffsets: the start offsets of share groups, and how many records wait (KIP-932).

Versions: 0-1 (1 lag KIP-1226).   Authorised: DESCRIBE each GROUP; DESCRIBE each TOPIC.
Errors: by group: UNSUPPORTED_VERSION (share.version is 0), GROUP_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND (all topics of a group that does not exist),
errors of the coordinator; by partition: TOPIC_AUTHORIZATION_FAILED, errors of the share coordinator.
Differs from Apache Kafka: the lag is -1 for a partition that another broker leads."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from streamactors.broker.apis.feature_off import OFF, has_share_groups
from streamactors.broker.apis.share_requests import NO_TOPIC_ID
from streamactors.broker.coordinator.coordinators import gather
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_kind import CoordinatedGroup
from streamactors.broker.group.share.share_group import ShareGroup
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each
from streamactors.broker.share.state.share_asks import ReadSummary, StateAnswer
from streamactors.broker.share.state.share_state import UNINITIALISED, ShareKey

_WITH_LAG: Final = 1
_UNKNOWN_LAG: Final = -1
Reply = Callable[[dict[str, Any]], object]


def handle(request: Request) -> Body | Later:
    groups = request.message.groups
    if not has_share_groups(request):
        return {"groups": [_refused(one.group_id, OFF) for one in groups]}

    @request.answer_with
    def answered(found: list[dict[str, Any]]) -> Body:
        return {"groups": found}

    gather([partial(_group, request, one) for one in groups], answered)
    return LATER


def _refused(group_id: str, error: ErrorCode, message: str | None = None) -> dict[str, Any]:
    return {"group_id": group_id, "topics": [], "error_code": error, "error_message": message}


def _group(request: Request, asked: Any, reply: Reply) -> None:
    group_id = asked.group_id
    if not request.allowed(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        reply(_refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    if asked.topics is not None:
        _offsets(request, group_id, {topic.topic_name: tuple(topic.partitions) for topic in asked.topics}, reply)
        return

    def described(found: Sequence[tuple[ErrorCode, CoordinatedGroup | None]]) -> None:
        error, group = found[0]
        if error is ErrorCode.NONE and not isinstance(group, ShareGroup):
            why = f"Group {group_id} {'not found' if group is None else 'is not a share group'}."
            reply(_refused(group_id, ErrorCode.GROUP_ID_NOT_FOUND, why))
        elif not isinstance(group, ShareGroup):
            reply(_refused(group_id, error))
        else:
            topics = {topic.name: tuple(sorted(topic.partitions)) for topic in group.initialized.values()}
            visible = {name: found for name, found in topics.items() if _may_describe(request, name)}
            _offsets(request, group_id, visible, reply)

    request.node.groups.describe_groups([group_id], described)


def _may_describe(request: Request, topic: str) -> bool:
    return request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic)


def _topic_id(request: Request, topic: str) -> uuid.UUID:
    """Return the id of a topic; none of one that the user may not see."""
    known = request.node.metadata.image.topics.get(topic)
    return NO_TOPIC_ID if known is None or not _may_describe(request, topic) else known.topic_id


def _offsets(request: Request, group_id: str, topics: Mapping[str, tuple[int, ...]], reply: Reply) -> None:
    image = request.node.metadata.image
    asked: list[tuple[str, ShareKey]] = []
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in topics}
    for name, partitions in topics.items():
        for index in partitions:
            if not _may_describe(request, name):
                answers[name].append(_partition(request, index, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif name not in image.topics:
                answers[name].append(_partition(request, index))
            else:
                asked.append((name, ShareKey(group_id, image.topics[name].topic_id, index)))

    def read(found: Sequence[StateAnswer]) -> None:
        for (name, key), answer in zip(asked, found, strict=True):
            answers[name].append(_of_answer(request, name, key.partition, answer))
        reply(
            {
                "group_id": group_id,
                "error_code": ErrorCode.NONE,
                "error_message": None,
                "topics": [
                    {
                        "topic_name": name,
                        "topic_id": _topic_id(request, name),
                        "partitions": partitions,
                    }
                    for name, partitions in answers.items()
                ],
            }
        )

    ask = request.node.share_states.ask
    gather([partial(ask, key, ReadSummary()) for _, key in asked], read)


def _of_answer(request: Request, topic: str, index: int, answer: StateAnswer) -> dict[str, Any]:
    if answer.error:
        return _partition(request, index, error=answer.error, message=answer.message)
    lag = _UNKNOWN_LAG
    partition = request.node.partitions.get(topic, index)
    known = answer.start_offset != UNINITIALISED and answer.complete_count >= 0
    if known and partition is not None and partition.is_leader:
        lag = max(0, partition.high_watermark - answer.start_offset - answer.complete_count)
    return _partition(request, index, answer.start_offset, answer.leader_epoch, lag)


def _partition(
    request: Request,
    index: int,
    start_offset: int = UNINITIALISED,
    leader_epoch: int = 0,
    lag: int = _UNKNOWN_LAG,
    error: ErrorCode = ErrorCode.NONE,
    message: str | None = None,
) -> dict[str, Any]:
    answer = {
        "partition_index": index,
        "start_offset": start_offset,
        "leader_epoch": leader_epoch,
        "error_code": error,
        "error_message": message,
    }
    return {**answer, "lag": lag} if request.version >= _WITH_LAG else answer


def _refuse(request: Request, code: ErrorCode) -> Body:
    return {"groups": [_refused(one.group_id, code) for one in request.message.groups]}


API: Final = Api(key=90, versions=(0, 1), authorise=each, handle=handle, refuse=_refuse)

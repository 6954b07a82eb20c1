"""What the five requests of the share coordinator have in common (keys 83 to 87): each share partition is asked for on its own.

An empty group id, no topics, or a topic without partitions: the answer is empty, as Apache Kafka's is. Only brokers may ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from streamactors.broker.apis.share_requests import NO_TOPIC_ID
from streamactors.broker.coordinator.coordinators import gather
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.share.state.share_asks import Ask, StateAnswer
from streamactors.broker.share.state.share_state import ShareKey

AskOf = Callable[[Any], Ask]
"""Returns what is asked of a partition of the request."""
FieldsOf = Callable[[StateAnswer], dict[str, Any]]
"""Returns the fields of the answer beside the error."""


def no_fields(_: StateAnswer) -> dict[str, Any]:
    """Return no fields: the answer has only an error."""
    return {}


def serve(request: Request, ask_of: AskOf, fields_of: FieldsOf) -> Body | Later:
    """Ask the coordinator of each share partition, and answer when all have answered."""
    message = request.message
    if not message.group_id or not message.topics or not all(topic.partitions for topic in message.topics):
        return {"results": []}
    states = request.node.share_states
    asks = [
        partial(states.serve, ShareKey(message.group_id, topic.topic_id or NO_TOPIC_ID, each.partition), ask_of(each))
        for topic, each in _places(request)
    ]

    @request.answer_with
    def answered(answers: list[StateAnswer]) -> Body:
        return _body(request, answers, fields_of)

    gather(asks, answered)
    return LATER


def refuse_all(request: Request, code: ErrorCode, fields_of: FieldsOf) -> Body:
    """Return the answer with one error for each share partition."""
    answer = StateAnswer(code, code.name)
    return _body(request, [answer for _ in _places(request)], fields_of)


def _places(request: Request) -> Iterator[tuple[Any, Any]]:
    for topic in request.message.topics:
        for each in topic.partitions:
            yield topic, each


def _body(request: Request, answers: list[StateAnswer], fields_of: FieldsOf) -> Body:
    left = iter(answers)
    return {
        "results": [
            {
                "topic_id": topic.topic_id,
                "partitions": [_partition(each, next(left), fields_of) for each in topic.partitions],
            }
            for topic in request.message.topics
        ]
    }


def _partition(asked: Any, answer: StateAnswer, fields_of: FieldsOf) -> dict[str, Any]:
    return {
        "partition": asked.partition,
        "error_code": answer.error,
        "error_message": answer.message,
        **fields_of(answer),
    }
